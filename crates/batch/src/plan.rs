//! A planned batch: for each step, the work, the sites that do it, and the places of its records.
//!
//! ```text
//!   3.0  c7#4 transfer at s2    write t1[5] s1→s2, write t1[12] s2, read t1[20..30) s3
//!          │     │         │          │                  │             └ its rows are pushed to s2
//!          │     │         │          │                  └ is at s2 already
//!          │     │         │          └ is pushed to s2, and stays there
//!          │     │         └ the executor, which also answers
//!          └ batch 3, step 0
//!   3.1  carry to s1            write t1[9] s3→s1       an evicted record moves home
//! ```
//!
//! A plan is a value and contains all that sites need: they look up neither homes nor the fusion
//! table. All sites make the same plan from the same batch. Sites in one process may share one
//! planner.
//!
//! The *sources* of a step hold the rows that it reads, and push them to its *executors*, each of
//! which runs the step. The target site of a moving record is always an executor. So is every site
//! that holds a part of a written range, because a row inserted there is placed where its key is.

use crate::provision::{Provision, Refusal};
use crate::request::{Abort, ClientId, Request};
use crate::rows::RecordId;
use isomer_design::{Access, Key, KeyRange, SiteId, SiteSet, Span, TableId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The place of a step in the total order of steps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StepId {
    /// The place of the batch in the order.
    pub batch: u64,
    /// The place of the step in the batch.
    pub step: u32,
}

/// A planned batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The place of the batch in the order.
    pub batch: u64,
    /// The steps, in the order of execution.
    pub steps: Vec<Step>,
    /// Provisions that were refused, and why.
    pub refused: Vec<(Provision, Refusal)>,
    /// Requests that were admitted before, here or in an earlier batch, and are still the latest
    /// of their client. They do not run; a site answers them again.
    pub repeats: Vec<Repeat>,
    /// A hash of the planner's state after this batch.
    pub digest: u64,
}

/// A transaction, or a move of records without one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The work.
    pub work: Work,
    /// The sites that do it; the first one answers the client.
    pub executors: Vec<SiteId>,
    /// The records and ranges that the step locks, with their places.
    pub legs: Vec<Leg>,
}

/// The work of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Work {
    /// Runs a procedure.
    Call(Arc<Request>),
    /// Answers the client with a refusal.
    Refuse(Arc<Request>, Abort),
    /// Moves records without running code.
    Carry,
}

/// One item of the footprint of a step, with its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Leg {
    /// One record. Its key need not have a row.
    Record {
        /// The table and key.
        record: RecordId,
        /// The lock mode; a moving record is locked for write.
        access: Access,
        /// The site of the record before the step.
        from: SiteId,
        /// The site of the record after the step.
        to: SiteId,
    },
    /// A range of keys.
    Range {
        /// The table.
        table: TableId,
        /// The keys.
        range: KeyRange,
        /// The lock mode.
        access: Access,
        /// The homes of the range, in pieces.
        pieces: Vec<(KeyRange, SiteId)>,
        /// The records of the range that are away from home, with their sites.
        fused: BTreeMap<Key, SiteId>,
        /// The new home, if the range moves. Fused records do not move with it.
        to: Option<SiteId>,
    },
}

/// A repeated request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repeat {
    /// The client.
    pub client: ClientId,
    /// The sequence number of the request.
    pub sequence: u64,
    /// The site that has answered it, or will.
    pub site: SiteId,
}

impl Plan {
    /// The id of a step.
    pub fn id(&self, step: usize) -> StepId {
        StepId { batch: self.batch, step: step as u32 }
    }
}

impl Step {
    /// The sites that hold records of its footprint.
    pub fn sources(&self) -> SiteSet {
        let mut sources = SiteSet::EMPTY;
        self.legs.iter().for_each(|leg| leg.for_each_source(|site| sources.insert(site)));
        sources
    }

    /// True if `site` is an executor.
    pub fn is_run_at(&self, site: SiteId) -> bool {
        self.executors.contains(&site)
    }

    /// The place after this step of a record that it writes; `None` if the footprint lacks the
    /// record.
    pub fn place_after(&self, record: &RecordId) -> Option<SiteId> {
        // The legs of a call are sorted like its footprint: a leg for exactly this record is here.
        let at = self.legs.partition_point(|leg| leg.start() < (record.0, &record.1));
        if let Some(Leg::Record { record: found, to, .. }) = self.legs.get(at)
            && found == record
        {
            return Some(*to);
        }
        self.legs.iter().find_map(|leg| match leg {
            Leg::Range { table, pieces, fused, .. } if *table == record.0 => {
                let home = pieces.iter().find(|(piece, _)| piece.contains(&record.1));
                fused.get(&record.1).copied().or(home.map(|(_, site)| *site))
            }
            _ => None,
        })
    }
}

impl Leg {
    pub(crate) fn for_each_source(&self, mut each: impl FnMut(SiteId)) {
        match self {
            Leg::Record { from, .. } => each(*from),
            Leg::Range { pieces, fused, .. } => {
                pieces.iter().for_each(|(_, site)| each(*site));
                fused.values().for_each(|site| each(*site));
            }
        }
    }

    /// True if `site` may hold records of this leg before the step.
    pub fn is_from(&self, site: SiteId) -> bool {
        let mut is_from = false;
        self.for_each_source(|source| is_from |= source == site);
        is_from
    }

    /// True if `site` must lock this leg: it holds records of it before or after the step.
    pub fn is_locked_at(&self, site: SiteId) -> bool {
        self.is_from(site) || self.is_to(site)
    }

    /// True if records of this leg move to `site`, or stay there as a single record.
    pub fn is_to(&self, site: SiteId) -> bool {
        match self {
            Leg::Record { to, .. } => *to == site,
            Leg::Range { to, .. } => *to == Some(site),
        }
    }

    /// Its table and first key.
    fn start(&self) -> (TableId, &Key) {
        match self {
            Leg::Record { record: (table, key), .. } => (*table, key),
            Leg::Range { table, range, .. } => (*table, &range.start),
        }
    }

    /// The lock mode.
    pub fn access(&self) -> Access {
        match self {
            Leg::Record { access, .. } | Leg::Range { access, .. } => *access,
        }
    }

    /// Its table and keys.
    pub fn span(&self) -> (TableId, Span) {
        match self {
            Leg::Record { record: (table, key), .. } => (*table, Span::Key(key.clone())),
            Leg::Range { table, range, .. } => (*table, Span::Range(range.clone())),
        }
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.batch, self.step)
    }
}

impl fmt::Display for Leg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, span) = self.span();
        let access = if self.access() == Access::Write { "write" } else { "read" };
        write!(f, "{access} {table}{span}")?;
        match self {
            Leg::Record { from, to, .. } if from == to => write!(f, " {from}"),
            Leg::Record { from, to, .. } => write!(f, " {from}→{to}"),
            Leg::Range { pieces, fused, to, .. } => {
                pieces.iter().try_for_each(|(_, site)| write!(f, " {site}"))?;
                fused.iter().try_for_each(|(key, site)| write!(f, " [{key}]@{site}"))?;
                to.iter().try_for_each(|to| write!(f, "→{to}"))
            }
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.work {
            Work::Call(request) => write!(f, "{request} at")?,
            Work::Refuse(request, abort) => write!(f, "{request} refused ({abort}) at")?,
            Work::Carry => write!(f, "carry to")?,
        }
        self.executors.iter().try_for_each(|site| write!(f, " {site}"))?;
        for (at, leg) in self.legs.iter().enumerate() {
            write!(f, "{} {leg}", if at == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.steps.iter().enumerate() {
            writeln!(f, "{} {step}", self.id(at))?;
        }
        for (provision, refusal) in &self.refused {
            writeln!(f, "{} {provision}: {refusal}", self.batch)?;
        }
        for Repeat { client, sequence, site } in &self.repeats {
            writeln!(f, "{} {client}#{sequence} again: {site} answers", self.batch)?;
        }
        Ok(())
    }
}
