//! Another order of a table's rows, or an index of them, comes to be while the table is used: what is done after what
//! (after Morphus, section 2.2, but nothing is replayed: who writes keeps both orders).
//!
//! ```text
//!   known        all who begin to write from here on remove from the new order what is not so any more, and add
//!      │         nothing to it                                             (by whoever drives this, before it begins)
//!   AwaitWriters those who began before have ended: nobody is left who does not know of it
//!      │
//!   Enter        all who begin to write from here on keep both orders
//!      │
//!   AwaitWriters those who began before have ended: nobody is left who adds to one order only
//!      │
//!   Copy ⇄ Pause the rows that are there, a batch at a time: locked, looked at again, entered, let go
//!      │
//!   Close ⇄ Pause  nobody has a row locked just then, and nobody gets one until the switch
//!      │
//!   Switch       one commit: rows are found and locked in the new order from here on
//!      │
//!   AwaitReaders those who began before read on in the old order, which is written to as long
//!      │
//!   LetGo        nobody reads there any more
//! ```
//!
//! [`Reorder`] says what comes next, and is told what came of it: it has no clock, and knows no rows. Who drives it has
//! the catalog: the server (`isomer_server`, `reshard`), and the simulator, which lets everything fail in between.
//!
//! **Invariants**, which the simulator checks. From the end of Copy to the end of AwaitReaders, both orders have the
//! same rows at every moment, and each index the entries of its order's rows. No row is locked in one order while
//! another writer has it in the other.
//!
//! **Why it is made known first.** If some added to the new order while others did not know of it, one of these could
//! change a row that one of those had written, and what was added for it would stay: a row in two places, an entry of
//! no row. So it is in F1's changes of a schema (Rae et al., VLDB 2013, section 3.3): between two states that writers
//! are in at one time, one removes all that the other adds.
//!
//! **Why they hold.** A row that is copied is locked against writers, in the only order in which rows are locked; so it
//! is in the new order as it is, and whoever changes it next changes both. One that is written for the first time is
//! written to both. The switch finds no writer, so no two of them can differ about where rows are locked.
//!
//! **A table to which nobody writes**, as one that has just been loaded, is locked as a whole for each batch: no row of it
//! is locked by itself, batches are larger, and there is no rest. The first who wants to write waits for the end of one
//! batch; the next one locks rows again.
//!
//! **What fails before the switch** undoes the change ([`Reorder::is_switched`]): the new order is dropped. So is one
//! of which nobody knows whether a batch of it was written: that may come late, over what was written since.
//!
//! **A commit of which nobody knows** whether it was made, at a site that is ahead of the clock, has released its row
//! locks, and its rows may be read as they were before it. Those who write are kept from that by the version that they
//! expect. A batch expects none of what it writes; once there was such a commit, it is made only if the rows are still
//! as they were read.

use crate::open::{LockMode, OpenError, OpenTransaction};
use crate::transport::Transport;
use isomer_design::{Direction, Key, KeyRange, TableId};
use isomer_site::Expect;
use std::ops::ControlFlow;

/// At first few rows are copied at a time, and then as many as take about so long: a writer waits for a row while a
/// batch has it.
const ROWS_MIN: usize = 50;
const ROWS_MAX: usize = 1000;
const BATCH_NS: u64 = 3_000_000;
/// Who copies rests so many times as long as it has worked: those who use the table come first.
const REST_TIMES: u64 = 1;
/// Where nobody writes to the table, a batch may have so many times as many rows, and take as many times as long.
const ALONE_TIMES: usize = 8;
/// It has no more rows once it writes so many bytes.
const ALONE_BYTES: usize = 8 << 20;
/// Who wants to write waits so long for the switch, at first and at most.
const PATIENCE_MS: u64 = 2;
const PATIENCE_MS_MAX: u64 = 1_000;
/// Between two attempts is so many times that.
const PAUSE_TIMES: u64 = 8;

/// What is copied next.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The rows that are left.
    pub range: KeyRange,
    /// At most so many of them.
    pub rows: usize,
    /// At most so many of them if nobody else writes to the table.
    pub rows_alone: usize,
    /// This one is waited for, before any other is locked: so whoever copies is in no circle of those who wait.
    pub waits_for: Option<Key>,
}

/// What came of a batch.
#[derive(Clone, Default, Debug)]
pub struct Copied {
    /// How many rows were copied.
    pub rows: u64,
    /// The last of them.
    pub last: Option<Key>,
    /// The first that somebody else has locked.
    pub busy: Option<Key>,
    /// Nobody else wrote to the table.
    pub is_alone: bool,
    /// True if there are no more.
    pub is_end: bool,
}

/// What is done between two batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Between {
    /// Nothing.
    Nothing,
    /// A rest of so many nanoseconds.
    Rest(u64),
    /// There is no other batch.
    End,
}

/// The copying of all rows of a table, batch after batch.
#[derive(Clone, Debug)]
pub struct Copying {
    next: Batch,
    rests: bool,
    /// At most so many rows a second.
    rows_s: Option<u64>,
}

impl Copying {
    /// From the first row on, with rests or without.
    pub fn new(rests: bool) -> Copying {
        let (rows, rows_alone) = (ROWS_MIN, ROWS_MIN * ALONE_TIMES);
        let next = Batch { range: KeyRange::all(), rows, rows_alone, waits_for: None };
        Copying { next, rests, rows_s: None }
    }

    /// At most so many rows a second from here on, or as many as can be.
    pub fn limit(&mut self, rows_s: Option<u64>) {
        self.rows_s = rows_s;
        self.resize(self.next.rows);
    }

    /// So many rows, if that is neither too few nor too many; of a budget a tenth at most, so that a change of it is
    /// soon felt.
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

    /// A batch is done, and has taken so many nanoseconds.
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
        // What the budget asks for, and what those who use the table do.
        let owed = self.rows_s.map_or(0, |rows_s| copied.rows * 1_000_000_000 / rows_s.max(1));
        let owed = owed.saturating_sub(took_ns);
        let rests = self.rests && !has_waited && !copied.is_alone;
        let left = if rests { took_ns * REST_TIMES } else { 0 };
        match owed.max(left) {
            _ if copied.is_end => Between::End,
            0 => Between::Nothing,
            rest => Between::Rest(rest),
        }
    }
}

/// What is to be done next. See the [module documentation](self).
#[derive(Clone, Debug)]
pub enum Step {
    /// Wait until those have ended who may have begun to write before the last step.
    AwaitWriters,
    /// Have all who begin to write from now on keep both orders.
    Enter,
    /// Copy rows.
    Copy(Batch),
    /// Wait for so many nanoseconds.
    Pause(u64),
    /// Keep writers out. So long, in milliseconds, they may be held up by it.
    Close(u64),
    /// Put the two orders in each other's place, and let writers in again.
    Switch,
    /// Wait until those have ended who may read by what was before the switch.
    AwaitReaders,
    /// Drop the old order.
    LetGo,
    /// Nothing.
    Done,
}

/// What came of a step.
#[derive(Clone, Debug)]
pub enum Came {
    /// It is done.
    Done,
    /// This was copied, in so many nanoseconds.
    Copied(Copied, u64),
    /// Those who write have not ended for so long.
    Open,
}

/// One change of order. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Reorder {
    phase: Phase,
    /// The old order is kept, and written to, beyond the end.
    keeps_old: bool,
    /// At most so many rows are copied a second.
    rows_s: Option<u64>,
}

#[derive(Clone, Debug)]
enum Phase {
    /// Before they add to the new order, or after that.
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
    /// To an order that has no rows yet, and is known to all who begin from now on: they add nothing to it, and remove
    /// what there is of a row that they change.
    pub fn begin(keeps_old: bool) -> Reorder {
        Reorder { phase: Phase::Writers { is_entered: false }, keeps_old, rows_s: None }
    }

    /// To an order that has been kept.
    pub fn back(keeps_old: bool) -> Reorder {
        Reorder { phase: Phase::Close { patience_ms: PATIENCE_MS }, keeps_old, rows_s: None }
    }

    /// At most so many rows are copied a second from here on, or as many as can be.
    pub fn limit(&mut self, rows_s: Option<u64>) {
        self.rows_s = rows_s;
        if let Phase::Copy(copying) | Phase::Rest(copying, _) = &mut self.phase {
            copying.limit(rows_s);
        }
    }

    /// True where it can be held up for long, without anything that waits for it: nothing is locked.
    pub fn may_pause(&self) -> bool {
        matches!(self.step(), Step::Copy(_) | Step::Pause(_) | Step::Close(_))
    }

    /// What is to be done next.
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

    /// What came of that.
    ///
    /// # Panics
    /// If it cannot come of it.
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

    /// True once rows are found in the new order: what fails from here on leaves it there.
    pub fn is_switched(&self) -> bool {
        matches!(self.phase, Phase::Readers | Phase::LetGo | Phase::Done)
    }
}

/// What is entered for a row: in which table of the store, under which key, and what.
pub type Entries = Vec<(TableId, Key, Vec<u8>)>;

impl<T: Transport> OpenTransaction<T> {
    /// Enters what is to be entered for rows of a table: the first ones of a range, up to one that somebody else has
    /// locked, each as it is while it is locked. Nothing more is entered once there is nothing for a row.
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
            // What is new since the keys were looked for is not locked; its writers have entered it.
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

    /// Locks the table as a whole, if nobody else has it just then. False if rows are to be locked one by one: then each
    /// can be checked, too.
    async fn takes_table(&mut self, table: TableId) -> Result<bool, OpenError> {
        match self.lock(table, &Key::min(), LockMode::Exclusive, false).await {
            Ok(()) => Ok(!self.may_have_misread()),
            Err(OpenError::Locked) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// As [`copy_rows`](Self::copy_rows), of a table that is locked.
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

    /// Locks rows, up to the first that somebody else has.
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

    /// Each step with what comes of it, and the one after.
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
    fn a_row_that_somebody_has_is_waited_for_alone_and_without_a_rest() {
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
    fn where_nobody_writes_batches_are_larger_and_there_is_no_rest_unless_there_is_a_budget() {
        let mut copying = Copying::new(true);
        assert_eq!(copying.batch().rows_alone, ROWS_MIN * ALONE_TIMES);
        let alone = Copied { rows: 400, is_alone: true, ..Copied::default() };
        assert_eq!(copying.came(&alone, BATCH_NS + 1), Between::Nothing);
        assert_eq!(copying.batch().rows, 62, "that was quick for so many");
        let rested = copying.came(&Copied { is_alone: false, ..alone.clone() }, BATCH_NS);
        assert_eq!(rested, Between::Rest(BATCH_NS), "somebody has come");
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
