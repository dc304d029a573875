//! What is told about changes of the design.

use isomer_design::{Change, Time};
use parking_lot::Mutex;
use std::sync::Arc;

/// A change that was made.
#[derive(Clone, PartialEq, Debug)]
pub struct ChangeEvent {
    /// The change.
    pub change: Change,
    /// The change as a person writes it, with names.
    pub text: String,
    /// Why it was made.
    pub reason: String,
    /// When it was begun.
    pub begun: Time,
    /// How long it took, in nanoseconds.
    pub took_ns: u64,
    /// Rows that were copied for it.
    pub rows: usize,
}

type Watcher = Arc<dyn Fn(&ChangeEvent) + Send + Sync>;

/// Those who want to hear of changes.
#[derive(Default)]
pub(crate) struct Watchers {
    watchers: Mutex<Vec<Watcher>>,
}

impl Watchers {
    pub(crate) fn add(&self, watcher: Watcher) {
        self.watchers.lock().push(watcher);
    }

    pub(crate) fn tell(&self, event: &ChangeEvent) {
        // A watcher may take its time: that holds up whoever made this change, and nobody else.
        let watchers = self.watchers.lock().clone();
        watchers.iter().for_each(|watcher| watcher(event));
    }
}
