//! Counts the bytes of a switch's messages, encoded as between processes.
//!
//! ```text
//!   router          s1 (master)        s2 (replica)       s3 (replica)
//!     ├─ Release ─────▶│── feed ──────────▶│─────────────────▶│  the release, an event of the log
//!     │◀──── Done ─────┤                   │                  │
//!     ├─ Acquire ─────────────────────────▶│                  │
//!     │◀──── Done ─────────────────────────┤                  │
//!                      │◀── subscribe, ────┴── feed ─────────▶│  the new master's followers
//! ```
//!
//! Sites without threads exchange messages here until none is in flight. The count has all messages
//! from the first step until then, with their headers.

use isomer::clock;
use isomer::failure::Failure;
use isomer_design::{Footprint, Key, KeyRange, SiteId, TableId, Time};
use isomer_log::{MemoryLog, MemoryOptions};
use isomer_site::{
    Answer, Message, Network, Refusal, Site, SiteOptions, Step, TimeSource, Txn, wire,
};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

const TABLE: TableId = TableId(1);

#[derive(Default)]
struct Wires {
    on_the_way: Mutex<VecDeque<(SiteId, SiteId, Message)>>,
    bytes: Mutex<usize>,
}

impl Network for Wires {
    fn send(&self, from: SiteId, to: SiteId, message: Message) {
        *self.bytes.lock() += wire::message(from, to, &message).len();
        self.on_the_way.lock().push_back((from, to, message));
    }
}

struct Clock(Instant);

impl TimeSource for Clock {
    fn now(&self) -> Time {
        Time(clock::elapsed_ns(self.0) + 1)
    }
}

/// Sites, each with a copy of every partition.
struct Sites {
    sites: Vec<Site>,
    wires: Arc<Wires>,
}

/// The bytes of a switch of `partitions` partitions, each with `copies` copies.
///
/// # Errors
/// If a site refuses a step.
pub(super) fn bytes(partitions: usize, copies: u16) -> Result<usize, Failure> {
    let sites = Sites::new(copies)?;
    let starts: Vec<Key> = (0..partitions as i64).map(Key::int).collect();
    let ranges = starts.iter().map(|start| KeyRange::starting_with(start.clone())).collect();
    sites.step(SiteId(1), Step::Create(TABLE, ranges))?;
    for start in &starts {
        sites.write(start)?;
        for copy in (2..=copies).map(SiteId) {
            let followed = sites.step(SiteId(1), Step::Follow(TABLE, start.clone(), copy))?;
            let Answer::Snapshot(snapshot) = followed else {
                return Err(Failure::failed("a follow was not answered with a snapshot"));
            };
            sites.step(copy, Step::Install(snapshot))?;
        }
    }
    sites.rest();
    *sites.wires.bytes.lock() = 0;
    for start in &starts {
        let to = SiteId(2);
        sites.step(SiteId(1), Step::Release(TABLE, start.clone(), to))?;
        sites.step(to, Step::Acquire(TABLE, start.clone()))?;
    }
    sites.rest();
    let bytes = *sites.wires.bytes.lock();
    Ok(bytes)
}

impl Sites {
    fn new(count: u16) -> Result<Sites, Failure> {
        let wires = Arc::new(Wires::default());
        let time = Arc::new(Clock(clock::now()));
        let all: Vec<SiteId> = (1..=count).map(SiteId).collect();
        let mut sites = Vec::new();
        for id in &all {
            let log = Arc::new(MemoryLog::new(MemoryOptions::default()));
            let options = SiteOptions::new(*id, log, wires.clone(), time.clone());
            sites.push(Site::open(options).map_err(Failure::failed)?);
        }
        for site in &sites {
            site.greet(all.iter().copied().filter(|other| *other != site.id()));
        }
        let sites = Sites { sites, wires };
        sites.rest();
        Ok(sites)
    }

    fn at(&self, site: SiteId) -> &Site {
        &self.sites[usize::from(site.0) - 1]
    }

    /// Takes a step at a site, and counts the bytes of the request and of the answer.
    fn step(&self, site: SiteId, step: Step) -> Result<Answer, Failure> {
        let asked = wire::ask(site, &step).len();
        let answer: Result<Answer, Refusal> = self.until_done(self.at(site).step(step));
        let answered = wire::answer::<Step>(&answer).len();
        *self.wires.bytes.lock() += asked + answered;
        answer.map_err(Failure::failed)
    }

    fn write(&self, key: &Key) -> Result<(), Failure> {
        let footprint = Footprint::new().write(TABLE, key.clone());
        let mut procedure = |txn: &mut Txn<'_>| txn.put(TABLE, key, b"a row");
        let ran =
            self.until_done(self.at(SiteId(1)).execute(&footprint, Time::ZERO, &mut procedure));
        ran.map(drop).map_err(Failure::failed)
    }

    fn until_done<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            {
                return done;
            }
            self.deliver();
        }
    }

    /// Ships and delivers all pending messages; false if there were none.
    fn deliver(&self) -> bool {
        for site in &self.sites {
            // A log in memory cannot fail.
            let _ = site.log().sync();
            site.ship();
        }
        let messages = std::mem::take(&mut *self.wires.on_the_way.lock());
        let are_there = !messages.is_empty();
        for (from, to, message) in messages {
            self.at(to).receive(from, message);
        }
        are_there
    }

    fn rest(&self) {
        while self.deliver() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_a_few_messages_for_each_partition() {
        let of = |partitions, copies| bytes(partitions, copies).unwrap();
        assert!((100..1000).contains(&of(1, 2)), "{}", of(1, 2));
        assert!(of(8, 3) > of(8, 2) && of(8, 2) > of(4, 2));
    }
}
