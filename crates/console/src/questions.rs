//! The SQL behind the pages: questions, each with a limit, and actions. Rows are in the order of
//! the question, or else in that of the view: partitions by key.

use postgres_protocol::escape::escape_literal;
use serde::Deserialize;

/// The most rows of an answer.
const ROWS_MAX: u32 = 500;

/// The requested part of an answer.
#[derive(Deserialize, Default)]
pub(crate) struct Part {
    /// The relation whose partitions are shown.
    relation: Option<String>,
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
        "decisions" => "select * from isomer.decisions order by number desc".to_owned(),
        "benefit" => "select * from isomer.benefit".to_owned(),
        "changes" => "select * from isomer.changes order by number desc".to_owned(),
        "jobs" => "select * from isomer.jobs".to_owned(),
        "reconfigurations" => {
            "select * from isomer.reconfigurations order by number desc".to_owned()
        }
        "sessions" => "select * from pg_stat_activity order by pid".to_owned(),
        "metrics" => "select name, labels, kind, value from isomer.metrics".to_owned(),
        "autopilot" => "show autopilot".to_owned(),
        _ => return None,
    };
    Some(if name == "autopilot" { sql } else { format!("{sql} limit {limit}") })
}

/// The actions that a user may request.
#[derive(Deserialize, Debug)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Action {
    /// Whether the database looks for a better design.
    Autopilot { mode: Mode },
    /// Controls a reconfiguration.
    Reconfiguration { control: Control, number: u64 },
    /// A checkpoint of all sites at the same time.
    Checkpoint,
}

#[derive(Deserialize, Clone, Copy, Debug)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    Off,
    Recommend,
    Auto,
}

#[derive(Deserialize, Clone, Copy, Debug)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Control {
    Pause,
    Resume,
    Cancel,
    Reverse,
}

impl Action {
    /// The SQL of the action.
    pub(crate) fn sql(&self) -> String {
        match self {
            Action::Autopilot { mode } => {
                let mode = match mode {
                    Mode::Off => "off",
                    Mode::Recommend => "recommend",
                    Mode::Auto => "auto",
                };
                format!("alter system set autopilot = '{mode}'")
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_named_cut_and_quoted() {
        let part = Part { relation: Some("o'x".to_owned()), limit: Some(1_000_000) };
        let sql = question("partitions", &part).expect("a question");
        assert!(sql.ends_with("where relation = 'o''x' limit 500"), "{sql}");
        assert_eq!(question("pg_authid", &part), None);
    }

    #[test]
    fn actions_are_of_a_fixed_form() {
        let read = |text: &str| serde_json::from_str::<Action>(text).map(|action| action.sql());
        let sql = read(r#"{"action":"reconfiguration","control":"pause","number":7}"#);
        assert_eq!(sql.expect("an action"), "alter system pause reconfiguration 7");
        for wrong in [
            r#"{"action":"autopilot","mode":"off'; drop table t"}"#,
            r#"{"action":"reconfiguration","control":"pause","number":"7; x"}"#,
            r#"{"action":"drop"}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
