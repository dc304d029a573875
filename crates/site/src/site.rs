//! One data site: its state, and how an event becomes part of its history.
//!
//! Every event (a transaction's writes, a split, a change of mastership, a refresh) takes the same
//! way:
//!
//! ```text
//!   lock its partitions ─▶ mark them as publishing ─▶ [ time from the clock, place in the log ]
//!      ─▶ install versions ─▶ remove the marks, unlock         one critical section: Sequencer
//! ```
//!
//! So the order of the log is the order of time, and a site's log alone tells its whole history. A
//! reader takes no lock: a partition without a mark has installed everything up to the time the
//! clock showed before.
//!
//! The sequencer also keeps what bounds the closed timestamp of the feeds: frames that followers
//! need and that have not been shipped, and the proposed times of prepared transactions.
//!
//! | state | belongs to |
//! | --- | --- |
//! | `store`, `tables`, `shape` | rows, partitions and their maps |
//! | `sequencer`, `log`, `shaping` | the order of events; what a checkpoint must see together |
//! | `links`, `retry`, `close_ahead` | replication: `link`, `refresh`, `close_ahead` |
//! | `backups` | what waits for backups, and what they are owed: `backup` |
//! | `transactions` | transactions over several sites: `two_phase` |
//! | `copying`, `dropped` | new and ended replicas: `copy`, `tick` |
//! | `hot_locks` | hot locks: `hot_lock` |
//! | `memory` | what there is room for: `room` |

use crate::backup::BackupTable;
use crate::checkpoint::Progress;
use crate::close_ahead::CloseAhead;
use crate::copy::{PIECE_BYTES, Underway};
use crate::error::Failure;
use crate::frame::{Hearing, TxnId};
use crate::hot_lock::HotLocks;
use crate::link::{LinkTimeouts, Links};
use crate::message::{Network, TimeSource};
use crate::partition::{PartitionMap, Readers, SitePartition, Table};
use crate::record::FrameWriter;
use crate::recovery::RecoveryProgress;
use crate::request::Procedures;
use crate::room::MemoryLimit;
use crate::two_phase::{Decided, TransactionTable};
use arc_swap::ArcSwap;
use isomer_design::{Backups, Domains, HotLock, Key, KeyRange, SiteId, SiteSet, TableId, Time};
use isomer_log::{Checkpoints, Log, LogError, Position};
use isomer_store::{CONTEXTS_MAX, Context, Store, Waiters};
use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

/// What a site is given by whoever runs it.
pub struct SiteOptions {
    /// The site's number.
    pub id: SiteId,
    /// Its redo log, recovered.
    pub log: Arc<dyn Log>,
    /// Where checkpoints are kept; `None`: nowhere, the log holds everything.
    pub checkpoints: Option<Arc<dyn Checkpoints>>,
    /// The other sites.
    pub network: Arc<dyn Network>,
    /// The time.
    pub time: Arc<dyn TimeSource>,
    /// Rows of a new replica are sent and logged in pieces of about so many bytes: [`PIECE_BYTES`],
    /// or less for tests.
    ///
    /// [`PIECE_BYTES`]: crate::PIECE_BYTES
    pub piece_bytes: usize,
    /// A partition with more bytes of rows is not copied:
    /// [`COPY_BYTES_MAX`](crate::COPY_BYTES_MAX), where copies go to other processes.
    pub copy_bytes_max: usize,
    /// What is promised of partitions that are rarely written; the same at all sites.
    pub close_ahead: CloseAhead,
    /// When something is taken for lost that another site should have sent.
    pub link_timeouts: LinkTimeouts,
    /// What can be called by name; the same at all sites.
    pub procedures: Arc<Procedures>,
    /// How much memory its rows may take: see [`MemoryLimit`].
    pub memory: Arc<MemoryLimit>,
    /// Told how far the site's recovery has come.
    pub progress: Arc<RecoveryProgress>,
    /// Greater than the [`Site::incarnation`] of any earlier run, where whoever runs the site can tell. What it has logged
    /// and what the time is are looked at in any case, but neither tells runs from each other that log nothing while
    /// the clock is behind the log.
    pub incarnation: u64,
    /// Which sites share a process.
    pub domains: Domains,
}

impl SiteOptions {
    /// A site without checkpoints, procedures and a limit of its memory, with pieces, closing ahead and time-outs as they usually
    /// are.
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
    /// Distinguishes this run of the site from others.
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
    /// Read: the log and the maps of partitions move on together. Written: a checkpoint looks.
    pub(crate) shaping: RwLock<()>,
    sequencer: Mutex<Sequencer>,
    /// Replicas whose events could not be applied because somebody held the lock; the next tick
    /// tries again.
    pub(crate) retry: Mutex<Vec<Arc<SitePartition>>>,
    /// From when on history is kept for snapshots of a gateway. Held while the horizon is moved.
    pub(crate) leased: Mutex<Option<Time>>,
    /// Woken by every tick.
    pub(crate) ticked: Waiters,
    pub(crate) links: Links,
    /// Backups that are waited for, and masters that wait.
    pub(crate) backups: BackupTable,
    /// Transactions over several sites.
    pub(crate) transactions: Mutex<TransactionTable>,
    /// Ranges whose replicas were dropped, whose rows go when no snapshot needs them.
    pub(crate) dropped: Mutex<Vec<Dropped>>,
    pub(crate) hot_locks: HotLocks,
    /// Held by whoever frees these rows.
    pub(crate) purging: Mutex<()>,
    /// The checkpoint that is being made.
    pub(crate) checkpointing: Mutex<Progress>,
    /// Followers needed some of the log when it was cut last.
    pub(crate) cut_short: AtomicBool,
    /// Copies that are being written.
    pub(crate) copying: Mutex<Vec<Underway>>,
    pub(crate) piece_bytes: usize,
    pub(crate) copy_bytes_max: usize,
    pub(crate) close_ahead: CloseAhead,
    pub(crate) link_timeouts: LinkTimeouts,
    pub(crate) procedures: Arc<Procedures>,
    pub(crate) memory: Arc<MemoryLimit>,
    pub(crate) domains: Domains,
    /// Whoever runs the site was told that its log has failed.
    in_trouble: AtomicBool,
}

/// A moment of the site: where the log stood, and what there was.
pub(crate) struct Shape {
    pub(crate) begin: Position,
    pub(crate) partitions: Vec<Owned>,
    pub(crate) decisions: Vec<(TxnId, Decided)>,
    pub(crate) backups: Vec<(TableId, Backups)>,
    pub(crate) hearings: Vec<(SiteId, Hearing)>,
}

/// A partition and the table it is of.
pub(crate) type Owned = (Arc<Table>, Arc<SitePartition>);

/// Rows of a partition that has left the site; they wait for those who read it.
pub(crate) struct Dropped {
    pub(crate) table: Arc<Table>,
    pub(crate) range: KeyRange,
    pub(crate) readers: Readers,
}

/// What makes the order of the log the order of time.
#[derive(Default)]
struct Sequencer {
    /// Frames with records that other sites follow, which were not sent yet.
    outgoing: VecDeque<Outgoing>,
    /// What is prepared and has followers, with the time that was proposed: it may take effect
    /// then, or later.
    open: Vec<(TxnId, Time)>,
}

impl Sequencer {
    /// Up to when all that followers must know of has been taken away to be sent; `None`: up to
    /// now.
    fn closed(&self) -> Option<Time> {
        // The end of a prepared transaction may be older than what is before it in the log.
        let unsent = self.outgoing.iter().map(|frame| frame.time);
        let first = unsent.chain(self.open.iter().map(|(_, proposal)| *proposal)).min();
        first.map(|first| Time(first.0 - 1))
    }

    fn enter(
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

/// A frame on its way to the sites that follow its partitions, or keep the log's tail.
pub(crate) struct Outgoing {
    pub(crate) position: Position,
    pub(crate) time: Time,
    pub(crate) frame: Arc<[u8]>,
    /// Who follows the partition of each record.
    pub(crate) followers: SmallVec<[SiteSet; 4]>,
    /// It is of the log's tail whoever follows its partitions: prepared, or decided.
    pub(crate) is_kept: bool,
}

impl Site {
    pub(crate) fn new(options: SiteOptions, start: Time) -> Site {
        Site {
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
            dropped: Mutex::new(Vec::new()),
            hot_locks: HotLocks::default(),
            purging: Mutex::new(()),
            checkpointing: Mutex::default(),
            cut_short: AtomicBool::new(false),
            copying: Mutex::new(Vec::new()),
            piece_bytes: options.piece_bytes,
            copy_bytes_max: options.copy_bytes_max,
            close_ahead: options.close_ahead,
            link_timeouts: options.link_timeouts,
            procedures: options.procedures,
            memory: options.memory,
            domains: options.domains,
            in_trouble: AtomicBool::new(false),
        }
    }

    /// The site's number.
    pub fn id(&self) -> SiteId {
        self.id
    }

    /// The number of this run: greater than that of earlier ones, if they were kept for it
    /// ([`SiteOptions::incarnation`]).
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The site's redo log, for whoever drives its disk.
    pub fn log(&self) -> &Arc<dyn Log> {
        &self.log
    }

    /// Bytes of rows and index leaves.
    pub fn memory_bytes(&self) -> usize {
        self.store.memory_bytes()
    }

    /// Where many wait for a lock.
    pub fn hot_locks(&self) -> Vec<HotLock> {
        self.hot_locks.now()
    }

    /// Says once that the log has failed.
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

    /// The table, made empty if the site has not heard of it.
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

    /// Replaces the partitions that begin at the keys of `old` with `new`, at once. Gives those who may still
    /// read the old ones.
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

    /// What a checkpoint must hold together.
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
        Shape { begin, partitions, decisions, backups, hearings }
    }

    pub(crate) fn context(&self) -> Result<Context<'_>, Failure> {
        let overloaded = Failure::Overloaded { site: self.id, limit: CONTEXTS_MAX };
        self.store.context().ok_or(overloaded)
    }

    /// Gives the frame its time and its place in the log. `followers` says for each record who
    /// follows its partition.
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

    /// Gives what is prepared its place in the log, and the earliest time at which it can take
    /// effect. `is_kept`: it is of the log's [tail](crate::tail).
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

    /// Followers are not told that they know all from this time on, until the transaction has
    /// ended.
    pub(crate) fn open_proposal(&self, txn: TxnId, time: Time) {
        self.sequencer.lock().open.push((txn, time));
    }

    /// Gives the end of what was prepared its place in the log; its time was decided elsewhere.
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

    /// Appends a frame whose time was given elsewhere: a refresh.
    pub(crate) fn append_refresh(
        &self,
        mut frame: FrameWriter,
        time: Time,
    ) -> Result<Position, LogError> {
        self.store.clock.raise(time);
        self.log.append(frame.finish(time))
    }

    /// True if something waits to be sent to followers, durable or not.
    pub fn has_unsent(&self) -> bool {
        !self.sequencer.lock().outgoing.is_empty()
    }

    /// Frames that are durable and may be sent, and up to when there are no others.
    pub(crate) fn take_outgoing(&self) -> (Vec<Outgoing>, Time, Position) {
        let durable = self.log.durable();
        let mut sequencer = self.sequencer.lock();
        let outgoing = &mut sequencer.outgoing;
        let ready = outgoing.partition_point(|frame| frame.position <= durable);
        let ready = outgoing.drain(..ready).collect();
        let closed = sequencer.closed().unwrap_or_else(|| self.store.clock.tick(self.time.now()));
        (ready, closed, durable)
    }

    /// Ready when everything up to `position` is durable, whatever commits wait for: before another
    /// site relies on it. A log whose commits wait for nothing is synced here.
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

/// Waits to be woken: whoever calls this has left its waker where it will be found.
pub(crate) async fn woken() {
    let mut waited = false;
    poll_fn(|_| if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending })
        .await;
}
