//! Events about changes of the design, and their subscribers.

use isomer_design::{Change, Time};
use parking_lot::Mutex;
use std::sync::Arc;

/// A change that was made.
#[derive(Clone, PartialEq, Debug)]
pub struct ChangeEvent {
    /// The change.
    pub change: Change,
    /// The change in the text form of plans, with names.
    pub text: String,
    /// Why it was made.
    pub reason: String,
    /// When it was begun.
    pub begun: Time,
    /// How long it took, in nanoseconds.
    pub took_ns: u64,
    /// Rows that were copied for it.
    pub rows: usize,
    /// Their bytes.
    pub bytes: usize,
}

type Watcher = Arc<dyn Fn(&ChangeEvent) + Send + Sync>;

/// Callbacks that receive each change.
#[derive(Default)]
pub(crate) struct Watchers {
    watchers: Mutex<Vec<Watcher>>,
}

impl Watchers {
    pub(crate) fn add(&self, watcher: Watcher) {
        self.watchers.lock().push(watcher);
    }

    pub(crate) fn tell(&self, event: &ChangeEvent) {
        // A slow watcher delays only the task that made this change, because the lock is not held
        // here.
        let watchers = self.watchers.lock().clone();
        watchers.iter().for_each(|watcher| watcher(event));
    }
}
