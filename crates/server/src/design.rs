//! The design in SQL: statements such as `ALTER TABLE .. SPLIT AT`, and the tables of the schema
//! `isomer`.

use crate::advice;
use crate::audit;
use crate::backend::database;
use crate::conducted;
use crate::copies;
use crate::deadlock::{lock_name, row_lock_name};
use crate::engine::ordered::{fused_rows, hash_rows, set_fused_rows, set_router};
use crate::engine::questions::{blockers, locks};
use crate::engine::{Engine, damaged, set_default_backups};
use crate::figures::Figure;
use crate::histories;
use crate::limits::ended;
use crate::loads::Load;
use crate::numbers::NUMBERS;
use crate::plan_names::with_name;
use crate::proposals;
use crate::remembered::View;
use crate::restart;
use crate::restraints;
use crate::scrape;
use crate::shapes;
use crate::size::read_site_memory;
use crate::sums;
use crate::system_settings;
use isomer_cluster::{CancelReason, CancelToken, FusedRows, LockMode, LockShown, Reach};
use isomer_design::{
    Backups, Change, Design, Key, KeyRange, Placement, SiteId, TableId, Time, Value,
};
use isomer_sql::budget::Budget;
use isomer_sql::catalog::{Catalog, Named, Table};
use isomer_sql::datum::{Datum, convert};
use isomer_sql::parse::{DesignChange, DesignStatement, Pin, ShardControl};
use isomer_sql::sequence::Sequence;
use isomer_sql::system::{Counts, DesignView, LockRow, Locked};
use isomer_sql::{SqlError, code};
use isomer_strategy::SiteLoad;
use sqlparser::ast::{Expr, UnaryOperator};

impl Engine {
    /// Makes the changes that a statement of the role `by` asks for; `cancel` interrupts long ones
    /// where that is possible. `told` receives notices for the client.
    pub(crate) fn change_design(
        &self,
        statement: &DesignStatement,
        by: &str,
        cancel: &CancelToken,
        told: &mut dyn FnMut(SqlError),
    ) -> Result<(), SqlError> {
        let (table, change) = match statement {
            DesignStatement::Alter { table, change } => (table, change),
            DesignStatement::Autopilot(mode) => return self.set_autopilot(mode),
            DesignStatement::AutopilotProcessor(percent) => {
                return self.set_autopilot_processor(percent);
            }
            DesignStatement::SiteMemory(size) => return self.set_site_memory(size),
            DesignStatement::FusedRows(rows) => return set_fused_rows(self, rows),
            DesignStatement::OrderRouter(name) => return set_router(self, name),
            DesignStatement::DefaultBackups(count) => return set_default_backups(self, count),
            DesignStatement::Reconfigure(statement) => return self.reconfigure(statement),
            DesignStatement::DesignChanges(value) => {
                return proposals::set_design_changes(self, value);
            }
            DesignStatement::Restrain(what, value) => return restraints::set(self, *what, value),
            DesignStatement::Propose(plan, because) => {
                return advice::propose(self, plan, because.as_deref(), by);
            }
            DesignStatement::ProposeShardKey(table, columns) => {
                return advice::propose_shard_key(self, table, columns, by);
            }
            DesignStatement::Restart(name) => {
                return restart::restart(self, name.as_deref(), cancel, told);
            }
            DesignStatement::Approve(number) => return proposals::approve(self, *number, by),
            DesignStatement::Reject(number, because) => {
                return proposals::reject(self, *number, by, because.as_deref());
            }
            DesignStatement::RemoveNode(name) => {
                return self.database().others().remove_node(name).map_err(database);
            }
            DesignStatement::Checkpoint => return self.checkpoint(cancel),
            DesignStatement::Show(..) => return Ok(()),
        };
        // To stop a change is always permitted.
        let stops = [ShardControl::Pause, ShardControl::Cancel].map(DesignChange::Sharding);
        if !stops.contains(change) {
            proposals::check_changes_are_on(self)?;
        }
        let catalog = self.catalog();
        let table = catalog.table(&Named::of(table)?)?.clone();
        let id = table.id;
        match change {
            DesignChange::Pin(asked) => pin(self, &table, asked),
            DesignChange::Sharding(control) => self.control_sharding(&table, *control),
            DesignChange::Split(key) => {
                let at = key_of(&table, key)?;
                self.make(Change::Split { table: id, at })
            }
            DesignChange::Merge(key) => {
                let at = key_of(&table, key)?;
                self.make(Change::Merge { table: id, at })
            }
            DesignChange::Remaster(key, site) => {
                note_whole_partition(self, &table, key.as_deref(), told)?;
                self.each_partition(&table, key.as_deref(), |engine, start, placement| {
                    engine.remaster(id, start, placement, SiteId(*site))
                })
            }
            DesignChange::AddReplica(key, site) => {
                note_whole_partition(self, &table, key.as_deref(), told)?;
                self.each_partition(&table, key.as_deref(), |engine, start, placement| {
                    let site = SiteId(*site);
                    if key.is_none() && placement.holds(site) {
                        return Ok(());
                    }
                    engine.make(Change::AddReplica { table: id, start, site })
                })
            }
            DesignChange::DropReplica(key, site) => {
                note_whole_partition(self, &table, key.as_deref(), told)?;
                self.each_partition(&table, key.as_deref(), |engine, start, placement| {
                    let site = SiteId(*site);
                    let is_replica = placement.holds(site) && placement.master != site;
                    if key.is_none() && !is_replica {
                        return Ok(());
                    }
                    engine.make(Change::RemoveReplica { table: id, start, site })
                })
            }
        }
    }

    /// Limits the memory of each site's rows, also for later starts of the server.
    ///
    /// # Errors
    /// 22023 if it is no size; errors of the database.
    pub(crate) fn set_site_memory(&self, size: &str) -> Result<(), SqlError> {
        let max = read_site_memory(size).map_err(|wrong| {
            let message = format!("invalid value for parameter \"site_memory\": \"{size}\"");
            SqlError::new(code::INVALID_PARAMETER, message).hint(wrong)
        })?;
        self.keep_site_memory(max)?;
        self.database().set_site_memory(max);
        Ok(())
    }

    fn make(&self, change: Change) -> Result<(), SqlError> {
        let table = change.table();
        let made = self.database().change(change, "asked for in SQL");
        made.map(|_| ()).map_err(|error| {
            let mut error = database(error);
            if let Some(table) = table {
                error.message = with_name(
                    self.relation(table),
                    &self.database().design(),
                    table,
                    error.message,
                );
            }
            error
        })
    }

    fn remaster(
        &self,
        table: TableId,
        start: Key,
        placement: Placement,
        to: SiteId,
    ) -> Result<(), SqlError> {
        if placement.master == to {
            return Ok(());
        }
        if !placement.holds(to) {
            self.make(Change::AddReplica { table, start: start.clone(), site: to })?;
        }
        self.make(Change::Remaster { table, start, to })
    }

    /// Calls `act` with the partition of a key, or with each partition.
    fn each_partition(
        &self,
        table: &Table,
        key: Option<&[Expr]>,
        act: impl Fn(&Engine, Key, Placement) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let design = self.database().design();
        let partitions: Vec<(Key, Placement)> = match key {
            Some(key) => {
                let key = key_of(table, key)?;
                let found = design.partition_of(table.id, &key);
                found.map(|(range, placement)| (range.start, placement)).into_iter().collect()
            }
            None => {
                let found = design.table(table.id).map_err(damaged)?;
                let partitions = found.partitions().iter();
                partitions.map(|(start, placement)| (start.clone(), placement.clone())).collect()
            }
        };
        partitions.into_iter().try_for_each(|(start, placement)| act(self, start, placement))
    }
}

/// Tells the client which keys a statement is about, if the key that it names is inside of a
/// partition.
fn note_whole_partition(
    engine: &Engine,
    table: &Table,
    key: Option<&[Expr]>,
    told: &mut dyn FnMut(SqlError),
) -> Result<(), SqlError> {
    let Some(exprs) = key else { return Ok(()) };
    let (design, key) = (engine.database().design(), key_of(table, exprs)?);
    let Some((range, _)) = design.partition_of(table.id, &key) else { return Ok(()) };
    if range.start == key {
        return Ok(());
    }
    let shown = |key: &Key| table.schema.format_key(key);
    let keys = match (range.start.is_empty(), &range.end) {
        (true, None) => "all keys".to_owned(),
        (true, Some(end)) => format!("all keys below {}", shown(end)),
        (false, None) => format!("all keys from {}", shown(&range.start)),
        (false, Some(end)) => {
            format!("all keys from {} to below {}", shown(&range.start), shown(end))
        }
    };
    let (name, inside) = (&table.name, shown(&key));
    let message = format!(
        "key {inside} is inside of a partition of \"{name}\", which is changed as a whole: {keys}"
    );
    let hint = "To change a part of these keys, first split the partition with SPLIT AT.";
    told(SqlError::new("00000", message).hint(hint));
    Ok(())
}

/// Pins keys of a table, or unpins them; with all keys of a table, its indexes as well. Pinned
/// keys become partitions of their own.
fn pin(engine: &Engine, table: &Table, pin: &Pin) -> Result<(), SqlError> {
    let key = |key: &Option<Vec<Expr>>| key.as_ref().map(|key| key_of(table, key)).transpose();
    let (from, to) = (key(&pin.from)?, key(&pin.to)?);
    let range = KeyRange::new(from.clone().unwrap_or_else(Key::min), to.clone());
    if range.is_empty() {
        let message = "the keys to pin begin where they end, or behind it";
        return Err(SqlError::new(code::INVALID_PARAMETER, message));
    }
    let is_whole = from.is_none() && to.is_none();
    let parts = table.parts().map(|(id, _)| id).filter(|id| is_whole || *id == table.id);
    for id in parts {
        let design = engine.database().design();
        let pins = design.table(id).map_err(damaged)?.pins().clone();
        let pins = match pin.is_pinned {
            true => pins.with(&range),
            false => pins.without(&range),
        };
        let bounds = [&from, &to].into_iter().flatten().filter(|_| pin.is_pinned);
        for at in bounds {
            let split = Change::Split { table: id, at: at.clone() };
            if !engine.database().design().is_so_already(&split) {
                engine.make(split)?;
            }
        }
        engine.database().set_pins(id, pins).map_err(database)?;
    }
    Ok(())
}

/// The key that begins with these values.
fn key_of(table: &Table, exprs: &[Expr]) -> Result<Key, SqlError> {
    let slots = table.key_slots();
    if exprs.len() > slots.len() {
        let message = format!(
            "the key of \"{}\" has {} columns, {} values are given",
            table.name,
            slots.len(),
            exprs.len()
        );
        return Err(SqlError::new(code::SYNTAX, message));
    }
    let mut values: Vec<Value> = Vec::new();
    for (expr, &slot) in exprs.iter().zip(&slots) {
        let ty = table.slot_type(slot);
        values.push(convert(literal(expr)?, ty, false)?.into_value(ty));
    }
    table
        .schema
        .encode_prefix(&values)
        .map_err(|e| SqlError::new(code::DATATYPE_MISMATCH, e.to_string()))
}

fn literal(expr: &Expr) -> Result<Datum, SqlError> {
    let text = match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match literal(expr)? {
            Datum::Text(digits) => format!("-{digits}"),
            _ => return Err(not_literal(expr)),
        },
        Expr::Value(value) => match &value.value {
            sqlparser::ast::Value::Number(digits, _) => digits.clone(),
            other => other.clone().into_string().ok_or_else(|| not_literal(expr))?,
        },
        _ => return Err(not_literal(expr)),
    };
    Ok(Datum::Text(text))
}

fn not_literal(expr: &Expr) -> SqlError {
    SqlError::new(code::SYNTAX, format!("a key is given as literals, not as {expr}"))
}

impl Engine {
    /// All figures, as they are now. Figures of one name are neighbours.
    pub fn figures(&self) -> Vec<Figure> {
        scrape::figures(self)
    }

    /// The loads of all processes with their names, this process first. Waits up to a second for
    /// those of others.
    pub fn loads(&self) -> Vec<(String, Load)> {
        sums::loads(self)
    }
}

impl DesignView for Engine {
    fn password(&self, role: &str) -> Option<String> {
        self.user(role)?.password()
    }

    fn bytes(&self, table: TableId) -> u64 {
        copies::bytes(self, table)
    }

    fn backups(&self, table: TableId) -> Backups {
        self.backups_of(table)
    }

    fn default_backups(&self) -> Backups {
        crate::engine::default_backups(self)
    }

    fn is_ordered(&self, table: TableId) -> bool {
        crate::engine::is_table_ordered(self, table)
    }

    fn autopilot(&self, table: TableId) -> Option<&'static str> {
        restraints::mode_of(&self.steering.restraints.lock(), table)
    }

    fn counts(&self) -> Counts {
        sums::counts(self)
    }

    fn last_number(&self, sequence: &Sequence) -> Result<(i64, bool), SqlError> {
        Engine::last_number(self, sequence)
    }

    fn locks(&self) -> Vec<LockRow> {
        let row = |lock: LockShown| LockRow {
            of: match lock.table {
                // The first component is the number of the others.
                NUMBERS => Locked::Numbers(
                    lock.key.to_ints().map_or_else(Vec::new, |numbers| numbers[1..].to_vec()),
                ),
                table if lock.key == Key::min() => Locked::Table(table),
                table => Locked::Row(table),
            },
            transaction: lock.owner,
            mode: match lock.mode {
                LockMode::Exclusive if lock.table == NUMBERS => "ExclusiveLock",
                mode if lock.key == Key::min() || lock.table == NUMBERS => lock_name(mode),
                mode => row_lock_name(mode),
            },
            is_granted: lock.is_granted,
        };
        locks(self.gateway()).into_iter().map(row).collect()
    }

    fn blockers(&self, transaction: u64) -> Vec<u64> {
        blockers(self.gateway(), transaction)
    }

    fn rows(
        &self,
        name: &str,
        catalog: &Catalog,
        budget: &Budget,
    ) -> Result<Vec<Vec<Datum>>, SqlError> {
        if let Some(rows) = conducted::rows_elsewhere(self, name, budget)? {
            return Ok(rows);
        }
        Ok(match name {
            "gateways" => conducted::gateway_rows(self),
            "tables" => self.table_rows(catalog),
            "partitions" => self.partition_rows(catalog),
            "fused" => fused_rows(self, catalog),
            "order_hashes" => hash_rows(self, catalog),
            "sites" => self.site_rows(),
            "checkpoints" => self.checkpoint_rows(),
            "changes" => self.change_rows(),
            "jobs" => self.job_rows(),
            "reconfigurations" => self.reconfiguration_rows(),
            "benefit" => self.benefit_rows(),
            "autopilot" => self.autopilot_rows(),
            "metrics" => scrape::metric_rows(self),
            "proposals" => histories::rows(self, View::Proposals),
            "advice" => advice::advice_rows(self),
            "shard_keys" => advice::shard_key_rows(self, catalog),
            "heat" => proposals::heat_rows(self),
            "statements" => self.shapes.rows(),
            "all_statements" => {
                shapes::joined(sums::rows(self, "statements").into_iter().map(|(_, row)| row))
            }
            "all_metrics" => {
                let named = |(name, row)| std::iter::once(name).chain(row).collect();
                sums::rows(self, "metrics").into_iter().map(named).collect()
            }
            "copies" => copies::rows(self, catalog),
            "settings" => system_settings::setting_rows(self),
            "failovers" => audit::failover_rows(self),
            "audit" => audit::audit_rows(self)?,
            _ => histories::rows(self, View::Decisions),
        })
    }
}

impl Engine {
    fn table_rows(&self, catalog: &Catalog) -> Vec<Vec<Datum>> {
        let design = self.database().design();
        let row = |table: &std::sync::Arc<Table>| {
            let found = design.table(table.id).ok()?;
            let mut masters: Vec<String> = found
                .partitions()
                .iter()
                .map(|(_, placement)| placement.master.to_string())
                .collect();
            let partitions = masters.len();
            masters.sort();
            masters.dedup();
            Some(vec![
                Datum::Text(table.full_name().label()),
                Datum::Int(partitions as i64),
                Datum::Text(masters.join(" ")),
                Datum::Int(table.columns.len() as i64),
                Datum::Int(table.indexes.len() as i64),
                match found.backups() {
                    Backups::NONE => Datum::Null,
                    backups => Datum::Text(backups.to_string()),
                },
                table.shard_by().map_or(Datum::Null, Datum::Text),
                Datum::Text(if found.is_ordered() { "ordered" } else { "snapshot" }.to_owned()),
                DesignView::autopilot(self, table.id).map_or(Datum::Null, Datum::text),
            ])
        };
        catalog.tables.values().filter_map(row).collect()
    }

    fn partition_rows(&self, catalog: &Catalog) -> Vec<Vec<Datum>> {
        let design = self.database().design();
        let relations = catalog.tables.values().flat_map(|table| {
            let indexes = table.maintained().map(|index| index.id);
            let parts = indexes.chain([table.id]);
            parts.filter_map(|id| Some((id, catalog.relation(id)?.label())))
        });
        let (mut rows, moved) = (Vec::new(), FusedRows(self.database()).all());
        for (id, name) in relations {
            let Ok(table) = design.table(id) else { continue };
            let moved = moved.as_ref().ok().filter(|_| table.is_ordered());
            let partitions: Vec<(&Key, &Placement)> = table.partitions().iter().collect();
            let shown = |key: &Key| {
                if key.is_empty() { String::new() } else { table.schema().format_key(key) }
            };
            for (at, (start, placement)) in partitions.iter().enumerate() {
                let end =
                    partitions.get(at + 1).map_or(Datum::Null, |(end, _)| Datum::Text(shown(end)));
                let next = partitions.get(at + 1).map(|(end, _)| (*end).clone());
                let range = KeyRange::new((*start).clone(), next);
                let others = placement.holders().without(placement.master);
                let replicas: Vec<String> = others.iter().map(|site| site.to_string()).collect();
                rows.push(vec![
                    Datum::text(&*name),
                    Datum::Text(shown(start)),
                    end,
                    Datum::Text(placement.master.to_string()),
                    Datum::Text(replicas.join(" ")),
                    Datum::Bool(table.pins().share_key_with(&range)),
                    moved.map_or(Datum::Null, |moved| {
                        let is_here =
                            |(_, of, key): &&(_, _, Key)| *of == id && range.contains(key);
                        Datum::Int(moved.iter().filter(is_here).count() as i64)
                    }),
                ]);
            }
        }
        rows
    }

    fn site_rows(&self) -> Vec<Vec<Datum>> {
        let design = self.database().design();
        let zone = isomer_cluster::zone_of(self.database()).map_or(Datum::Null, Datum::Text);
        let row = |report: isomer_cluster::SiteReport| {
            let [commits, coordinated] = self.gateway().commits(report.site);
            let (masters, replicas) = held(&design, report.site);
            vec![
                Datum::Text(report.site.to_string()),
                Datum::Int(masters),
                Datum::Int(replicas),
                Datum::Int(report.memory_bytes as i64),
                report.memory_max.map_or(Datum::Null, |max| Datum::Int(max as i64)),
                report.busy.map_or(Datum::Null, Datum::Float),
                Datum::Int(report.log.frames as i64),
                Datum::Int(report.log.bytes as i64),
                Datum::Int(commits as i64),
                Datum::Int(coordinated as i64),
                Datum::Text(match (report.failure, report.memory_max) {
                    (Some(why), _) => format!("failed: {why}"),
                    (None, Some(max)) if report.memory_bytes >= max => {
                        "full: site_memory".to_owned()
                    }
                    _ => "ok".to_owned(),
                }),
                zone.clone(),
            ]
        };
        let mut rows: Vec<Vec<Datum>> = self.database().sites().into_iter().map(row).collect();
        rows.extend(self.rows_of_sites_elsewhere(&design));
        rows
    }

    /// The known figures of sites at nodes.
    fn rows_of_sites_elsewhere(&self, design: &Design) -> Vec<Vec<Datum>> {
        let row = |(load, reach): (SiteLoad, Option<Reach>)| {
            let [commits, coordinated] = self.gateway().commits(load.site);
            let zone = reach.as_ref().and_then(|reach| reach.zone.clone());
            let (masters, replicas) = held(design, load.site);
            let state = match (self.database().failure(load.site), reach) {
                (_, Some(Reach { trouble: Some(why), .. })) => format!("unreachable: {why}"),
                (Some(why), _) => format!("failed: {why}"),
                (None, Some(Reach { node, .. })) => format!("ok, at node {node}"),
                (None, None) => "ok".to_owned(),
            };
            vec![
                Datum::Text(load.site.to_string()),
                Datum::Int(masters),
                Datum::Int(replicas),
                Datum::Int(load.memory_bytes as i64),
                load.memory_max.map_or(Datum::Null, |max| Datum::Int(max as i64)),
                load.busy.map_or(Datum::Null, Datum::Float),
                Datum::Null,
                Datum::Null,
                Datum::Int(commits as i64),
                Datum::Int(coordinated as i64),
                Datum::Text(state),
                zone.map_or(Datum::Null, Datum::Text),
            ]
        };
        self.database().sites_elsewhere().into_iter().map(row).collect()
    }

    fn checkpoint(&self, cancel: &CancelToken) -> Result<(), SqlError> {
        let goes_on = || cancel.over().is_none();
        match self.database().checkpoint_while(&goes_on).map_err(database)? {
            true => Ok(()),
            false => Err(cancel.over().map_or_else(|| ended(CancelReason::Asked), ended)),
        }
    }

    fn checkpoint_rows(&self) -> Vec<Vec<Datum>> {
        let at = |time: Time| Datum::Timestamp((time.0 / 1000) as i64);
        let row = |report: isomer_cluster::SiteReport| {
            let made = report.checkpoint;
            let [begin, end, took, bytes] = match made.last {
                Some(last) => {
                    let took_ns = last.ended.0.saturating_sub(last.begun.0);
                    let took_ms = Datum::Float(took_ns as f64 / 1e6);
                    [at(last.begun), at(last.ended), took_ms, Datum::Int(last.bytes as i64)]
                }
                None => [Datum::Null, Datum::Null, Datum::Null, Datum::Null],
            };
            vec![
                Datum::Text(report.site.to_string()),
                Datum::Bool(made.running.is_some()),
                made.running.map_or(Datum::Null, |(_, bytes)| Datum::Int(bytes as i64)),
                begin,
                end,
                took,
                bytes,
                Datum::Int(made.log_bytes as i64),
                Datum::Int(made.log_bytes_kept as i64),
                report.checkpoint_error.map_or(Datum::Null, Datum::Text),
            ]
        };
        self.database().sites().into_iter().map(row).collect()
    }
}

/// The number of partitions that a site masters, and of those that it replicates.
fn held(design: &Design, site: SiteId) -> (i64, i64) {
    let (mut masters, mut replicas) = (0, 0);
    for (_, table) in design.tables() {
        for (_, placement) in table.partitions().iter() {
            masters += i64::from(placement.master == site);
            replicas += i64::from(placement.master != site && placement.holds(site));
        }
    }
    (masters, replicas)
}
