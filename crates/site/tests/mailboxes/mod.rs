//! Messages that wait until the test delivers them, and the time.

use isomer_design::{SiteId, Time};
use isomer_site::{Message, Network, TimeSource};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
pub(crate) struct Mailboxes {
    pub(crate) messages: Mutex<VecDeque<(SiteId, SiteId, Message)>>,
    pub(crate) now: AtomicU64,
}

impl Mailboxes {
    #[allow(dead_code, reason = "a test of one site takes none out")]
    pub(crate) fn next_letter(&self) -> Option<(SiteId, SiteId, Message)> {
        self.messages.lock().unwrap().pop_front()
    }
}

impl Network for Mailboxes {
    fn send(&self, from: SiteId, to: SiteId, message: Message) {
        self.messages.lock().unwrap().push_back((from, to, message));
    }
}

impl TimeSource for Mailboxes {
    fn now(&self) -> Time {
        Time(self.now.fetch_add(1, Ordering::Relaxed))
    }
}
