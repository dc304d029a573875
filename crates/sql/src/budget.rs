//! Memory and time of a statement: both are asked for before they are used.
//!
//! ```text
//!   all sessions together ── session ── transaction ── statement          an Account each
//!          --memory-mb      --session-mb  --transaction-mb  --statement-mb
//!                                              ▲ 256 KB at a time
//!                                           Budget: scratch + held        of one thread, no atomics
//! ```
//!
//! An [`Account`] is a limit and what is used of it, inside of another account. A [`Budget`] is what a thread
//! works with: it takes memory from its account in large pieces, and counts small ones for itself. The first
//! 64 KB are its own, so a statement that looks up a row touches nothing that sessions share.
//!
//! **Held** is what is kept until somebody lets go of it: rows that are sorted, hashed and grouped, a portal's
//! rows, a message that is being read. A guard ([`Held`], [`Holding`]) gives it back. **Scratch** is a stack, as
//! evaluation is one: who evaluates notes where it stands, what is made is charged, and where the value is
//! done with, the mark is gone back to. So a sum of a thousand texts needs what its longest two take.
//!
//! ```text
//!   mark      'a' || repeat(..)      charge 64 MB, repeat; charge 64 MB, concatenate
//!             settle(mark, 64 MB)    the operands are gone, the result is there
//!   back_to(mark)                    the row was shown
//! ```
//!
//! **Time** is counted in units of about ten nanoseconds. Every loop that a client can make long says how much
//! work it has done ([`Budget::tick`]); every 65,536 units the budget asks whether somebody still waits for the
//! statement. Charging bytes is work as well, so what goes over long values asks in time.
//!
//! **Depth.** Expressions and joins are walked on the stack. A budget knows where the stack was when the
//! statement began, and refuses to go [deeper](Budget::deeper) than there is room.
//!
//! Left out: what the allocator adds. The limits are for what statements ask for, and a server takes about a
//! quarter more.

use crate::error::{SqlError, code};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A budget takes from its account so much at a time, if there is so much.
const STEP_BYTES: usize = 256 << 10;
/// So much a budget may use without asking its account.
const FREE_BYTES: usize = 64 << 10;
/// A budget that uses less than half of what it took, and this less, gives it back.
const SPARE_BYTES: usize = 1 << 20;
/// Nobody has more than this, and sums of it do not overflow.
const BYTES_MAX: usize = 1 << 60;
/// After so much work a budget looks whether the statement is still wanted.
const WORK: usize = 1 << 16;
/// The work of looking at a row.
pub const ROW_WORK: usize = 128;

/// A limit, and what is used of it.
#[derive(Debug)]
pub struct Account {
    what: &'static str,
    /// Where it says how large it is.
    option: &'static str,
    limit: usize,
    used: AtomicUsize,
    parent: Option<Arc<Account>>,
}

impl Account {
    /// An account of so many bytes, inside of another if there is one. `what` has them, and the limit is that of
    /// `option`, in megabytes: errors name both.
    pub fn new(
        what: &'static str,
        option: &'static str,
        limit: usize,
        parent: Option<&Arc<Account>>,
    ) -> Arc<Account> {
        let (used, parent) = (AtomicUsize::new(0), parent.cloned());
        Arc::new(Account { what, option, limit, used, parent })
    }

    /// How many bytes are used.
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

/// Says whether a statement is still wanted.
pub type Wanted = Box<dyn Fn() -> Result<(), SqlError>>;

/// See the [module documentation](self).
pub struct Budget {
    account: Arc<Account>,
    wanted: Wanted,
    held: Cell<usize>,
    scratch: Cell<usize>,
    /// What `held` and `scratch` may be together without asking the account.
    covered: Cell<usize>,
    work: Cell<usize>,
    /// Where the stack is when a statement begins, and how far it may go from there.
    base: Cell<usize>,
    stack_bytes: usize,
}

impl Budget {
    /// A budget that takes from an account. `wanted` is asked now and then, and its error ends the statement;
    /// `stack_bytes` is how much of the stack a statement may use.
    pub fn new(account: Arc<Account>, stack_bytes: usize, wanted: Wanted) -> Rc<Budget> {
        let zero = || Cell::new(0);
        let (held, scratch, work, base) = (zero(), zero(), zero(), Cell::new(here()));
        let covered = Cell::new(FREE_BYTES);
        Rc::new(Budget { account, wanted, held, scratch, covered, work, base, stack_bytes })
    }

    /// One that is never exhausted, for what no client asks for.
    pub fn unlimited() -> Rc<Budget> {
        let account = Account::new("the server itself", "memory", usize::MAX, None);
        Budget::new(account, usize::MAX, Box::new(|| Ok(())))
    }

    /// A statement begins, at this depth of the stack.
    pub fn begin(&self) {
        self.base.set(here());
        self.scratch.set(0);
    }

    /// A statement ends: nothing is left of it but what is held, and all else is given back.
    pub fn end(&self) {
        self.scratch.set(0);
        self.give_back(self.held.get().max(FREE_BYTES));
    }

    /// How much is used.
    pub fn used(&self) -> usize {
        self.held.get() + self.scratch.get()
    }

    /// Where the stack of values stands.
    pub fn mark(&self) -> usize {
        self.scratch.get()
    }

    /// What was made since the mark is gone.
    pub fn back_to(&self, mark: usize) {
        self.scratch.set(mark.min(self.scratch.get()));
        self.spare();
    }

    /// What was made since the mark is gone, but for a value of so many bytes.
    ///
    /// # Errors
    /// 53200 if there is not so much.
    pub fn settle(&self, mark: usize, bytes: usize) -> Result<(), SqlError> {
        if self.scratch.get() == mark && bytes == 0 {
            return Ok(());
        }
        self.scratch.set(mark.min(self.scratch.get()));
        self.charge(bytes)?;
        self.spare();
        Ok(())
    }

    /// So many bytes are about to be allocated.
    ///
    /// # Errors
    /// 53200 if there are not so many, 57014 and its kin if the statement is not wanted any more.
    pub fn charge(&self, bytes: usize) -> Result<(), SqlError> {
        self.grow(&self.scratch, bytes)?;
        self.tick(bytes / 16)
    }

    /// Begins to hold something until the guard is dropped.
    pub fn held(&self) -> Held<'_> {
        Held { budget: self, bytes: 0 }
    }

    /// Holds so many bytes until the guard is dropped.
    ///
    /// # Errors
    /// 53200 if there are not so many.
    pub fn keep(self: &Rc<Budget>, bytes: usize) -> Result<Holding, SqlError> {
        self.grow(&self.held, bytes)?;
        Ok(Holding { budget: self.clone(), bytes })
    }

    /// Some work was done.
    ///
    /// # Errors
    /// 57014 and its kin if the statement is not wanted any more.
    pub fn tick(&self, work: usize) -> Result<(), SqlError> {
        let done = self.work.get().saturating_add(work);
        if done < WORK {
            self.work.set(done);
            return Ok(());
        }
        self.work.set(0);
        (self.wanted)()
    }

    /// Somebody is about to call itself.
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

    /// Gives back what is not used, if it is much.
    fn spare(&self) {
        let wanted = self.used().max(FREE_BYTES);
        if self.covered.get() > 2 * wanted + SPARE_BYTES {
            self.give_back(wanted);
        }
    }

    /// Gives back all but so much.
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

/// Where the stack is.
fn here() -> usize {
    let here = 0u8;
    &raw const here as usize
}

/// What a hash table with room for so many entries takes at most: an eighth stays empty, each place has a mark, and
/// the table of half the size is there until its entries have moved.
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
    /// How many bytes are held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Holds so many bytes more.
    ///
    /// # Errors
    /// 53200 if there are not so many, 57014 and its kin if the statement is not wanted any more.
    pub fn add(&mut self, bytes: usize) -> Result<(), SqlError> {
        self.budget.grow(&self.budget.held, bytes)?;
        self.bytes += bytes;
        self.budget.tick(bytes / 16)
    }

    /// Holds what a hash table needs to take one more entry of so many bytes. A full table moves to one of twice its
    /// size, and meanwhile both are there.
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

    /// Holds so many bytes less.
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

/// Memory that is held until this is dropped, wherever it is put.
pub struct Holding {
    budget: Rc<Budget>,
    bytes: usize,
}

impl Holding {
    /// Holds so many bytes more.
    ///
    /// # Errors
    /// 53200 if there are not so many; it is as before then.
    pub fn more(&mut self, bytes: usize) -> Result<(), SqlError> {
        self.resize(self.bytes.saturating_add(bytes))
    }

    /// Holds so many bytes from now on, more or less than before.
    ///
    /// # Errors
    /// 53200 if there are not so many; it is as before then.
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
    fn what_is_done_with_can_be_used_again() {
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
    fn a_hash_table_is_asked_for_before_it_grows() {
        let all = Account::new("all sessions together", "--memory-mb", 8 * MB, None);
        let budget = statement(&all, 8 * MB);
        let (mut held, mut table) = (budget.held(), std::collections::HashSet::new());
        let grown = (0u64..).find(|&n| {
            let room = held.place(table.len(), table.capacity(), size_of::<u64>());
            table.insert(n);
            room.is_err()
        });
        // Seven eighths of half a million places: twice as many, and these beside them, take more than 8 MB.
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
