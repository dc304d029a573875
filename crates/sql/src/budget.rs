//! The memory and time of a statement: both are reserved before they are used.
//!
//! ```text
//!   all sessions together ── session ── transaction ── statement          an Account each
//!          --memory-mb      --session-mb  --transaction-mb  --statement-mb
//!                                              ▲ 256 KB at a time
//!                                          Budget: scratch + held         one thread, no atomics
//! ```
//!
//! An [`Account`] is a limit and its used part, within another account. A [`Budget`] belongs to a
//! thread: it takes memory from its account in large pieces, and counts small ones by itself. The
//! first 64 KB are free, so a statement that looks up a row touches no shared state.
//!
//! **Held** memory stays until it is released: rows that are sorted, hashed and grouped, a portal's
//! rows, an incoming message. A guard ([`Held`], [`Holding`]) releases it. **Scratch** memory is a
//! stack, like evaluation itself. An evaluation notes a mark, charges the values it makes, and
//! returns to the mark when they are no longer needed. So the sum of a thousand texts needs the
//! memory of the two longest.
//!
//! ```text
//!   mark      'a' || repeat(..)      charge 64 MB, repeat; charge 64 MB, concatenate
//!             settle(mark, 64 MB)    the operands are freed, the result remains
//!   back_to(mark)                    the row was returned
//! ```
//!
//! **Time** is counted in units of about ten nanoseconds. Every loop that a client can make long
//! reports its work ([`Budget::tick`]); every 65,536 units the budget checks whether the statement
//! was cancelled. Charging bytes counts as work, so operations on long values check in time.
//!
//! **Depth.** Expressions and joins recurse on the stack. A budget knows the stack pointer at the
//! beginning of the statement, and refuses to go [deeper](Budget::deeper) than the stack allows.
//!
//! Left out: the allocator's overhead. The limits apply to what statements request, and a server
//! uses about a quarter more.

use crate::error::{SqlError, code};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The piece that a budget takes from its account at a time, if available.
const STEP_BYTES: usize = 256 << 10;
/// The bytes that a budget may use without its account.
const FREE_BYTES: usize = 64 << 10;
/// A budget that uses less than half of its reservation minus this returns the rest.
const SPARE_BYTES: usize = 1 << 20;
/// A limit above any machine's memory, whose sums do not overflow.
const BYTES_MAX: usize = 1 << 60;
/// The work after which a budget checks for cancellation.
const WORK: usize = 1 << 16;
/// The work of reading a row.
pub const ROW_WORK: usize = 128;

/// A limit, and its used part.
#[derive(Debug)]
pub struct Account {
    what: &'static str,
    /// The option that sets the limit.
    option: &'static str,
    limit: usize,
    used: AtomicUsize,
    parent: Option<Arc<Account>>,
}

impl Account {
    /// An account of `limit` bytes, within `parent` if there is one. Errors name its owner, `what`,
    /// and the `option` that sets the limit in megabytes.
    pub fn new(
        what: &'static str,
        option: &'static str,
        limit: usize,
        parent: Option<&Arc<Account>>,
    ) -> Arc<Account> {
        let (used, parent) = (AtomicUsize::new(0), parent.cloned());
        Arc::new(Account { what, option, limit, used, parent })
    }

    /// The used bytes.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) -> Result<(), SqlError> {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed);
        let fits = used.checked_add(bytes).is_some_and(|used| used <= self.limit);
        let taken = match (&self.parent, fits) {
            (_, false) => Err(self.exhausted()),
            (Some(parent), true) => parent.take(bytes),
            (None, true) => Ok(()),
        };
        if taken.is_err() {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
        }
        taken
    }

    fn give(&self, bytes: usize) {
        let used = self.used.fetch_sub(bytes, Ordering::Relaxed);
        assert!(used >= bytes, "more is given back than was taken");
        self.parent.iter().for_each(|parent| parent.give(bytes));
    }

    fn exhausted(&self) -> SqlError {
        let (what, limit) = (self.what, self.limit as f64 / f64::from(1 << 20));
        let message = format!("out of memory: {what} may use {limit} MB");
        SqlError::new(code::OUT_OF_MEMORY, message).hint(format!(
            "Ask for less at a time, or let the server start with a larger {}.",
            self.option
        ))
    }
}

/// Returns an error if the statement was cancelled.
pub type Wanted = Box<dyn Fn() -> Result<(), SqlError>>;

/// See the [module documentation](self).
pub struct Budget {
    account: Arc<Account>,
    wanted: Wanted,
    held: Cell<usize>,
    scratch: Cell<usize>,
    /// The limit of `held` plus `scratch` up to which the account need not be asked.
    covered: Cell<usize>,
    work: Cell<usize>,
    /// The stack pointer at the beginning of the statement, and the stack it may use from there.
    base: Cell<usize>,
    stack_bytes: usize,
}

impl Budget {
    /// A budget on an account. `wanted` is called periodically, and its error ends the statement;
    /// `stack_bytes` is the stack that a statement may use.
    pub fn new(account: Arc<Account>, stack_bytes: usize, wanted: Wanted) -> Rc<Budget> {
        let zero = || Cell::new(0);
        let (held, scratch, work, base) = (zero(), zero(), zero(), Cell::new(here()));
        let covered = Cell::new(FREE_BYTES);
        Rc::new(Budget { account, wanted, held, scratch, covered, work, base, stack_bytes })
    }

    /// A budget without limit, for internal work.
    pub fn unlimited() -> Rc<Budget> {
        let account = Account::new("the server itself", "memory", usize::MAX, None);
        Budget::new(account, usize::MAX, Box::new(|| Ok(())))
    }

    /// Begins a statement at this depth of the stack.
    pub fn begin(&self) {
        self.base.set(here());
        self.scratch.set(0);
    }

    /// Ends a statement: releases all memory that is not held.
    pub fn end(&self) {
        self.scratch.set(0);
        self.give_back(self.held.get().max(FREE_BYTES));
    }

    /// The used bytes.
    pub fn used(&self) -> usize {
        self.held.get() + self.scratch.get()
    }

    /// The current mark of scratch memory.
    pub fn mark(&self) -> usize {
        self.scratch.get()
    }

    /// Releases the scratch memory since a mark.
    pub fn back_to(&self, mark: usize) {
        self.scratch.set(mark.min(self.scratch.get()));
        self.spare();
    }

    /// Releases the scratch memory since a mark, except for a value of `bytes` bytes.
    ///
    /// # Errors
    /// 53200 if the memory is exhausted.
    pub fn settle(&self, mark: usize, bytes: usize) -> Result<(), SqlError> {
        if self.scratch.get() == mark && bytes == 0 {
            return Ok(());
        }
        self.scratch.set(mark.min(self.scratch.get()));
        self.charge(bytes)?;
        self.spare();
        Ok(())
    }

    /// Reserves bytes that are about to be allocated.
    ///
    /// # Errors
    /// 53200 if the memory is exhausted; 57014 and similar if the statement was cancelled.
    pub fn charge(&self, bytes: usize) -> Result<(), SqlError> {
        self.grow(&self.scratch, bytes)?;
        self.tick(bytes / 16)
    }

    /// A guard for held memory, initially empty.
    pub fn held(&self) -> Held<'_> {
        Held { budget: self, bytes: 0 }
    }

    /// Holds bytes until the guard is dropped.
    ///
    /// # Errors
    /// 53200 if the memory is exhausted.
    pub fn keep(self: &Rc<Budget>, bytes: usize) -> Result<Holding, SqlError> {
        self.grow(&self.held, bytes)?;
        Ok(Holding { budget: self.clone(), bytes })
    }

    /// Reports work.
    ///
    /// # Errors
    /// 57014 and similar if the statement was cancelled.
    pub fn tick(&self, work: usize) -> Result<(), SqlError> {
        let done = self.work.get().saturating_add(work);
        if done < WORK {
            self.work.set(done);
            return Ok(());
        }
        self.work.set(0);
        (self.wanted)()
    }

    /// Checks whether the statement goes on, for loops that wait.
    ///
    /// # Errors
    /// 57014 and similar if the statement was cancelled.
    pub fn check(&self) -> Result<(), SqlError> {
        (self.wanted)()
    }

    /// Must be called before a recursive call.
    ///
    /// # Errors
    /// 54001 if the stack is used up.
    pub fn deeper(&self) -> Result<(), SqlError> {
        if self.base.get().abs_diff(here()) <= self.stack_bytes {
            return Ok(());
        }
        let message = "stack depth limit exceeded";
        let hint = "The statement is nested too deeply, or joins too many tables.";
        Err(SqlError::new(code::TOO_COMPLEX, message).hint(hint))
    }

    fn grow(&self, part: &Cell<usize>, bytes: usize) -> Result<(), SqlError> {
        let before = part.get();
        if bytes > BYTES_MAX {
            return Err(self.account.exhausted());
        }
        part.set(before + bytes);
        let (used, covered) = (self.used(), self.covered.get());
        if used <= covered {
            return Ok(());
        }
        let more = used - covered;
        let large = more.max(STEP_BYTES);
        let taken = match self.account.take(large) {
            Ok(()) => Ok(large),
            Err(_) => self.account.take(more).map(|()| more),
        };
        match taken {
            Ok(taken) => self.covered.set(covered + taken),
            Err(_) => part.set(before),
        }
        taken.map(|_| ())
    }

    /// Returns unused memory to the account, if it is much.
    fn spare(&self) {
        let wanted = self.used().max(FREE_BYTES);
        if self.covered.get() > 2 * wanted + SPARE_BYTES {
            self.give_back(wanted);
        }
    }

    /// Returns all memory beyond `wanted`.
    fn give_back(&self, wanted: usize) {
        let more = self.covered.get().saturating_sub(wanted);
        if more > 0 {
            self.covered.set(wanted);
            self.account.give(more);
        }
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        self.give_back(FREE_BYTES);
    }
}

/// The current stack pointer.
fn here() -> usize {
    let here = 0u8;
    &raw const here as usize
}

/// The most memory of a hash table with `capacity` entries. An eighth of the slots stays empty, and
/// each slot has a tag byte. A table of half the size exists until its entries have moved.
fn table_bytes(capacity: usize, entry: usize) -> usize {
    let places = capacity + capacity.div_ceil(7);
    places * (entry + 1) / 2 * 3
}

/// Memory that is held until this is dropped.
pub struct Held<'b> {
    budget: &'b Budget,
    bytes: usize,
}

impl Held<'_> {
    /// The held bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Holds further bytes.
    ///
    /// # Errors
    /// 53200 if the memory is exhausted; 57014 and similar if the statement was cancelled.
    pub fn add(&mut self, bytes: usize) -> Result<(), SqlError> {
        self.budget.grow(&self.budget.held, bytes)?;
        self.bytes += bytes;
        self.budget.tick(bytes / 16)
    }

    /// Holds the memory that a hash table needs for one more entry of `entry` bytes. A full table
    /// moves to one of twice its size, and both exist meanwhile.
    ///
    /// # Errors
    /// As [`Held::add`].
    pub fn place(&mut self, len: usize, capacity: usize, entry: usize) -> Result<(), SqlError> {
        if len < capacity {
            return Ok(());
        }
        let next = (2 * capacity).max(3);
        self.add(table_bytes(next, entry) - table_bytes(capacity, entry))
    }

    /// Releases some of the held bytes.
    pub fn less(&mut self, bytes: usize) {
        self.bytes = self.bytes.checked_sub(bytes).expect("no more is released than is held");
        self.budget.held.set(self.budget.held.get() - bytes);
        self.budget.spare();
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.less(self.bytes);
    }
}

/// Memory that is held until this is dropped; can be stored anywhere.
pub struct Holding {
    budget: Rc<Budget>,
    bytes: usize,
}

impl Holding {
    /// Holds further bytes.
    ///
    /// # Errors
    /// 53200 if the memory is exhausted; then nothing changes.
    pub fn more(&mut self, bytes: usize) -> Result<(), SqlError> {
        self.resize(self.bytes.saturating_add(bytes))
    }

    /// Sets the number of held bytes.
    ///
    /// # Errors
    /// 53200 if the memory is exhausted; then nothing changes.
    pub fn resize(&mut self, bytes: usize) -> Result<(), SqlError> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.budget.grow(&self.budget.held, more)?,
            None => {
                let held = &self.budget.held;
                held.set(held.get() - (self.bytes - bytes));
                self.budget.spare();
            }
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.resize(0).expect("less is always there");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1 << 20;

    fn statement(all: &Arc<Account>, limit: usize) -> Rc<Budget> {
        let account = Account::new("a statement", "--statement-mb", limit, Some(all));
        Budget::new(account, 1 << 20, Box::new(|| Ok(())))
    }

    #[test]
    fn released_memory_can_be_used_again() {
        let all = Account::new("all sessions together", "--memory-mb", 8 * MB, None);
        let budget = statement(&all, 4 * MB);
        for _ in 0..100 {
            let mark = budget.mark();
            budget.charge(MB).expect("an operand");
            budget.charge(MB).expect("another");
            budget.charge(2 * MB).expect("the result");
            budget.settle(mark, 2 * MB).expect("the operands are released");
            assert_eq!(budget.charge(3 * MB).unwrap_err().code, code::OUT_OF_MEMORY);
            budget.back_to(mark);
        }
        assert_eq!(budget.used(), 0);
        assert_eq!(budget.charge(usize::MAX).unwrap_err().code, code::OUT_OF_MEMORY);
        drop(budget);
        assert_eq!(all.used(), 0);
    }

    #[test]
    fn the_error_names_the_limit_and_how_to_raise_it() {
        let all = Account::new("all sessions together", "--memory-mb", 6 * MB, None);
        let (one, two) = (statement(&all, 4 * MB), statement(&all, 4 * MB));
        let mut held = one.held();
        let error = held.add(5 * MB).unwrap_err();
        assert_eq!(error.message, "out of memory: a statement may use 4 MB");
        assert!(error.hint.is_some_and(|hint| hint.ends_with("a larger --statement-mb.")));
        held.add(4 * MB).expect("there is so much");
        let error = two.keep(3 * MB).err().expect("there is too little for both");
        assert_eq!(error.message, "out of memory: all sessions together may use 6 MB");
        two.charge(FREE_BYTES).expect("a little is always there");
        drop(held);
        let mut kept = two.keep(3 * MB).expect("the other has released its memory");
        kept.resize(MB).expect("less");
        drop(kept);
        drop((one, two));
        assert_eq!(all.used(), 0);
    }

    #[test]
    fn a_hash_table_is_charged_before_it_grows() {
        let all = Account::new("all sessions together", "--memory-mb", 8 * MB, None);
        let budget = statement(&all, 8 * MB);
        let (mut held, mut table) = (budget.held(), std::collections::HashSet::new());
        let grown = (0u64..).find(|&n| {
            let room = held.place(table.len(), table.capacity(), size_of::<u64>());
            table.insert(n);
            room.is_err()
        });
        // Seven eighths of half a million slots: a table of twice the size beside this one takes
        // more than 8 MB.
        assert_eq!(grown, Some(7 << 16));
    }

    #[test]
    fn long_work_is_interrupted_and_deep_work_refused() {
        let account = Account::new("a statement", "--statement-mb", MB, None);
        let canceled = || Err(SqlError::new(code::CANCELED, "enough"));
        let budget = Budget::new(account, 64 << 10, Box::new(canceled));
        budget.tick(WORK - 1).expect("it is not asked each time");
        assert_eq!(budget.tick(1).unwrap_err().code, code::CANCELED);
        fn down(budget: &Budget) -> Result<u64, SqlError> {
            budget.deeper()?;
            Ok(std::hint::black_box(1 + down(budget)?))
        }
        assert_eq!(down(&budget).unwrap_err().code, code::TOO_COMPLEX);
    }
}
