//! Online reorganization of a table, or the build of an index: the order of its steps. It follows
//! Morphus (section 2.2), but replays no log, because writers maintain both layouts.
//!
//! ```text
//!   delete-only    writers that begin from here on remove outdated entries of the new layout,
//!      │           and add none                          (set by the driver, before the start)
//!   AwaitWriters   earlier writers have ended: all writers know of the new layout
//!      │
//!   Enter          writers that begin from here on maintain both layouts
//!      │
//!   AwaitWriters   earlier writers have ended: no writer adds to one layout only
//!      │
//!   Copy ⇄ Pause   the existing rows, one batch at a time: lock, read again, write, release
//!      │
//!   Close ⇄ Pause  no writer has a row locked, and none gets one until the switch
//!      │
//!   Switch         one commit: rows are found and locked in the new layout from here on
//!      │
//!   AwaitReaders   earlier readers continue in the old layout, which is still maintained
//!      │
//!   LetGo          no reader is left in the old layout: it is dropped
//! ```
//!
//! [`Reorder`] decides the next step, and takes the result of each. It has no clock and reads no
//! rows. Its driver has the catalog: the server (`isomer_server`, `reshard`), and the simulator,
//! which injects failures between steps.
//!
//! **Invariants**, which the simulator checks. From the end of Copy to the end of AwaitReaders,
//! both layouts have the same rows at every moment. Each index has the entries of its layout's
//! rows. No row is locked in one layout while another writer has it locked in the other.
//!
//! **Why the delete-only state comes first.** Without it, some writers would add to the new layout
//! while others do not know of it. A writer of the second kind could change a row of the first
//! kind, and leave the old entry behind. Then a row would be in two places, or an index entry
//! without a row. F1 has the same rule for schema changes (Rae et al., VLDB 2013, section 3.3). Of
//! two states that writers use at one time, one removes everything that the other adds.
//!
//! **Why the invariants hold.** A row that is copied is locked against writers, in the only layout
//! in which rows are locked. So the new layout gets its current value, and its next writer changes
//! both. A row that is written for the first time is written to both. The switch finds no writer,
//! so no two writers can disagree about where rows are locked.
//!
//! **A table without writers**, like one that has just been loaded, is locked as a whole for each
//! batch. No row is locked by itself, batches are larger, and there is no rest. The first writer
//! that arrives waits for the end of one batch; the next batch locks rows again.
//!
//! **A failure before the switch** undoes the change ([`Reorder::is_switched`]): the new layout is
//! dropped. It is also dropped if the outcome of a batch is unknown, because the batch may be
//! applied late, over newer writes.
//!
//! **A commit with an unknown outcome** has released its row locks. If the clock of its site is
//! ahead, its rows may be read in their old versions. Writers are protected by the versions that
//! they expect. A batch expects none of its target rows. Once there was such a commit, a batch
//! commits only if its source rows are still as they were read.

use crate::open::{LockMode, OpenError, OpenTransaction};
use crate::transport::Transport;
use isomer_design::{Direction, Key, KeyRange, TableId};
use isomer_site::Expect;
use std::ops::ControlFlow;

/// The bounds of a batch. It begins with `ROWS_MIN` rows, and its size adapts to a duration of
/// [`BATCH_NS`], because a writer may wait for a row for that long.
const ROWS_MIN: usize = 50;
const ROWS_MAX: usize = 1000;
const BATCH_NS: u64 = 3_000_000;
/// The copier rests `REST_TIMES` times the duration of each batch, which leaves half of the disk
/// and locks to clients.
const REST_TIMES: u64 = 1;
/// The longest such rest in nanoseconds. A batch that takes longer has waited, mostly for a site
/// that was down, and has used neither disk nor locks for that time.
const REST_NS_MAX: u64 = 1_000_000_000;
/// The factor for the rows and the duration of a batch if no other transaction writes to the table.
const ALONE_TIMES: usize = 8;
/// The size of entries in bytes at which such a batch ends.
const ALONE_BYTES: usize = 8 << 20;
/// The time in milliseconds for which the switch may delay writers: in the first attempt, and at
/// most.
const PATIENCE_MS: u64 = 2;
const PATIENCE_MS_MAX: u64 = 1_000;
/// The pause between two attempts, as a multiple of that time.
const PAUSE_TIMES: u64 = 8;

/// The next batch to copy.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The rows that are left.
    pub range: KeyRange,
    /// The most rows.
    pub rows: usize,
    /// The most rows if no other transaction writes to the table.
    pub rows_alone: usize,
    /// A locked row. The copier waits for it before it locks any other row, so the copier is in no
    /// cycle of the waits-for graph.
    pub waits_for: Option<Key>,
}

/// The result of a batch.
#[derive(Clone, Default, Debug)]
pub struct Copied {
    /// The number of rows that were copied.
    pub rows: u64,
    /// The last of them.
    pub last: Option<Key>,
    /// The first row that another transaction has locked.
    pub busy: Option<Key>,
    /// True if no other transaction wrote to the table.
    pub is_alone: bool,
    /// True if no rows are left.
    pub is_end: bool,
}

/// The pause before the next batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Between {
    /// None.
    Nothing,
    /// A rest of this number of nanoseconds.
    Rest(u64),
    /// There is no next batch.
    End,
}

/// The copying of all rows of a table, batch after batch.
#[derive(Clone, Debug)]
pub struct Copying {
    next: Batch,
    rests: bool,
    /// The most rows a second; `None`: no limit.
    rows_s: Option<u64>,
}

impl Copying {
    /// Begins at the first row, with rests or without.
    pub fn new(rests: bool) -> Copying {
        let (rows, rows_alone) = (ROWS_MIN, ROWS_MIN * ALONE_TIMES);
        let next = Batch { range: KeyRange::all(), rows, rows_alone, waits_for: None };
        Copying { next, rests, rows_s: None }
    }

    /// Sets the most rows a second from here on; `None`: no limit.
    pub fn limit(&mut self, rows_s: Option<u64>) {
        self.rows_s = rows_s;
        self.resize(self.next.rows);
    }

    /// Sets the number of rows of a batch, within its bounds. Under a limit, a batch has at most
    /// the rows of a tenth of a second, so that a new limit takes effect soon.
    fn resize(&mut self, rows: usize) {
        let tenth = |rows_s: u64| usize::try_from(rows_s / 10).unwrap_or(ROWS_MAX);
        let most = self.rows_s.map_or(ROWS_MAX, |rows_s| tenth(rows_s).clamp(1, ROWS_MAX));
        self.next.rows = rows.clamp(ROWS_MIN.min(most), most);
        let times = self.rows_s.map_or(ALONE_TIMES, |_| 1);
        self.next.rows_alone = self.next.rows * times;
    }

    /// The next batch.
    pub fn batch(&self) -> &Batch {
        &self.next
    }

    /// Takes the result of a batch and its duration in nanoseconds. Returns the pause before the
    /// next one.
    pub fn came(&mut self, copied: &Copied, took_ns: u64) -> Between {
        let has_waited = self.next.waits_for.is_some();
        if !has_waited {
            let (rows, times) = (self.next.rows, if copied.is_alone { ALONE_TIMES } else { 1 });
            let is_long = took_ns >= BATCH_NS * times as u64;
            self.resize(if is_long { rows / 2 } else { rows * 5 / 4 });
        }
        if let Some(last) = &copied.last {
            self.next.range = self.next.range.clone().after(last, Direction::Forward);
        }
        self.next.waits_for.clone_from(&copied.busy);
        // The longer of two rests: for the limit, and for other users of the table.
        let owed = self.rows_s.map_or(0, |rows_s| copied.rows * 1_000_000_000 / rows_s.max(1));
        let owed = owed.saturating_sub(took_ns);
        let rests = self.rests && !has_waited && !copied.is_alone;
        let left = if rests { (took_ns * REST_TIMES).min(REST_NS_MAX) } else { 0 };
        match owed.max(left) {
            _ if copied.is_end => Between::End,
            0 => Between::Nothing,
            rest => Between::Rest(rest),
        }
    }
}

/// The next step. See the [module documentation](self).
#[derive(Clone, Debug)]
pub enum Step {
    /// Wait until all writers have ended that may have begun before the last step.
    AwaitWriters,
    /// Make all writers that begin from now on maintain both layouts.
    Enter,
    /// Copy rows.
    Copy(Batch),
    /// Wait for this number of nanoseconds.
    Pause(u64),
    /// Keep writers out. This may delay them for up to this number of milliseconds.
    Close(u64),
    /// Swap the two layouts, and admit writers again.
    Switch,
    /// Wait until all readers have ended that may use the layout of before the switch.
    AwaitReaders,
    /// Drop the old layout.
    LetGo,
    /// Nothing.
    Done,
}

/// The result of a step.
#[derive(Clone, Debug)]
pub enum Came {
    /// It is done.
    Done,
    /// A batch was copied in this number of nanoseconds.
    Copied(Copied, u64),
    /// Writers did not end within the time.
    Open,
}

/// One change of order. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Reorder {
    phase: Phase,
    /// True if the old layout is kept, and maintained, beyond the end.
    keeps_old: bool,
    /// The most rows that are copied a second; `None`: no limit.
    rows_s: Option<u64>,
}

#[derive(Clone, Debug)]
enum Phase {
    /// Before the writers add to the new layout, or after that.
    Writers {
        is_entered: bool,
    },
    Enter,
    Copy(Copying),
    Rest(Copying, u64),
    Close {
        patience_ms: u64,
    },
    Again {
        patience_ms: u64,
    },
    Switch,
    Readers,
    LetGo,
    Done,
}

impl Reorder {
    /// A change to an empty layout in its delete-only state. Writers that begin from now on add
    /// nothing to it, and remove the entries of rows that they change.
    pub fn begin(keeps_old: bool) -> Reorder {
        Reorder { phase: Phase::Writers { is_entered: false }, keeps_old, rows_s: None }
    }

    /// A change back to a layout that has been maintained.
    pub fn back(keeps_old: bool) -> Reorder {
        Reorder { phase: Phase::Close { patience_ms: PATIENCE_MS }, keeps_old, rows_s: None }
    }

    /// Sets the most rows copied a second from here on; `None`: no limit.
    pub fn limit(&mut self, rows_s: Option<u64>) {
        self.rows_s = rows_s;
        if let Phase::Copy(copying) | Phase::Rest(copying, _) = &mut self.phase {
            copying.limit(rows_s);
        }
    }

    /// True if the change can be paused for long without blocking others, because nothing is
    /// locked.
    pub fn may_pause(&self) -> bool {
        matches!(self.step(), Step::Copy(_) | Step::Pause(_) | Step::Close(_))
    }

    /// The next step.
    pub fn step(&self) -> Step {
        match &self.phase {
            Phase::Writers { .. } => Step::AwaitWriters,
            Phase::Enter => Step::Enter,
            Phase::Copy(copying) => Step::Copy(copying.batch().clone()),
            Phase::Rest(_, ns) => Step::Pause(*ns),
            Phase::Close { patience_ms } => Step::Close(*patience_ms),
            Phase::Again { patience_ms } => Step::Pause(patience_ms * PAUSE_TIMES * 1_000_000),
            Phase::Switch => Step::Switch,
            Phase::Readers => Step::AwaitReaders,
            Phase::LetGo => Step::LetGo,
            Phase::Done => Step::Done,
        }
    }

    /// Takes the result of that step.
    ///
    /// # Panics
    /// If the step cannot have this result.
    pub fn came(&mut self, came: &Came) {
        let phase = std::mem::replace(&mut self.phase, Phase::Done);
        self.phase = match (phase, came) {
            (Phase::Writers { is_entered: false }, Came::Done) => Phase::Enter,
            (Phase::Enter, Came::Done) => Phase::Writers { is_entered: true },
            (Phase::Writers { .. }, Came::Done) => {
                let mut copying = Copying::new(true);
                copying.limit(self.rows_s);
                Phase::Copy(copying)
            }
            (Phase::Copy(mut copying), Came::Copied(copied, took_ns)) => {
                match copying.came(copied, *took_ns) {
                    Between::Nothing => Phase::Copy(copying),
                    Between::Rest(ns) => Phase::Rest(copying, ns),
                    Between::End => Phase::Close { patience_ms: PATIENCE_MS },
                }
            }
            (Phase::Rest(copying, _), Came::Done) => Phase::Copy(copying),
            (Phase::Close { .. }, Came::Done) => Phase::Switch,
            (Phase::Close { patience_ms }, Came::Open) => Phase::Again { patience_ms },
            (Phase::Again { patience_ms }, Came::Done) => {
                Phase::Close { patience_ms: (patience_ms * 2).min(PATIENCE_MS_MAX) }
            }
            (Phase::Switch, Came::Done) if self.keeps_old => Phase::Done,
            (Phase::Switch, Came::Done) => Phase::Readers,
            (Phase::Readers, Came::Done) => Phase::LetGo,
            (Phase::LetGo, Came::Done) => Phase::Done,
            (phase, came) => panic!("{came:?} cannot come of {phase:?}"),
        };
    }

    /// True once rows are found in the new layout: a failure from here on leaves them there.
    pub fn is_switched(&self) -> bool {
        matches!(self.phase, Phase::Readers | Phase::LetGo | Phase::Done)
    }
}

/// The entries to write for a row: the table of the store, the key, and the value.
pub type Entries = Vec<(TableId, Key, Vec<u8>)>;

impl<T: Transport> OpenTransaction<T> {
    /// Writes the entries of the first rows of a range, up to a row that another transaction has
    /// locked. Each row is read while it is locked. Stops at the first row for which `entries`
    /// returns `None`.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn copy_rows(
        &mut self,
        table: TableId,
        batch: &Batch,
        mut entries: impl FnMut(&[u8], &[u8]) -> Option<Entries>,
    ) -> Result<Copied, OpenError> {
        if batch.waits_for.is_none() && self.takes_table(table).await? {
            return self.copy_alone(table, batch, entries).await;
        }
        let mut keys = self.first_keys(table, batch).await?;
        let is_last = keys.len() < batch.rows;
        let busy = self.first_busy(table, &keys).await?.and_then(|at| keys.drain(at..).next());
        let (last, is_end) = (keys.last().cloned(), is_last && busy.is_none());
        let mut copied = Copied { rows: 0, last, busy, is_alone: false, is_end };
        let Some(last) = &copied.last else { return Ok(copied) };
        let range = KeyRange::new(batch.range.start.clone(), Some(last.successor()));
        let mut all = Entries::with_capacity(keys.len());
        self.look_again();
        let mut is_there = vec![false; keys.len()];
        let enter = |key: &[u8], row: &[u8]| {
            // Rows that are new since the keys were read are not locked. Their writers have written
            // their entries.
            let Ok(at) = keys.binary_search_by(|locked| locked.as_bytes().cmp(key)) else {
                return ControlFlow::Continue(());
            };
            is_there[at] = true;
            let Some(entries) = entries(key, row) else { return ControlFlow::Break(()) };
            all.extend(entries);
            copied.rows += 1;
            ControlFlow::Continue(())
        };
        self.scan(table, &range, Direction::Forward, enter).await?;
        self.check_locked(table, keys.iter().zip(is_there));
        self.enter(all)?;
        Ok(copied)
    }

    /// Locks the whole table, if no other transaction has a lock on it. Returns false if rows must
    /// be locked one by one; each can then be validated, too.
    async fn takes_table(&mut self, table: TableId) -> Result<bool, OpenError> {
        match self.lock(table, &Key::min(), LockMode::Exclusive, false).await {
            Ok(()) => Ok(!self.may_have_misread()),
            Err(OpenError::Locked) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Like [`copy_rows`](Self::copy_rows), for a table that is locked.
    async fn copy_alone(
        &mut self,
        table: TableId,
        batch: &Batch,
        mut entries: impl FnMut(&[u8], &[u8]) -> Option<Entries>,
    ) -> Result<Copied, OpenError> {
        self.look_again();
        let (mut all, mut bytes) = (Entries::new(), 0);
        let mut copied = Copied { is_alone: true, is_end: true, ..Copied::default() };
        let enter = |key: &[u8], row: &[u8]| {
            let Some(entries) = entries(key, row) else { return ControlFlow::Break(()) };
            bytes += entries.iter().map(|(_, key, row)| key.len() + row.len()).sum::<usize>();
            all.extend(entries);
            copied.rows += 1;
            if copied.rows < batch.rows_alone as u64 && bytes < ALONE_BYTES {
                return ControlFlow::Continue(());
            }
            (copied.last, copied.is_end) = (Some(Key::from_bytes(key)), false);
            ControlFlow::Break(())
        };
        self.scan(table, &batch.range, Direction::Forward, enter).await?;
        self.enter(all)?;
        Ok(copied)
    }

    fn enter(&mut self, entries: Entries) -> Result<(), OpenError> {
        let mut entries = entries.into_iter();
        entries.try_for_each(|(to, key, row)| self.put(to, key, Expect::Anything, Some(row)))
    }

    async fn first_keys(&mut self, table: TableId, batch: &Batch) -> Result<Vec<Key>, OpenError> {
        let mut keys = Vec::new();
        let visit = |key: &[u8], _: &[u8]| {
            keys.push(Key::from_bytes(key));
            match keys.len() < batch.rows {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        };
        self.scan(table, &batch.range, Direction::Forward, visit).await?;
        Ok(keys)
    }

    /// Locks rows, up to the first that another transaction has locked. Returns the index of that
    /// row.
    async fn first_busy(
        &mut self,
        table: TableId,
        keys: &[Key],
    ) -> Result<Option<usize>, OpenError> {
        for (at, key) in keys.iter().enumerate() {
            match self.lock(table, key, LockMode::Shared, false).await {
                Ok(()) => {}
                Err(OpenError::Locked) => return Ok(Some(at)),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(last: i64, busy: Option<i64>, is_end: bool) -> Came {
        let busy = busy.map(Key::int);
        Came::Copied(
            Copied { rows: 1, last: Some(Key::int(last)), busy, is_alone: false, is_end },
            1_000,
        )
    }

    /// Each step, with its result.
    #[test]
    fn each_phase_comes_after_the_one_before() {
        let mut change = Reorder::begin(false);
        let story = [
            ("AwaitWriters", Came::Done),
            ("Enter", Came::Done),
            ("AwaitWriters", Came::Done),
            ("Copy", copied(9, None, false)),
            ("Pause(1000)", Came::Done),
            ("Copy", copied(20, Some(21), false)),
            ("Pause(1000)", Came::Done),
            ("Copy", copied(30, None, true)),
            ("Close(2)", Came::Open),
            ("Pause(16000000)", Came::Done),
            ("Close(4)", Came::Done),
            ("Switch", Came::Done),
            ("AwaitReaders", Came::Done),
            ("LetGo", Came::Done),
        ];
        for (at, (wanted, came)) in story.iter().enumerate() {
            let step = format!("{:?}", change.step());
            assert!(step.starts_with(wanted), "{step} is not {wanted}");
            assert_eq!(change.is_switched(), at > 11, "{step}");
            change.came(came);
        }
        assert!(matches!(change.step(), Step::Done));
    }

    #[test]
    fn a_locked_row_is_waited_for_alone_and_without_a_rest() {
        let mut copying = Copying::new(true);
        let busy = Copied { busy: Some(Key::int(5)), ..Copied::default() };
        assert_eq!(copying.came(&busy, 7), Between::Rest(7));
        let batch = copying.batch().clone();
        assert_eq!((batch.waits_for, batch.range), (Some(Key::int(5)), KeyRange::all()));
        let there = Copied { last: Some(Key::int(5)), ..Copied::default() };
        assert_eq!(copying.came(&there, 7), Between::Nothing);
        assert_eq!(copying.batch().waits_for, None);
    }

    #[test]
    fn a_batch_that_waited_for_an_outage_is_followed_by_a_bounded_rest() {
        let mut copying = Copying::new(true);
        let rested = copying.came(&Copied::default(), 44 * REST_NS_MAX);
        assert_eq!(rested, Between::Rest(REST_NS_MAX));
    }

    #[test]
    fn batches_grow_while_they_are_quick_and_shrink_when_they_are_not() {
        let (mut copying, none) = (Copying::new(false), Copied::default());
        assert_eq!(copying.came(&none, 1), Between::Nothing);
        assert_eq!(copying.batch().rows, 62);
        for _ in 0..20 {
            copying.came(&none, 1);
        }
        assert_eq!(copying.batch().rows, ROWS_MAX);
        copying.came(&none, BATCH_NS);
        assert_eq!(copying.batch().rows, ROWS_MAX / 2);
    }

    #[test]
    fn a_budget_is_kept_by_small_batches_and_rests() {
        let mut copying = Copying::new(true);
        copying.limit(Some(100));
        assert_eq!(copying.batch().rows, 10, "a tenth of a second's");
        let ten = Copied { rows: 10, last: Some(Key::int(10)), ..Copied::default() };
        assert_eq!(copying.came(&ten, 1_000_000), Between::Rest(99_000_000));
        copying.limit(Some(1_000_000));
        assert_eq!(
            copying.came(&ten, 1_000_000),
            Between::Rest(1_000_000),
            "that of those at work"
        );
        copying.limit(None);
        assert!(copying.batch().rows >= ROWS_MIN, "as without one");
    }

    #[test]
    fn without_other_writers_batches_are_larger_and_rests_come_only_from_a_limit() {
        let mut copying = Copying::new(true);
        assert_eq!(copying.batch().rows_alone, ROWS_MIN * ALONE_TIMES);
        let alone = Copied { rows: 400, is_alone: true, ..Copied::default() };
        assert_eq!(copying.came(&alone, BATCH_NS + 1), Between::Nothing);
        assert_eq!(copying.batch().rows, 62, "that was quick for 400 rows");
        let rested = copying.came(&Copied { is_alone: false, ..alone.clone() }, BATCH_NS);
        assert_eq!(rested, Between::Rest(BATCH_NS), "another writer has come");
        copying.limit(Some(100));
        assert_eq!(copying.batch().rows_alone, 10);
        assert_eq!(copying.came(&alone, 1_000_000), Between::Rest(3_999_000_000));
    }

    #[test]
    fn an_order_that_was_kept_is_switched_to_at_once() {
        let mut change = Reorder::back(true);
        assert!(matches!(change.step(), Step::Close(PATIENCE_MS)));
        change.came(&Came::Done);
        change.came(&Came::Done);
        assert!(matches!(change.step(), Step::Done) && change.is_switched());
    }
}
