//! The steps of design changes as messages: what the router asks of a site, and the answer.

use crate::change::Holding;
use crate::copy::Snapshot;
use crate::error::Refusal;
use crate::site::Site;
use isomer_design::{Key, KeyRange, SiteId, TableId};

/// One step of a design change. Asked for twice, it answers the second time as the first, so whoever
/// has lost an answer asks again.
#[derive(Clone, Debug)]
pub enum Step {
    /// Begin partitions of a table.
    Create(TableId, Vec<KeyRange>),
    /// Split a partition so that this key begins the right part.
    Split(TableId, Key),
    /// Merge the partitions that meet at this key.
    Merge(TableId, Key),
    /// Let a site follow the partition that begins at this key.
    Follow(TableId, Key, SiteId),
    /// Begin a replica.
    Install(Box<Snapshot>),
    /// Let a site no longer follow the partition that begins at this key.
    Unfollow(TableId, Key, SiteId),
    /// End the replicas within this range.
    Drop(TableId, KeyRange),
    /// Give the mastership of the partition that begins at this key up, for this site.
    Release(TableId, Key, SiteId),
    /// Take the mastership that was released.
    Acquire(TableId, Key),
    /// Hold nothing of a table any more.
    Forget(TableId),
    /// Say what the site holds.
    Describe,
}

/// The answer to a step.
#[derive(Clone, Debug)]
pub enum Answer {
    /// It is done.
    Done,
    /// The snapshot of a partition, after [`Step::Follow`].
    Snapshot(Box<Snapshot>),
    /// What the site holds, after [`Step::Describe`].
    Holdings(Vec<Holding>),
}

impl Site {
    /// Takes a step.
    ///
    /// # Errors
    /// [`Refusal`]; nothing has changed then.
    pub async fn step(&self, step: Step) -> Result<Answer, Refusal> {
        match step {
            Step::Create(table, ranges) => self.create(table, ranges).await?,
            Step::Split(table, at) => self.split(table, &at).await?,
            Step::Merge(table, at) => self.merge(table, &at).await?,
            Step::Follow(table, start, site) => {
                let snapshot = self.follow(table, &start, site).await?;
                return Ok(Answer::Snapshot(Box::new(snapshot)));
            }
            Step::Install(snapshot) => self.install(*snapshot).await?,
            Step::Unfollow(table, start, site) => self.unfollow(table, &start, site).await?,
            Step::Drop(table, range) => self.drop_replica(table, &range).await?,
            Step::Release(table, start, to) => self.release(table, &start, to).await?,
            Step::Acquire(table, start) => self.acquire(table, &start).await?,
            Step::Forget(table) => self.forget(table).await?,
            Step::Describe => return Ok(Answer::Holdings(self.holdings())),
        }
        Ok(Answer::Done)
    }
}
