//! Measures the time of a planning pass of the autopilot, for a transaction that no site can run
//! and with a full reservoir of samples.

use crate::stopwatch::Stopwatch;
use isomer_design::{Design, Footprint, Key, RoutingTable, SiteId, TableId, Time};
use isomer_plan::strategy::Learned;
use isomer_strategy::{Measured, Occasion, Report, Request, Stage, Strategy};

const SAMPLES: u64 = 4000;
const THOUGHTS: u64 = 101;
/// The time between two passes: longer than the longest pause of the strategy.
const PAUSE_NS: u64 = 200_000_000;

/// Returns the median time of a planning pass in nanoseconds. `design` must contain the table with
/// keys from 0 to `keys` (exclusive), and keys at a distance of `apart` must be at different sites.
/// A transaction with two such keys can run at no single site.
///
/// # Panics
/// If `design` does not satisfy this.
pub fn think(
    design: &Design,
    table: TableId,
    (keys, apart): (i64, i64),
    now: Stopwatch<'_>,
) -> f64 {
    let learned = Learned::default();
    let footprint = |at: u64| {
        let chosen = [0, apart, apart * 3 / 2];
        let chosen = chosen.map(|far| Key::int((at as i64 * 7919 + far) % keys));
        chosen.into_iter().fold(Footprint::new(), |all, key| all.write(table, key))
    };
    let mut time = 0;
    for ticket in 0..SAMPLES {
        time += 1_000_000;
        let measured = Measured { service_ns: 50_000, rows: [3, 3], ..Measured::default() };
        learned.observe(&Report {
            ticket,
            footprint: &footprint(ticket),
            site: SiteId(1),
            changes: 0,
            now: Time(time),
            latency_ns: 100_000,
            measured: Some(measured),
        });
    }
    let routes = RoutingTable::of(design);
    let mut took: Vec<u64> = (0..THOUGHTS)
        .map(|at| {
            time += PAUSE_NS;
            let footprint = footprint(at);
            let request = Request {
                footprint: &footprint,
                route: routes.home(&footprint),
                last_site: None,
                ticket: 2,
                now: Time(time),
                reserved: false,
                stage: Stage::Whole,
                design: &|| design.clone(),
            };
            let begun = now();
            std::hint::black_box(learned.decide(&request).expect("the table exists"));
            let occasion = Occasion { now: Time(time), design, worked_ns: &|| 0 };
            std::hint::black_box(learned.plan(&occasion));
            now() - begun
        })
        .collect();
    assert_eq!(learned.thoughts(), THOUGHTS, "every decision must include a planning pass");
    took.sort_unstable();
    took[took.len() / 2] as f64
}
