//! The traffic between a process and the brokers: records, their retries, and reads.
//!
//! ```text
//!   process ──┬┄┄ delay ┄┄▶ leader appends ┄┄ delay ┄┄▶ safe ┄┄ delay ┄┄▶ answered
//!             └ no answer for a time: the same record once more, with its number
//! ```
//!
//! A request is lost if the link is cut or no broker is available. Requests that wait for replicas
//! are lost when the leader changes. After its process is killed, a request in flight arrives half
//! of the time. By chance a request arrives twice, or an answer is lost or has no offset.

use super::log::Link;
use super::partition::{Appended, Partition, Records};
use super::process::SPOILT_PER_MILLE;
use crate::plant::Plant;
use crate::world::World;
use isomer_design::SiteId;
use isomer_owned::record::Offset;
use parking_lot::Mutex;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// The interval, in nanoseconds, after which a client repeats an unanswered request.
const RESEND_NS: u64 = 15_000_000;
/// How many of a thousand answers to records that were there already have no offset.
const UNSAID_PER_MILLE: u64 = 500;
/// Bounds of the number of records that a reader gets at once.
const FETCHED: (u64, u64) = (1, 30);

/// A process's producer for one partition, and its reader.
pub(super) struct Client {
    pub(super) site: SiteId,
    pub(super) process: u64,
    pub(super) partition: Arc<Mutex<Partition>>,
    pub(super) link: Arc<Link>,
    /// The identity of the producer.
    pub(super) producer: u64,
    /// The number of its last record.
    pub(super) sequence: Cell<u64>,
}

/// A record in flight.
pub(super) struct Request {
    site: SiteId,
    process: u64,
    partition: Arc<Mutex<Partition>>,
    link: Arc<Link>,
    producer: u64,
    sequence: u64,
    record: Vec<u8>,
    answer: RefCell<Answer>,
}

#[derive(Default)]
struct Answer {
    /// The record is written, at this offset if the answer has one.
    written: Option<Option<Offset>>,
    waker: Option<Waker>,
}

/// A request whose record is at the leader, and not yet at all replicas.
pub(super) struct Waiting {
    request: Rc<Request>,
    offset: Offset,
    /// The answer has the offset.
    is_said: bool,
}

impl World {
    /// Sends a record until it is written; returns its offset, if an answer has it.
    pub(super) async fn produce(
        self: &Rc<World>,
        client: &Client,
        record: Vec<u8>,
    ) -> Option<Offset> {
        client.sequence.set(client.sequence.get() + 1);
        let request = Rc::new(Request {
            site: client.site,
            process: client.process,
            partition: client.partition.clone(),
            link: client.link.clone(),
            producer: client.producer,
            sequence: client.sequence.get(),
            record,
            answer: RefCell::default(),
        });
        loop {
            self.post(&request);
            let mut timeout = pin!(self.sleep(RESEND_NS));
            let written = poll_fn(|cx| {
                let mut answer = request.answer.borrow_mut();
                if let Some(offset) = answer.written {
                    return Poll::Ready(Some(offset));
                }
                answer.waker = Some(cx.waker().clone());
                drop(answer);
                timeout.as_mut().poll(cx).map(|()| None)
            });
            if let Some(offset) = written.await {
                return offset;
            }
        }
    }

    /// Sends a request, by chance twice.
    fn post(self: &Rc<World>, request: &Rc<Request>) {
        if request.link.is_cut() || self.chance(self.manners().lose_per_mille) {
            return;
        }
        let is_doubled = self.chance(self.manners().double_per_mille);
        for _ in 0..=usize::from(is_doubled) {
            let (world, request) = (self.clone(), request.clone());
            self.after(self.delay(), move || world.arrive(request));
        }
    }

    /// A request arrives at the leader.
    fn arrive(self: &Rc<World>, request: Rc<Request>) {
        let was_killed = !self.is_process(request.process);
        let brokers = request.partition.clone();
        let mut partition = brokers.lock();
        if !partition.is_available() || was_killed && self.chance(500) {
            return;
        }
        let appended = partition.append(request.producer, request.sequence, &request.record);
        let site = request.site;
        let (offset, is_said) = match appended {
            Appended::At(offset) => (offset, true),
            Appended::Again(Some(offset)) => (offset, !self.chance(UNSAID_PER_MILLE)),
            // A later record of its producer is there, so this one has been answered.
            Appended::Again(None) => return,
        };
        if appended == Appended::At(offset) {
            let by = if was_killed { "a process that is gone" } else { "its process" };
            self.note(format_args!("record {offset} of {site}'s log, by {by}"));
        }
        let (leader, is_safe) = (partition.leader(), offset < partition.safe());
        drop(partition);
        let waiting = Waiting { request, offset, is_said };
        if is_safe || self.spoils(Plant::AcksOne, SPOILT_PER_MILLE) {
            self.answer_later(waiting);
        } else {
            self.kafka.waiting.borrow_mut().push(waiting);
        }
        let world = self.clone();
        self.after(self.delay(), move || world.replicate(site, &brokers, leader, offset + 1));
    }

    /// Replicas have received the leader's records up to an offset, if it still leads.
    pub(super) fn replicate(
        self: &Rc<World>,
        site: SiteId,
        partition: &Mutex<Partition>,
        leader: u64,
        up_to: Offset,
    ) {
        let safe = {
            let mut partition = partition.lock();
            if partition.leader() != leader || !partition.is_available() {
                return;
            }
            partition.replicate(up_to);
            if let Some(broken) = partition.broken() {
                self.panicked
                    .borrow_mut()
                    .get_or_insert_with(|| format!("the log of {site} is broken: {broken}"));
            }
            partition.safe()
        };
        let is_safe = |waiting: &mut Waiting| waiting.request.site == site && waiting.offset < safe;
        let answered: Vec<Waiting> =
            self.kafka.waiting.borrow_mut().extract_if(.., is_safe).collect();
        answered.into_iter().for_each(|waiting| self.answer_later(waiting));
    }

    /// Sends an answer back.
    fn answer_later(self: &Rc<World>, waiting: Waiting) {
        if self.chance(self.manners().lose_per_mille) {
            return;
        }
        self.after(self.delay(), move || {
            let Waiting { request, offset, is_said } = waiting;
            if request.link.is_cut() {
                return;
            }
            let mut answer = request.answer.borrow_mut();
            answer.written.get_or_insert(is_said.then_some(offset));
            answer.waker.take().into_iter().for_each(Waker::wake);
        });
    }

    /// The partition's bounds, once a broker answers.
    pub(super) async fn ask_bounds(&self, client: &Client) -> (Offset, Offset) {
        loop {
            self.sleep(self.delay()).await;
            let partition = client.partition.lock();
            if !client.link.is_cut() && partition.is_available() {
                return partition.bounds();
            }
        }
    }

    /// Some records from an offset on, once a broker answers; empty if there are none now.
    pub(super) async fn fetch(&self, client: &Client, from: Offset) -> Result<Records, String> {
        loop {
            self.sleep(self.delay()).await;
            let most = self.draw(FETCHED.0..FETCHED.1) as usize;
            let partition = client.partition.lock();
            if !client.link.is_cut() && partition.is_available() {
                return partition.read(from, most);
            }
        }
    }

    /// Elects another leader. It has the safe records, and by chance some of the others.
    pub fn change_leader(self: &Rc<World>, site: SiteId) {
        let partition = self.partition_of(site);
        {
            let mut partition = partition.lock();
            let (safe, shown, end) = (partition.safe(), partition.bounds().1, partition.end());
            let kept = if self.chance(500) { safe } else { self.draw(safe..end + 1) };
            let shown = self.draw(shown.saturating_sub(3)..shown + 1).min(safe);
            partition.elect(kept, shown);
            let lost = end - kept;
            self.note(format_args!("another broker leads the log of {site}: {lost} records lost"));
        }
        // Their senders time out, and repeat them.
        self.kafka.waiting.borrow_mut().retain(|waiting| waiting.request.site != site);
        self.catch_up(site);
    }

    /// Sets whether the brokers of a partition answer.
    pub fn set_available(self: &Rc<World>, site: SiteId, is_available: bool) {
        let word = if is_available { "answer again" } else { "answer nobody" };
        self.note(format_args!("the brokers of {site}'s log {word}"));
        self.partition_of(site).lock().set_available(is_available);
        if is_available {
            self.catch_up(site);
        }
    }

    /// Replicates all records that the leader has now.
    fn catch_up(self: &Rc<World>, site: SiteId) {
        let (world, partition) = (self.clone(), self.partition_of(site));
        let (leader, end) = {
            let partition = partition.lock();
            (partition.leader(), partition.end())
        };
        self.after(self.delay(), move || world.replicate(site, &partition, leader, end));
    }
}
