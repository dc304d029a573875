//! Failover at a site: a replica takes the mastership of a partition whose master's log has failed.
//!
//! A failed log accepts no more frames. The frames after its durable position are in doubt until
//! the log is opened again and read. The site can commit nothing, so the router no longer uses it.
//! It still runs: it sends its durable frames to its followers, and reports the durable version of
//! each of its partitions.
//!
//! ```text
//!   s1, its log failed at D      … 6→7  7→8 │ D   8→9  9→10  (in doubt: may be there after a restart)
//!   s2, a replica                … 6→7  7→8   promote 8→2⁴⁰   2⁴⁰→2⁴⁰+1 …
//!   s3, another                  … 6→7  7→8   promote, as the event after 8: s2 is master now
//! ```
//!
//! **The rule.** A replica may be promoted once it has applied every event of the partition that is
//! durable at any site that holds it. Clients, replicas and participants were told of durable
//! events only. The exception is a client with asynchronous commit, which accepts that a crash may
//! undo its commits. Further, no transaction over several sites may be open that has written to the
//! partition, because another site may have announced its outcome. Then the partition waits for the
//! restart.
//!
//! **Together.** A restart may recover a frame in doubt that several partitions share. So these
//! partitions are promoted together or not at all ([`Standing::shared`]). Otherwise readers could
//! see half of a transaction.
//!
//! **Terms.** The upper bits of a version count the promotions in a partition's history. Events in
//! doubt at the failed site belong to an earlier term, however many they are. After a restart, two
//! sites may claim the same keys: the one with the later term is master (`isomer-cluster`,
//! `assemble`), and the other [discards](Site::discard) its copy.
//!
//! **The other replicas** follow the new master once they have applied the events that are durable
//! at the failed site, which keeps sending them.
//!
//! **Left out.** A failed log is not opened again while its process runs.

use crate::backup::{Ending, begin_acks};
use crate::error::Refusal;
use crate::frame::FrameKind;
use crate::held::Held;
use crate::limits::PATIENCE_NS;
use crate::partition::{SitePartition, Table, Term};
use crate::record::{Event, FrameWriter, Record, read_frame};
use crate::site::Site;
use isomer_design::{Key, KeyRange, SiteId, SiteSet, TableId, Version};
use isomer_log::LogError;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Versions of one term: more than a site can have in doubt, or write in its lifetime.
const TERM: Version = 1 << 40;

/// The term of a version: how many promotions came before it.
pub fn term(version: Version) -> u64 {
    version / TERM
}

/// The durable version of a partition at a site.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Standing {
    /// The version after its last durable event; 0 if the site has no durable event of it.
    pub version: Version,
    /// The partitions that share a frame in doubt with this one.
    pub shared: Vec<(TableId, Key)>,
}

/// Ready once no earlier owner of the site's log can serve reads. Transactions that write wait for
/// this before they get a time. The earlier owner may have been read at later times than this
/// site's clock has shown, so the clock is raised beyond these.
#[inline]
pub(crate) async fn until_sole(site: &Site) -> Result<(), LogError> {
    if !site.waits_to_be_sole.load(Ordering::Acquire) {
        return Ok(());
    }
    while !site.log.is_sole() {
        site.serving()?;
        site.next_tick().await;
    }
    site.outlive_promises();
    site.waits_to_be_sole.store(false, Ordering::Release);
    Ok(())
}

impl Site {
    /// The failure of the site's log, if it has failed. Such a site serves no requests.
    pub fn failure(&self) -> Option<LogError> {
        self.log.failure()
    }

    /// Refuses if the log has failed.
    #[inline]
    pub(crate) fn serving(&self) -> Result<(), LogError> {
        self.failure().map_or(Ok(()), Err)
    }

    /// Refuses if the log has failed, or if its ownership is not confirmed within [`PATIENCE_NS`]:
    /// another process may own it, so reads may be stale. Writes need not check, because the log
    /// itself refuses them. Readers check *after* the read: the process may have stood still for
    /// longer than a lease. A check before the read only saves work.
    #[inline]
    pub(crate) async fn confirmed(&self) -> Result<(), LogError> {
        let mut until = None;
        loop {
            match self.log.serving() {
                Err(LogError::Unconfirmed { .. })
                    if self.time.now().0
                        < *until.get_or_insert_with(|| self.time.now().0 + PATIENCE_NS) =>
                {
                    self.next_tick().await;
                }
                known => return known,
            }
        }
    }

    /// The durable version of the partition that begins at `start`.
    ///
    /// # Errors
    /// [`Refusal::Unfit`] if a transaction over several sites is open that may have committed.
    pub fn standing(&self, table: TableId, start: &Key) -> Result<Standing, Refusal> {
        let held = self.table(table).and_then(|table| table.starting_at(start));
        // The order matters: an event that is logged after this line is found in the log.
        let now = held.as_ref().map_or(0, |partition| partition.version());
        let (mut before, mut shared) = (None, Vec::new());
        let mut is_open = self.is_prepared_on(table, start);
        self.log.read(self.log.durable(), &mut |_, frame| {
            let Ok((head, records)) = read_frame(frame) else { return ControlFlow::Continue(()) };
            let Some(previous) = records.iter().find_map(|record| led_from(record, table, start))
            else {
                return ControlFlow::Continue(());
            };
            before.get_or_insert(previous);
            is_open |= matches!(
                head.kind,
                FrameKind::End(_) | FrameKind::Decide { .. } | FrameKind::Batch(_)
            );
            if head.kind == FrameKind::Commit {
                shared.extend(records.iter().map(|record| (record.table, record.start.clone())));
            }
            ControlFlow::Continue(())
        })?;
        match held {
            Some(partition) if is_open => {
                let why = "has a transaction over several sites that has not ended; it ends after a restart";
                Err(self.unfit(&partition, why.into()))
            }
            _ => Ok(Standing { version: before.unwrap_or(now), shared }),
        }
    }

    /// Takes the mastership of a partition from a site whose log has failed, as soon as the replica
    /// here has applied every event up to `version`. `followers` will follow this site.
    ///
    /// # Errors
    /// [`Refusal::NoPartition`] if the site holds no replica that begins at `start`;
    /// [`Refusal::Unfit`] if it does not reach `version` within 5 s; [`Refusal::Log`].
    pub async fn promote(
        &self,
        table: TableId,
        start: &Key,
        version: Version,
        followers: SiteSet,
    ) -> Result<(), Refusal> {
        let (partition, held) = match self.complete(table, start, version).await? {
            Some(complete) => complete,
            None => return self.lasting(self.log.end()).await, // It has been promoted before.
        };
        // The closed timestamps that the failed site has promised are unknown.
        self.outlive_promises();
        let to = (term(partition.version()) + 1) * TERM;
        let event = Event::Promote { to: self.id, followers: followers.clone() };
        let mut frame = FrameWriter::new(FrameKind::Commit);
        frame.record(&Record { version: to, ..partition.next_record(event) });
        self.begin_publishing(&partition);
        let (begin, first) = (self.log.end(), partition.version() + 1);
        let (time, position) = match self.append(frame, std::iter::once(followers.clone())) {
            Ok(appended) => appended,
            Err(error) => {
                partition.cancel_publishing();
                return Err(error.into());
            }
        };
        partition.set_source(None);
        partition.set_released_to(None);
        partition.set_followers(followers.clone());
        partition.set_origin(0);
        partition.set_term(Term { begin, first });
        partition.become_master();
        partition.set_position(position);
        begin_acks(self, &partition, to);
        if let Some(table) = self.table(table) {
            // Followers have the events that the failed site had acknowledged; they may lack the
            // others.
            self.open_ticket(table.backups(), &partition, to);
        }
        partition.end_publishing(to, time);
        self.expect_followers(&followers, begin);
        self.begin_keeping(&partition);
        drop(held);
        self.lasting(position).await
    }

    /// Lets a replica at `version` follow the site that was promoted. Ready when the replica has
    /// the promotion from there, durably.
    ///
    /// # Errors
    /// As [`Site::promote`].
    pub async fn turn(
        &self,
        table: TableId,
        start: &Key,
        version: Version,
        to: SiteId,
    ) -> Result<(), Refusal> {
        let Some((partition, held)) = self.complete(table, start, version).await? else {
            return self.lasting(self.log.end()).await;
        };
        let is_told = || partition.is_gone() || term(partition.version()) > term(version);
        if !is_told() {
            partition.set_source(Some(to));
            partition.set_origin(0);
        }
        drop(held);
        self.subscribe(std::slice::from_ref(&partition));
        let until = self.time.now().0 + PATIENCE_NS;
        while !is_told() {
            self.serving()?;
            if self.time.now().0 > until {
                return Err(self.unfit(&partition, format!("has heard nothing from {to}")));
            }
            self.apply_pending(&partition);
            self.next_tick().await;
        }
        self.lasting(self.log.end()).await
    }

    /// The replica that begins at `start`, locked, once it has applied every event up to `version`;
    /// `None` if it has been promoted before.
    async fn complete(
        &self,
        table: TableId,
        start: &Key,
        version: Version,
    ) -> Result<Option<(Arc<SitePartition>, Held)>, Refusal> {
        let until = self.time.now().0 + PATIENCE_NS;
        loop {
            self.serving()?;
            let found = self.table(table).ok_or(Refusal::NoTable { site: self.id, table })?;
            let covering = Table::find(&found.partitions.load(), start).cloned();
            let wanted = || format!("begins at {start}, nor a replica that could become one");
            let partition = covering.ok_or_else(|| self.no_partition(table, wanted()))?;
            let begins_there = partition.range.start == *start;
            if begins_there && partition.is_master() && term(partition.version()) > term(version) {
                return Ok(None);
            }
            if begins_there && partition.version() >= version {
                let mut held = Held::default();
                if held.wait_for(&partition).await && partition.version() >= version {
                    return Ok(Some((partition, held)));
                }
                continue;
            }
            if self.time.now().0 > until {
                let why = format!("is at version {}, not at {version}", partition.version());
                return Err(self.unfit(&partition, why));
            }
            self.apply_pending(&partition);
            self.next_tick().await;
        }
    }

    /// Ends the partitions of the site within a range: a mastership that was taken over, or a copy
    /// without a master.
    ///
    /// # Errors
    /// [`Refusal::Log`].
    pub async fn discard(&self, table: TableId, range: &KeyRange) -> Result<(), Refusal> {
        let table = self.table_or_new(table);
        while let Some(partition) = table.overlapping(range).first().cloned() {
            self.batch.lock().wait_no_more(&partition);
            let mut held = Held::default();
            if held.wait_for(&partition).await {
                self.end_copy(&table, &partition, Ending::Void)?;
            }
        }
        self.forget_early_events(table.id, range);
        self.lasting(self.log.end()).await
    }
}

/// The version before a record, if it is an event of the partition that begins at `start`.
fn led_from(record: &Record<'_>, table: TableId, start: &Key) -> Option<Version> {
    match &record.event {
        _ if record.table != table => None,
        Event::Forget | Event::Backups(_) => None,
        Event::Merge { right, right_version } if right == start => Some(*right_version),
        _ => (record.start == *start).then_some(record.previous),
    }
}
