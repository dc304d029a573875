//! A message of each kind and variant, with values drawn by a seed.

use crate::change::Holding;
use crate::copy::Snapshot;
use crate::error::{Abort, Failure, Refusal};
use crate::execute::SeenUpTo;
use crate::failover::Standing;
use crate::frame::{FrameKind, TxnId};
use crate::full::Full;
use crate::message::{Epoch, Feed, FeedItem, Message, Question, Subscription, TailItem};
use crate::ordered::{BatchAnswer, BatchOutcome, BatchStep, Check, Sees};
use crate::overlay::RowWrite;
use crate::place::Reached;
use crate::record::{Event, FrameWriter, Record, RowsBuffer};
use crate::request::{
    Body, CheckedWrite, CheckedWrites, Committed, Expect, Reply, Request, Shares, Timing,
};
use crate::source::GatheredRow;
use crate::step::{Answer, Step};
use crate::tail::{Fenced, FrameBytes, Settled, TailCopy, TailFrame, Unended};
use crate::two_phase::{Entered, Part, PartAnswer};
use crate::validate::ReadSet;
use crate::wire::ask::{
    Asked, Execute, Latest, Lease, Leased, PinAt, PinId, ReadAt, Rows, Seated, Tick, ToConductor,
    ToConductorNow, ToGateway,
};
use crate::wire::{self, BadMessage};
use isomer_design::{
    Access, Backups, Direction, Footprint, HotLock, Item, Key, KeyRange, SiteId, SiteSet, Span,
    TableId, Time,
};
use isomer_log::{Lack, LogError};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::fmt::Debug;
use std::sync::Arc;

/// A message that came, as text, and written again.
type Came = Result<(String, Vec<u8>), BadMessage>;

/// A message, and how it is read.
pub(super) struct Sample {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
    /// It, as text.
    pub(super) sent: String,
    pub(super) again: fn(&[u8]) -> Came,
}

/// The generator of a sample: others do not disturb it.
pub(super) fn rng(seed: u64, name: &str) -> Xoshiro256PlusPlus {
    let sum = crc32fast::hash(name.as_bytes());
    Xoshiro256PlusPlus::seed_from_u64(seed << 32 | u64::from(sum))
}

/// One of each kind and variant.
pub(super) fn samples(seed: u64) -> Vec<Sample> {
    let mut samples = Vec::new();
    asks(seed, &mut samples);
    answers(seed, &mut samples);
    each(seed, "message", MESSAGES, &mut samples, |g, variant| {
        let sent = (g.site(), g.site(), message(g, variant));
        let bytes = wire::message(sent.0, sent.1, &sent.2);
        sample(bytes, &sent, |bytes| {
            let sent = wire::read_message(bytes)?;
            Ok((text(&sent), wire::message(sent.0, sent.1, &sent.2)))
        })
    });
    each(seed, "published", 1, &mut samples, |g, _| {
        let time = g.time();
        sample(wire::published(time), &time, |bytes| {
            let time = wire::read_published(bytes)?;
            Ok((text(&time), wire::published(time)))
        })
    });
    each(seed, "early", 1, &mut samples, |g, _| {
        let early = g.bytes();
        sample(wire::early(&early), &early, |bytes| {
            let early = wire::read_early(bytes)?;
            Ok((text(&early), wire::early(&early)))
        })
    });
    samples
}

fn asks(seed: u64, samples: &mut Vec<Sample>) {
    let mut add = |name, count, one: fn(&mut Gen, usize) -> Sample| {
        each(seed, name, count, samples, one);
    };
    add("execute", 6, |g, variant| {
        let (footprint, writes, params) = (g.footprint(), g.writes(), g.bytes());
        let branches = (variant % 2 == 1).then(|| g.branches());
        let reads = if variant == 4 { g.reads() } else { ReadSet::default() };
        let body = match variant {
            0 | 1 => Body::Writes(&writes),
            4 => Body::Validated { reads: &reads, writes: &writes },
            _ => Body::Call { name: "transfer", params: &params },
        };
        let session = g.time();
        let (is_asynchronous, is_measured) = (g.flag(), g.flag());
        let branches = branches.as_ref();
        let request = Request {
            footprint: &footprint,
            session,
            branches,
            body,
            is_asynchronous,
            is_measured,
            is_serializable: variant >= 4,
            seat: 0,
        };
        asked(g, &Execute::of(&request).expect("its body is data"))
    });
    add("read", 4, |g, variant| {
        let way = if g.flag() { Direction::Forward } else { Direction::Backward };
        let (table, key, range, limit) = (g.table(), g.key(), g.range(), g.small());
        let span = match variant % 2 {
            0 => crate::ReadSpan::Key(&key),
            _ => crate::ReadSpan::Range(&range, way),
        };
        let pin = (variant > 1).then(|| PinId { client: g.number(), number: g.number() });
        let read = crate::Read { table, span, limit };
        let read = ReadAt::of(&read, g.time(), pin);
        asked(g, &read)
    });
    add("pin", 1, |g, _| {
        let (id, at) = (PinId { client: g.number(), number: g.number() }, g.time());
        asked(g, &PinAt { id, at })
    });
    add("lease", 1, |g, _| {
        let (client, from, last) = (g.number(), g.time(), g.number());
        let held = g.some(Gen::number);
        asked(g, &Lease { client, from, last, held })
    });
    add("until_durable", 1, |g, _| {
        let seen = g.seen();
        asked(g, &seen)
    });
    add("step", STEPS, |g, variant| {
        let step = step(g, variant);
        asked(g, &step)
    });
    add("part", 3, |g, variant| {
        let (txn, at) = (g.txn(), g.time());
        let part = match variant {
            0 => Part::Enter { txn, footprint: g.footprint(), at },
            1 => Part::Prepare { txn, at, writes: g.some(Gen::row_write) },
            _ => Part::PrepareAll { txn, at, writes: g.some(Gen::row_write) },
        };
        asked(g, &part)
    });
    add("tick", 1, |g, _| asked(g, &Tick));
    add("seated", 1, |g, _| {
        let (footprint, writes, seat) = (g.footprint(), g.writes(), g.time().0);
        let request = Request::new(&footprint, Body::Writes(&writes));
        asked(g, &Seated::of(seat, Execute::of(&request).expect("its body is data")))
    });
    add("latest", 1, |g, _| asked(g, &Latest));
    add("to the conductor", 1, |g, _| asked(g, &ToConductor(b"of a gateway".to_vec())));
    add("to the conductor now", 1, |g, _| asked(g, &ToConductorNow(b"of a gateway".to_vec())));
    add("batch", 6, |g, variant| {
        let step = batch_step(g, variant);
        asked(g, &step)
    });
    add("to the gateway", 1, |g, _| asked(g, &ToGateway(b"a statement".to_vec())));
}

fn answers(seed: u64, samples: &mut Vec<Sample>) {
    let mut add = |name, count, one: fn(&mut Gen, usize) -> Sample| {
        each(seed, name, count, samples, one);
    };
    add("reply", 2, |g, variant| {
        let committed = Committed { snapshot: g.time(), commit: (variant == 1).then(|| g.time()) };
        let timing = (variant == 1).then(|| Timing {
            lock_ns: g.number(),
            wait_ns: g.number(),
            run_ns: g.number(),
            commit_ns: g.number(),
            held_ns: g.number(),
            rows: [g.small(), g.small()],
        });
        answered::<Execute<'_>>(&Ok(Reply { committed, output: g.bytes(), timing }))
    });
    add("failure", FAILURES, |g, variant| answered::<Execute<'_>>(&Err(failure(g, variant))));
    add("log_error", LOG_ERRORS, |g, variant| {
        answered::<SeenUpTo>(&Err(Failure::Unknown(log_error(g, variant))))
    });
    add("abort", ABORTS, |g, variant| {
        answered::<Execute<'_>>(&Err(Failure::Abort(abort(g, variant))))
    });
    add("rows", 1, |g, _| {
        let mut rows = RowsBuffer::default();
        (0..g.small()).for_each(|_| rows.push(&g.key(), &g.bytes(), g.time()));
        answered::<ReadAt>(&Ok(Rows { seen: g.seen(), rows }))
    });
    add("pinned", 1, |_, _| answered::<PinAt>(&Ok(())));
    add("leased", 2, |g, variant| {
        let hot_lock = |g: &mut Gen| HotLock {
            table: g.table(),
            start: g.key(),
            waiting: g.small(),
            keys: g.some(Gen::key),
        };
        let failure = (variant == 1).then(|| log_error(g, 3));
        let [busy, process_busy] = [0.25, 0.5].map(|share| (variant == 1).then_some(share));
        let memory_max = (variant == 1).then(|| g.small());
        let (from, memory_bytes, hot_locks) = (g.time(), g.small(), g.some(hot_lock));
        answered::<Lease>(&Ok(Leased {
            from,
            busy,
            process_busy,
            memory_bytes,
            memory_max,
            hot_locks,
            failure,
        }))
    });
    add("durable", 1, |_, _| answered::<SeenUpTo>(&Ok(())));
    add("answer", 5, |g, variant| {
        answered::<Step>(&Ok(match variant {
            0 => Answer::Done,
            1 => Answer::Snapshot(Box::new(g.snapshot())),
            2 => {
                let shared = g.some(|g| (g.table(), g.key()));
                Answer::Standing(Standing { version: g.number(), shared })
            }
            3 => Answer::Holdings(g.some(Gen::holding)),
            _ => Answer::Fenced(Box::new(Fenced {
                run: g.number(),
                tail: Some(TailCopy {
                    received: g.number(),
                    frames: g.some(Gen::tail_frame),
                    before: g.settled(),
                }),
                follows: g.flag(),
                has_lost_tail: g.flag(),
                in_doubt: g.some(Gen::txn),
                decided: g.some(|g| (g.txn(), g.time())),
                heard: Some(g.number()).filter(|heard| heard % 2 == 0),
            })),
        }))
    });
    add("refusal", REFUSALS, |g, variant| answered::<Step>(&Err(refusal(g, variant))));
    add("part_answer", 3, |g, variant| {
        answered::<Part>(&match variant {
            0 => {
                let (at, is_fixed, rows) = (g.time(), g.flag(), g.some(Gen::gathered));
                Ok(PartAnswer::Entered(Entered { at, is_fixed, rows }))
            }
            1 => Ok(PartAnswer::Prepared(g.time())),
            _ => Err(Failure::Participant(g.site())),
        })
    });
    add("ticked", 1, |_, _| answered::<Tick>(&()));
    add("latest is", 1, |g, _| answered::<Latest>(&g.time()));
    add("from the conductor", 1, |_, _| answered::<ToConductor>(&b"to a gateway".to_vec()));
    add("from the conductor now", 1, |_, _| answered::<ToConductorNow>(&b"to it".to_vec()));
    add("batch_answer", 5, |g, variant| {
        answered::<BatchStep>(&match variant {
            0 => Ok(BatchAnswer::Entered(g.some(|g| g.flag().then(|| g.number())))),
            1 => Ok(BatchAnswer::Proposed(g.time())),
            2 => Ok(BatchAnswer::Done),
            3 => Ok(BatchAnswer::Outcomes(g.some(outcome))),
            _ => Err(Failure::Participant(g.site())),
        })
    });
    add("from the gateway", 1, |_, _| answered::<ToGateway>(&b"rows".to_vec()));
}

fn batch_step(g: &mut Gen, variant: usize) -> BatchStep {
    match variant {
        0 => {
            let (number, attempt, footprint) = (g.number(), g.number(), g.footprint());
            let sees = |g: &mut Gen| match g.flag() {
                true => Sees::Since(g.time()),
                false => Sees::Version(g.flag().then(|| g.time())),
            };
            let check = |g: &mut Gen| {
                let span = match g.flag() {
                    true => Span::Key(g.key()),
                    false => Span::Range(g.range()),
                };
                Check { table: g.table(), span, sees: sees(g) }
            };
            BatchStep::Enter { number, attempt, footprint, checks: g.some(check) }
        }
        1 => BatchStep::Propose { number: g.number() },
        2 => {
            let write = |g: &mut Gen| {
                let (table, key) = (g.table(), g.key());
                RowWrite { table, key, value: g.flag().then(|| g.bytes()) }
            };
            let (outcomes, writes, is_repeated) = (g.some(outcome), g.some(write), g.flag());
            BatchStep::Install { outcomes, writes, is_repeated }
        }
        3 => BatchStep::Leave,
        4 => BatchStep::Settle { number: g.number() },
        _ => BatchStep::Tell,
    }
}

fn outcome(g: &mut Gen) -> BatchOutcome {
    BatchOutcome { number: g.number(), time: g.time(), applied: g.some(Gen::flag) }
}

/// A sample of each variant of a kind.
fn each(
    seed: u64,
    kind: &str,
    variants: usize,
    samples: &mut Vec<Sample>,
    one: impl Fn(&mut Gen, usize) -> Sample,
) {
    for variant in 0..variants {
        let name = format!("{kind} {variant}");
        let sample = one(&mut Gen(rng(seed, &name)), variant);
        samples.push(Sample { name, ..sample });
    }
}

fn sample(bytes: Vec<u8>, sent: &impl Debug, again: fn(&[u8]) -> Came) -> Sample {
    Sample { name: String::new(), bytes, sent: text(sent), again }
}

/// As text, with all that there is of it.
fn text(value: &impl Debug) -> String {
    format!("{value:?}")
}

fn asked<A: Asked + Debug>(g: &mut Gen, asked: &A) -> Sample {
    let site = g.site();
    sample(wire::ask(site, asked), &(site, asked), |bytes| {
        let (site, ask) = wire::read_ask(bytes)?;
        use wire::Ask::{
            Batch, Execute, Latest, Lease, Part, Pin, Read, Seated, Step, Tick, ToConductor,
            ToConductorNow, ToGateway, UntilDurable,
        };
        Ok(match ask {
            Execute(asked) => (text(&(site, &asked)), wire::ask(site, &asked)),
            Read(asked) => (text(&(site, &asked)), wire::ask(site, &asked)),
            Pin(asked) => (text(&(site, &asked)), wire::ask(site, &asked)),
            Lease(asked) => (text(&(site, &asked)), wire::ask(site, &asked)),
            UntilDurable(asked) => (text(&(site, &asked)), wire::ask(site, &asked)),
            Step(asked) => (text(&(site, &asked)), wire::ask(site, &asked)),
            Part(asked) => (text(&(site, &asked)), wire::ask(site, &asked)),
            Tick(asked) => (text(&(site, &asked)), wire::ask(site, &asked)),
            Latest(asked) => (text(&(site, &asked)), wire::ask(site, &asked)),
            ToConductor(asked) => (text(&(site, &asked)), wire::ask(site, &asked)),
            ToConductorNow(asked) => (text(&(site, &asked)), wire::ask(site, &asked)),
            Seated(asked) => (text(&(site, &asked)), wire::ask(site, &asked)),
            Batch(asked) => (text(&(site, &asked)), wire::ask(site, &asked)),
            ToGateway(asked) => (text(&(site, &asked)), wire::ask(site, &asked)),
        })
    })
}

fn answered<A: Asked>(answer: &A::Answer) -> Sample
where
    A::Answer: Debug,
{
    sample(wire::answer::<A>(answer), answer, |bytes| {
        let answer = wire::read_answer::<A>(bytes)?;
        Ok((text(&answer), wire::answer::<A>(&answer)))
    })
}

const STEPS: usize = 24;

fn step(g: &mut Gen, variant: usize) -> Step {
    let (table, key) = (g.table(), g.key());
    match variant {
        0 => Step::Create(table, g.some(Gen::range)),
        1 => Step::Split(table, key),
        2 => Step::Merge(table, key),
        3 => Step::Follow(table, key, g.site()),
        4 => Step::Install(Box::new(g.snapshot())),
        5 => Step::Unfollow(table, key, g.site()),
        6 => Step::Drop(table, g.range()),
        7 => Step::Release(table, key, g.site()),
        8 => Step::Acquire(table, key),
        9 => Step::Standing(table, key),
        10 => Step::Promote(table, key, g.number(), g.sites()),
        11 => Step::Turn(table, key, g.number(), g.site()),
        12 => Step::Discard(table, g.range()),
        13 => Step::Forget(table),
        14 => Step::Describe,
        15 => Step::Finish,
        16 => Step::Dismiss(g.site()),
        17 => Step::Backups(table, g.backups()),
        18 => Step::BackedBy(table, key, g.site()),
        19 => Step::Fence(g.site()),
        20 => Step::TakeFrames(g.site(), g.some(Gen::tail_frame)),
        21 => Step::EndInDoubt(g.some(|g| (g.txn(), g.flag().then(|| g.time())))),
        22 => Step::Replaced(g.site()),
        _ => Step::Admit(g.site()),
    }
}

const MESSAGES: usize = 16;

fn message(g: &mut Gen, variant: usize) -> Message {
    let (table, start) = (g.table(), g.key());
    match variant {
        0 => Message::Hello { incarnation: g.number() },
        1 => Message::Subscribe { epoch: g.epoch(), replicas: g.some(Gen::subscription) },
        2 => Message::Feed(g.feed()),
        3 => Message::Close { at_least: g.time() },
        4 => Message::AskCloseAhead { table, start, at_least: g.time() },
        5 => Message::CloseAhead { table, start, last: g.time(), until: g.time() },
        6 => Message::Ask { txn: g.txn() },
        7 => Message::Outcome { txn: g.txn(), at: g.flag().then(|| g.time()) },
        8 => Message::Done { txns: g.some(Gen::txn) },
        9 => Message::AskReceived { question: g.question() },
        10 => Message::Received { question: g.question(), up_to: g.time() },
        11 => Message::Ack { events: g.some(Gen::reached) },
        12 => Message::AskAck { partitions: g.some(|g| (g.table(), g.key())) },
        13 => Message::Tailed { incarnation: g.number(), received: g.number() },
        14 => Message::AskTailed,
        _ => Message::Feed(g.feed_of_tail()),
    }
}

const FAILURES: usize = 12;

fn failure(g: &mut Gen, variant: usize) -> Failure {
    let (site, item) = (g.site(), Box::new(g.item()));
    match variant {
        0 => Failure::NotHere { site, item },
        1 => Failure::NotMaster { site, item },
        2 => Failure::Log(log_error(g, 0)),
        3 => Failure::Participant(site),
        4 => Failure::Overloaded { site, limit: g.small() },
        5 => Failure::Forgotten { site, at: g.time() },
        6 => Failure::Stopped(site),
        7 => Failure::NotAsked { site, why: g.words() },
        8 => Failure::Full(g.full(site)),
        9 => Failure::Unreachable { site, why: g.words() },
        10 => Failure::SeatEnded(site),
        _ => Failure::Unseated(site),
    }
}

const ABORTS: usize = 7;

fn abort(g: &mut Gen, variant: usize) -> Abort {
    let (table, key) = (g.table(), g.key());
    match variant {
        0 => Abort::OutsideFootprint { what: g.words(), footprint: g.words() },
        1 => Abort::DuplicateKey { table, key },
        2 => Abort::KeyTooLong { bytes: g.small() },
        3 => Abort::Changed { table, key },
        4 => Abort::UnknownProcedure { name: g.words(), known: g.words() },
        5 => Abort::Rolled(g.words()),
        _ => Abort::ReadChanged { table, span: Span::Key(key) },
    }
}

const REFUSALS: usize = 7;

fn refusal(g: &mut Gen, variant: usize) -> Refusal {
    let (site, table) = (g.site(), g.table());
    match variant {
        0 => Refusal::NoTable { site, table },
        1 => Refusal::NoPartition { site, table, wanted: g.words() },
        2 => Refusal::Unfit { site, table, range: g.words(), why: g.words() },
        3 => Refusal::Log(log_error(g, 1)),
        4 => Refusal::Unavailable(site),
        5 => Refusal::NotAsked { site, why: g.words() },
        _ => Refusal::Full(g.full(site)),
    }
}

const LOG_ERRORS: usize = 13;

fn log_error(g: &mut Gen, variant: usize) -> LogError {
    let (position, what) = (g.number(), Arc::from(g.words()));
    match variant {
        0 => LogError::TooLarge { bytes: g.small(), max: g.small() },
        1 => LogError::Backlog { bytes: g.number(), max: g.number() },
        2 => {
            let lacks = [Lack::Space, Lack::Handles, Lack::Unknown];
            LogError::NoRoom { lack: lacks[g.0.random_range(0..3)], what }
        }
        3 => LogError::Failed { durable: position, what },
        4 => LogError::Truncated { position, begin: g.number() },
        5 => LogError::BeyondEnd { position, end: g.number() },
        6 => LogError::NotAFrame { position },
        7 => LogError::Read { what },
        8 => LogError::Damaged { position, what },
        9 => LogError::Remove { what },
        10 => LogError::Fenced { durable: position, what },
        11 => LogError::Unconfirmed { what },
        _ => LogError::Gone { what },
    }
}

/// A feed with two records of one frame, which has a row of `bytes` bytes.
pub(super) fn feed_of_two_records(bytes: usize) -> Feed {
    let mut frame = FrameWriter::new(FrameKind::Commit);
    frame.open_write(TableId(1), &Key::int(5), 7);
    frame.row(&Key::int(6), Some(&vec![1; bytes]));
    frame.close_write();
    frame.open_write(TableId(2), &Key::int(5), 3);
    frame.row(&Key::int(6), None);
    frame.close_write();
    let frame: Arc<[u8]> = Arc::from(frame.finish(Time(9)));
    let item = |(at, table, previous)| FeedItem::Record {
        from: SiteId(1),
        table: TableId(table),
        start: Key::int(5),
        previous,
        version: previous + 1,
        frame: frame.clone(),
        at,
        position: 100,
    };
    let items = [(0, 1, 7), (1, 2, 3)].map(item).to_vec();
    let (epoch, closed) = (Epoch { incarnation: 1, number: 1 }, Time(10));
    Feed { from: 1, epoch, since: 0, number: 1, items, closed }
}

/// Draws values.
struct Gen(Xoshiro256PlusPlus);

impl Gen {
    fn flag(&mut self) -> bool {
        self.0.random()
    }

    /// Numbers of all lengths.
    fn number(&mut self) -> u64 {
        self.0.random::<u64>() >> self.0.random_range(0..64)
    }

    fn small(&mut self) -> usize {
        self.0.random_range(1..6)
    }

    fn time(&mut self) -> Time {
        Time(self.number())
    }

    fn some<T>(&mut self, mut one: impl FnMut(&mut Gen) -> T) -> Vec<T> {
        (0..self.0.random_range(0..4)).map(|_| one(self)).collect()
    }

    fn bytes(&mut self) -> Vec<u8> {
        (0..self.0.random_range(0..40)).map(|_| self.0.random()).collect()
    }

    fn words(&mut self) -> String {
        let all = ["disk", "größer", "→", "", "the log", "\"7\""];
        self.some(|g| all[g.0.random_range(0..all.len())]).join(" ")
    }

    fn table(&mut self) -> TableId {
        TableId(self.number() as u32)
    }

    fn site(&mut self) -> SiteId {
        SiteId(self.0.random_range(1..=1024))
    }

    fn full(&mut self, site: SiteId) -> Full {
        Full { site, limit: self.small(), used: self.small(), more: self.small() }
    }

    fn sites(&mut self) -> SiteSet {
        self.some(Gen::site).into_iter().collect()
    }

    fn key(&mut self) -> Key {
        match self.0.random_range(0..3) {
            0 => Key::int(self.number() as i64),
            1 => Key::min(),
            _ => Key::from_bytes(&self.bytes()),
        }
    }

    fn range(&mut self) -> KeyRange {
        KeyRange::new(self.key(), self.flag().then(|| self.key()))
    }

    fn item(&mut self) -> Item {
        let span = if self.flag() { Span::Key(self.key()) } else { Span::Range(self.range()) };
        let access = if self.flag() { Access::Read } else { Access::Write };
        Item { table: self.table(), span, access }
    }

    fn footprint(&mut self) -> Footprint {
        let mut footprint = Footprint::new();
        for Item { table, span, access } in self.some(Gen::item) {
            footprint.add(table, span, access);
        }
        footprint
    }

    fn branches(&mut self) -> Shares {
        self.some(|g| (g.site(), g.footprint())).into_iter().collect()
    }

    fn writes(&mut self) -> CheckedWrites {
        let write = |g: &mut Gen| {
            let expect = match g.0.random_range(0..3) {
                0 => Expect::Anything,
                1 => Expect::Version(None),
                _ => Expect::Version(Some(g.time())),
            };
            (g.key(), CheckedWrite { expect, row: g.flag().then(|| g.bytes()) })
        };
        let table = |g: &mut Gen| (g.table(), g.some(write).into_iter().collect());
        self.some(table).into_iter().collect()
    }

    fn reads(&mut self) -> ReadSet {
        let mut reads = ReadSet::default();
        for Item { table, span, .. } in self.some(Gen::item) {
            reads.add(self.time(), table, span, self.number());
        }
        reads
    }

    fn reached(&mut self) -> Reached {
        Reached { table: self.table(), start: self.key(), version: self.number() }
    }

    fn backups(&mut self) -> Backups {
        Backups { count: self.small() as u8, on_disk: self.flag() }
    }

    fn seen(&mut self) -> SeenUpTo {
        SeenUpTo { run: self.number(), position: self.number(), ticket: self.number() }
    }

    fn txn(&mut self) -> TxnId {
        TxnId { coordinator: self.site(), incarnation: self.number(), number: self.number() }
    }

    fn row_write(&mut self) -> RowWrite {
        let value = self.flag().then(|| self.bytes());
        RowWrite { table: self.table(), key: self.key(), value }
    }

    fn gathered(&mut self) -> GatheredRow {
        let (table, key) = (self.table(), self.key());
        GatheredRow { table, key, time: self.time(), value: self.bytes() }
    }

    fn holding(&mut self) -> Holding {
        Holding {
            table: self.table(),
            range: self.range(),
            version: self.number(),
            source: self.flag().then(|| self.site()),
            followers: self.sites(),
            released_to: self.flag().then(|| self.site()),
        }
    }

    fn snapshot(&mut self) -> Snapshot {
        let piece = |g: &mut Gen| {
            let mut rows = RowsBuffer::default();
            (0..g.small()).for_each(|_| rows.push(&g.key(), &g.bytes(), g.time()));
            rows
        };
        Snapshot {
            table: self.table(),
            range: self.range(),
            version: self.number(),
            last: self.time(),
            since: self.time(),
            source: self.site(),
            incarnation: self.number(),
            position: self.number(),
            pieces: (0..self.small()).map(|_| piece(self)).collect(),
        }
    }

    fn question(&mut self) -> Question {
        Question { incarnation: self.number(), number: self.number() }
    }

    fn epoch(&mut self) -> Epoch {
        Epoch { incarnation: self.number(), number: self.number() }
    }

    fn subscription(&mut self) -> Subscription {
        let (version, position) = (self.number(), self.number());
        Subscription { table: self.table(), range: self.range(), version, position }
    }

    /// A frame, for tests that do not read its records.
    fn frame(&mut self) -> Vec<u8> {
        let mut frame = FrameWriter::new(FrameKind::Prepare(self.txn()));
        frame.open_write(self.table(), &self.key(), 7);
        frame.row(&self.key(), Some(&self.bytes()));
        frame.close_write();
        frame.finish(self.time()).to_vec()
    }

    fn tail_frame(&mut self) -> TailFrame {
        let (position, bytes) = (self.number(), FrameBytes::of(&self.frame()));
        TailFrame { position, bytes }
    }

    fn settled(&mut self) -> Settled {
        let prepared = Unended::Prepared(FrameBytes::of(&self.frame()));
        let unended = vec![(self.txn(), prepared), (self.txn(), Unended::Decided(self.time()))];
        Settled { unended, versions: self.some(|g| ((g.table(), g.key()), g.number())) }
    }

    /// Each kind of tail item.
    fn feed_of_tail(&mut self) -> Feed {
        let (received, settled, before) = (self.number(), self.number(), self.settled());
        let (from, position, frame) = (self.site(), self.number(), Arc::from(self.frame()));
        let items = [
            TailItem::Begins { received, settled, before },
            TailItem::Frame { from, position, frame },
            TailItem::Settled(self.number()),
            TailItem::Finished(self.txn()),
            TailItem::Ends,
        ];
        Feed { items: items.map(FeedItem::Tail).to_vec(), ..self.feed() }
    }

    fn feed(&mut self) -> Feed {
        let mut items = Vec::new();
        for _ in 0..self.small() {
            self.add_items(&mut items);
        }
        Feed {
            from: self.number(),
            epoch: self.epoch(),
            since: self.number(),
            number: self.number(),
            items,
            closed: self.time(),
        }
    }

    /// The records of a frame, some for their right partitions, or a `Joined` item.
    fn add_items(&mut self, items: &mut Vec<FeedItem>) {
        if self.flag() {
            items.push(FeedItem::Joined { table: self.table(), range: self.range() });
            return;
        }
        let mut frame = FrameWriter::new(FrameKind::Commit);
        let (from, position) = (self.site(), self.number());
        let mut records = Vec::new();
        for at in 0..self.small() {
            let (right, right_version) = (self.key(), self.number());
            let event = Event::Merge { right: right.clone(), right_version };
            let (start, previous) = (self.key(), self.number());
            let (table, version) = (self.table(), self.number());
            frame.record(&Record { table, start: start.clone(), previous, version, event });
            records.push((at, table, version, start, previous));
            if self.flag() {
                records.push((at, table, version, right, right_version));
            }
        }
        let frame: Arc<[u8]> = Arc::from(frame.finish(self.time()));
        items.extend(records.into_iter().map(|(at, table, version, start, previous)| {
            let frame = frame.clone();
            FeedItem::Record { from, table, start, previous, version, frame, at, position }
        }));
    }
}
