//! The outcome of a batch, as a pure function of its commits and of the rows before it.
//!
//! ```text
//!   commits                        checks, by site                  answers
//!   a: read [3..7): 2 rows @90     s1: [3..5) since 90              2 rows       sum 2: holds
//!                                  s2: [5..7) since 90              0 rows
//!      write 4, version @80        s1: [4] is @80                   1            holds
//!   b: read 4: 1 row @90           s1: [4] since 90                 1 row        holds, but a writes 4
//!   c: write 9, no row             s2: [9] is no row                nothing      fails
//! ```
//!
//! So a is applied, and b and c are not.

use super::batch::OrderedCommit;
use crate::overlay::RowWrite;
use crate::request::Expect;
use isomer_design::{
    Access, Footprint, Key, KeyRange, RoutingTable, SiteId, SiteSet, Span, TableId, Time,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// A condition of a commit on one span of one site's rows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Check {
    /// The table.
    pub table: TableId,
    /// The keys.
    pub span: Span,
    /// The state in which they were seen.
    pub sees: Sees,
}

/// The state in which a transaction has seen a span.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Sees {
    /// A number of rows, none of them newer than this. The answer is the number of rows.
    Since(Time),
    /// Its only row has this version; `None`: no row. The answer is 1.
    Version(Option<Time>),
}

/// Why a commit of a batch is not applied.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Conflict {
    /// A row that it writes has another version.
    Changed {
        /// The table.
        table: TableId,
        /// The key.
        key: Key,
    },
    /// A span that it has read has changed.
    ReadChanged {
        /// The table.
        table: TableId,
        /// The span.
        span: Span,
    },
    /// There is no such table any more.
    NoTable(TableId),
    /// A site with rows that it names has failed, and no other site takes over.
    Lost(SiteId),
    /// It was decided before a crash; the reason was not kept.
    Forgotten,
}

/// The parts of one site in a batch.
#[derive(Default)]
struct Share {
    footprint: Footprint,
    checks: Vec<Check>,
    /// The condition that each check belongs to.
    conditions: Vec<usize>,
}

/// One condition of a commit: the sum over all sites.
struct Condition {
    commit: usize,
    table: TableId,
    span: Span,
    is_read: bool,
    rows: u64,
    /// The sum so far; `None` once a site has found a change.
    found: Option<u64>,
}

/// The conditions of a batch's commits, and the sites that can check them.
pub struct Checklist<'b> {
    commits: &'b [&'b OrderedCommit],
    shares: BTreeMap<SiteId, Share>,
    conditions: Vec<Condition>,
    /// Commits that cannot be applied wherever their rows stand, and why.
    hopeless: BTreeMap<usize, Conflict>,
}

impl<'b> Checklist<'b> {
    /// The conditions of these commits, with the sites of a routing table. Sites that are `lost`
    /// take no part, nor do commits that name their rows.
    pub fn new(
        commits: &'b [&'b OrderedCommit],
        routing: &RoutingTable,
        lost: &SiteSet,
    ) -> Checklist<'b> {
        let (shares, conditions, hopeless) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        let mut list = Checklist { commits, shares, conditions, hopeless };
        for (at, commit) in commits.iter().enumerate() {
            for reads in &commit.reads {
                for (table, span, rows) in reads.iter() {
                    list.add(
                        (routing, lost),
                        at,
                        (table, span),
                        Sees::Since(reads.at()),
                        (true, rows),
                    );
                }
            }
            for (&table, rows) in &commit.writes {
                for (key, write) in rows {
                    let span = Span::Key(key.clone());
                    match write.expect {
                        Expect::Version(version) => {
                            let sees = Sees::Version(version);
                            list.add((routing, lost), at, (table, &span), sees, (false, 1));
                        }
                        Expect::Anything => list.take_part((routing, lost), at, table, &span),
                    }
                }
            }
        }
        list
    }

    fn add(
        &mut self,
        routing: (&RoutingTable, &SiteSet),
        commit: usize,
        (table, span): (TableId, &Span),
        sees: Sees,
        (is_read, rows): (bool, u64),
    ) {
        let condition = self.conditions.len();
        for (site, span) in self.placed(routing, commit, table, span) {
            let share = self.shares.entry(site).or_default();
            share.footprint.add(table, span.clone(), Access::Write);
            share.checks.push(Check { table, span, sees });
            share.conditions.push(condition);
        }
        let span = span.clone();
        self.conditions.push(Condition { commit, table, span, is_read, rows, found: Some(0) });
    }

    fn take_part(
        &mut self,
        routing: (&RoutingTable, &SiteSet),
        commit: usize,
        table: TableId,
        span: &Span,
    ) {
        for (site, span) in self.placed(routing, commit, table, span) {
            self.shares.entry(site).or_default().footprint.add(table, span, Access::Write);
        }
    }

    /// The pieces of a span, with their masters.
    fn placed(
        &mut self,
        (routing, lost): (&RoutingTable, &SiteSet),
        commit: usize,
        table: TableId,
        span: &Span,
    ) -> Vec<(SiteId, Span)> {
        let mut placed = Vec::new();
        match span {
            Span::Key(key) => {
                let master = routing.placement(table, key).map(|placement| placement.master);
                placed.extend(master.map(|site| (site, span.clone())));
            }
            Span::Range(range) => {
                let mut rest = range.clone();
                while !rest.is_empty() {
                    let Some((placement, next)) = routing.stretch(table, &rest.start) else {
                        break;
                    };
                    let next = next.filter(|next| rest.is_below_end(next)).cloned();
                    let end = next.clone().or_else(|| rest.end.clone());
                    let piece = KeyRange::new(rest.start.clone(), end);
                    placed.push((placement.master, Span::Range(piece)));
                    match next {
                        Some(next) => rest.start = next,
                        None => break,
                    }
                }
            }
        }
        if placed.is_empty() && routing.placement(table, span.start()).is_none() {
            self.hopeless.entry(commit).or_insert(Conflict::NoTable(table));
        }
        if let Some((site, _)) = placed.iter().find(|(site, _)| lost.contains(*site)) {
            self.hopeless.entry(commit).or_insert(Conflict::Lost(*site));
        }
        placed.retain(|(site, _)| !lost.contains(*site));
        placed
    }

    /// The sites that take part, in order, with their keys and checks.
    pub fn sites(&self) -> impl Iterator<Item = (SiteId, &Footprint, &[Check])> {
        self.shares.iter().map(|(site, share)| (*site, &share.footprint, &share.checks[..]))
    }

    /// Takes the answers of a site: for each check the number of rows, or `None` if they changed.
    pub fn answered(&mut self, site: SiteId, answers: &[Option<u64>]) {
        let Some(share) = self.shares.get(&site) else { return };
        for (&condition, answer) in share.conditions.iter().zip(answers) {
            let found = &mut self.conditions[condition].found;
            *found = found.zip(*answer).map(|(sum, rows)| sum + rows);
        }
    }

    /// Why each commit is not applied; `None`: it is. All sites have answered.
    pub fn decide(&self) -> Vec<Option<Conflict>> {
        let mut conflicts: Vec<Option<Conflict>> = vec![None; self.commits.len()];
        for (&commit, conflict) in &self.hopeless {
            conflicts[commit] = Some(conflict.clone());
        }
        for failed in self.conditions.iter().filter(|it| it.found != Some(it.rows)) {
            conflicts[failed.commit].get_or_insert_with(|| match failed.is_read {
                true => Conflict::ReadChanged { table: failed.table, span: failed.span.clone() },
                false => {
                    Conflict::Changed { table: failed.table, key: failed.span.start().clone() }
                }
            });
        }
        let mut written: BTreeMap<TableId, BTreeSet<&Key>> = BTreeMap::new();
        for (at, commit) in self.commits.iter().enumerate() {
            if conflicts[at].is_none() {
                conflicts[at] = overtaken(commit, &written);
            }
            if conflicts[at].is_none() {
                for (&table, rows) in &commit.writes {
                    written.entry(table).or_default().extend(rows.keys());
                }
            }
        }
        conflicts
    }

    /// The rows that the applied commits write, by master. Tables that do not exist any more are
    /// left out.
    pub fn writes(
        &self,
        applied: &[bool],
        routing: &RoutingTable,
    ) -> BTreeMap<SiteId, Vec<RowWrite>> {
        let mut by_site: BTreeMap<SiteId, Vec<RowWrite>> = BTreeMap::new();
        for write in applied_writes(self.commits, applied) {
            let Some(placement) = routing.placement(write.table, &write.key) else { continue };
            by_site.entry(placement.master).or_default().push(write);
        }
        by_site
    }
}

/// The rows that the applied commits of a batch write, ordered by table and key. The last writer of
/// a row wins.
pub fn applied_writes(commits: &[&OrderedCommit], applied: &[bool]) -> Vec<RowWrite> {
    let mut last: BTreeMap<(TableId, &Key), Option<&Vec<u8>>> = BTreeMap::new();
    for (commit, _) in commits.iter().zip(applied).filter(|(_, applied)| **applied) {
        for (&table, rows) in &commit.writes {
            last.extend(rows.iter().map(|(key, write)| ((table, key), write.row.as_ref())));
        }
    }
    let write = |((table, key), row): ((TableId, &Key), Option<&Vec<u8>>)| {
        let (key, value) = (key.clone(), row.cloned());
        RowWrite { table, key, value }
    };
    last.into_iter().map(write).collect()
}

/// The conflict of a commit with earlier ones of its batch, which have written these keys.
fn overtaken(
    commit: &OrderedCommit,
    written: &BTreeMap<TableId, BTreeSet<&Key>>,
) -> Option<Conflict> {
    for (table, rows) in &commit.writes {
        let Some(written) = written.get(table) else { continue };
        let is_checked = |expect| matches!(expect, Expect::Version(_));
        let mut checked = rows.iter().filter(|(_, write)| is_checked(write.expect));
        if let Some((key, _)) = checked.find(|(key, _)| written.contains(key)) {
            return Some(Conflict::Changed { table: *table, key: key.clone() });
        }
    }
    for (table, span, _) in commit.reads.iter().flat_map(|reads| reads.iter()) {
        let is_written = written.get(&table).is_some_and(|written| match span {
            Span::Key(key) => written.contains(key),
            Span::Range(range) => {
                let from = (Bound::Included(&range.start), Bound::Unbounded);
                let first = written.range::<&Key, _>(from).next();
                first.is_some_and(|key| range.contains(key))
            }
        });
        if is_written {
            return Some(Conflict::ReadChanged { table, span: span.clone() });
        }
    }
    None
}
