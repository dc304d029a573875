//! The statements of clients of other processes that run here now.

use crate::shipping::Number;
use futures_util::task::AtomicWaker;
use isomer_cluster::{CancelReason, CancelToken, Gateway};
use isomer_sql::system::SessionShown;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Running(Mutex<BTreeMap<Number, Arc<Entry>>>);

/// A statement that runs.
pub(crate) struct Entry {
    cancel: Arc<CancelToken>,
    /// The client's process knows what is to be committed.
    goes: AtomicBool,
    waker: AtomicWaker,
}

impl Entry {
    /// A commit is about to be made: it waits for the client's process.
    pub(crate) fn stop(&self) {
        self.goes.store(false, Ordering::SeqCst);
    }

    pub(crate) fn poll_go(&self, waker: &Waker) -> Poll<()> {
        self.waker.register(waker);
        if self.goes.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// The registration of a statement; dropping it removes the statement.
pub(crate) struct Inside<'r> {
    running: &'r Running,
    number: Number,
    pub(crate) entry: Arc<Entry>,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.running.0.lock().remove(&self.number);
    }
}

impl Running {
    pub(crate) fn enter(&self, number: Number, cancel: &Arc<CancelToken>) -> Inside<'_> {
        let (goes, waker) = Default::default();
        let entry = Arc::new(Entry { cancel: cancel.clone(), goes, waker });
        self.0.lock().insert(number, entry.clone());
        Inside { running: self, number, entry }
    }

    /// Ends a statement. False if it does not run.
    pub(crate) fn end(&self, number: Number, why: CancelReason, gateway: &Gateway) -> bool {
        let found = self.0.lock().get(&number).cloned();
        found.iter().for_each(|entry| gateway.cancel_waits(&entry.cancel, why));
        found.is_some()
    }

    /// Lets a statement commit. False if it does not run.
    pub(crate) fn go(&self, number: Number) -> bool {
        let found = self.0.lock().get(&number).cloned();
        if let Some(entry) = &found {
            entry.goes.store(true, Ordering::SeqCst);
            entry.waker.wake();
        }
        found.is_some()
    }

    /// Ends all of them.
    pub(crate) fn end_all(&self, gateway: &Gateway) {
        let running = self.0.lock();
        let cancels = running.values().map(|entry| &entry.cancel);
        cancels.for_each(|cancel| gateway.cancel_waits(cancel, CancelReason::Shutdown));
    }

    /// The transactions and waits of these statements, which belong to sessions elsewhere.
    pub(crate) fn shown(&self) -> Vec<SessionShown> {
        let running = self.0.lock();
        let shown = |((process, _), entry): (&Number, &Arc<Entry>)| SessionShown {
            process: *process,
            is_guest: true,
            transaction: entry.cancel.owner(),
            wait: entry.cancel.waits_for_lock().then_some(("Lock".into(), "tuple".into())),
            ..SessionShown::default()
        };
        running.iter().map(shown).collect()
    }
}
