//! The end of a table at one site.
//!
//! ```text
//!   router: routes nothing to the table ──▶ every site: forget       masters and replicas alike
//!   site:   all partitions' locks ──▶ one record ──▶ partitions end ──▶ rows, after the last reader
//! ```
//!
//! A follower of a partition that has ended receives no more events, and is to forget the table
//! too. If it follows no other partition with backups of the master, the master first makes sure
//! that enough other sites have its [tail](crate::tail): the conductor asks masters before
//! followers. One record stands for the whole table, so its end costs the same for
//! ten rows and for ten million. A table's number is not reused while the process runs. In the log,
//! records that follow the end belong to a new table.
//!
//! **Left out.** Two sites that master parts of one table, and follow each other there. The one
//! that the conductor asks first forgets that it has kept the tail of the other. If it restarts
//! before the other has answered, and the other fails as well, a takeover does not know of the
//! loss. The empty index of the table, a few hundred bytes, is kept until the next start.

use crate::backup::Ending;
use crate::error::Refusal;
use crate::frame::FrameKind;
use crate::held::Held;
use crate::partition::{SitePartition, Table};
use crate::record::{Event, FrameWriter, Record};
use crate::site::Site;
use crate::tail::{end_tail_of, forget_masters};
use futures_util::future::{Either, select};
use isomer_design::{Backups, Key, KeyRange, SiteSet, TableId};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

impl Site {
    /// Ends all partitions of a table at this site. Running readers finish; the rows are freed
    /// after them, piece by piece at each tick.
    ///
    /// # Errors
    /// [`Refusal::Log`]; nothing has changed then.
    pub async fn forget(&self, table: TableId) -> Result<(), Refusal> {
        let Some(table) = self.table(table) else { return Ok(()) };
        let held = self.hold_all(&table).await;
        let partitions = table.overlapping(&KeyRange::all());
        let mastered = partitions.iter().filter(|one| one.is_master() && table.is_backed());
        let followers = mastered.fold(SiteSet::EMPTY, |all, one| &all | &one.followers());
        if !partitions.is_empty() {
            let mut frame = FrameWriter::new(FrameKind::Commit);
            let (id, start, event) = (table.id, Key::min(), Event::Forget);
            frame.record(&Record { table: id, start, previous: 0, version: 0, event });
            partitions.iter().for_each(|partition| self.begin_publishing(partition));
            let _shaping = self.shaping.read();
            match self.append(frame, std::iter::once(SiteSet::EMPTY)) {
                Ok(_) => {
                    forget_masters(self, &table);
                    self.end_all(&table);
                }
                Err(error) => {
                    partitions.iter().for_each(|partition| partition.cancel_publishing());
                    return Err(error.into());
                }
            }
        }
        drop(held);
        self.forget_early_events(table.id, &KeyRange::all());
        self.lasting(self.log.end()).await?;
        // Before the answer: these sites forget the table next, and with it that they have kept the
        // tail. A site that others have taken over from needs no tail.
        for follower in followers.iter() {
            let _ = end_tail_of(self, follower).await;
        }
        Ok(())
    }

    /// Ends all partitions of a table; their rows are freed later.
    pub(crate) fn end_all(&self, table: &Arc<Table>) {
        for partition in table.overlapping(&KeyRange::all()) {
            self.end_replica(table, &partition, Ending::Closed);
        }
        table.set_backups(Backups::NONE);
    }

    /// Locks all partitions of a table, in key order: first those that the site masters, then its
    /// replicas. A commit may have locked the former until other sites have taken over from one
    /// that has failed. Replicas that are to take over must not be locked during that wait.
    ///
    /// Begins again if the site becomes the master of a partition that is not locked yet, or a
    /// replica of it: a transaction may lock that partition, and wait for one that is locked here.
    pub(crate) async fn hold_all(&self, table: &Table) -> Held {
        loop {
            let (masters, replicas): (Vec<_>, Vec<_>) =
                table.overlapping(&KeyRange::all()).into_iter().partition(|p| p.is_master());
            let have_changed =
                || !masters.iter().all(|p| p.is_master()) || replicas.iter().any(|p| p.is_master());
            if let Some(held) = hold(self, masters.iter().chain(&replicas), have_changed).await {
                return held;
            }
        }
    }
}

/// Locks these partitions, in this order. `None`, and nothing is locked, if one of them was
/// replaced, they have changed, or a batch waits that has locks [out of
/// order](crate::ordered::OrderedSite).
pub(crate) async fn hold<'p>(
    site: &Site,
    partitions: impl Iterator<Item = &'p Arc<SitePartition>>,
    have_changed: impl Fn() -> bool,
) -> Option<Held> {
    let is_first = || site.batch.lock().waits_out_of_order();
    while is_first() {
        site.next_tick().await;
    }
    let is_over = || is_first() || have_changed();
    let mut held = Held::default();
    for partition in partitions {
        let over = poll_fn(|cx| {
            site.ticked.register(cx.waker());
            if is_over() { Poll::Ready(()) } else { Poll::Pending }
        });
        match select(pin!(held.wait_for(partition)), pin!(over)).await {
            Either::Left((true, _)) if !is_over() => {}
            _ => return None,
        }
    }
    Some(held)
}
