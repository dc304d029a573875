//! Limits on time, set by clients (`SET statement_timeout = '5s'`), and on [memory](Memory), set by
//! the server.
//!
//! ```text
//!            BEGIN      UPDATE ..           (idle)            COMMIT      (idle)
//!   client ──┬──────────┬───────────────────┬────────────────┬───────────┬──▶
//!            │          ├ statement_timeout ┤                │           │ 57014, the statement
//!            │          ├─ lock_timeout ─┤  │                │           │ 55P03, the statement
//!            │          │                   ├ idle_in_trans… ┤           │ 25P03, the connection
//!            ├─────────── transaction_timeout ───────────────┤           │ 25P04, the connection
//!            │                                               │           ├ idle_session_timeout ─
//! ```
//!
//! One thread ([`Watch`]) enforces the limits of clients with a running statement; idle clients are
//! limited by the time-out of their own socket. Without a limit neither costs anything. The same
//! thread periodically checks whether the client of a statement is still connected, if
//! `client_connection_check_interval` is set.

use crate::options::ServerOptions;
use crate::socket::Socket;
use isomer_cluster::{CancelReason, CancelToken, Gateway};
use isomer_sql::budget::{Account, Budget};
use isomer_sql::{SqlError, code};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The stack bytes that a statement may use of its thread's stack; the rest is for the code around
/// it.
const STATEMENT_STACK_BYTES: usize = 6 << 20;

/// The memory of a session, with one budget per purpose. See [`isomer_sql::budget`].
pub(crate) struct Memory {
    /// For statements, one at a time.
    pub(crate) statement: Rc<Budget>,
    /// For the writes of a transaction.
    pub(crate) written: Rc<Budget>,
    /// For state between statements: prepared statements, portals.
    pub(crate) session: Rc<Budget>,
    /// For incoming messages.
    pub(crate) input: Rc<Budget>,
}

impl Memory {
    /// The account of all sessions.
    pub(crate) fn of_all(options: &ServerOptions) -> Arc<Account> {
        Account::new("all sessions together", "--memory-mb", options.memory_bytes_max, None)
    }

    /// The memory of a session; `cancel` interrupts its statements.
    pub(crate) fn new(
        all: &Arc<Account>,
        options: &ServerOptions,
        cancel: &Arc<CancelToken>,
    ) -> Memory {
        let account = |what, option, limit, parent| Account::new(what, option, limit, Some(parent));
        let session = account("a session", "--session-mb", options.session_bytes_max, all);
        let most = options.transaction_bytes_max;
        let transaction = account("a transaction", "--transaction-mb", most, &session);
        let most = options.statement_bytes_max;
        let statement = account("a statement", "--statement-mb", most, &transaction);
        let cancel = cancel.clone();
        let wanted = Box::new(move || cancel.over().map_or(Ok(()), |why| Err(ended(why))));
        let always = |account: &Arc<Account>| {
            Budget::new(account.clone(), STATEMENT_STACK_BYTES, Box::new(|| Ok(())))
        };
        Memory {
            statement: Budget::new(statement, STATEMENT_STACK_BYTES, wanted),
            written: always(&transaction),
            session: always(&session),
            input: always(&session),
        }
    }
}

/// Time limits in milliseconds; 0 means no limit.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Limits {
    pub(crate) statement: u64,
    /// A wait for one row.
    pub(crate) lock: u64,
    /// Idle time in a transaction.
    pub(crate) idle_in_transaction: u64,
    /// Idle time outside of a transaction.
    pub(crate) idle: u64,
    pub(crate) transaction: u64,
    /// The interval of checks whether a statement's client is connected.
    pub(crate) check: u64,
}

/// The setting of the connection check.
pub(crate) const CHECK: &str = "client_connection_check_interval";

/// The settings that limit time.
pub(crate) const NAMES: [&str; 6] = [
    "statement_timeout",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "transaction_timeout",
    CHECK,
];

impl Limits {
    /// The limit of a setting.
    pub(crate) fn named(&mut self, name: &str) -> Option<&mut u64> {
        match name {
            "statement_timeout" => Some(&mut self.statement),
            "lock_timeout" => Some(&mut self.lock),
            "idle_in_transaction_session_timeout" => Some(&mut self.idle_in_transaction),
            "idle_session_timeout" => Some(&mut self.idle),
            "transaction_timeout" => Some(&mut self.transaction),
            CHECK => Some(&mut self.check),
            _ => None,
        }
    }
}

const UNITS: [(&str, f64); 6] = [
    ("d", 86_400_000.0),
    ("h", 3_600_000.0),
    ("min", 60_000.0),
    ("s", 1000.0),
    ("ms", 1.0),
    ("us", 0.001),
];

/// Parses a time such as `250`, `5s` or `1.5 min`; without a unit it is in milliseconds.
pub(crate) fn read_ms(text: &str) -> Option<u64> {
    let ms = in_ms(text)?.round();
    (ms <= f64::from(i32::MAX)).then_some(ms as u64)
}

fn in_ms(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text.find(|sign: char| !sign.is_ascii_digit() && sign != '.');
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let unit = match unit.trim() {
        "" => 1.0,
        unit => UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    Some(number.parse::<f64>().ok()? * unit)
}

/// Parses a time as [`read_ms`] does, in microseconds.
pub(crate) fn read_us(text: &str) -> Option<u64> {
    let us = (in_ms(text)? * 1000.0).round();
    (us <= 1000.0 * f64::from(i32::MAX)).then_some(us as u64)
}

/// Formats a time in microseconds with the largest unit that needs no fraction.
pub(crate) fn show_us(us: u64) -> String {
    match us.is_multiple_of(1000) {
        true => show_ms(us / 1000),
        false => format!("{us}us"),
    }
}

/// Formats a time with the largest unit that needs no fraction.
pub(crate) fn show_ms(ms: u64) -> String {
    let whole = |(_, unit): &&(&str, f64)| *unit >= 1.0 && ms.is_multiple_of(*unit as u64);
    match UNITS.iter().find(whole) {
        Some((name, unit)) if ms > 0 => format!("{}{name}", ms / *unit as u64),
        _ => "0".to_owned(),
    }
}

/// The current time, for measuring limits.
#[allow(clippy::disallowed_methods, reason = "the edge: clients limit the time of what they ask")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The error of a statement that was cancelled or timed out. After one that [ends the
/// connection](is_last), nothing more is sent.
pub(crate) fn ended(why: CancelReason) -> SqlError {
    let (code, message) = match why {
        CancelReason::Asked => (code::CANCELED, "canceling statement due to user request"),
        CancelReason::StatementTime => {
            (code::CANCELED, "canceling statement due to statement timeout")
        }
        CancelReason::LockTime => {
            (code::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout")
        }
        CancelReason::TransactionTime => {
            ("25P04", "terminating connection due to transaction timeout")
        }
        CancelReason::Shutdown => ("57P01", "terminating connection: the server is shutting down"),
        CancelReason::Gone => ("08006", "connection to client lost"),
        CancelReason::SentAway => ("57P01", "terminating connection: its user was dropped"),
        CancelReason::Terminated => {
            ("57P01", "terminating connection due to administrator command")
        }
    };
    SqlError::new(code, message)
}

/// True if the connection ends with the error.
pub(crate) fn is_last(error: &SqlError) -> bool {
    matches!(error.code, "25P04" | "57P01" | "08006")
}

/// The number of [`Limit::GiveBack`]; others begin behind it.
const GIVE_BACK: u64 = 0;
/// The time from the end of a session to the return of its memory.
const ENDED: Duration = Duration::from_secs(2);

/// Cancels waits of clients whose time is over.
#[derive(Default)]
pub(crate) struct Watch {
    due: Mutex<Due>,
    sooner: Condvar,
}

#[derive(Default)]
struct Due {
    /// By time, and by a number of its own, because a statement and its commit end at the same
    /// time.
    order: BTreeSet<(Instant, u64)>,
    limits: BTreeMap<u64, (Instant, Limit)>,
    next: u64,
    stopped: bool,
}

/// The action at the given time.
enum Limit {
    /// Cancels the client's waits.
    End(Arc<CancelToken>, CancelReason),
    /// Cancels the waits if the client has disconnected; otherwise checks again after this time.
    Look(Arc<CancelToken>, Arc<Socket>, Duration),
    /// Returns the memory of ended sessions to the system.
    GiveBack(fn()),
}

impl Due {
    fn add(&mut self, number: u64, at: Instant, limit: Limit) {
        self.order.insert((at, number));
        self.limits.insert(number, (at, limit));
    }

    fn remove(&mut self, number: u64) -> Option<Limit> {
        let (at, limit) = self.limits.remove(&number)?;
        self.order.remove(&(at, number));
        Some(limit)
    }
}

impl Watch {
    /// Runs until [`Watch::stop`].
    pub(crate) fn run(&self, gateway: &Gateway) {
        let mut due = self.due.lock();
        while !due.stopped {
            match due.order.first().copied() {
                None => self.sooner.wait(&mut due),
                Some((at, _)) if at > now() => drop(self.sooner.wait_until(&mut due, at)),
                Some((_, number)) => match due.remove(number).expect("it is the first") {
                    Limit::End(cancel, why) => gateway.cancel_waits(&cancel, why),
                    Limit::Look(cancel, socket, _) if socket.is_over() => {
                        gateway.cancel_waits(&cancel, CancelReason::Gone);
                    }
                    Limit::Look(cancel, socket, pause) => {
                        due.add(number, now() + pause, Limit::Look(cancel, socket, pause));
                    }
                    Limit::GiveBack(give_back) => MutexGuard::unlocked(&mut due, give_back),
                },
            }
        }
    }

    /// Ends watching.
    pub(crate) fn stop(&self) {
        self.due.lock().stopped = true;
        self.sooner.notify_one();
    }

    /// Returns the memory of ended sessions to the system after [`ENDED`], once for all that end
    /// until then.
    pub(crate) fn give_back(&self, give_back: fn()) {
        let mut due = self.due.lock();
        if !due.limits.contains_key(&GIVE_BACK) {
            due.add(GIVE_BACK, now() + ENDED, Limit::GiveBack(give_back));
            self.sooner.notify_one();
        }
    }

    /// Cancels a client's waits at a given time, unless the result is dropped before.
    pub(crate) fn set(
        self: &Arc<Watch>,
        at: Instant,
        cancel: &Arc<CancelToken>,
        why: CancelReason,
    ) -> Limited {
        self.add(at, Limit::End(cancel.clone(), why))
    }

    /// Cancels a client's waits once it has disconnected, checking after each pause, until the
    /// result is dropped.
    pub(crate) fn look(
        self: &Arc<Watch>,
        pause: Duration,
        cancel: &Arc<CancelToken>,
        socket: &Arc<Socket>,
    ) -> Limited {
        self.add(now() + pause, Limit::Look(cancel.clone(), socket.clone(), pause))
    }

    fn add(self: &Arc<Watch>, at: Instant, limit: Limit) -> Limited {
        let mut due = self.due.lock();
        let is_first = due.order.first().is_none_or(|(first, _)| at < *first);
        due.next += 1;
        let number = due.next;
        due.add(number, at, limit);
        if is_first {
            self.sooner.notify_one();
        }
        Limited { watch: self.clone(), number }
    }
}

/// A limit that is in force until it is dropped.
pub(crate) struct Limited {
    watch: Arc<Watch>,
    number: u64,
}

impl Drop for Limited {
    fn drop(&mut self) {
        self.watch.due.lock().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_shown_with_units() {
        let shown = |text| read_ms(text).map(show_ms);
        for (given, expected) in [
            ("0", "0"),
            ("250", "250ms"),
            ("5000", "5s"),
            ("1.5 min", "90s"),
            ("2h", "2h"),
            ("1d", "1d"),
            ("1500us", "2ms"),
        ] {
            assert_eq!(shown(given).as_deref(), Some(expected), "{given}");
        }
        for wrong in ["", "s", "-1", "5 parsecs", "1e9d", "99999999999"] {
            assert_eq!(read_ms(wrong), None, "{wrong}");
        }
    }
}
