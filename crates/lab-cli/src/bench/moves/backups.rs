//! The cost of synchronous backups: TPC-C's mix at half load, alternating between one backup in
//! memory and none.
//!
//! ```text
//!   one replica of everything      without │ with │ without │ with │ …      median of the ratios
//! ```
//!
//! A commit with a backup waits for another site. There are 16 clients, so that enough of them work
//! while others wait.

use super::MovesArgs;
use super::bed::{Bed, Case};
use super::capacity;
use super::clients::{Load, Noted, work_while};
use super::figures::Window;
use isomer::clock;
use isomer::failure::Failure;
use isomer_workload::Workload;
use serde::Serialize;
use std::time::Duration;

const CLIENTS: u16 = 16;
/// The most pairs; otherwise one for each of the `--rounds`.
const PAIRS_MAX: u64 = 5;
const WARM: Duration = Duration::from_millis(200);
const TURN: Duration = Duration::from_millis(500);

/// Ratios: the run with a backup divided by the run without.
#[derive(Serialize)]
pub(super) struct Report {
    clients: u16,
    capacity: f64,
    /// Throughput at half of the capacity without backups.
    pub(super) paced: f64,
    /// Closed-loop throughput.
    pub(super) closed: f64,
    /// The median latency at half load.
    pub(super) latency: f64,
    pub(super) failed: u64,
}

impl Report {
    pub(super) fn to_text(&self) -> String {
        format!(
            "backups\n  capacity       {:.0}/s with {} clients\n  with a backup  throughput {:.3} at half load, {:.3} closed; median latency {:.2} times",
            self.capacity, self.clients, self.paced, self.closed, self.latency
        )
    }
}

/// Measures pairs of runs with and without a backup, and takes the median of their ratios.
pub(super) fn measure<W: Workload + Clone + Send + Sync>(
    case: Case<W>,
    args: &MovesArgs,
) -> Result<Report, Failure> {
    let bed = Bed::new(case, &MovesArgs { copies: 2, ..args.clone() })?;
    bed.set_backups(0)?;
    let mut all = Noted::default();
    let load = Load { clients: CLIENTS, rate: None, has_probe: false, seed: args.seed };
    let capacity = capacity(&bed, load, &mut all)?;
    let half = Load { rate: Some(capacity / 2.0), ..load };
    let mut ratios = [const { Vec::new() }; 3];
    for _ in 0..args.rounds.min(PAIRS_MAX) {
        let [mut paced, mut closed] = [[(0.0, 0); 2]; 2];
        for count in [0, 1] {
            bed.set_backups(count)?;
            paced[usize::from(count)] = turn(&bed, half, &mut all)?;
            closed[usize::from(count)] = turn(&bed, load, &mut all)?;
        }
        ratios[0].push(paced[1].0 / paced[0].0);
        ratios[1].push(closed[1].0 / closed[0].0);
        ratios[2].push(paced[1].1 as f64 / paced[0].1.max(1) as f64);
    }
    if let Some(failure) = &all.failure {
        eprintln!("{} transactions failed; the first: {failure}", all.failed);
    }
    let [paced, closed, latency] = ratios.map(|mut ratios| {
        ratios.sort_by(f64::total_cmp);
        ratios[ratios.len() / 2]
    });
    Ok(Report { clients: CLIENTS, capacity, paced, closed, latency, failed: all.failed })
}

/// Measures throughput in transactions a second, and the median latency in nanoseconds.
fn turn<W: Workload + Clone + Send + Sync>(
    bed: &Bed<W>,
    load: Load,
    all: &mut Noted,
) -> Result<(f64, u64), Failure> {
    let (noted, window) = work_while(bed, load, |shift| {
        clock::sleep(WARM);
        let from = shift.now();
        clock::sleep(TURN);
        Ok(Window { from, to: shift.now() })
    })?;
    let latency = window.latency(&noted.notes, 0.5).unwrap_or_default();
    let rate = window.rate(&noted.notes);
    all.count(noted);
    Ok((rate, latency))
}
