//! What a thought of the autopilot takes: measured for a transaction that no site can run, over a full
//! reservoir.

use crate::stopwatch::Stopwatch;
use isomer_design::{Design, Footprint, Key, RoutingTable, SiteId, TableId, Time};
use isomer_plan::strategy::Learned;
use isomer_strategy::{Measured, Report, Request, Strategy};

const SAMPLES: u64 = 4000;
const THOUGHTS: u64 = 101;
/// From one thought to the next: longer than the strategy ever pauses between two.
const PAUSE_NS: u64 = 200_000_000;

/// The median of what a thought takes, in nanoseconds. `design` has the table with keys from 0 to below `keys`,
/// and keys that are `apart` are at different sites; so a transaction with two such can run nowhere.
///
/// # Panics
/// If that is not so.
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
                design: &|| design.clone(),
            };
            let begun = now();
            std::hint::black_box(learned.decide(&request).expect("the table exists"));
            now() - begun
        })
        .collect();
    assert_eq!(learned.thoughts(), THOUGHTS, "every decision was a thought");
    took.sort_unstable();
    took[took.len() / 2] as f64
}
