//! Messages between sites: to the inboxes of those of this process, and over the wire to the others.

use crate::remote::Wire;
use arc_swap::ArcSwap;
use isomer_design::SiteId;
use isomer_site::{Message, Network, wire};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

/// A site that has not read so many messages is brought no more from elsewhere: they are lost, as they may be.
const UNREAD_MAX: usize = 4096;

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Mailboxes {
    wire: Option<Arc<dyn Wire>>,
    inboxes: ArcSwap<BTreeMap<SiteId, Arc<Inbox>>>,
    /// Who is told of a site whose log has failed.
    pub(crate) on_failure: OnceLock<Box<dyn Fn(SiteId) + Send + Sync>>,
}

#[derive(Default)]
pub(crate) struct Inbox {
    messages: Mutex<VecDeque<(SiteId, Message)>>,
    worker: Mutex<Option<Thread>>,
}

impl Inbox {
    /// The messages that have come.
    pub(super) fn take(&self) -> VecDeque<(SiteId, Message)> {
        std::mem::take(&mut *self.messages.lock())
    }

    /// Whom messages wake from now on.
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
    /// Messages to sites elsewhere go over the wire.
    pub(super) fn new(wire: Option<Arc<dyn Wire>>) -> Mailboxes {
        Mailboxes { wire, ..Mailboxes::default() }
    }

    /// Brings a message to a site of this process.
    pub(super) fn deliver(&self, from: SiteId, to: SiteId, message: Message) {
        let inbox = self.inbox(to);
        inbox.messages.lock().push_back((from, message));
        inbox.wake_worker();
    }

    /// True if a site does not have to read too much already to be brought more from elsewhere.
    pub(super) fn has_room(&self, site: SiteId) -> bool {
        self.inbox(site).messages.lock().len() < UNREAD_MAX
    }

    /// The inbox of a site, made if there is none yet.
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
}
