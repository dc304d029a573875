//! The settings of the whole database: their values for SHOW, and the rows of `isomer.settings`.
//!
//! `ALTER SYSTEM SET` changes them, and the catalog has them.

use crate::autopilot::shown_percent;
use crate::engine::Engine;
use crate::engine::restraints::{ADDED_P99, BYTES, RATE, WINDOW};
use crate::restraints;
use crate::size::show_site_memory;
use isomer_cluster::FusedRows;
use isomer_sql::datum::Datum;

/// The settings of the whole database: their names and meanings.
const SETTINGS: [(&str, &str); 11] = [
    ("autopilot", "mode of the autopilot: off, recommend, approve or auto"),
    ("autopilot_processor_percent", "limit of the processor time of the autopilot"),
    (ADDED_P99, "limit on the rise of the 99th percentile by changes of strategies"),
    (BYTES, "bytes that changes of strategies copy a second"),
    (WINDOW, "part of each day, in UTC, in which strategies may begin changes"),
    (RATE, "most changes that strategies begin in a minute"),
    ("default_backups", "number of backups of new tables"),
    ("design_changes", "whether changes of the design may begin"),
    ("fused_rows", "rows of ordered tables that may move to each site"),
    ("order_router", "what chooses the sites of statements on ordered tables"),
    ("site_memory", "limit of the memory of the rows of each site"),
];

/// The rows of `isomer.settings`.
pub(crate) fn setting_rows(engine: &Engine) -> Vec<Vec<Datum>> {
    let row = |(name, meaning): (&str, &str)| {
        let value = system_setting(engine, name).map_or(Datum::Null, Datum::Text);
        vec![Datum::text(name), value, Datum::text(meaning)]
    };
    SETTINGS.into_iter().map(row).collect()
}

/// The value of a setting of the whole database.
pub(crate) fn system_setting(engine: &Engine, name: &str) -> Option<String> {
    Some(match name {
        "autopilot" => engine.autopilot().mode().to_string(),
        "autopilot_processor_percent" => {
            let budget = engine.autopilot().budget();
            budget.map_or_else(|| "none".to_owned(), |it| shown_percent(it.share()))
        }
        ADDED_P99 => restraints::shown_added_p99(engine),
        BYTES => restraints::shown_bytes(engine),
        "change_window" => restraints::shown_window(engine),
        "changes_per_minute" => restraints::shown_rate(engine),
        "default_backups" => crate::engine::default_backups(engine).count.to_string(),
        "design_changes" => if engine.steering.are_changes_off() { "off" } else { "on" }.to_owned(),
        "fused_rows" => FusedRows(engine.database()).limit().to_string(),
        "order_router" => crate::engine::ordered::router(engine),
        "site_memory" => show_site_memory(engine.database().site_memory()),
        _ => return None,
    })
}
