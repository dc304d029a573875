//! Letters that wait until the test delivers them, and the time.

use isomer_design::{SiteId, Time};
use isomer_site::{Message, Network, TimeSource};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
pub(crate) struct Post {
    pub(crate) letters: Mutex<VecDeque<(SiteId, SiteId, Message)>>,
    pub(crate) now: AtomicU64,
}

impl Post {
    #[allow(dead_code, reason = "a test of one site takes none out")]
    pub(crate) fn next_letter(&self) -> Option<(SiteId, SiteId, Message)> {
        self.letters.lock().unwrap().pop_front()
    }
}

impl Network for Post {
    fn send(&self, from: SiteId, to: SiteId, message: Message) {
        self.letters.lock().unwrap().push_back((from, to, message));
    }
}

impl TimeSource for Post {
    fn now(&self) -> Time {
        Time(self.now.fetch_add(1, Ordering::Relaxed))
    }
}
