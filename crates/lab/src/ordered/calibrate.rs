//! Measures the costs of the total order from its code: the sequencer, the planner, the locks.
//!
//! ```text
//!   plan of 9 records − plan of 1, at 4 sites         = 8 · plan_item
//!   plan of 1 record at 20 sites − at 4 sites         = 16 · plan_cell
//!   locks of a step with 9 locks − with 1             = 8 · lock
//! ```
//!
//! The planner has the router of Hermes, which is the most expensive one. Records are drawn from a
//! large set, so the fusion table grows.

use crate::stopwatch::Stopwatch;
use isomer_batch::{
    Batch, ClientId, FusionTable, Homes, Limits, Lock, Locks, Planner, Replacement, Request,
    Sequencer, StepId,
};
use isomer_design::{
    Access, Column, ColumnType, Design, Footprint, Key, Placement, Schema, SiteId, Span, TableId,
};
use isomer_plan::route::Options;
use isomer_plan::route::engine::EngineRouter;
use std::sync::Arc;

const TABLE: TableId = TableId(1);
const KEYS: u64 = 200_000;
/// Requests per batch, and the number of measured batches.
const REQUESTS: u64 = 500;
const ROUNDS: u64 = 15;

/// Costs in nanoseconds of one core; see [`Costs`](crate::Costs).
pub(crate) struct OrderCosts {
    pub(crate) order: f64,
    pub(crate) plan: f64,
    pub(crate) plan_item: f64,
    pub(crate) plan_cell: f64,
    pub(crate) lock: f64,
}

/// Measures all costs.
pub(crate) fn calibrate(now: Stopwatch<'_>) -> OrderCosts {
    let slope = |more: f64, less: f64, by: f64| ((more - less) / by).max(1.0);
    let (plan_1, plan_9, plan_20_sites) = (plan(1, 4, now), plan(9, 4, now), plan(1, 20, now));
    let plan_item = slope(plan_9, plan_1, 8.0);
    let plan_cell = slope(plan_20_sites, plan_1, 16.0);
    OrderCosts {
        order: order(now),
        plan: slope(plan_1, plan_item + 4.0 * plan_cell, 1.0),
        plan_item,
        plan_cell,
        lock: slope(locks(9, now), locks(1, now), 8.0),
    }
}

/// A batch of requests that write `records` records each.
fn requests(round: u64, records: u64) -> Vec<Request> {
    let request = |at: u64| {
        let key = |number: u64| {
            let drawn = (round * REQUESTS + at) * 31 + number;
            Key::int((drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15) % KEYS) as i64)
        };
        let keys = (0..records).map(key);
        Request {
            client: ClientId(at),
            sequence: round + 1,
            attempt: 0,
            procedure: "p".to_owned(),
            params: Vec::new(),
            footprint: keys.fold(Footprint::new(), |all, key| all.write(TABLE, key)),
        }
    };
    (0..REQUESTS).map(request).collect()
}

fn median(mut rounds: Vec<u64>, of: u64) -> f64 {
    rounds.sort_unstable();
    rounds[rounds.len() / 2] as f64 / of as f64
}

/// The time to plan a request of a batch.
fn plan(records: u64, sites: u16, now: Stopwatch<'_>) -> f64 {
    let mut design = Design::new((1..=sites).map(SiteId)).expect("some sites");
    let schema = Schema::new("rows", vec![Column::new("id", ColumnType::Int64)], &["id"]);
    let width = KEYS / u64::from(sites);
    let starts = (0..sites).map(|site| {
        let start = Key::int((u64::from(site) * width) as i64);
        (if site == 0 { Key::min() } else { start }, Placement::at(SiteId(site + 1)))
    });
    design.create_table(TABLE, schema.expect("a schema"), starts).expect("a table");
    let route = Arc::new(EngineRouter::Hermes(Options::default()));
    let fusion = FusionTable::new(Replacement::Clock, None);
    let mut planner = Planner::new(Homes::of(&design), route, fusion);
    let round = |round| {
        let requests = requests(round, records).into_iter().map(Arc::new).collect();
        let batch = Batch { requests, provisions: Vec::new() };
        let begun = now();
        std::hint::black_box(planner.plan(&batch));
        now() - begun
    };
    median((0..ROUNDS).map(round).collect(), REQUESTS)
}

/// The time to add a request to a batch.
fn order(now: Stopwatch<'_>) -> f64 {
    let limits = Limits { requests_max: usize::MAX, wait_ns_max: u64::MAX / 2 };
    let round = |round| {
        let (mut sequencer, requests) = (Sequencer::new(limits), requests(round, 2));
        let begun = now();
        for request in requests {
            std::hint::black_box(sequencer.submit(isomer_design::Time::ZERO, request));
        }
        now() - begun
    };
    median((0..ROUNDS).map(round).collect(), REQUESTS).max(1.0)
}

/// The time to request and release the locks of a step.
fn locks(count: i64, now: Stopwatch<'_>) -> f64 {
    let mut locks = Locks::new();
    let round = |round: u64| {
        let step = |at: u64| {
            let key = |number| Key::int((at as i64 * 37 + number * 7919) % 5000);
            let lock =
                |number| Lock { table: TABLE, span: Span::Key(key(number)), access: Access::Write };
            (StepId { batch: round, step: at as u32 }, (0..count).map(lock).collect::<Vec<_>>())
        };
        let steps: Vec<_> = (0..REQUESTS).map(step).collect();
        let begun = now();
        let mut granted = Vec::new();
        for (id, asked) in steps {
            if locks.acquire(id, asked) {
                granted.push(id);
            }
        }
        while let Some(id) = granted.pop() {
            granted.extend(locks.release(id));
        }
        now() - begun
    };
    median((0..ROUNDS).map(round).collect(), REQUESTS)
}
