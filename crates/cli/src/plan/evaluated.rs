//! The evaluation of a placement on a recording, for several commands.

use isomer_plan::evaluate::{Evaluation, Upkeep};
use serde_json::{Value, json};

/// One line of the comparison.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) recorded: Evaluation,
    pub(crate) held_out: Evaluation,
    pub(crate) upkeep: Upkeep,
    pub(crate) seconds: f64,
}

/// One evaluation as JSON.
pub(crate) fn evaluation_json(evaluation: &Evaluation) -> Value {
    let by_table: serde_json::Map<String, Value> = evaluation
        .distributed_by_table
        .iter()
        .map(|(name, share)| (name.clone(), json!(share)))
        .collect();
    json!({
        "loads_per_s": evaluation.loads,
        "accesses_per_s": evaluation.accesses,
        "imbalance": evaluation.imbalance,
        "access_imbalance": evaluation.access_imbalance,
        "distributed": evaluation.distributed,
        "distributed_by_table": by_table,
    })
}

/// The costs of a placement as JSON.
pub(crate) fn upkeep_json(upkeep: &Upkeep) -> Value {
    json!({
        "keys_moved": upkeep.keys_moved,
        "routing_entries": upkeep.routing_entries,
        "routing_bytes": upkeep.routing_bytes,
        "sites_used": upkeep.sites_used,
    })
}
