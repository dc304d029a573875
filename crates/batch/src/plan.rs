//! A batch, worked out: who does what, step by step.
//!
//! ```text
//!   3.0  c7#4 transfer at s2    write t1[5] s1→s2, write t1[12] s2, read t1[20..30) s3
//!          │     │         │          │                  │             └ its rows are pushed to s2
//!          │     │         │          │                  └ is there already
//!          │     │         │          └ is pushed to s2, and stays there
//!          │     │         └ who runs it, and answers
//!          └ batch 3, step 0
//!   3.1  carry to s1            write t1[9] s3→s1       an evicted record goes home
//! ```
//!
//! A plan is a value, and says all that sites need to know: they look up neither homes nor the fusion table.
//! All sites make the same plan from the same batch. Sites in one process may share one.
//!
//! A step's *sources* hold what it reads, and push that to its *executors*, each of which runs it. A
//! site to which a record moves is always an executor, and so is a site where a range is written: a row that is
//! put there has its place at the site where the record is, as ever.

use crate::provision::{Provision, Refusal};
use crate::request::{Abort, ClientId, Request};
use crate::rows::RecordId;
use isomer_design::{Access, Key, KeyRange, SiteId, SiteSet, Span, TableId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A step's place in the order of everything.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StepId {
    /// The batch's place.
    pub batch: u64,
    /// The step's place in it.
    pub step: u32,
}

/// A batch, worked out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The batch's place in the order.
    pub batch: u64,
    /// What is to be done, in order.
    pub steps: Vec<Step>,
    /// Changes of sites and homes that change nothing, and why.
    pub refused: Vec<(Provision, Refusal)>,
    /// Requests that have run before, or run in this batch already.
    pub repeats: Vec<Repeat>,
    /// A hash of the planner's state after it.
    pub digest: u64,
}

/// One transaction, or records that move without one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// What it does.
    pub work: Work,
    /// Who does it; the first one answers.
    pub executors: Vec<SiteId>,
    /// The records and ranges that it locks, and where they are.
    pub legs: Vec<Leg>,
}

/// What a step does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Work {
    /// Runs a procedure.
    Call(Arc<Request>),
    /// Answers with a refusal.
    Refuse(Arc<Request>, Abort),
    /// Moves records and nothing else.
    Carry,
}

/// A part of a step's footprint, and where it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Leg {
    /// One record, whether it has a row or not.
    Record {
        /// Which one.
        record: RecordId,
        /// How it is locked: what moves is locked as if it were written.
        access: Access,
        /// Where it is before the step.
        from: SiteId,
        /// Where it is after it.
        to: SiteId,
    },
    /// A range of keys.
    Range {
        /// The table.
        table: TableId,
        /// The keys.
        range: KeyRange,
        /// How it is locked.
        access: Access,
        /// Where its records are at home.
        pieces: Vec<(KeyRange, SiteId)>,
        /// Those that are elsewhere.
        fused: BTreeMap<Key, SiteId>,
        /// Where all that is at home is afterwards, if it moves.
        to: Option<SiteId>,
    },
}

/// A request that came again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repeat {
    /// Whose.
    pub client: ClientId,
    /// Which.
    pub sequence: u64,
    /// Who answered it, or will.
    pub site: SiteId,
}

impl Plan {
    /// A step's name.
    pub fn id(&self, step: usize) -> StepId {
        StepId { batch: self.batch, step: step as u32 }
    }
}

impl Step {
    /// The sites that hold what it reads.
    pub fn sources(&self) -> SiteSet {
        let mut sources = SiteSet::EMPTY;
        self.legs.iter().for_each(|leg| leg.for_each_source(|site| sources.insert(site)));
        sources
    }

    /// True if a site runs it.
    pub fn is_run_at(&self, site: SiteId) -> bool {
        self.executors.contains(&site)
    }

    /// Where a record that a call writes is afterwards; `None` if its footprint does not have it.
    pub fn place_after(&self, record: &RecordId) -> Option<SiteId> {
        // The legs of a call are in the order of its footprint: a record's own leg is the first from here.
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

    /// True if a site holds some of it before the step, or may.
    pub fn is_from(&self, site: SiteId) -> bool {
        let mut is_from = false;
        self.for_each_source(|source| is_from |= source == site);
        is_from
    }

    /// True if a site must lock it: it holds it before or after the step.
    pub fn is_locked_at(&self, site: SiteId) -> bool {
        self.is_from(site) || self.is_to(site)
    }

    /// True if a site holds it after the step.
    pub fn is_to(&self, site: SiteId) -> bool {
        match self {
            Leg::Record { to, .. } => *to == site,
            Leg::Range { to, .. } => *to == Some(site),
        }
    }

    /// Its table and its first key.
    fn start(&self) -> (TableId, &Key) {
        match self {
            Leg::Record { record: (table, key), .. } => (*table, key),
            Leg::Range { table, range, .. } => (*table, &range.start),
        }
    }

    /// How it is locked.
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
