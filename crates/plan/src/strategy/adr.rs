//! Adaptive replication (ADR; Wolfson, Jajodia, Huang 1997): adds replicas where reads come from,
//! and removes them where writes dominate. Masters stay; transactions that no site can run alone
//! commit over several.
//!
//! A read comes from the site where its transaction runs. At the end of every period, for each
//! partition accessed in it:
//!
//! ```text
//!   reads from s2 > writes, s2 has no copy    add_replica s2      serves those reads
//!   writes > reads from s2, s2 has a copy     remove_replica s2   its upkeep costs more
//! ```
//!
//! The changes of a period are handed out one per transaction; those left at the end of the next
//! period are decided anew. Left out: the algorithm's trees of sites, since here every site is one
//! hop from every other.

use isomer_design::{Access, Change, Design, Key, Plan, SiteId, TableId};
use isomer_strategy::{Decision, Refused, Request, Strategy, TwoPhase, Verdict, needs};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};

/// The length of a period.
const PERIOD_NS: u64 = 1_000_000_000;

/// See the [module documentation](self).
#[derive(Default, Debug)]
pub struct Adr(Mutex<State>);

#[derive(Default, Debug)]
struct State {
    ends_ns: Option<u64>,
    /// By the table and the first key of a partition.
    seen: BTreeMap<(TableId, Key), Seen>,
    changes: VecDeque<Plan>,
}

/// Accesses of a partition in a period.
#[derive(Default, Debug)]
struct Seen {
    writes: u32,
    reads: BTreeMap<SiteId, u32>,
}

impl Strategy for Adr {
    fn name(&self) -> &'static str {
        "adr"
    }

    fn decide(&self, request: &Request<'_>) -> Result<Verdict, Refused> {
        let Verdict::Run(decision) = TwoPhase.decide(request)? else { return Ok(Verdict::Reserve) };
        let design = (request.design)();
        let mut state = self.0.lock();
        state.count(&design, request, decision.place.site());
        let now_ns = request.now.0;
        if now_ns >= *state.ends_ns.get_or_insert(now_ns + PERIOD_NS) {
            state.ends_ns = Some(now_ns + PERIOD_NS);
            state.end_period(&design);
        }
        let deferred = state.changes.pop_front().unwrap_or_default();
        Ok(Verdict::Run(Decision { deferred, ..decision }))
    }

    fn memory(&self, _design: &Design) -> Option<String> {
        None
    }

    fn recall(&self, _memory: &str) -> Result<(), String> {
        Ok(())
    }
}

impl State {
    fn count(&mut self, design: &Design, request: &Request<'_>, site: SiteId) {
        for need in needs(design, request.footprint) {
            let seen = self.seen.entry((need.table, need.range.start)).or_default();
            match need.access {
                Access::Write => seen.writes += 1,
                Access::Read => *seen.reads.entry(site).or_default() += 1,
            }
        }
    }

    fn end_period(&mut self, design: &Design) {
        self.changes.clear();
        for ((table, start), Seen { writes, reads }) in std::mem::take(&mut self.seen) {
            let Some((_, placement)) = design.partition_of(table, &start) else { continue };
            for (&site, &count) in reads.iter().filter(|(site, _)| !placement.holds(**site)) {
                if count > writes {
                    let why = format!("{count} reads come from {site}, against {writes} writes");
                    let change = Change::AddReplica { table, start: start.clone(), site };
                    self.changes.push_back(Plan::of(change, why));
                }
            }
            let backups = design.table(table).map_or(0, |table| table.backups().count);
            let needed = usize::from(backups);
            for site in placement.replicas.iter().filter(|_| placement.replicas.len() > needed) {
                let count = reads.get(&site).copied().unwrap_or_default();
                if writes > count {
                    let why = format!("{writes} writes, against {count} reads from {site}");
                    let change = Change::RemoveReplica { table, start: start.clone(), site };
                    self.changes.push_back(Plan::of(change, why));
                }
            }
        }
    }
}
