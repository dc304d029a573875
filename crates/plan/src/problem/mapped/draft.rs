//! A plan under construction: every step is applied to the design at once, so a finished plan is
//! valid.
//!
//! To move the master of a range to a site: split at the ends of the range, unless partitions end
//! there. Add a replica at the site, unless it has one, and remaster. If a replica was added, the
//! old master's copy is removed. At the end, neighbours that the plan made alike are merged.

use super::MappedError;
use isomer_design::{
    Change, Design, Key, KeyRange, Placement, Plan, SiteId, Step, TableDesign, TableId,
};

/// A growing plan, and the design that it leads to.
pub(crate) struct Draft {
    design: Design,
    pub(super) plan: Plan,
}

impl Draft {
    /// No steps yet.
    pub(crate) fn new(design: Design, reason: &str) -> Draft {
        Draft { design, plan: Plan::new(reason) }
    }

    /// Adds a step.
    pub(crate) fn push(&mut self, change: Change, reason: &str) -> Result<(), MappedError> {
        self.design.apply(&change)?;
        self.plan.push(Step::new(change, reason));
        Ok(())
    }

    /// Moves the masters of all keys of some ranges to `to`.
    pub(crate) fn move_all(
        &mut self,
        ranges: Vec<(TableId, KeyRange)>,
        to: SiteId,
        reason: &str,
    ) -> Result<(), MappedError> {
        for (table, range) in ranges {
            let pieces: Vec<_> = self
                .design
                .partitions_in(table, &range)
                .filter(|(_, placement)| placement.master != to)
                .collect();
            for (piece, placement) in pieces {
                let start = self.cut_out(table, piece, &range, reason)?;
                self.place(table, start, placement, to, reason)?;
            }
        }
        Ok(())
    }

    /// The plan, and the design it leads to.
    pub(crate) fn finish(self) -> (Design, Plan) {
        (self.design, self.plan)
    }

    /// Splits a partition where a range begins and ends; returns the start of the part inside the
    /// range.
    fn cut_out(
        &mut self,
        table: TableId,
        piece: KeyRange,
        range: &KeyRange,
        reason: &str,
    ) -> Result<Key, MappedError> {
        let start = piece.start.max(range.start.clone());
        if self.design.table(table)?.placement_at(&start).is_err() {
            self.push(Change::Split { table, at: start.clone() }, reason)?;
        }
        if let Some(end) = &range.end
            && piece.end.is_none_or(|last| *end < last)
        {
            self.push(Change::Split { table, at: end.clone() }, reason)?;
        }
        Ok(start)
    }

    /// Moves the master of one partition to a site.
    fn place(
        &mut self,
        table: TableId,
        start: Key,
        placement: Placement,
        to: SiteId,
        reason: &str,
    ) -> Result<(), MappedError> {
        let is_new = !placement.holds(to);
        if is_new {
            let start = start.clone();
            self.push(Change::AddReplica { table, start, site: to }, reason)?;
        }
        self.push(Change::Remaster { table, start: start.clone(), to }, reason)?;
        if is_new {
            self.push(Change::RemoveReplica { table, start, site: placement.master }, reason)?;
        }
        Ok(())
    }

    /// Drops the copies of a site that masters nothing. A copy that is needed as a backup is added
    /// at another site first.
    pub(crate) fn drop_copies(&mut self, site: SiteId, reason: &str) -> Result<(), MappedError> {
        let mut held = Vec::new();
        for (table, found) in self.design.tables() {
            let backups = usize::from(found.backups().count);
            let copies = found.partitions().into_iter().filter(|(_, p)| p.replicas.contains(site));
            held.extend(copies.map(|(at, placement)| {
                let sites = self.design.sites().iter();
                let mut free = sites.filter(|other| *other != site && !placement.holds(*other));
                let is_needed = placement.replicas.len() <= backups;
                (table, at.clone(), free.next().filter(|_| is_needed))
            }));
        }
        for (table, start, other) in held {
            if let Some(other) = other {
                self.push(Change::AddReplica { table, start: start.clone(), site: other }, reason)?;
            }
            self.push(Change::RemoveReplica { table, start, site }, reason)?;
        }
        Ok(())
    }

    /// Merges the partitions that meet at a key, if both sides are alike. True if no border is left
    /// there.
    pub(crate) fn heal(&mut self, table: TableId, at: &Key) -> Result<bool, MappedError> {
        let found = self.design.table(table)?;
        let left = found.partitions().before(at).map(|(_, placement)| placement);
        let right = found.partitions().get_exact(at);
        match (left, right) {
            (Some(left), Some(right)) if left == right => {
                let reason = format!("{} has both sides", left.master);
                self.push(Change::Merge { table, at: at.clone() }, &reason)?;
                Ok(true)
            }
            (_, right) => Ok(right.is_none()),
        }
    }

    /// Merges neighbours that became alike by the plan.
    pub(crate) fn merge(&mut self, before: &Design) -> Result<(), MappedError> {
        let alike = |table: &TableDesign, at: &Key| {
            let left = table.partitions().before(at).map(|(_, placement)| placement);
            left.is_some() && left == table.partitions().get_exact(at)
        };
        let mut joints = Vec::new();
        for (id, table) in self.design.tables() {
            let old = before.table(id)?;
            for (at, placement) in table.partitions() {
                if alike(table, at) && !alike(old, at) {
                    joints.push((id, at.clone(), placement.master));
                }
            }
        }
        for (table, at, site) in joints {
            self.push(Change::Merge { table, at }, &format!("{site} has both sides"))?;
        }
        Ok(())
    }
}

/// A plan as text, one change per line, as `isomer design apply` reads it. A reason is a comment
/// behind the first of its changes.
pub fn plan_text(plan: &Plan, design: &Design) -> String {
    let mut text = String::new();
    let mut told = "";
    for Step { change, reason, .. } in &plan.steps {
        text += &change.to_text(design);
        if reason != told {
            text += "   # ";
            text += &reason.replace(['\n', '\r'], " ");
        }
        text.push('\n');
        told = reason;
    }
    text
}
