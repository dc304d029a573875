//! Partition locks that a task holds: released when this is dropped.

use crate::partition::SitePartition;
use isomer_design::{Key, TableId};
use isomer_store::Turn;
use smallvec::SmallVec;
use std::sync::Arc;
use std::task::Waker;

/// Locks, in the order of tables and keys. Transactions and design changes all take them in that
/// order, so the site has no deadlocks. Only a batch that is entered again may take them in another
/// order; changes that hold several locks let it go first ([`hold`](crate::forget::hold)).
#[derive(Default)]
pub(crate) struct Held {
    partitions: SmallVec<[Arc<SitePartition>; 4]>,
    /// The lock that this waits for.
    next: Option<(Arc<SitePartition>, Turn)>,
}

/// Why a lock was not taken.
pub(crate) enum NotHeld {
    /// It is held; the waker will be woken.
    Busy,
    /// The partition was replaced; look it up again.
    Gone,
}

impl Held {
    /// Takes one more lock, unless it is held already.
    pub(crate) fn lock(
        &mut self,
        partition: &Arc<SitePartition>,
        waker: &Waker,
    ) -> Result<(), NotHeld> {
        self.lock_in(Turn::default, partition, waker)
    }

    fn lock_in(
        &mut self,
        new: fn() -> Turn,
        partition: &Arc<SitePartition>,
        waker: &Waker,
    ) -> Result<(), NotHeld> {
        if self.partitions.iter().any(|held| Arc::ptr_eq(held, partition)) {
            return Ok(());
        }
        let mut turn = match self.next.take() {
            Some((next, turn)) if Arc::ptr_eq(&next, partition) => turn,
            other => {
                // The lock in the queue is not needed any more, because the design has changed.
                self.next = other;
                self.stop_waiting();
                new()
            }
        };
        if !partition.lock.try_lock(&mut turn, waker) {
            self.next = Some((partition.clone(), turn));
            return Err(NotHeld::Busy);
        }
        self.add(partition)
    }

    /// Takes one more lock if it is free.
    pub(crate) fn lock_once(&mut self, partition: &Arc<SitePartition>) -> Result<(), NotHeld> {
        if !partition.lock.try_once() {
            return Err(NotHeld::Busy);
        }
        self.add(partition)
    }

    fn add(&mut self, partition: &Arc<SitePartition>) -> Result<(), NotHeld> {
        if partition.is_gone() {
            partition.lock.unlock();
            return Err(NotHeld::Gone);
        }
        self.partitions.push(partition.clone());
        Ok(())
    }

    fn stop_waiting(&mut self) {
        if let Some((partition, mut turn)) = self.next.take() {
            partition.lock.leave(&mut turn);
        }
    }

    /// Waits for one more lock, for a change of the design. It goes before all waiting
    /// transactions: they may be many, and the change may be what they need. False if the partition
    /// was replaced.
    pub(crate) async fn wait_for(&mut self, partition: &Arc<SitePartition>) -> bool {
        std::future::poll_fn(|cx| match self.lock_in(Turn::urgent, partition, cx.waker()) {
            Ok(()) => std::task::Poll::Ready(true),
            Err(NotHeld::Gone) => std::task::Poll::Ready(false),
            Err(NotHeld::Busy) => std::task::Poll::Pending,
        })
        .await
    }

    /// Takes over the locks of another task, which waits for none.
    pub(crate) fn absorb(&mut self, mut other: Held) {
        other.stop_waiting();
        self.partitions.append(&mut other.partitions);
    }

    /// The partitions that are held, in the order in which they were locked.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<SitePartition>> {
        self.partitions.iter()
    }

    /// The partition that begins at `start`, if it is held.
    pub(crate) fn find(&self, table: TableId, start: &Key) -> Option<&Arc<SitePartition>> {
        self.iter().find(|partition| partition.table == table && partition.range.start == *start)
    }

    /// Releases all locks but those of these partitions.
    pub(crate) fn keep_only(&mut self, kept: &[Arc<SitePartition>]) {
        self.partitions.retain(|partition| {
            let is_kept = kept.iter().any(|other| Arc::ptr_eq(other, partition));
            if !is_kept {
                partition.lock.unlock();
            }
            is_kept
        });
    }

    /// Releases the lock of a partition. False if it is not held.
    pub(crate) fn release_one(&mut self, partition: &Arc<SitePartition>) -> bool {
        let at = self.partitions.iter().position(|held| Arc::ptr_eq(held, partition));
        at.map(|at| self.partitions.remove(at).lock.unlock()).is_some()
    }

    /// Releases all locks.
    pub(crate) fn release(&mut self) {
        self.stop_waiting();
        for partition in self.partitions.drain(..) {
            partition.lock.unlock();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}
