//! Post-copy, as Squall does it: the ownership of rows changes first, and rows move on demand.
//!
//! ```text
//!   warehouse 0, chunk by chunk    its own tables (s1)        the twins (s4)
//!   not switched: used at s1       ▓▓▓▓▓▓                     ░░░░░░
//!   switched, missing at s4        ▓▓▓▓▓▓ ───── pull ───────▶ ░░░░░░    by a transaction that needs
//!   pulled: used at s4                                        ▓▓▓▓▓▓    it, or in the background
//! ```
//!
//! * A **chunk** is a range of `--chunk-rows` rows. A transaction that needs a missing chunk pulls
//!   all of it, and other transactions that need it wait (Squall, 4.4 and 5.2: reactive pulls, with
//!   the rows around the key).
//! * In the **background** a thread pulls missing chunks. It sleeps after each one, so that rows
//!   move at 20 MB/s: H-Store's 2 MB each 100 ms, in smaller steps (`asyncPull`, 4.5).
//! * **Sub-plans** (5.4): the chunks are switched in `--sub-plans` parts, one after the other.
//!   Meanwhile transactions are distributed over both sites. The moment of a switch excludes all
//!   transactions, as Squall's global lock does.
//! * **Tracking**: Squall tracks chunks at both sites; here one table in the process has their
//!   states.
//!
//! A pull is an ordinary transaction over both sites: it locks the chunk's partition at both, reads
//! it at one and writes it at the other. Two simplifications favour post-copy: chunks are cut
//! before the measurement, and old versions of rows are removed after it.
//!
//! **Why the database does not offer it**
//! ([0037](../../../../../docs/decisions/0037-live-migration.md)): a copy is complete from its
//! beginning, and snapshots, open transactions and checkpoints rely on that.

use super::bed::Bed;
use isomer::clock;
use isomer::failure::Failure;
use isomer_cluster::{Abort, Database, Error, Session, Txn};
use isomer_design::{Footprint, Key, KeyRange, Span, TableId, Time};
use isomer_workload::{DataAccess, Workload};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// States of a chunk: not switched; switched and missing; or, from 2 on, the commit time of its
/// pull.
const NOT_SWITCHED: u64 = 0;
const MISSING: u64 = 1;

/// Bytes a second that the background thread pulls.
const ASIDE_BYTES_S: f64 = 20e6;

/// The size of chunks and the number of sub-plans.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) chunk_rows: usize,
    pub(super) sub_plans: usize,
}

/// Rows that move together.
struct Chunk {
    range: KeyRange,
    bytes: usize,
    state: AtomicU64,
    /// Held by the transaction or thread that pulls the chunk.
    pulling: Mutex<()>,
}

/// Rows on their way from a table into its twin, or back.
struct Path {
    from: TableId,
    to: TableId,
    chunks: Vec<Chunk>,
}

/// A move, from its beginning until the next one. See the [module documentation](self).
pub(super) struct PostCopy {
    /// By the table of the workload, in both directions.
    paths: BTreeMap<TableId, Path>,
    /// Contains all chunks.
    range: KeyRange,
    /// Rows at the time of the cut.
    pub(super) rows: usize,
}

impl PostCopy {
    /// Cuts the rows of a bed's unit into chunks that move into the twins, or back.
    pub(super) fn cut<W: Workload>(
        bed: &Bed<W>,
        is_back: bool,
        cut: Cut,
    ) -> Result<PostCopy, Failure> {
        let range = bed.unit.range.clone();
        let (mut paths, mut rows) = (BTreeMap::new(), 0);
        for (&table, &twin) in &bed.twins {
            let (from, to) = if is_back { (twin, table) } else { (table, twin) };
            let mut starts = vec![(range.start.clone(), 0)];
            let mut count = 0;
            let mut session = bed.db.session();
            let footprint = Footprint::new().read_range(from, range.clone());
            bed.db.run(&mut session, &footprint, |txn| {
                (count, starts) = (0, vec![(range.start.clone(), 0)]);
                txn.scan(from, &range, |key, row| {
                    if count > 0 && count % cut.chunk_rows == 0 {
                        starts.push((Key::from_bytes(key), 0));
                    }
                    count += 1;
                    let last = starts.last_mut().expect("there is a first chunk");
                    last.1 += key.len() + row.len();
                    ControlFlow::Continue(())
                })
            })?;
            rows += count;
            let ends = starts.iter().skip(1).map(|(start, _)| Some(start.clone()));
            let ends: Vec<Option<Key>> = ends.chain([range.end.clone()]).collect();
            let chunks = starts.into_iter().zip(ends).map(|((start, bytes), end)| Chunk {
                range: KeyRange::new(start, end),
                bytes,
                state: AtomicU64::new(NOT_SWITCHED),
                pulling: Mutex::new(()),
            });
            paths.insert(table, Path { from, to, chunks: chunks.collect() });
        }
        Ok(PostCopy { paths, range, rows })
    }

    /// Switches the parts and pulls their chunks until all rows have moved. The caller has put it
    /// behind the bed's gate, where transactions find it.
    pub(super) fn run<W: Workload>(&self, bed: &Bed<W>, cut: Cut) -> Result<(), Failure> {
        let mut session = bed.db.session();
        for part in 0..cut.sub_plans {
            let chunks = || {
                self.paths.values().flat_map(move |path| {
                    let of = |share: usize| share * path.chunks.len() / cut.sub_plans;
                    path.chunks[of(part)..of(part + 1)].iter().map(move |chunk| (path, chunk))
                })
            };
            let switch = bed.gate.write();
            for (_, chunk) in chunks() {
                chunk.state.store(MISSING, Ordering::SeqCst);
            }
            drop(switch);
            for (path, chunk) in chunks() {
                if path.pull(&bed.db, &mut session, chunk)? {
                    clock::sleep(Duration::from_secs_f64(chunk.bytes as f64 / ASIDE_BYTES_S));
                }
            }
        }
        Ok(())
    }

    /// Pulls the missing chunks that a transaction needs; gives the footprint with the tables of
    /// its rows after that.
    pub(super) fn bring(
        &self,
        db: &Database,
        session: &mut Session,
        footprint: &Footprint,
    ) -> Result<Footprint, Error> {
        let mut there = Footprint::new();
        for item in footprint.items() {
            let range = match &item.span {
                Span::Key(key) => KeyRange::single(key.clone()),
                Span::Range(range) => range.clone(),
            };
            let Some(path) = self.paths.get(&item.table).filter(|_| self.range.overlaps(&range))
            else {
                there.add(item.table, item.span.clone(), item.access);
                continue;
            };
            for chunk in path.overlapping(&range) {
                if chunk.state.load(Ordering::SeqCst) == MISSING {
                    path.pull(db, session, chunk)?;
                }
                session.has_seen(Time(chunk.state.load(Ordering::SeqCst)));
                let span = match &item.span {
                    Span::Key(key) => Span::Key(key.clone()),
                    Span::Range(range) => Span::Range(range.intersection(&chunk.range)),
                };
                there.add(path.table_of(chunk), span, item.access);
            }
        }
        Ok(there)
    }

    /// The table with the row of a key.
    fn table_of(&self, table: TableId, key: &[u8]) -> TableId {
        let path = self.paths.get(&table).filter(|_| self.range.contains(key));
        path.map_or(table, |path| path.table_of(path.holding(key)))
    }
}

impl Path {
    fn holding(&self, key: &[u8]) -> &Chunk {
        let after = self.chunks.partition_point(|chunk| chunk.range.start.as_bytes() <= key);
        &self.chunks[after.saturating_sub(1)]
    }

    fn overlapping(&self, range: &KeyRange) -> impl Iterator<Item = &Chunk> {
        self.chunks.iter().filter(move |chunk| chunk.range.overlaps(range))
    }

    /// The table that a chunk is in, or will be in once it is pulled.
    fn table_of(&self, chunk: &Chunk) -> TableId {
        let is_switched = chunk.state.load(Ordering::SeqCst) != NOT_SWITCHED;
        if is_switched { self.to } else { self.from }
    }

    /// Moves a chunk unless it has moved; returns true if it moved it.
    fn pull(&self, db: &Database, session: &mut Session, chunk: &Chunk) -> Result<bool, Error> {
        let _mine = chunk.pulling.lock();
        if chunk.state.load(Ordering::SeqCst) != MISSING {
            return Ok(false);
        }
        let (from, to, range) = (self.from, self.to, &chunk.range);
        let footprint =
            Footprint::new().write_range(from, range.clone()).write_range(to, range.clone());
        let ran = db.run(session, &footprint, |txn| {
            let mut rows = Vec::new();
            txn.scan(from, range, |key, row| {
                rows.push((Key::from_bytes(key), row.to_vec()));
                ControlFlow::Continue(())
            })?;
            rows.iter().try_for_each(|(key, row)| {
                txn.put(to, key, row)?;
                txn.delete(from, key).map(drop)
            })
        })?;
        chunk.state.store(ran.committed.session().0.max(MISSING + 1), Ordering::SeqCst);
        Ok(true)
    }
}

/// Gives a transaction its rows, in their tables or in the twins.
pub(super) struct Redirected<'a, 't> {
    pub(super) txn: &'a mut Txn<'t>,
    pub(super) moved: Option<&'a PostCopy>,
}

impl Redirected<'_, '_> {
    fn table_of(&self, table: TableId, key: &[u8]) -> TableId {
        self.moved.map_or(table, |moved| moved.table_of(table, key))
    }
}

impl DataAccess for Redirected<'_, '_> {
    type Error = Abort;

    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, Abort> {
        self.txn.get(self.table_of(table, key), key)
    }

    fn put(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), Abort> {
        self.txn.put(self.table_of(table, key), key, row)
    }

    fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), Abort> {
        self.txn.insert(self.table_of(table, key), key, row)
    }

    fn update(
        &mut self,
        table: TableId,
        key: &[u8],
        change: impl FnOnce(&mut [u8]),
    ) -> Result<bool, Abort> {
        self.txn.update(self.table_of(table, key), key, change)
    }

    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, Abort> {
        self.txn.delete(self.table_of(table, key), key)
    }

    /// Scans chunk by chunk, as some may have moved and others not.
    fn scan(
        &mut self,
        table: TableId,
        range: &KeyRange,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Abort> {
        let path = self.moved.filter(|moved| moved.range.overlaps(range));
        let Some(path) = path.and_then(|moved| moved.paths.get(&table)) else {
            return self.txn.scan(table, range, visit);
        };
        let mut is_over = false;
        for chunk in path.overlapping(range) {
            let part = range.intersection(&chunk.range);
            self.txn.scan(path.table_of(chunk), &part, |key, row| {
                let flow = visit(key, row);
                is_over = flow.is_break();
                flow
            })?;
            if is_over {
                break;
            }
        }
        Ok(())
    }
}
