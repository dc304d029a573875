//! The counts of a run: the parts of the latency of each transaction, and the core time and bytes
//! used over time.
//!
//! ```text
//!   asked ─ order ─▶ came ─ scheduling ─▶ scheduled ─ locks ─▶ granted ─▶ begun ─ remote ─▶
//!       gathered ─▶ ran ─ answer ─▶ told          execution: granted to ran, without remote
//! ```

use hdrhistogram::Histogram;
use isomer_batch::{Leg, Plan, Work};
use isomer_design::SiteId;
use std::ops::Range;

/// The parts of a latency in order.
pub const PARTS: [&str; 6] = ["order", "scheduling", "locks", "remote data", "execution", "answer"];

/// The times at which a transaction reached each stage, in nanoseconds; 0 for skipped stages.
#[derive(Clone, Copy, Default)]
pub(super) struct Timeline {
    pub(super) asked: u64,
    pub(super) came: u64,
    pub(super) scheduled: u64,
    pub(super) granted: u64,
    /// The step has pushed its rows and waits for other sites.
    pub(super) begun: u64,
    pub(super) gathered: u64,
    pub(super) ran: u64,
}

impl Timeline {
    fn parts(&self, told: u64) -> [u64; PARTS.len()] {
        let remote = self.gathered.saturating_sub(self.begun);
        [
            self.came - self.asked,
            self.scheduled - self.came,
            self.granted - self.scheduled,
            remote,
            self.ran - self.granted - remote,
            told - self.ran,
        ]
    }
}

/// A slice of time.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Slice {
    /// Its end, in seconds since the clients began.
    pub end_s: f64,
    /// The number of transactions.
    pub count: u64,
    /// The core time used, in nanoseconds.
    pub used_ns: u64,
    /// The bytes sent by sites.
    pub sent: u64,
}

/// The number of slices until the end of the measurement.
const SLICES: u64 = 60;

/// See the [module documentation](self).
pub(super) struct Tally {
    begun_ns: u64,
    pub(super) window: Range<u64>,
    pub(super) all: Histogram<u64>,
    pub(super) parts_ns: [u64; PARTS.len()],
    pub(super) count: u64,
    /// The number of all answered transactions, measured or not.
    pub(super) simulated: u64,
    pub(super) slices: Vec<Slice>,
    open: Slice,
    before: (u64, u64),
    /// Of the transactions planned during the measurement: their number, the distributed ones, and
    /// the moved records.
    pub(super) planned: u64,
    pub(super) distributed: u64,
    pub(super) moved: u64,
    /// By site: the number of transactions routed there.
    pub(super) routed: Vec<u64>,
    /// The time at which the last chunk of cold records had arrived.
    pub(super) cold_end_s: Option<f64>,
}

impl Tally {
    pub(super) fn new(begun_ns: u64, window: Range<u64>, sites: u16) -> Tally {
        let all = Histogram::new_with_bounds(1, 1_000_000_000, 3).expect("sane bounds");
        Tally {
            begun_ns,
            window,
            all,
            parts_ns: [0; PARTS.len()],
            count: 0,
            simulated: 0,
            slices: Vec::new(),
            open: Slice::default(),
            before: (0, 0),
            planned: 0,
            distributed: 0,
            moved: 0,
            routed: vec![0; usize::from(sites) + 1],
            cold_end_s: None,
        }
    }

    pub(super) fn planned(&mut self, now: u64, plan: &Plan) {
        if !self.window.contains(&now) {
            return;
        }
        for step in &plan.steps {
            let moves = |leg: &&Leg| matches!(leg, Leg::Record { from, to, .. } if from != to);
            self.moved += step.legs.iter().filter(moves).count() as u64;
            if let Work::Call(_) = step.work {
                self.planned += 1;
                let is_far = |leg: &Leg| step.executors.iter().any(|&at| !only_at(leg, at));
                self.distributed +=
                    u64::from(step.executors.len() > 1 || step.legs.iter().any(is_far));
                self.routed[usize::from(step.executors[0].0)] += 1;
            }
        }
    }

    pub(super) fn answered(&mut self, now: u64, timeline: Timeline) {
        self.simulated += 1;
        self.open.count += 1;
        if !self.window.contains(&now) {
            return;
        }
        self.count += 1;
        self.all.saturating_record(((now - timeline.asked) / 1000).max(1));
        for (sum, part) in self.parts_ns.iter_mut().zip(timeline.parts(now)) {
            *sum += part;
        }
    }

    /// Ends a slice. Returns the length of the next one in nanoseconds.
    pub(super) fn sampled(&mut self, now: u64, used_ns: u64, sent: u64) -> u64 {
        if now > self.begun_ns {
            let (used_before, sent_before) = self.before;
            self.open.end_s = (now - self.begun_ns) as f64 / 1e9;
            self.open.used_ns = used_ns - used_before;
            self.open.sent = sent - sent_before;
            self.slices.push(std::mem::take(&mut self.open));
        }
        self.before = (used_ns, sent);
        ((self.window.end - self.begun_ns) / SLICES).max(1)
    }

    pub(super) fn cold_ended(&mut self, now: u64) {
        self.cold_end_s = Some((now - self.begun_ns) as f64 / 1e9);
    }
}

/// True if all of a leg is at a site.
fn only_at(leg: &Leg, site: SiteId) -> bool {
    match leg {
        Leg::Record { from, .. } => *from == site,
        Leg::Range { pieces, fused, .. } => {
            pieces.iter().all(|(_, at)| *at == site) && fused.values().all(|at| *at == site)
        }
    }
}
