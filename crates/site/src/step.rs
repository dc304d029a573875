//! The steps of design changes as messages of the router to a site, and their answers.

use crate::change::Holding;
use crate::copy::Snapshot;
use crate::error::Refusal;
use crate::failover::Standing;
use crate::frame::TxnId;
use crate::site::Site;
use crate::tail::{Fenced, TailFrame};
use isomer_design::{Backups, Key, KeyRange, SiteId, SiteSet, TableId, Time, Version};
use serde::{Deserialize, Serialize};

/// One step of a design change. Idempotent: after a lost answer the router repeats the step, and
/// gets the same answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Step {
    /// Create partitions of a table.
    Create(TableId, Vec<KeyRange>),
    /// Split a partition so that this key begins the right part.
    Split(TableId, Key),
    /// Merge the partitions that meet at this key.
    Merge(TableId, Key),
    /// Let a site follow the partition that begins at this key.
    Follow(TableId, Key, SiteId),
    /// Install a replica.
    Install(Box<Snapshot>),
    /// End the following of the partition that begins at this key by a site.
    Unfollow(TableId, Key, SiteId),
    /// Drop the replicas within this range.
    Drop(TableId, KeyRange),
    /// Release the mastership of the partition that begins at this key to a site.
    Release(TableId, Key, SiteId),
    /// Acquire the mastership that was released.
    Acquire(TableId, Key),
    /// Report the durable version of the partition that begins at this key. Allowed after a failure
    /// of the log.
    Standing(TableId, Key),
    /// Take the mastership of the partition that begins at this key from a site whose log has
    /// failed, once the replica is at this version. These sites will follow.
    Promote(TableId, Key, Version, SiteSet),
    /// Follow the promoted site in the partition that begins at this key, once the replica is at
    /// this version.
    Turn(TableId, Key, Version, SiteId),
    /// End all partitions within this range.
    Discard(TableId, KeyRange),
    /// End all partitions of a table.
    Forget(TableId),
    /// List the partitions of the site.
    Describe,
    /// Wait until no transaction over several sites needs the site. Allowed after a failure of the
    /// log, if none needs it.
    Finish,
    /// Keep nothing for a site that has left the cluster.
    Dismiss(SiteId),
    /// Set the number of backups that a table's commits wait for.
    Backups(TableId, Backups),
    /// Wait until a site is a backup of the partition that begins at this key.
    BackedBy(TableId, Key, SiteId),
    /// Fence a failed site, and report what is known of it.
    Fence(SiteId),
    /// Apply the history of a failed site.
    TakeFrames(SiteId, Vec<TailFrame>),
    /// End in-doubt transactions as a failed coordinator has decided; those without a time were
    /// aborted.
    EndInDoubt(Vec<(TxnId, Option<Time>)>),
    /// Record that other sites have taken over from a failed site: requests do not wait for it.
    /// Also sent to that site after its restart.
    Replaced(SiteId),
    /// Lift the fence of a site that has rejoined. Also sent to that site.
    Admit(SiteId),
}

/// The answer to a step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The step is done.
    Done,
    /// The snapshot of a partition, after [`Step::Follow`].
    Snapshot(Box<Snapshot>),
    /// The durable version of the partition, after [`Step::Standing`].
    Standing(Standing),
    /// The partitions of the site, after [`Step::Describe`].
    Holdings(Vec<Holding>),
    /// The knowledge of a failed site, after [`Step::Fence`].
    Fenced(Box<Fenced>),
}

impl Site {
    /// Carries out a step.
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
            Step::Describe => {
                let holdings = self.holdings();
                // The conductor enters the answer in the design, so a crash must not undo it.
                self.lasting(self.log.end()).await?;
                return Ok(Answer::Holdings(holdings));
            }
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
