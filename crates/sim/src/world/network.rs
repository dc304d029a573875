//! The network between sites: it delays, reorders, duplicates and loses messages.

use super::agenda::Event;
use super::{Gate, World};
use isomer_design::{SiteId, Time};
use isomer_site::{FeedItem, Message, Network, Reached, Subscription, TailItem};
use parking_lot::Mutex;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// The fault profile: durations, and probabilities of faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Manners {
    /// Bounds of the delay of a message or request.
    pub delay_ns: (u64, u64),
    /// How many of a thousand messages take much longer.
    pub straggle_per_mille: u64,
    /// The greatest extra delay of these.
    pub straggle_ns: u64,
    /// How many of a thousand messages are duplicated.
    pub double_per_mille: u64,
    /// How many of a thousand messages, requests and answers are lost.
    pub lose_per_mille: u64,
    /// How many of a thousand requests are cancelled while the site works on them.
    pub give_up_per_mille: u64,
    /// Bounds of the duration of a sync.
    pub sync_ns: (u64, u64),
    /// The interval between ticks of a site.
    pub tick_ns: u64,
    /// The longest interval between checkpoints of a site; 0: none are made.
    pub checkpoint_ns: u64,
    /// Ready tasks run in random order, not first come, first served.
    pub shuffle: bool,
}

impl Manners {
    /// No faults, for scripts.
    pub fn orderly() -> Manners {
        Manners {
            delay_ns: (1_000_000, 1_000_000),
            straggle_per_mille: 0,
            straggle_ns: 0,
            double_per_mille: 0,
            lose_per_mille: 0,
            give_up_per_mille: 0,
            sync_ns: (500_000, 500_000),
            tick_ns: 5_000_000,
            checkpoint_ns: 0,
            shuffle: false,
        }
    }
}

/// A message in flight, with the runs of its sender and receiver.
#[derive(Clone)]
pub(crate) struct Envelope {
    from: (SiteId, u64),
    to: (SiteId, u64),
    message: Message,
}

/// Messages that sites have sent since the last step.
#[derive(Default)]
pub(super) struct Outbox {
    messages: Mutex<Vec<(SiteId, u64, SiteId, Message)>>,
    troubles: Mutex<Vec<(SiteId, String)>>,
}

/// The network interface of one run of a site.
pub(super) struct Port {
    pub(super) run: u64,
    pub(super) outbox: Arc<Outbox>,
}

impl Network for Port {
    fn send(&self, from: SiteId, to: SiteId, message: Message) {
        self.outbox.messages.lock().push((from, self.run, to, message));
    }

    fn trouble(&self, site: SiteId, what: &str) {
        self.outbox.troubles.lock().push((site, what.to_owned()));
    }
}

impl World {
    /// A random delay.
    pub(super) fn delay(&self) -> u64 {
        let manners = *self.manners.borrow();
        let (least, below) = manners.delay_ns;
        let straggle = self.chance(manners.straggle_per_mille);
        self.draw(least..below) + if straggle { self.draw(0..manners.straggle_ns) } else { 0 }
    }

    /// Sends the messages of sites.
    pub(super) fn post_letters(self: &Rc<World>) {
        for (site, what) in std::mem::take(&mut *self.outbox.troubles.lock()) {
            self.note(format_args!("{site} is in trouble: {what}"));
        }
        let said = std::mem::take(&mut *self.outbox.messages.lock());
        for (from, run, to, message) in said {
            // Runs that have ended or were replaced send nothing, and messages to sites that are
            // down are lost.
            let Some(to_run) = self.run_of(to).filter(|_| self.run_of(from) == Some(run)) else {
                continue;
            };
            let envelope = Envelope { from: (from, run), to: (to, to_run), message };
            let Some(envelope) = self.tampered(envelope) else { continue };
            if self.chance(self.manners().lose_per_mille) {
                self.write_down(&envelope, "╳");
                continue;
            }
            let doubled = self.chance(self.manners().double_per_mille);
            for _ in 0..=usize::from(doubled) {
                let at = Time(self.now().0 + self.delay());
                self.agenda.borrow_mut().add(at, Event::Deliver(Box::new(envelope.clone())));
            }
        }
    }

    fn tampered(&self, mut envelope: Envelope) -> Option<Envelope> {
        if let Some(plant) = self.plant.get() {
            let link = (envelope.from.0, envelope.to.0);
            let (mut rng, mut hidden) = (self.rng(), self.hidden.borrow_mut());
            if !plant.tamper(&mut *rng, &mut hidden, link, &mut envelope.message) {
                return None;
            }
        }
        Some(envelope)
    }

    pub(super) fn deliver(self: &Rc<World>, envelope: Envelope) {
        let ((from, _), (to, _)) = (envelope.from, envelope.to);
        // Scripts count the messages that they hold; those about cutting logs pass uncounted.
        let is_of_logs =
            matches!(envelope.message, Message::AskReceived { .. } | Message::Received { .. });
        if !is_of_logs && self.is_held(Gate::Messages(from, to)) {
            let mut hosts = self.hosts.borrow_mut();
            let host = hosts.get_mut(&to).expect("messages go to sites that were started");
            host.held_messages.entry(from).or_default().push_back(envelope);
            return;
        }
        self.hand_over(envelope);
    }

    /// Delivers the first `count` messages that a held gate has kept.
    pub fn deliver_held(self: &Rc<World>, from: SiteId, to: SiteId, count: usize) -> usize {
        let messages: Vec<Envelope> = {
            let mut hosts = self.hosts.borrow_mut();
            let Some(host) = hosts.get_mut(&to) else { return 0 };
            let held = host.held_messages.entry(from).or_default();
            let count = held.len().min(count);
            held.drain(..count).collect()
        };
        messages.iter().cloned().for_each(|envelope| self.hand_over(envelope));
        messages.len()
    }

    /// Reverses the order of the messages that a held gate has kept, and duplicates each.
    pub fn muddle_held(&self, from: SiteId, to: SiteId) -> usize {
        let mut hosts = self.hosts.borrow_mut();
        let Some(host) = hosts.get_mut(&to) else { return 0 };
        let held = host.held_messages.entry(from).or_default();
        let messages: Vec<Envelope> = held.drain(..).rev().collect();
        held.extend(messages.iter().cloned().flat_map(|envelope| [envelope.clone(), envelope]));
        messages.len()
    }

    /// The messages that a held gate has kept, in words.
    pub fn held_messages(&self, from: SiteId, to: SiteId) -> Vec<String> {
        let hosts = self.hosts.borrow();
        let held = hosts.get(&to).and_then(|host| host.held_messages.get(&from));
        held.into_iter().flatten().map(|envelope| Said(&envelope.message).to_string()).collect()
    }

    /// Loses the first message that a held gate has kept.
    pub fn lose_held(&self, from: SiteId, to: SiteId) -> bool {
        let mut hosts = self.hosts.borrow_mut();
        let held = hosts.get_mut(&to).and_then(|host| host.held_messages.get_mut(&from));
        let lost = held.and_then(|held| held.pop_front());
        lost.iter().for_each(|envelope| self.write_down(envelope, "╳"));
        lost.is_some()
    }

    /// Writes the fate of a message into the trace.
    fn write_down(&self, envelope: &Envelope, arrow: &str) {
        let (from, to, message) = (envelope.from.0, envelope.to.0, &envelope.message);
        let line = format_args!("{from} {arrow} {to}  {}", Said(message));
        if is_routine(message) { self.murmur(line) } else { self.note(line) }
    }

    fn hand_over(self: &Rc<World>, envelope: Envelope) {
        let ((from, from_run), (to, to_run)) = (envelope.from, envelope.to);
        // A message that a site sent before it crashed may still arrive.
        let lost = !self.runs(to, to_run) || (!self.runs(from, from_run) && self.chance(500));
        if !lost && self.stands(to, to_run) {
            self.stop_message(envelope);
            return;
        }
        self.write_down(&envelope, if lost { "⇥" } else { "→" });
        if let Some(site) = self.site_in(to, to_run).filter(|_| !lost) {
            self.guarded(|| site.receive(from, envelope.message));
        }
    }
}

/// True for messages that sites send all the time.
fn is_routine(message: &Message) -> bool {
    match message {
        Message::Feed(feed) => feed.items.is_empty(),
        Message::Close { .. }
        | Message::AskCloseAhead { .. }
        | Message::Ask { .. }
        | Message::AskReceived { .. }
        | Message::Received { .. } => true,
        _ => false,
    }
}

/// A message in a few words.
struct Said<'m>(&'m Message);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Message::Hello { .. } => write!(f, "hello"),
            Message::Subscribe { replicas, .. } => {
                write!(f, "subscribe")?;
                replicas.iter().enumerate().try_for_each(|(at, replica)| {
                    let Subscription { table, range, version, .. } = replica;
                    let comma = if at == 0 { "" } else { "," };
                    write!(f, "{comma} {table}{range} after version {version}")
                })
            }
            Message::Feed(feed) => {
                write!(f, "feed {}", feed.number)?;
                feed.items.iter().try_for_each(|item| match item {
                    FeedItem::Record { table, start, version, .. } => {
                        write!(f, ", {table}[{start}] v{version}")
                    }
                    FeedItem::Joined { table, range } => write!(f, ", joined {table}{range}"),
                    FeedItem::Tail(TailItem::Begins { .. }) => write!(f, ", its tail begins"),
                    FeedItem::Tail(TailItem::Ends) => write!(f, ", its tail ends"),
                    FeedItem::Tail(TailItem::Frame { .. }) => write!(f, ", a frame of its tail"),
                    FeedItem::Tail(TailItem::Finished(txn)) => {
                        write!(f, ", its tail without {txn}")
                    }
                    FeedItem::Tail(TailItem::Settled(_)) => Ok(()),
                })
            }
            Message::Close { .. } => write!(f, "close your feed"),
            Message::AskCloseAhead { table, start, .. } => write!(f, "is {table}[{start}] silent?"),
            Message::CloseAhead { table, start, .. } => {
                write!(f, "{table}[{start}] stays silent")
            }
            Message::Ask { txn } => write!(f, "what became of {txn}?"),
            Message::Outcome { txn, at: Some(at) } => write!(f, "{txn} has committed {at}"),
            Message::Outcome { txn, at: None } => write!(f, "leave {txn}"),
            Message::Done { txns } => {
                let txns: Vec<String> = txns.iter().map(ToString::to_string).collect();
                write!(f, "{} is done", txns.join(", "))
            }
            Message::AskReceived { .. } => write!(f, "what have you received?"),
            Message::Received { up_to, .. } => write!(f, "has all up to {up_to}"),
            Message::Ack { events } => {
                write!(f, "acknowledges")?;
                events.iter().enumerate().try_for_each(|(at, reached)| {
                    let Reached { table, start, version } = reached;
                    let comma = if at == 0 { "" } else { "," };
                    write!(f, "{comma} {table}[{start}] v{version}")
                })
            }
            Message::Tailed { .. } => write!(f, "keeps the tail"),
            Message::AskTailed => write!(f, "do you keep the tail?"),
            Message::AskAck { partitions } => {
                write!(f, "do you have")?;
                partitions.iter().try_for_each(|(table, start)| write!(f, " {table}[{start}]"))?;
                write!(f, "?")
            }
        }
    }
}
