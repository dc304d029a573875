//! Messages between sites: to inboxes in this process, and over the wire to other processes.

use crate::remote::Wire;
use arc_swap::ArcSwap;
use isomer_design::SiteId;
use isomer_site::{Message, Network, wire};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

/// The number of unread messages beyond which messages from elsewhere to a site are dropped, as the
/// network may do.
const UNREAD_MAX: usize = 4096;

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Mailboxes {
    wire: Option<Arc<dyn Wire>>,
    inboxes: ArcSwap<BTreeMap<SiteId, Arc<Inbox>>>,
    /// Called for each site whose log has failed.
    pub(crate) on_failure: OnceLock<Box<dyn Fn(SiteId) + Send + Sync>>,
}

#[derive(Default)]
pub(crate) struct Inbox {
    messages: Mutex<VecDeque<(SiteId, Message)>>,
    worker: Mutex<Option<Thread>>,
}

impl Inbox {
    /// Takes all messages that have arrived.
    pub(super) fn take(&self) -> VecDeque<(SiteId, Message)> {
        std::mem::take(&mut *self.messages.lock())
    }

    /// Sets the thread that messages wake from now on.
    pub(super) fn set_worker(&self, worker: &Thread) {
        *self.worker.lock() = Some(worker.clone());
    }

    pub(super) fn wake_worker(&self) {
        if let Some(worker) = &*self.worker.lock() {
            worker.unpark();
        }
    }
}

impl Mailboxes {
    /// Mailboxes that send messages for sites elsewhere over the wire.
    pub(super) fn new(wire: Option<Arc<dyn Wire>>) -> Mailboxes {
        Mailboxes { wire, ..Mailboxes::default() }
    }

    /// Delivers a message to a site of this process.
    pub(super) fn deliver(&self, from: SiteId, to: SiteId, message: Message) {
        let inbox = self.inbox(to);
        inbox.messages.lock().push_back((from, message));
        inbox.wake_worker();
    }

    /// True if the inbox of a site is not too full for messages from elsewhere.
    pub(super) fn has_room(&self, site: SiteId) -> bool {
        self.inbox(site).messages.lock().len() < UNREAD_MAX
    }

    /// The inbox of a site, created if there is none yet.
    pub(super) fn inbox(&self, site: SiteId) -> Arc<Inbox> {
        if let Some(inbox) = self.inboxes.load().get(&site) {
            return inbox.clone();
        }
        self.inboxes.rcu(|inboxes| {
            let mut inboxes = BTreeMap::clone(inboxes);
            inboxes.entry(site).or_default();
            inboxes
        });
        self.inboxes.load()[&site].clone()
    }
}

impl Network for Mailboxes {
    fn send(&self, from: SiteId, to: SiteId, message: Message) {
        match &self.wire {
            Some(wire) if wire.reaches(to) => wire.send(to, wire::message(from, to, &message)),
            _ => self.deliver(from, to, message),
        }
    }

    fn trouble(&self, site: SiteId, what: &str) {
        tracing::error!(%site, "site {site}: {what}");
    }
}
