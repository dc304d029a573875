//! Failover at a site: the mastership of a partition whose master's log has failed is taken by a replica.
//!
//! A log that has failed takes nothing more; and what was written to it after its durable position is in doubt, until
//! it is opened again and read. So the site can commit nothing, and is passed by. It still runs: it sends its followers
//! what is durable, and says how far each of its partitions is durable.
//!
//! ```text
//!   s1, its log failed at D      … 6→7  7→8 │ D   8→9  9→10  (in doubt: perhaps they are there after a restart)
//!   s2, a replica                … 6→7  7→8   promote 8→2⁴⁰   2⁴⁰→2⁴⁰+1 …
//!   s3, another                  … 6→7  7→8   promote, as the event of the partition that follows 8: s2 is master now
//! ```
//!
//! **The rule.** A replica may be promoted once it has applied every event of the partition that is durable at any
//! site that holds it. Nobody was told of anything else: clients, replicas and participants hear only of what is
//! durable (but who was hasty, and knows that a crash may undo it). And no transaction over several sites may be
//! open that has written to the partition, as its outcome may have been told by somebody else: then the partition waits
//! for the restart.
//!
//! **Together.** Of a frame in doubt that several partitions share, a restart may find all. So they are promoted
//! together or not at all ([`Standing::shared`]): nobody may see half of a transaction.
//!
//! **Terms.** The upper bits of a version count the promotions in a partition's history. What is in doubt at the failed
//! site belongs to an earlier term, however many events it is. So after a restart, of two sites that claim the same
//! keys the one with the later term is right (`isomer-cluster`, `assemble`), and the other [discards](Site::discard)
//! what it has.
//!
//! **The other replicas** turn to the new master once they have applied what is durable at the failed one, which
//! goes on sending it.
//!
//! **Left out.** A failed log is not opened again while its process runs.

use crate::error::Refusal;
use crate::frame::FrameKind;
use crate::held::Held;
use crate::partition::{SitePartition, Table, Term};
use crate::record::{Event, FrameWriter, Record, read_frame};
use crate::site::Site;
use isomer_design::{Key, KeyRange, SiteId, SiteSet, TableId, Version};
use isomer_log::LogError;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Versions of one term: more than a site can have in doubt, or write in its life.
const TERM: Version = 1 << 40;
/// A replica may take so long to catch up, in nanoseconds, before another one is asked.
pub(crate) const PATIENCE_NS: u64 = 5_000_000_000;

/// Which term a version belongs to: how many promotions came before it.
pub fn term(version: Version) -> u64 {
    version / TERM
}

/// How far a partition is durable at a site.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Standing {
    /// The version that its last durable event led to; 0 if the site holds nothing durable of it.
    pub version: Version,
    /// The partitions of frames in doubt that this one has a part in.
    pub shared: Vec<(TableId, Key)>,
}

impl Site {
    /// The failure of the site's log, if it had one: the site serves nothing any more.
    pub fn failure(&self) -> Option<LogError> {
        self.log.failure()
    }

    /// Refuses if the log has failed.
    #[inline]
    pub(crate) fn serving(&self) -> Result<(), LogError> {
        self.failure().map_or(Ok(()), Err)
    }

    /// Refuses if the log has failed, or if it is not known, and does not become known, that nobody else owns it: what
    /// is shown then may be old. Writes need not ask, as the log itself refuses them. Whoever reads asks once it has read:
    /// its process may have stood still before that, for longer than a lease. (Asking before as well spares the work.)
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

    /// How far the partition that begins at `start` is durable here.
    ///
    /// # Errors
    /// [`Refusal::Unfit`] if a transaction over several sites is open that may have committed.
    pub fn standing(&self, table: TableId, start: &Key) -> Result<Standing, Refusal> {
        let held = self.table(table).and_then(|table| table.starting_at(start));
        // In this order: an event that comes between is found in the log.
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
            is_open |= matches!(head.kind, FrameKind::End(_) | FrameKind::Decide { .. });
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

    /// Takes the mastership of a partition from a site whose log has failed, as soon as the replica here has
    /// applied every event up to `version`. `followers` will follow.
    ///
    /// # Errors
    /// [`Refusal::NoPartition`] if the site holds no replica that begins at `start`; [`Refusal::Unfit`] if it does
    /// not become complete; [`Refusal::Log`].
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
        // Nobody knows what the failed site has promised of the time to come.
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
        if let Some(table) = self.table(table) {
            // What the failed site had acknowledged its followers have; they may lack what it had not.
            self.open_ticket(table.backups(), &partition, to);
        }
        partition.end_publishing(to, time);
        self.expect_followers(&followers, begin);
        self.begin_keeping(&partition);
        drop(held);
        self.lasting(position).await
    }

    /// Lets a replica follow the site that was promoted to be its master, after it was at `version`. Done when it has
    /// heard so from there, and will know it after a restart.
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

    /// The replica that begins at `start`, locked, once it has applied every event up to `version`; `None` if it has
    /// been promoted since.
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

    /// Ends whatever the site holds within a range, because somebody else's word is in force: a mastership that was
    /// taken from it, or a copy that has no master any more.
    ///
    /// # Errors
    /// [`Refusal::Log`].
    pub async fn discard(&self, table: TableId, range: &KeyRange) -> Result<(), Refusal> {
        let table = self.table_or_new(table);
        while let Some(partition) = table.overlapping(range).first().cloned() {
            let mut held = Held::default();
            if held.wait_for(&partition).await {
                self.void_tickets(&partition);
                self.end_copy(&table, &partition)?;
            }
        }
        self.forget_early_events(table.id, range);
        self.lasting(self.log.end()).await
    }
}

/// The version that a record leads the partition that begins at `start` away from, if it is an event of that.
fn led_from(record: &Record<'_>, table: TableId, start: &Key) -> Option<Version> {
    match &record.event {
        _ if record.table != table => None,
        Event::Forget | Event::Backups(_) => None,
        Event::Merge { right, right_version } if right == start => Some(*right_version),
        _ => (record.start == *start).then_some(record.previous),
    }
}
