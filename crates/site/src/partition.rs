//! A partition at a site: the store's partition, its role, and its state in replication.

use crate::message::FeedItem;
use crate::record::Record;
use arc_swap::ArcSwap;
use isomer_design::{Backups, Key, KeyRange, RangeMap, SiteId, SiteSet, TableId, Version};
use isomer_log::Position;
use isomer_store::{Feed, Index, Partition};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// One table at one site: its rows, and the partitions of it that the site holds.
pub(crate) struct Table {
    pub(crate) id: TableId,
    pub(crate) index: Arc<Index>,
    /// How many backups commits wait for, and whether on disk: see [`Table::backups`].
    backups: AtomicU16,
    /// Readers load the current map; changes replace it, under the site's shape mutex.
    pub(crate) partitions: ArcSwap<PartitionMap>,
    /// Replaced maps that may still have readers.
    replaced: Mutex<Vec<Weak<PartitionMap>>>,
}

/// A term: one uninterrupted mastership of a partition by a site.
///
/// It promises: all events of the partition's keys in this site's log that lead to version `first`
/// or above are at position `begin` or later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Term {
    pub(crate) begin: Position,
    pub(crate) first: Version,
}

impl Term {
    /// The begin of the term is unknown: the promise is empty, as no version is that high.
    pub(crate) const UNKNOWN: Term = Term { begin: 0, first: Version::MAX };

    /// The term of keys whose partitions were merged.
    pub(crate) fn with(self, other: Term) -> Term {
        Term { begin: self.begin.min(other.begin), first: self.first.max(other.first) }
    }
}

pub(crate) type PartitionMap = RangeMap<Arc<SitePartition>>;

/// See the [module documentation](self).
pub(crate) struct SitePartition {
    core: Partition,
    /// It was split, merged or dropped; callers look their key up again.
    gone: AtomicBool,
    /// The master's site; 0 if that is here.
    source: AtomicU16,
    /// The site to which the old master has released it; 0: none.
    released_to: AtomicU16,
    /// At a replica: the master has ended the following by this site, and with it the stream.
    unfollowed: AtomicBool,
    /// At the master: its followers. At a replica, if the partition was released: the next
    /// followers. Changes with the partition's lock held, under which commits read it, so the mutex
    /// is uncontended.
    followers: Mutex<SiteSet>,
    /// At a replica: its feed covers all of its keys, and so the parts of a split. Otherwise the
    /// feed covers the partition's own stream only.
    joined_whole: AtomicBool,
    /// Position in this site's log after the last event.
    position: AtomicU64,
    /// At a replica: position in the master's log after the last event from there; 0 if there was
    /// none. At the master: 0.
    origin: AtomicU64,
    /// This site's last term as the partition's master, ended or not.
    term: Mutex<Term>,
    /// Events that arrived out of order, by the version to which they apply.
    pub(crate) pending: Mutex<BTreeMap<Version, FeedItem>>,
}

impl Deref for SitePartition {
    type Target = Partition;
    fn deref(&self) -> &Partition {
        &self.core
    }
}

impl SitePartition {
    pub(crate) fn new(
        core: Partition,
        source: Option<SiteId>,
        followers: SiteSet,
    ) -> SitePartition {
        SitePartition {
            core,
            gone: AtomicBool::new(false),
            source: AtomicU16::new(source.map_or(0, |site| site.0)),
            released_to: AtomicU16::new(0),
            unfollowed: AtomicBool::new(false),
            joined_whole: AtomicBool::new(false),
            followers: Mutex::new(followers),
            position: AtomicU64::new(0),
            origin: AtomicU64::new(0),
            term: Mutex::new(Term::UNKNOWN),
            pending: Mutex::new(BTreeMap::new()),
        }
    }

    /// True if the partition was replaced; callers must resolve their keys again.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// Called with the lock held and the event marked as publishing. The mark is never removed, so
    /// readers cannot take the retired partition for an up-to-date one.
    pub(crate) fn retire(&self) {
        self.gone.store(true, Ordering::SeqCst);
        self.core.progress.wake();
    }

    pub(crate) fn source(&self) -> Option<SiteId> {
        Some(self.source.load(Ordering::SeqCst)).filter(|&site| site != 0).map(SiteId)
    }

    pub(crate) fn set_source(&self, source: Option<SiteId>) {
        self.source.store(source.map_or(0, |site| site.0), Ordering::SeqCst);
    }

    pub(crate) fn released_to(&self) -> Option<SiteId> {
        Some(self.released_to.load(Ordering::SeqCst)).filter(|&site| site != 0).map(SiteId)
    }

    pub(crate) fn set_released_to(&self, site: Option<SiteId>) {
        self.released_to.store(site.map_or(0, |site| site.0), Ordering::SeqCst);
        self.core.progress.wake();
    }

    pub(crate) fn is_unfollowed(&self) -> bool {
        self.unfollowed.load(Ordering::SeqCst)
    }

    pub(crate) fn set_unfollowed(&self) {
        self.unfollowed.store(true, Ordering::SeqCst);
        self.core.progress.wake();
    }

    /// From now on, `feed` covers the partition: all of its keys, or its own stream only.
    pub(crate) fn join(&self, feed: Arc<Feed>, whole: bool) {
        self.joined_whole.store(whole, Ordering::SeqCst);
        self.core.follow(self.core.safe_time(), Some(feed));
    }

    /// The feed that covers all keys of the partition.
    pub(crate) fn whole_feed(&self) -> Option<Arc<Feed>> {
        self.core.feed().filter(|_| self.joined_whole.load(Ordering::SeqCst))
    }

    pub(crate) fn followers(&self) -> SiteSet {
        self.followers.lock().clone()
    }

    pub(crate) fn set_followers(&self, followers: SiteSet) {
        *self.followers.lock() = followers;
    }

    pub(crate) fn position(&self) -> Position {
        self.position.load(Ordering::SeqCst)
    }

    pub(crate) fn set_position(&self, position: Position) {
        self.position.store(position, Ordering::SeqCst);
    }

    pub(crate) fn origin(&self) -> Position {
        self.origin.load(Ordering::SeqCst)
    }

    pub(crate) fn set_origin(&self, position: Position) {
        self.origin.store(position, Ordering::SeqCst);
    }

    pub(crate) fn term(&self) -> Term {
        *self.term.lock()
    }

    pub(crate) fn set_term(&self, term: Term) {
        *self.term.lock() = term;
    }

    /// Copies the state that the parts of a split or a merged partition inherit.
    pub(crate) fn inherit(&self, from: &SitePartition, position: Position) {
        self.set_released_to(from.released_to());
        self.set_position(position);
    }

    /// A record of the partition's stream that leads to the next version.
    pub(crate) fn next_record<'a>(&self, event: crate::record::Event<'a>) -> Record<'a> {
        let (table, start) = (self.table, self.range.start.clone());
        Record { table, start, previous: self.version(), version: self.version() + 1, event }
    }
}

/// The readers that may still use partitions that have left a table's map: they loaded the map
/// before.
#[derive(Default)]
pub(crate) struct Readers(Vec<Weak<PartitionMap>>);

impl Readers {
    /// True if none of them is left.
    pub(crate) fn are_gone(&self) -> bool {
        self.0.iter().all(|map| map.strong_count() == 0)
    }
}

impl Table {
    pub(crate) fn new(id: TableId, index: Arc<Index>) -> Table {
        Table {
            id,
            index,
            backups: AtomicU16::new(0),
            partitions: ArcSwap::default(),
            replaced: Mutex::default(),
        }
    }

    /// The number of backups that must acknowledge a commit.
    pub(crate) fn backups(&self) -> Backups {
        let [count, on_disk] = self.backups.load(Ordering::SeqCst).to_le_bytes();
        Backups { count, on_disk: on_disk != 0 }
    }

    pub(crate) fn set_backups(&self, backups: Backups) {
        let bytes = [backups.count, u8::from(backups.on_disk)];
        self.backups.store(u16::from_le_bytes(bytes), Ordering::SeqCst);
    }

    /// True if backups must acknowledge its commits.
    pub(crate) fn is_backed(&self) -> bool {
        self.backups().count > 0
    }

    /// Replaces the map. The caller holds the site's shape mutex. Returns the readers that may
    /// still use this map, or an earlier one.
    pub(crate) fn replace_map(&self, map: PartitionMap) -> Readers {
        let before = self.partitions.swap(Arc::new(map));
        let mut replaced = self.replaced.lock();
        replaced.push(Arc::downgrade(&before));
        drop(before);
        replaced.retain(|map| map.strong_count() > 0);
        Readers(replaced.clone())
    }

    /// The partition that covers `key`, if the site holds one.
    pub(crate) fn find<'m>(map: &'m PartitionMap, key: &[u8]) -> Option<&'m Arc<SitePartition>> {
        map.get(key).map(|(_, partition)| partition).filter(|p| p.range.is_below_end(key))
    }

    /// The partition that begins at `start`, if the site holds one.
    pub(crate) fn starting_at(&self, start: &Key) -> Option<Arc<SitePartition>> {
        self.partitions.load().get_exact(start).cloned()
    }

    /// The partitions the site holds that overlap `range`, in order.
    pub(crate) fn overlapping(&self, range: &KeyRange) -> Vec<Arc<SitePartition>> {
        let map = self.partitions.load();
        map.iter_from(&range.start)
            .map(|(_, partition)| partition)
            // The first one may reach into the range, or end before it.
            .skip_while(|p| !p.range.is_below_end(&range.start))
            .take_while(|p| p.range.overlaps(range))
            .cloned()
            .collect()
    }
}
