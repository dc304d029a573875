//! The steps of design changes as messages: what the router asks of a site, and the answer.

use crate::change::Holding;
use crate::copy::Snapshot;
use crate::error::Refusal;
use crate::failover::Standing;
use crate::site::Site;
use isomer_design::{Backups, Key, KeyRange, SiteId, SiteSet, TableId, Version};
use serde::{Deserialize, Serialize};

/// One step of a design change. Asked for twice, it answers the second time as the first, so whoever
/// has lost an answer asks again.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
    /// Say how far the partition that begins at this key is durable. A site whose log has failed takes this step.
    Standing(TableId, Key),
    /// Take the mastership of the partition that begins at this key from a site whose log has failed, as soon as
    /// the replica is at this version; these will follow.
    Promote(TableId, Key, Version, SiteSet),
    /// Follow this site, which was promoted, in the partition that begins at this key, once it is at this version.
    Turn(TableId, Key, Version, SiteId),
    /// End whatever is held within this range.
    Discard(TableId, KeyRange),
    /// Hold nothing of a table any more.
    Forget(TableId),
    /// Say what the site holds.
    Describe,
    /// Wait until the site is needed for no transaction over several sites. A site whose log has failed takes this
    /// step, if it is needed for none.
    Finish,
    /// Keep nothing any longer for a site that is gone for good.
    Dismiss(SiteId),
    /// Let a table's commits wait for so many backups.
    Backups(TableId, Backups),
}

/// The answer to a step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// It is done.
    Done,
    /// The snapshot of a partition, after [`Step::Follow`].
    Snapshot(Box<Snapshot>),
    /// How far the partition is durable, after [`Step::Standing`].
    Standing(Standing),
    /// What the site holds, after [`Step::Describe`].
    Holdings(Vec<Holding>),
}

impl Site {
    /// Takes a step.
    ///
    /// # Errors
    /// [`Refusal`]; nothing has changed then.
    pub async fn step(&self, step: Step) -> Result<Answer, Refusal> {
        if !matches!(step, Step::Standing(..) | Step::Finish | Step::Describe) {
            self.serving()?;
        }
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
            Step::Standing(table, start) => {
                return self.standing(table, &start).map(Answer::Standing);
            }
            Step::Promote(table, start, version, followers) => {
                self.promote(table, &start, version, followers).await?;
            }
            Step::Turn(table, start, version, to) => self.turn(table, &start, version, to).await?,
            Step::Discard(table, range) => self.discard(table, &range).await?,
            Step::Forget(table) => self.forget(table).await?,
            Step::Describe => return Ok(Answer::Holdings(self.holdings())),
            Step::Finish => self.finish().await?,
            Step::Dismiss(site) => self.dismiss(site),
            Step::Backups(table, backups) => self.set_backups(table, backups).await?,
        }
        Ok(Answer::Done)
    }
}
