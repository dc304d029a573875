//! Post-copy, as Squall does it: who owns the rows changes first, and they come when they are asked for.
//!
//! ```text
//!   warehouse 0, chunk by chunk          its own tables (s1)        the twins (s4)
//!   not switched: used where it is       ▓▓▓▓▓▓                     ░░░░░░
//!   switched, missing                    ▓▓▓▓▓▓ ───── pull ───────▶ ░░░░░░     by a transaction that needs it,
//!   here                                                            ▓▓▓▓▓▓     or one after the other beside them
//! ```
//!
//! * **Chunks** are ranges of about as many rows. A transaction that needs one which is missing pulls all of it, and who
//!   needs it as well waits (Squall, 4.4 and 5.2: reactive pulls, with what lies around the key).
//! * **Beside** the transactions a thread pulls what is missing, with a pause after each chunk so that the rows take
//!   20 MB/s: H-Store's 2 MB each 100 ms, in smaller steps (`asyncPull`, 4.5).
//! * **Sub-plans** (5.4): the chunks are switched in so many parts, one after the other; in between, transactions are
//!   distributed over both sites. All transactions are kept out for the moment of a switch, as by Squall's global lock.
//! * **Tracking**, on both sides: here one table of the process says of each chunk what it is.
//!
//! A pull is an ordinary transaction over both sites: it locks the chunk's partition at both, reads it here and writes it
//! there. In its favour: chunks are cut before it begins, and old rows removed after it has ended, unmeasured.
//!
//! **Why it stays here** ([0037](../../../../../docs/decisions/0037-live-migration.md)): a copy in this database is
//! complete from its beginning, and snapshots, open transactions and checkpoints rest on that.

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

/// What chunks are: not switched yet; switched, and missing; or, from 2 on, here since that time.
const NOT_SWITCHED: u64 = 0;
const MISSING: u64 = 1;

/// What is pulled beside the transactions, in bytes a second.
const ASIDE_BYTES_S: f64 = 20e6;

/// How post-copy cuts and switches.
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
    /// Held by who pulls it.
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
    /// By the table of the workload, wherever its rows are.
    paths: BTreeMap<TableId, Path>,
    /// What all is within.
    range: KeyRange,
    /// Rows there were when it was cut.
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

    /// Switches and pulls until all is there. Transactions use it as soon as it is behind the bed's gate.
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

    /// Pulls what a transaction needs and is missing, and gives the footprint of where its rows are then.
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

    /// Where the row of a key is.
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

    /// The table that a chunk is in, or belongs in.
    fn table_of(&self, chunk: &Chunk) -> TableId {
        let is_switched = chunk.state.load(Ordering::SeqCst) != NOT_SWITCHED;
        if is_switched { self.to } else { self.from }
    }

    /// Moves a chunk, unless it is here; false if it was.
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

/// A transaction's rows, wherever they are.
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

    /// Piece by piece, as chunks may be here and there.
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
