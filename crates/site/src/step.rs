//! The steps of design changes as messages: what the router asks of a site, and the answer.

use crate::change::Holding;
use crate::copy::Snapshot;
use crate::error::Refusal;
use crate::failover::Standing;
use crate::frame::TxnId;
use crate::site::Site;
use crate::tail::{Fenced, TailFrame};
use isomer_design::{Backups, Key, KeyRange, SiteId, SiteSet, TableId, Time, Version};
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
    /// Wait until this site has acknowledged, as a backup, the partition that begins at this key.
    BackedBy(TableId, Key, SiteId),
    /// Hear no more of a site that is gone, and say what is known of it.
    Fence(SiteId),
    /// Apply what was history at a site that is gone.
    TakeFrames(SiteId, Vec<TailFrame>),
    /// End transactions as a site that is gone had decided; those without a time were aborted.
    EndInDoubt(Vec<(TxnId, Option<Time>)>),
    /// Others have taken over from a site that is gone: let nobody wait for its word. The site is asked as well, when it
    /// is back.
    Replaced(SiteId),
    /// Hear a site again that was fenced; the site itself is heard again.
    Admit(SiteId),
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
    /// What is known of a site that is gone, after [`Step::Fence`].
    Fenced(Box<Fenced>),
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
            Step::BackedBy(table, start, site) => self.backed_by(table, &start, site).await?,
            Step::Fence(site) => {
                return Ok(Answer::Fenced(Box::new(self.fence(site).await?)));
            }
            Step::TakeFrames(from, frames) => self.take_frames(from, &frames).await?,
            Step::EndInDoubt(outcomes) => self.end_in_doubt(outcomes).await?,
            Step::Replaced(site) => self.replaced(site).await?,
            Step::Admit(site) => self.admit(site).await?,
        }
        Ok(Answer::Done)
    }
}
