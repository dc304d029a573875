//! One data site: its state, and how an event becomes part of its history.
//!
//! Every event (a transaction's writes, a split, a change of mastership, a refresh) takes the same
//! path:
//!
//! ```text
//!   lock its partitions ─▶ mark them as publishing ─▶ [ time from the clock, place in the log ]
//!      ─▶ install versions ─▶ remove the marks, unlock         one critical section: Sequencer
//! ```
//!
//! So the order of the log is the order of time, and a site's log alone tells its whole history. A
//! reader takes no lock: a partition without a mark has installed all events up to the clock's time
//! before the check.
//!
//! The sequencer also knows the bounds of the feeds' closed timestamp: frames for followers that
//! have not been shipped, and the proposed times of prepared transactions.
//!
//! | state | belongs to |
//! | --- | --- |
//! | `store`, `tables`, `shape` | rows, partitions and their maps |
//! | `sequencer`, `log`, `shaping` | the order of events; the state that a checkpoint must read at once |
//! | `links`, `retry`, `close_ahead` | replication: `link`, `refresh`, `close_ahead` |
//! | `backups` | tickets that wait for backups, and acknowledgements owed: `backup` |
//! | `transactions` | transactions over several sites: `two_phase` |
//! | `batch`, `batch_outcomes` | the batch of the total order that it has entered, and the last one's outcome: `ordered` |
//! | `copying`, `dropped` | new and ended replicas: `copy`, `tick` |
//! | `hot_locks` | hot locks: `hot_lock` |
//! | `memory` | the memory limit: `room` |

use crate::admission::Admission;
use crate::backup::BackupTable;
use crate::checkpoint::Progress;
use crate::close_ahead::CloseAhead;
use crate::copy::{PIECE_BYTES, Underway};
use crate::durations::Durations;
use crate::error::Failure;
use crate::frame::{Hearing, TxnId};
use crate::hot_lock::HotLocks;
use crate::link::{LinkTimeouts, Links};
use crate::message::{Network, TimeSource};
use crate::ordered::{BatchOutcome, BatchPlace};
use crate::partition::{PartitionMap, Readers, SitePartition, Table};
use crate::record::FrameWriter;
use crate::recovery::RecoveryProgress;
use crate::request::Procedures;
use crate::room::MemoryLimit;
use crate::two_phase::{Decided, TransactionTable};
use arc_swap::ArcSwap;
use isomer_design::{Backups, Domains, HotLock, Key, KeyRange, SiteId, SiteSet, TableId, Time};
use isomer_log::{Checkpoints, Log, LogError, Position};
use isomer_store::{CONTEXTS_MAX, Clock, Context, Store, Waiters};
use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

/// The options of a site, which its driver chooses.
pub struct SiteOptions {
    /// The site's number.
    pub id: SiteId,
    /// Its redo log, recovered.
    pub log: Arc<dyn Log>,
    /// Where checkpoints are stored. `None`: none are made, and the log is kept whole.
    pub checkpoints: Option<Arc<dyn Checkpoints>>,
    /// The other sites.
    pub network: Arc<dyn Network>,
    /// The clock.
    pub time: Arc<dyn TimeSource>,
    /// Rows of a new replica are sent and logged in pieces of about this many bytes:
    /// [`PIECE_BYTES`], or less in tests.
    ///
    /// [`PIECE_BYTES`]: crate::PIECE_BYTES
    pub piece_bytes: usize,
    /// Partitions with more bytes of rows are not copied. [`COPY_BYTES_MAX`](crate::COPY_BYTES_MAX)
    /// if copies go to other processes.
    pub copy_bytes_max: usize,
    /// How far ahead rarely written partitions are closed; the same at all sites.
    pub close_ahead: CloseAhead,
    /// When messages of another site count as lost.
    pub link_timeouts: LinkTimeouts,
    /// Procedures that can be called by name; the same at all sites.
    pub procedures: Arc<Procedures>,
    /// The gateways that may commit; the same for all sites of a process.
    pub admission: Arc<Admission>,
    /// How much memory the rows may take: see [`MemoryLimit`].
    pub memory: Arc<MemoryLimit>,
    /// Reports the progress of recovery.
    pub progress: Arc<RecoveryProgress>,
    /// A lower bound of [`Site::incarnation`]: greater than that of any earlier run, if the driver
    /// knows it. The site also derives a bound from its log and the clock. That bound cannot
    /// distinguish runs that log nothing while the clock is behind the log.
    pub incarnation: u64,
    /// Which sites share a process.
    pub domains: Domains,
}

impl SiteOptions {
    /// A site without checkpoints, procedures and a memory limit, and with the default sizes and
    /// timeouts.
    pub fn new(
        id: SiteId,
        log: Arc<dyn Log>,
        network: Arc<dyn Network>,
        time: Arc<dyn TimeSource>,
    ) -> SiteOptions {
        SiteOptions {
            id,
            log,
            checkpoints: None,
            network,
            time,
            piece_bytes: PIECE_BYTES,
            copy_bytes_max: usize::MAX,
            close_ahead: CloseAhead::default(),
            link_timeouts: LinkTimeouts::default(),
            procedures: Arc::default(),
            admission: Arc::default(),
            memory: Arc::default(),
            progress: Arc::default(),
            incarnation: 0,
            domains: Domains::default(),
        }
    }
}

/// A data site. See the [module documentation](self).
pub struct Site {
    pub(crate) id: SiteId,
    /// The number of this run: greater than that of earlier runs.
    pub(crate) incarnation: u64,
    /// Where the log ended when this run began.
    pub(crate) opened_at: Position,
    pub(crate) store: Store,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) checkpoints: Option<Arc<dyn Checkpoints>>,
    pub(crate) network: Arc<dyn Network>,
    pub(crate) time: Arc<dyn TimeSource>,
    tables: ArcSwap<Vec<Arc<Table>>>,
    /// Held while the list of tables or a map of partitions is replaced.
    shape: Mutex<()>,
    /// Read-locked while the log and the maps of partitions change together; write-locked by a
    /// checkpoint.
    pub(crate) shaping: RwLock<()>,
    pub(crate) sequencer: Mutex<Sequencer>,
    /// Replicas whose events could not be applied because the lock was held; the next tick retries.
    pub(crate) retry: Mutex<Vec<Arc<SitePartition>>>,
    /// From when on history is kept for snapshots of a gateway. Locked while the horizon moves.
    pub(crate) leased: Mutex<Option<Time>>,
    /// Woken by every tick.
    pub(crate) ticked: Waiters,
    pub(crate) links: Links,
    /// Tickets that wait for backups, and acknowledgements that are owed.
    pub(crate) backups: BackupTable,
    /// Transactions over several sites.
    pub(crate) transactions: Mutex<TransactionTable>,
    /// The batch of the total order that is under way.
    pub(crate) batch: Mutex<BatchPlace>,
    /// The outcomes in the newest frame of a batch. A checkpoint keeps them.
    pub(crate) batch_outcomes: Mutex<Vec<BatchOutcome>>,
    /// Ranges of dropped replicas. Their rows are freed when no reader needs them.
    pub(crate) dropped: Mutex<Vec<Dropped>>,
    pub(crate) hot_locks: HotLocks,
    /// From the commits of events at their masters until replicas here have applied them.
    pub(crate) apply_delays: Durations,
    /// Held while such rows are freed.
    pub(crate) purging: Mutex<()>,
    /// The running checkpoint, and the last one.
    pub(crate) checkpointing: Mutex<Progress>,
    /// The last cut of the log kept frames that only followers needed.
    pub(crate) cut_short: AtomicBool,
    /// Copies that are being received.
    pub(crate) copying: Mutex<Vec<Underway>>,
    pub(crate) piece_bytes: usize,
    pub(crate) copy_bytes_max: usize,
    pub(crate) close_ahead: CloseAhead,
    pub(crate) link_timeouts: LinkTimeouts,
    pub(crate) procedures: Arc<Procedures>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) memory: Arc<MemoryLimit>,
    pub(crate) domains: Domains,
    /// The driver has had the report that the log has failed.
    in_trouble: AtomicBool,
    /// An earlier owner of the log could serve reads when this run began. See
    /// [`until_sole`](crate::failover::until_sole).
    pub(crate) waits_to_be_sole: AtomicBool,
}

/// The state of the site at one position of the log.
pub(crate) struct Shape {
    pub(crate) begin: Position,
    pub(crate) partitions: Vec<Owned>,
    pub(crate) decisions: Vec<(TxnId, Decided)>,
    pub(crate) backups: Vec<(TableId, Backups)>,
    pub(crate) hearings: Vec<(SiteId, Hearing)>,
    pub(crate) batches: Vec<BatchOutcome>,
}

/// A partition and its table.
pub(crate) type Owned = (Arc<Table>, Arc<SitePartition>);

/// Rows of a partition that has left the site; they wait for its last readers.
pub(crate) struct Dropped {
    pub(crate) table: Arc<Table>,
    pub(crate) range: KeyRange,
    pub(crate) readers: Readers,
}

/// Makes the order of the log the order of time.
#[derive(Default)]
pub(crate) struct Sequencer {
    /// Frames for followers that were not sent yet.
    outgoing: VecDeque<Outgoing>,
    /// Prepared transactions with followers, and their proposed times. Each may take effect at its
    /// proposal, or later.
    open: Vec<(TxnId, Time)>,
}

impl Sequencer {
    /// The time up to which all events for followers have been taken to be sent; `None`: up to now.
    fn closed(&self) -> Option<Time> {
        // The end of a prepared transaction may have an earlier time than frames before it in the
        // log.
        let unsent = self.outgoing.iter().map(|frame| frame.time);
        let first = unsent.chain(self.open.iter().map(|(_, proposal)| *proposal)).min();
        first.map(|first| Time(first.0 - 1))
    }

    /// The earliest commit time of a batch whose partitions are marked. Feeds are not closed at
    /// this time or beyond until [`end_proposal`](Sequencer::end_proposal).
    pub(crate) fn propose(&mut self, clock: &Clock, now: Time, batch: TxnId) -> Time {
        let time = clock.tick(now);
        self.open.push((batch, time));
        time
    }

    /// Holds feeds open from a time on, for a batch that has that time or a later one.
    pub(crate) fn hold_open(&mut self, batch: TxnId, from: Time) {
        self.open.push((batch, from));
    }

    /// Ends a proposal.
    pub(crate) fn end_proposal(&mut self, txn: TxnId) {
        self.open.retain(|(other, _)| *other != txn);
    }

    pub(crate) fn enter(
        &mut self,
        log: &dyn Log,
        frame: &mut FrameWriter,
        time: Time,
        followers: SmallVec<[SiteSet; 4]>,
        is_kept: bool,
    ) -> Result<Position, LogError> {
        let bytes = frame.finish(time);
        let position = log.append(bytes)?;
        if is_kept || followers.iter().any(|sites| !sites.is_empty()) {
            let frame = Arc::from(bytes);
            self.outgoing.push_back(Outgoing { position, time, frame, followers, is_kept });
        }
        Ok(position)
    }
}

/// A frame for the sites that follow its partitions, or keep the log's tail.
pub(crate) struct Outgoing {
    pub(crate) position: Position,
    pub(crate) time: Time,
    pub(crate) frame: Arc<[u8]>,
    /// The followers of each record's partition.
    pub(crate) followers: SmallVec<[SiteSet; 4]>,
    /// It belongs to the tail also without followers: a prepare, or a decision.
    pub(crate) is_kept: bool,
}

impl Site {
    pub(crate) fn new(options: SiteOptions, start: Time) -> Site {
        Site {
            waits_to_be_sole: AtomicBool::new(!options.log.is_sole()),
            id: options.id,
            incarnation: start.0.max(options.time.now().0).max(options.incarnation),
            opened_at: options.log.end(),
            store: Store::new(start),
            log: options.log,
            checkpoints: options.checkpoints,
            network: options.network,
            time: options.time,
            tables: ArcSwap::from_pointee(Vec::new()),
            shape: Mutex::new(()),
            shaping: RwLock::new(()),
            sequencer: Mutex::new(Sequencer::default()),
            retry: Mutex::new(Vec::new()),
            leased: Mutex::new(None),
            ticked: Waiters::new(),
            links: Links::default(),
            backups: BackupTable::default(),
            transactions: Mutex::default(),
            batch: Mutex::default(),
            batch_outcomes: Mutex::default(),
            dropped: Mutex::new(Vec::new()),
            hot_locks: HotLocks::default(),
            apply_delays: Durations::default(),
            purging: Mutex::new(()),
            checkpointing: Mutex::default(),
            cut_short: AtomicBool::new(false),
            copying: Mutex::new(Vec::new()),
            piece_bytes: options.piece_bytes,
            copy_bytes_max: options.copy_bytes_max,
            close_ahead: options.close_ahead,
            link_timeouts: options.link_timeouts,
            procedures: options.procedures,
            admission: options.admission,
            memory: options.memory,
            domains: options.domains,
            in_trouble: AtomicBool::new(false),
        }
    }

    /// The site's number.
    pub fn id(&self) -> SiteId {
        self.id
    }

    /// The number of this run: greater than that of earlier runs, if the driver gave their bound
    /// ([`SiteOptions::incarnation`]).
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The site's redo log, whose disk the driver syncs.
    pub fn log(&self) -> &Arc<dyn Log> {
        &self.log
    }

    /// Bytes of rows and index leaves.
    pub fn memory_bytes(&self) -> usize {
        self.store.memory_bytes()
    }

    /// Partition locks with long queues.
    pub fn hot_locks(&self) -> Vec<HotLock> {
        self.hot_locks.now()
    }

    /// Reports, once, that the log has failed.
    pub(crate) fn trouble(&self, what: &str) {
        if !self.in_trouble.swap(true, Ordering::Relaxed) {
            self.network.trouble(self.id, what);
        }
    }

    pub(crate) fn tables(&self) -> arc_swap::Guard<Arc<Vec<Arc<Table>>>> {
        self.tables.load()
    }

    pub(crate) fn table(&self, id: TableId) -> Option<Arc<Table>> {
        let tables = self.tables.load();
        tables.binary_search_by_key(&id, |table| table.id).ok().map(|at| tables[at].clone())
    }

    /// The table, created empty if the site does not know it.
    pub(crate) fn table_or_new(&self, id: TableId) -> Arc<Table> {
        let _shape = self.shape.lock();
        if let Some(table) = self.table(id) {
            return table;
        }
        let index = self.store.new_table();
        let table = Arc::new(Table::new(id, index));
        let mut tables = Vec::clone(&self.tables.load());
        let at = tables.partition_point(|other| other.id < id);
        tables.insert(at, table.clone());
        self.tables.store(Arc::new(tables));
        table
    }

    /// Atomically replaces the partitions that begin at the keys of `old` by `new`. Returns the
    /// readers that may still use the old ones.
    pub(crate) fn reshape(
        &self,
        table: &Table,
        old: &[&Key],
        new: &[Arc<SitePartition>],
    ) -> Readers {
        let _shape = self.shape.lock();
        let mut map = PartitionMap::clone(&table.partitions.load());
        for start in old {
            map.unset(start);
        }
        for partition in new {
            map.set(partition.range.start.clone(), partition.clone());
        }
        table.replace_map(map)
    }

    /// The state that a checkpoint must hold, at one position of the log.
    pub(crate) fn frozen_shape(&self) -> Shape {
        let _shaping = self.shaping.write();
        let (mut partitions, mut backups) = (Vec::new(), Vec::new());
        for table in self.tables.load().iter() {
            let map = table.partitions.load();
            partitions.extend(map.iter().map(|(_, p)| (table.clone(), p.clone())));
            if table.is_backed() {
                backups.push((table.id, table.backups()));
            }
        }
        let begin = self.log.end().min(self.copied_from());
        let (decisions, hearings) = (self.decisions(), self.hearings());
        let batches = self.batch_outcomes.lock().clone();
        Shape { begin, partitions, decisions, backups, hearings, batches }
    }

    pub(crate) fn context(&self) -> Result<Context<'_>, Failure> {
        let overloaded = Failure::Overloaded { site: self.id, limit: CONTEXTS_MAX };
        self.store.context().ok_or(overloaded)
    }

    /// Gives the frame its time and its position in the log. `followers` has the followers of each
    /// record's partition.
    pub(crate) fn append(
        &self,
        mut frame: FrameWriter,
        followers: impl Iterator<Item = SiteSet>,
    ) -> Result<(Time, Position), LogError> {
        let followers: SmallVec<[SiteSet; 4]> = followers.collect();
        let mut sequencer = self.sequencer.lock();
        let time = self.store.clock.tick(self.time.now());
        let is_kept = frame.is_decision();
        let position = sequencer.enter(&*self.log, &mut frame, time, followers, is_kept)?;
        Ok((time, position))
    }

    /// Gives a prepare its position in the log, and the earliest time at which it can take effect.
    /// `is_kept`: it belongs to the log's [tail](crate::tail).
    pub(crate) fn append_prepare(
        &self,
        txn: TxnId,
        frame: &mut FrameWriter,
        followers: SmallVec<[SiteSet; 4]>,
        is_kept: bool,
    ) -> Result<(Time, Position), LogError> {
        let is_followed = followers.iter().any(|sites| !sites.is_empty());
        let mut sequencer = self.sequencer.lock();
        let time = self.store.clock.tick(self.time.now());
        let position = match is_kept {
            true => sequencer.enter(&*self.log, frame, time, followers, true)?,
            false => self.log.append(frame.finish(time))?,
        };
        if is_followed {
            sequencer.open.push((txn, time));
        }
        Ok((time, position))
    }

    /// Keeps the feeds from being closed at this time or beyond until the transaction has ended.
    pub(crate) fn open_proposal(&self, txn: TxnId, time: Time) {
        self.sequencer.lock().open.push((txn, time));
    }

    /// Gives the end of a prepared transaction its position in the log; the coordinator has chosen
    /// its time.
    pub(crate) fn append_end(
        &self,
        txn: TxnId,
        mut frame: FrameWriter,
        time: Time,
        followers: impl Iterator<Item = SiteSet>,
    ) -> Result<Position, LogError> {
        let followers = followers.collect();
        self.store.clock.raise(time);
        let mut sequencer = self.sequencer.lock();
        let position = sequencer.enter(&*self.log, &mut frame, time, followers, false)?;
        sequencer.open.retain(|(other, _)| *other != txn);
        Ok(position)
    }

    /// Appends a refresh, whose time its master has chosen.
    pub(crate) fn append_refresh(
        &self,
        mut frame: FrameWriter,
        time: Time,
    ) -> Result<Position, LogError> {
        self.store.clock.raise(time);
        self.log.append(frame.finish(time))
    }

    /// True if frames for followers wait to be sent, durable or not.
    pub fn has_unsent(&self) -> bool {
        !self.sequencer.lock().outgoing.is_empty()
    }

    /// Durable frames that may be sent, the time up to which there are no others, and the durable
    /// position.
    pub(crate) fn take_outgoing(&self) -> (Vec<Outgoing>, Time, Position) {
        let durable = self.log.durable();
        let mut sequencer = self.sequencer.lock();
        let outgoing = &mut sequencer.outgoing;
        let ready = outgoing.partition_point(|frame| frame.position <= durable);
        let ready = outgoing.drain(..ready).collect();
        let closed = sequencer.closed().unwrap_or_else(|| self.store.clock.tick(self.time.now()));
        (ready, closed, durable)
    }

    /// Ready when everything up to `position` is durable, as other sites require before they rely
    /// on it. Syncs a log whose commits do not wait for the disk.
    pub(crate) async fn lasting_for_others(&self, position: Position) -> Result<(), LogError> {
        self.durable(position).await?;
        if self.log.durable() < position {
            self.log.sync()?;
        }
        Ok(())
    }

    /// Ready when everything up to `position` is as durable as the log promises.
    pub(crate) async fn durable(&self, position: Position) -> Result<(), LogError> {
        poll_fn(|cx| self.log.poll_durable(position, cx.waker())).await
    }
}

/// Waits for a wake-up. The caller has registered its waker before.
pub(crate) async fn woken() {
    let mut waited = false;
    poll_fn(|_| if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending })
        .await;
}
