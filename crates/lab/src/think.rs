//! What a thought of the autopilot takes: measured for a transaction that no site can run, over a full
//! reservoir.

use crate::calibrate::{Stopwatch, TABLE};
use isomer_design::{Design, Footprint, Key, RoutingTable, SiteId, Time};
use isomer_plan::strategy::{Learned, Measured, Report, Request, Strategy};

/// Sites of the design that is thought about.
const SITES: i64 = 8;
const SAMPLES: u64 = 4000;
const THOUGHTS: u64 = 101;
/// From one thought to the next, so that the budget of changes lasts.
const PAUSE_NS: u64 = 60_000_000;

/// The median of what a thought takes. `design` has a table of so many `rows`, in partitions of 1000 that
/// are by turns at two sites; so a transaction with a key in each of two neighbours can run nowhere.
pub(crate) fn think(mut design: Design, rows: i64, now: Stopwatch<'_>) -> f64 {
    (3..=SITES).for_each(|site| {
        let change = isomer_design::Change::AddSite { site: SiteId(site as u16) };
        design.apply(&change).expect("it is a new site");
    });
    let learned = Learned::default();
    let keys = |at: u64| [0, 1000, 1499].map(|far| Key::int((at as i64 * 7919 + far) % rows));
    let footprint =
        |at| keys(at).into_iter().fold(Footprint::new(), |all, key| all.write(TABLE, key));
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
    let table = RoutingTable::of(&design);
    let mut took: Vec<u64> = (0..THOUGHTS)
        .map(|at| {
            time += PAUSE_NS;
            let footprint = footprint(at);
            let request = Request {
                footprint: &footprint,
                route: table.home(&footprint),
                last_site: None,
                // Neither one that is measured anyway nor one that explores.
                ticket: 2,
                now: Time(time),
                reserved: true,
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
