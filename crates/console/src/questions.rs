//! The SQL behind the pages: questions, each with a limit, and actions. Rows are in the order of
//! the question, or else in that of the view: partitions by key.

use postgres_protocol::escape::{escape_identifier, escape_literal};
use serde::Deserialize;

/// The most rows of an answer.
const ROWS_MAX: u32 = 500;

/// The most rows of the heat map.
const HEAT_ROWS_MAX: u32 = 2048;

/// The requested part of an answer.
#[derive(Deserialize, Default)]
pub(crate) struct Part {
    /// The relation whose partitions are shown.
    relation: Option<String>,
    /// The first key of the partition whose history is shown.
    key: Option<String>,
    /// The number of rows, up to [`ROWS_MAX`].
    limit: Option<u32>,
}

/// The SQL of a question; `None` for an unknown name.
pub(crate) fn question(name: &str, part: &Part) -> Option<String> {
    let limit = part.limit.unwrap_or(100).min(ROWS_MAX);
    let sql = match name {
        "sites" => "select * from isomer.sites order by length(site), site".to_owned(),
        "checkpoints" => "select * from isomer.checkpoints order by length(site), site".to_owned(),
        "tables" => "select * from isomer.tables order by name".to_owned(),
        // The number of partitions of a relation per master site.
        "placements" => "select relation, master, count(*) as partitions, \
             count(nullif(replicas, '')) as replicated from isomer.partitions \
             group by relation, master order by relation, length(master), master"
            .to_owned(),
        "partitions" => {
            let relation = escape_literal(part.relation.as_deref().unwrap_or_default());
            format!(
                "select first_key, end_key, master, replicas from isomer.partitions where relation = {relation}"
            )
        }
        "proposals" => "select * from isomer.proposals order by number desc".to_owned(),
        "heat" => "select * from isomer.heat".to_owned(),
        // The changes of the partition that begins at a key, and the splits that ended it.
        "history" => {
            let [relation, key] = [&part.relation, &part.key]
                .map(|text| escape_literal(text.as_deref().unwrap_or_default()));
            format!(
                "select number, at, change, reason, took_us from isomer.changes \
                 where relation = {relation} and (first_key = {key} or change like 'split %' \
                 and first_key = (select end_key from isomer.partitions \
                 where relation = {relation} and first_key = {key})) order by number desc"
            )
        }
        "statements" => {
            // Not what the console itself asks.
            "select * from isomer.all_statements where query not like '%isomer.%' \
             order by total_ms desc"
                .to_owned()
        },
        "audit" => "select * from isomer.audit order by at desc".to_owned(),
        "failovers" => "select * from isomer.failovers order by at desc".to_owned(),
        "rights" => "select pg_has_role(current_user, 'isomer_design', 'member') as may_steer, \
             rolsuper as is_superuser, current_user as user_name \
             from pg_roles where rolname = current_user"
            .to_owned(),
        "advice" => "select * from isomer.advice".to_owned(),
        "shard_keys" => "select * from isomer.shard_keys".to_owned(),
        "gateways" => "select coalesce(name, '') as name, has_conductor, silent_ms, news_behind \
             from isomer.gateways order by name"
            .to_owned(),
        // The logs, checkpoints and replicas of each site, as its own process tells.
        "logs" => "select substring(labels from 'site=\"([^\"]*)') as site, \
             max(value) filter (where name = 'isomer_log_kept_bytes') as kept, \
             max(value) filter (where name = 'isomer_checkpoint_age_seconds') as age_s, \
             max(value) filter (where name = 'isomer_checkpoint_duration_seconds') as took_s, \
             max(value) filter (where name = 'isomer_checkpoint_bytes') as bytes, \
             max(value) filter (where name = 'isomer_checkpoint_running') as running, \
             max(value) filter (where name = 'isomer_checkpoint_failed') as failed, \
             max(value) filter (where name = 'isomer_replication_lag_seconds') as lag_s \
             from isomer.all_metrics where name in ('isomer_log_kept_bytes', 'isomer_checkpoint_age_seconds', \
             'isomer_checkpoint_duration_seconds', 'isomer_checkpoint_bytes', 'isomer_checkpoint_running', \
             'isomer_checkpoint_failed', 'isomer_replication_lag_seconds') group by 1 order by length(substring(labels from 'site=\"([^\"]*)')), 1"
            .to_owned(),
        "decisions" => "select * from isomer.decisions order by number desc".to_owned(),
        "benefit" => "select * from isomer.benefit".to_owned(),
        "changes" => "select * from isomer.changes order by number desc".to_owned(),
        "jobs" => "select * from isomer.jobs".to_owned(),
        "reconfigurations" => {
            // Not the plan, which may have many changes.
            "select number, reason, state, changes, made, rows, next, begun, ended, error, bytes, ends, \
             quiet_p99_us, p99_us, reversible from isomer.reconfigurations order by number desc"
                .to_owned()
        }
        "sessions" => "select pid, usename, application_name, client_addr, state, wait_event_type, wait_event, \
             array_to_string(pg_blocking_pids(pid), ' ') as blocked_by, \
             extract(epoch from clock_timestamp() - xact_start) as transaction_seconds, \
             extract(epoch from clock_timestamp() - query_start) as query_seconds, query, \
             me.rolsuper or not coalesce(its.rolsuper, true) \
             and (pg_has_role(its.oid, 'member') or pg_has_role('pg_signal_backend', 'member')) as may_end \
             from pg_stat_activity left join pg_roles its on its.rolname = usename \
             join pg_roles me on me.rolname = current_user order by xact_start nulls last, pid"
            .to_owned(),
        "locks" => "select l.pid, l.locktype, c.relname, l.mode, l.granted from pg_locks l \
             left join pg_class c on c.oid = l.relation order by l.granted, l.pid"
            .to_owned(),
        "metrics" => "select name, labels, kind, value from isomer.metrics".to_owned(),
        "settings" => "select * from isomer.settings".to_owned(),
        _ => return None,
    };
    // More than rows of lists: two for each range.
    let limit = if name == "heat" { HEAT_ROWS_MAX } else { limit };
    Some(format!("{sql} limit {limit}"))
}

/// The actions that a user may request.
#[derive(Deserialize, Debug)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Action {
    /// Whether the database looks for a better design.
    Autopilot { mode: Mode },
    /// The mode of the autopilot for a table.
    TableMode { relation: String, mode: Mode },
    /// When, and how much, the autopilot may change by itself.
    Limit { name: Limit, value: String },
    /// Controls a reconfiguration.
    Reconfiguration { control: Control, number: u64 },
    /// A checkpoint of all sites at the same time.
    Checkpoint,
    /// A plan moves everything away from a site.
    Drain { site: u16 },
    /// Whether changes of the design may begin.
    DesignChanges { on: bool },
    /// A proposal is carried out.
    Approve { number: u64 },
    /// A proposal is not, and why.
    Reject { number: u64, because: Option<String> },
    /// A plan waits for approval.
    Propose { plan: String, because: Option<String> },
    /// Another shard key of a table waits for approval.
    ProposeShardKey { relation: String, column: String },
    /// A change of the shard key of a table that is under way.
    Sharding { control: ShardControl, relation: String },
    /// A process restarts; without a name the one that is asked.
    Restart { process: Option<String> },
    /// The statement of a session is cancelled.
    CancelStatement { pid: u32 },
    /// A session is ended.
    EndSession { pid: u32 },
}

#[derive(Deserialize, Clone, Copy, Debug)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    Off,
    Recommend,
    Approve,
    Auto,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Recommend => "recommend",
            Mode::Approve => "approve",
            Mode::Auto => "auto",
        }
    }
}

/// The settings of the same names.
#[derive(Deserialize, Clone, Copy, Debug)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Limit {
    ChangeWindow,
    ChangesPerMinute,
    ChangeBytesPerSecond,
    ChangeAddedP99,
}

#[derive(Deserialize, Clone, Copy, Debug)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Control {
    Pause,
    Resume,
    Cancel,
    Reverse,
}

#[derive(Deserialize, Clone, Copy, Debug)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ShardControl {
    Pause,
    Resume,
    Cancel,
}

/// A relation in SQL. One of another schema than public has the schema in front.
fn identifier(relation: &str) -> String {
    relation.split('.').map(escape_identifier).collect::<Vec<_>>().join(".")
}

impl Action {
    /// The SQL of the action.
    pub(crate) fn sql(&self) -> String {
        match self {
            Action::Autopilot { mode } => {
                format!("alter system set autopilot = '{}'", mode.name())
            }
            Action::TableMode { relation, mode } => {
                let table = identifier(relation);
                format!("alter table {table} set (autopilot = '{}')", mode.name())
            }
            Action::Limit { name, value } => {
                let name = match name {
                    Limit::ChangeWindow => "change_window",
                    Limit::ChangesPerMinute => "changes_per_minute",
                    Limit::ChangeBytesPerSecond => "change_bytes_per_second",
                    Limit::ChangeAddedP99 => "change_added_p99",
                };
                format!("alter system set {name} = {}", escape_literal(value.trim()).trim_start())
            }
            Action::Reconfiguration { control, number } => {
                let control = match control {
                    Control::Pause => "pause",
                    Control::Resume => "resume",
                    Control::Cancel => "cancel",
                    Control::Reverse => "reverse",
                };
                format!("alter system {control} reconfiguration {number}")
            }
            Action::Checkpoint => "checkpoint".to_owned(),
            Action::Drain { site } => format!("alter system drain site {site}"),
            Action::DesignChanges { on } => {
                format!("alter system set design_changes = {}", if *on { "on" } else { "off" })
            }
            Action::Approve { number } => format!("alter system approve proposal {number}"),
            Action::Reject { number, because } => {
                format!("alter system reject proposal {number}{}", reason(because.as_deref()))
            }
            Action::Propose { plan, because } => {
                let plan = escape_literal(plan);
                let because = reason(because.as_deref());
                format!("alter system propose {}{because}", plan.trim_start())
            }
            Action::ProposeShardKey { relation, column } => {
                let (table, column) = (identifier(relation), escape_identifier(column));
                format!("alter system propose shard key of {table} ({column})")
            }
            Action::Sharding { control, relation } => {
                let control = match control {
                    ShardControl::Pause => "pause",
                    ShardControl::Resume => "resume",
                    ShardControl::Cancel => "cancel",
                };
                format!("alter table {} {control} shard by", identifier(relation))
            }
            Action::Restart { process: None } => "alter system restart".to_owned(),
            Action::Restart { process: Some(name) } => {
                format!("alter system restart node {}", escape_literal(name).trim_start())
            }
            Action::CancelStatement { pid } => format!("select pg_cancel_backend({pid})"),
            Action::EndSession { pid } => format!("select pg_terminate_backend({pid})"),
        }
    }
}

/// BECAUSE, if a reason is given.
fn reason(because: Option<&str>) -> String {
    let why = because.map(str::trim).filter(|why| !why.is_empty());
    let why = why.map(|why| format!(" because {}", escape_literal(why).trim_start()));
    why.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_named_cut_and_quoted() {
        let part = Part { relation: Some("o'x".to_owned()), limit: Some(1_000_000), key: None };
        let sql = question("partitions", &part).expect("a question");
        assert!(sql.ends_with("where relation = 'o''x' limit 500"), "{sql}");
        assert_eq!(question("pg_authid", &part), None);
    }

    #[test]
    fn actions_are_of_a_fixed_form() {
        let read = |text: &str| serde_json::from_str::<Action>(text).map(|action| action.sql());
        let sql = read(r#"{"action":"reconfiguration","control":"pause","number":7}"#);
        assert_eq!(sql.expect("an action"), "alter system pause reconfiguration 7");
        for (text, wanted) in [
            (
                r#"{"action":"propose","plan":"split t at 5   # it's hot"}"#,
                "alter system propose 'split t at 5   # it''s hot'",
            ),
            (
                r#"{"action":"propose_shard_key","relation":"s.a\"b","column":"x\"); drop table t"}"#,
                r#"alter system propose shard key of "s"."a""b" ("x""); drop table t")"#,
            ),
            (
                r#"{"action":"sharding","control":"pause","relation":"s.t"}"#,
                r#"alter table "s"."t" pause shard by"#,
            ),
            (
                r#"{"action":"table_mode","relation":"s.t","mode":"approve"}"#,
                r#"alter table "s"."t" set (autopilot = 'approve')"#,
            ),
            (
                r#"{"action":"limit","name":"change_window","value":" 22:00-06:00'"}"#,
                "alter system set change_window = '22:00-06:00'''",
            ),
            (r#"{"action":"restart","process":"b'c"}"#, "alter system restart node 'b''c'"),
            (r#"{"action":"restart"}"#, "alter system restart"),
        ] {
            assert_eq!(read(text).expect("an action"), wanted);
        }
        for wrong in [
            r#"{"action":"autopilot","mode":"off'; drop table t"}"#,
            r#"{"action":"reconfiguration","control":"pause","number":"7; x"}"#,
            r#"{"action":"limit","name":"site_memory","value":"1MB"}"#,
            r#"{"action":"drop"}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
