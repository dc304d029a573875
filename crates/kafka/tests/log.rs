//! A log in a partition of a real broker: the contract of every log, and the guarantees of this
//! one.

#![allow(clippy::disallowed_methods, reason = "a real broker is waited for")]

mod broker;

use broker::{Broker, asked, create_topic};
use isomer_kafka::{Brokers, Connection, KafkaLog, OpenReport, Options, Timeouts};
use isomer_log::{Log, LogError, OpenError, Position};
use isomer_owned::lease::Times;
use isomer_owned::{Carrier, Refused};
use rdkafka::config::ClientConfig;
use rdkafka::topic_partition_list::TopicPartitionList;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

const DATABASE: u128 = 0xabc;

/// Short intervals, so that tests wait little.
fn times() -> Times {
    let ms = Duration::from_millis;
    Times { serves: ms(800), waits: ms(1000), renews: ms(200) }
}

fn options() -> Options {
    Options { times: times(), ..Options::default() }
}

fn open(connection: &Connection, options: Options) -> Result<KafkaLog, OpenError> {
    open_as(connection, DATABASE, "a test", options).map(|(log, _)| log)
}

/// Opens the log of a database in partition 0, as the process of this name.
fn open_as(
    connection: &Connection,
    database: u128,
    name: &str,
    options: Options,
) -> Result<(KafkaLog, OpenReport), OpenError> {
    let place: Arc<str> = format!("{}, partition 0", connection.address).into();
    let elsewhere = |Refused(what)| OpenError::Elsewhere { place: place.to_string(), what };
    let brokers = Brokers::new(connection.clone());
    let partition = brokers.partition(0, options.record_bytes_max, name).map_err(elsewhere)?;
    KafkaLog::open(partition, &place, database, 0, name, options)
}

/// Syncs until all appended frames are durable.
fn sync(log: &KafkaLog) -> Result<Position, LogError> {
    let end = log.end();
    while log.sync()? < end {}
    Ok(end)
}

fn frames(log: &dyn Log, from: Position) -> Vec<(Position, Vec<u8>)> {
    let mut frames = Vec::new();
    let end = log.read(from, &mut |position, frame| {
        frames.push((position, frame.to_vec()));
        ControlFlow::Continue(())
    });
    assert_eq!(end.expect("it can be read"), log.end());
    frames
}

#[test]
fn frames_are_durable_once_synced_and_survive_a_restart() {
    let Some(broker) = Broker::shared() else { return };
    let connection = broker.connection("frames");
    create_topic(&connection, &[]);
    let small = Options {
        record_bytes_max: 10_000,
        keep_bytes: 100_000,
        backlog_bytes: 80_000,
        ..options()
    };
    let log = open(&connection, small).expect("a new log");
    assert_eq!((log.begin(), log.durable(), log.end()), (0, 0, 0));
    let mut expected = Vec::new();
    // Some of them exceed a record, and many share one.
    for round in 0..40 {
        for length in [0, 1, 400, 25_000, 30, 9_000] {
            let position = log.end();
            let frame = vec![(round + length) as u8; length];
            log.append(&frame).expect("there is room");
            expected.push((position, frame));
        }
        assert!(log.durable() < log.end());
        assert!(log.poll_durable(log.end(), Waker::noop()).is_pending());
        assert!(matches!(log.poll_work(Waker::noop()), Poll::Ready(Ok(()))));
        assert_eq!(sync(&log).expect("it is written"), log.end());
        assert!(matches!(log.poll_durable(log.end(), Waker::noop()), Poll::Ready(Ok(()))));
        assert!(log.poll_work(Waker::noop()).is_pending());
    }
    // Most of it is no longer in memory.
    assert_eq!(frames(&log, 0), expected);
    let (middle, _) = expected[expected.len() / 2];
    assert_eq!(frames(&log, middle), expected[expected.len() / 2..]);
    assert!(matches!(
        log.read(1, &mut |_, _| ControlFlow::Continue(())),
        Err(LogError::NotAFrame { .. })
    ));
    let end = log.end();
    assert!(matches!(
        log.read(end + 1, &mut |_, _| ControlFlow::Continue(())),
        Err(LogError::BeyondEnd { .. })
    ));
    // A full backlog refuses frames until a sync.
    while log.append(&[7; 10_000]).is_ok() {}
    assert!(matches!(log.append(b"x"), Err(LogError::Backlog { .. })));
    sync(&log).expect("it is written");
    log.append(b"not synced").expect("there is room again");
    let synced = log.durable();
    drop(log);

    let log = open(&connection, Options { must_exist: true, ..small }).expect("the same log");
    assert_eq!((log.begin(), log.durable(), log.end()), (0, synced, synced));
    assert_eq!(frames(&log, 0)[..expected.len()], expected);
    let end = log.append(b"more").expect("there is room");
    assert_eq!(
        (sync(&log).expect("it is written"), frames(&log, synced)),
        (end, vec![(synced, b"more".to_vec())])
    );

    // Cutting removes the frames before the cut for good, and no others.
    log.truncate_before(middle).expect("it can be cut");
    let begin = log.begin();
    assert!(begin > 0 && begin <= middle, "{begin} {middle}");
    assert!(matches!(
        log.read(0, &mut |_, _| ControlFlow::Continue(())),
        Err(LogError::Truncated { .. })
    ));
    let kept: Vec<_> = expected.iter().filter(|(at, _)| *at >= begin).cloned().collect();
    assert_eq!(frames(&log, begin)[..kept.len()], kept);
    drop(log);
    let log = open(&connection, small).expect("the same log");
    assert_eq!((log.begin(), log.end()), (begin, end));
    assert_eq!(frames(&log, begin)[..kept.len()], kept);
    log.truncate_before(log.end()).expect("it can be cut");
    drop(log);
    let log = open(&connection, small).expect("the same log");
    assert_eq!(log.end(), end, "positions continue after everything was cut");
}

#[test]
fn a_new_owner_fences_the_one_before_and_waits_for_its_lease() {
    let Some(broker) = Broker::shared() else { return };
    let connection = broker.connection("fence");
    create_topic(&connection, &[]);
    let first = open(&connection, options()).expect("a new log");
    first.append(b"one").expect("there is room");
    sync(&first).expect("it is written");
    first.serving().expect("it has just heard that it owns the log");

    let (second, report) =
        open_as(&connection, DATABASE, "another", options()).expect("it takes over");
    assert_eq!(report.taken_from.as_deref(), Some("a test"));
    assert!(report.term > first.term());
    second.append(b"two").expect("there is room");
    // It acknowledges nothing before the first has stopped to serve reads.
    let last_seen = Arc::new(AtomicBool::new(true));
    std::thread::scope(|scope| {
        scope.spawn(|| sync(&second).expect("it is written"));
        while second.durable() < second.end() {
            last_seen.store(first.serving().is_ok(), Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let said = first.serving().expect_err("it does not know");
    assert!(!last_seen.load(Ordering::SeqCst), "the first served reads for too long");
    assert!(matches!(said, LogError::Unconfirmed { .. }), "{said}");

    let end = first.append(b"lost").expect("it does not know yet");
    let said = sync(&first).expect_err("it is another's");
    let LogError::Fenced { durable, what } = &said else { panic!("{said}") };
    assert_eq!(*durable, first.durable());
    assert!(what.contains("another") && what.contains("fence, partition 0"), "{what}");
    assert!(matches!(
        first.poll_durable(end, Waker::noop()),
        Poll::Ready(Err(LogError::Fenced { .. }))
    ));
    assert!(matches!(first.append(b"more"), Err(LogError::Fenced { .. })));
    assert!(matches!(first.serving(), Err(LogError::Fenced { .. })));
    drop(first);
    second.append(b"three").expect("there is room");
    sync(&second).expect("a late record of the first owner is skipped");
    drop(second);
    let (third, report) =
        open_as(&connection, DATABASE, "a third", options()).expect("it is released");
    assert_eq!(report.taken_from, None);
    let read: Vec<_> = frames(&third, 0).into_iter().map(|(_, frame)| frame).collect();
    assert_eq!(read, [b"one".to_vec(), b"two".to_vec(), b"three".to_vec()]);
}

#[test]
fn the_lease_of_an_owner_that_has_ended_is_skipped() {
    let Some(broker) = Broker::shared() else { return };
    let connection = broker.connection("ended");
    create_topic(&connection, &[]);
    let first = open(&connection, options()).expect("a new log");
    let term = first.term();
    // A killed process releases nothing.
    std::mem::forget(first);
    let open_after = |ended| {
        let options = Options { ended: Some(ended), ..options() };
        open_as(&connection, DATABASE, "another", options).expect("it takes over")
    };
    let (second, report) = open_after(term);
    assert_eq!(report.taken_from, None);
    std::mem::forget(second);
    // A later term has owned the log since then.
    let (_, report) = open_after(term);
    assert_eq!(report.taken_from.as_deref(), Some("another"));
}

#[test]
fn an_owner_whose_unread_records_were_cut_is_fenced() {
    let Some(broker) = Broker::shared() else { return };
    let connection = broker.connection("cut");
    create_topic(&connection, &[]);
    let small = Options { indexed: (0, 0), ..options() };
    let first = open(&connection, small).expect("a new log");
    first.append(b"one").expect("there is room");
    sync(&first).expect("it is written");
    let second = open(&connection, small).expect("it takes over");
    for frame in [b"two", b"six"] {
        second.append(frame).expect("there is room");
        sync(&second).expect("it is written");
    }
    second.truncate_before(second.end()).expect("it can be cut");
    assert!(second.begin() > first.end(), "the records that the first would read back are removed");
    first.append(b"lost").expect("it does not know yet");
    let said = sync(&first).expect_err("it is another's");
    let LogError::Fenced { what, .. } = &said else { panic!("{said}") };
    assert!(what.contains("another process has written") && what.contains("removed"), "{what}");
}

#[test]
fn a_lease_is_renewed_while_reads_are_served_and_not_otherwise() {
    let Some(broker) = Broker::shared() else { return };
    let connection = broker.connection("lease");
    create_topic(&connection, &[]);
    let log = open(&connection, options()).expect("a new log");
    std::thread::sleep(times().serves);
    assert!(log.poll_work(Waker::noop()).is_pending(), "no read was served");
    assert!(matches!(log.serving(), Err(LogError::Unconfirmed { .. })));
    assert!(matches!(log.poll_work(Waker::noop()), Poll::Ready(Ok(()))), "it is to be renewed");
    while log.poll_work(Waker::noop()).is_ready() {
        log.sync().expect("it is written");
    }
    log.serving().expect("it owns the log");
    assert_eq!((log.durable(), log.end(), log.counters().syncs), (0, 0, 0));
}

#[test]
fn a_killed_and_restarted_broker_loses_no_synced_frame() {
    let Some(mut broker) = Broker::start() else { return };
    let connection = broker.connection("killed");
    create_topic(&connection, &[("flush.messages", "1")]);
    let log = open(&connection, options()).expect("a new log");
    let (stop, synced) = (AtomicBool::new(false), AtomicUsize::new(0));
    let acknowledged = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0u64.. {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                log.append(&number.to_le_bytes()).expect("there is room");
                sync(&log).expect("it waits for the broker");
                acknowledged.lock().expect("no panic").push(number);
                synced.fetch_add(1, Ordering::SeqCst);
            }
        });
        let go_on = |more: usize| {
            let wanted = synced.load(Ordering::SeqCst) + more;
            while synced.load(Ordering::SeqCst) < wanted {
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        go_on(200);
        broker.kill();
        broker.restart();
        go_on(50);
        stop.store(true, Ordering::SeqCst);
    });
    drop(log);
    let log = open(&connection, options()).expect("the same log");
    let read: Vec<Vec<u8>> = frames(&log, 0).into_iter().map(|(_, frame)| frame).collect();
    let acknowledged = acknowledged.into_inner().expect("no panic");
    let expected: Vec<Vec<u8>> = acknowledged.iter().map(|n| n.to_le_bytes().to_vec()).collect();
    assert_eq!(read, expected);
}

#[test]
fn without_a_broker_a_log_fails_after_the_timeout_and_says_why() {
    let Some(mut broker) = Broker::start() else { return };
    let mut connection = broker.connection("silent");
    create_topic(&connection, &[("flush.messages", "1")]);
    connection.timeouts = Timeouts { write: Duration::from_secs(3), ..Timeouts::default() };
    let log = open(&connection, options()).expect("a new log");
    log.append(b"one").expect("there is room");
    sync(&log).expect("it is written");
    let durable = log.durable();
    broker.kill();
    let end = log.append(b"two").expect("it waits");
    let said = sync(&log).expect_err("the timeout is over");
    let LogError::Failed { durable: safe, what } = &said else { panic!("{said}") };
    assert_eq!((*safe, log.durable()), (durable, durable));
    assert!(what.contains("silent, partition 0") && what.contains("not acknowledged"), "{what}");
    assert!(matches!(log.poll_durable(end, Waker::noop()), Poll::Ready(Err(_))));
    drop(log);
    broker.restart();
    let log = open(&connection, options()).expect("the same log");
    let read: Vec<_> = frames(&log, 0).into_iter().map(|(_, frame)| frame).collect();
    // The record without an answer may have been written.
    assert!(read == [b"one".to_vec()] || read == [b"one".to_vec(), b"two".to_vec()], "{read:?}");
}

#[test]
fn unusable_logs_and_options_are_named() {
    let Some(broker) = Broker::shared() else { return };
    let refused = |connection: &Connection, options| {
        let error = open(connection, options).err().expect("a refusal");
        assert!(matches!(error, OpenError::Elsewhere { .. }));
        error.to_string()
    };
    // No broker listens at the port.
    let mut nobody = broker::connection(1, "nobody");
    nobody.timeouts.ask = Duration::from_secs(1);
    let said = refused(&nobody, options());
    assert!(
        said.contains("kafka://127.0.0.1:1/nobody, partition 0") && said.contains("refused"),
        "{said}"
    );
    // A missing topic, or an empty one.
    let connection = broker.connection("named");
    let said = refused(&connection, options());
    assert!(said.contains("its bounds are not known"), "{said}");
    create_topic(&connection, &[]);
    let said = refused(&connection, Options { must_exist: true, ..options() });
    assert!(said.contains("it is empty, although the log was made before"), "{said}");
    // The log of another database.
    drop(open(&connection, options()).expect("a new log"));
    let other = open_as(&connection, 7, "a test", options()).err().expect("a refusal").to_string();
    assert!(other.contains("two databases write to one place"), "{other}");
    // An option that is not in this build, and one that does not exist.
    for (name, value) in [("security.protocol", "ssl"), ("no.such.option", "1")] {
        let mut wrong = connection.clone();
        wrong.options.set(name, value).expect("it is not the log's");
        let said = refused(&wrong, options());
        assert!(said.contains(name), "{said}");
    }
    // Records removed by a tool, up to within a frame.
    let small = Options { record_bytes_max: 2_000, ..options() };
    let log = open(&connection, small).expect("the same log");
    for _ in 0..10 {
        log.append(&[7; 5_000]).expect("there is room");
    }
    sync(&log).expect("it is written");
    let end = log.end();
    drop(log);
    asked(&connection, async |client, options| {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset("named", 0, rdkafka::Offset::Offset(20))
            .expect("it is an offset");
        client.delete_records(&list, options).await.expect("they are removed");
    });
    let log = open(&connection, small).expect("the rest of the log");
    assert!(log.begin() > 0 && log.begin().is_multiple_of(5_008), "{}", log.begin());
    assert_eq!(log.end(), end);
    assert_eq!(frames(&log, log.begin()).len() as u64, (end - log.begin()) / 5_008);
    drop(log);
    // A record of another program.
    let producer: rdkafka::producer::BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", connection.address.brokers())
        .create()
        .expect("a producer");
    let foreign = rdkafka::producer::BaseRecord::<(), str>::to("named").payload("hello");
    producer.send(foreign).map_err(|(error, _)| error).expect("it is sent");
    rdkafka::producer::Producer::flush(&producer, Duration::from_secs(10)).expect("it is written");
    let said = refused(&connection, options());
    assert!(said.contains("it is no record of an Isomer log"), "{said}");
}
