//! The contract of every log, checked for each kind.

use isomer_log::{
    Durability, FileLog, Log, LogError, MemoryLog, MemoryOptions, Options, PAYLOAD_BYTES_MAX,
    Position,
};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Wake, Waker};
use std::thread;

/// Runs a test with each kind of log, in small segments.
fn each_log(durability: Durability, test: impl Fn(&dyn Log)) {
    test(&MemoryLog::new(MemoryOptions { segment_bytes: 1000, keep_bytes: None, durability }));
    let folder = tempfile::tempdir().unwrap();
    let options = Options { segment_bytes: 1000, durability, ..Options::default() };
    test(&FileLog::open(folder.path(), options).unwrap().0);
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Count {
    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Count {
    fn wake(self: Arc<Count>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn counter() -> (Arc<Count>, Waker) {
    let count = Arc::new(Count::default());
    (count.clone(), Waker::from(count))
}

fn read_all(log: &dyn Log, from: Position) -> Vec<(Position, Vec<u8>)> {
    let mut frames = Vec::new();
    let next = log.read(from, &mut |position, payload| {
        frames.push((position, payload.to_vec()));
        ControlFlow::Continue(())
    });
    assert_eq!(next.unwrap(), log.end());
    frames
}

#[test]
fn frames_come_back_in_order_from_every_boundary() {
    each_log(Durability::Commit, |log| {
        let mut expected = Vec::new();
        for length in [0, 1, 400, 300, 400, 5000, 0, 200_000, 3].repeat(3) {
            let payload = vec![length as u8; length];
            let position = log.end();
            let end = log.append(&payload).unwrap();
            assert_eq!(end, log.end());
            expected.push((position, payload));
            if length == 300 {
                log.sync().unwrap();
            }
        }
        for (index, (position, _)) in expected.iter().enumerate() {
            assert_eq!(read_all(log, *position), expected[index..]);
        }
        assert_eq!(read_all(log, log.end()), []);
        let counters = log.counters();
        assert_eq!((counters.frames, counters.bytes, counters.syncs), (27, log.end(), 3));
    });
}

#[test]
fn positions_that_are_no_frame_are_refused() {
    each_log(Durability::Commit, |log| {
        let ends: Vec<_> = (0..50).map(|_| log.append(&[1; 100]).unwrap()).collect();
        let read = |at| log.read(at, &mut |_, _| ControlFlow::Break(()));
        for end in &ends[..49] {
            assert!(read(*end).unwrap() > *end);
            assert!(matches!(read(end + 1), Err(LogError::NotAFrame { .. })));
            assert!(matches!(read(end - 7), Err(LogError::NotAFrame { .. })));
        }
        assert!(matches!(read(log.end() + 1), Err(LogError::BeyondEnd { .. })));
        log.sync().unwrap();
        log.truncate_before(ends[30]).unwrap();
        assert!(log.begin() > 0 && log.begin() <= ends[30]);
        assert!(matches!(read(0), Err(LogError::Truncated { .. })));
        read(log.begin()).unwrap();
        let large = vec![0; PAYLOAD_BYTES_MAX + 1];
        assert!(matches!(log.append(&large), Err(LogError::TooLarge { .. })));
    });
}

#[test]
fn waits_end_with_the_sync_that_covers_them() {
    each_log(Durability::Commit, |log| {
        let (work, driver) = counter();
        assert!(log.poll_work(&driver).is_pending());
        let first = log.append(b"first").unwrap();
        let second = log.append(b"second").unwrap();
        assert_eq!(work.get(), 1, "woken once, by the first append");
        assert!(log.poll_work(&driver).is_ready());

        let (woken, waiter) = counter();
        assert!(log.poll_durable(second, &waiter).is_pending());
        assert!(log.poll_durable(first, &waiter).is_pending());
        assert!(log.poll_durable(first, &waiter).is_pending());
        assert_eq!(log.sync().unwrap(), second);
        assert_eq!(woken.get(), 2, "one wake for each position");
        assert!(matches!(log.poll_durable(second, &waiter), Poll::Ready(Ok(()))));
        assert!(log.poll_work(&driver).is_pending());

        let third = log.append(b"third").unwrap();
        assert!(log.poll_durable(third, &waiter).is_pending());
        assert_eq!((log.durable(), log.end()), (second, third));
    });
    each_log(Durability::None, |log| {
        let end = log.append(b"no wait").unwrap();
        assert!(matches!(log.poll_durable(end, Waker::noop()), Poll::Ready(Ok(()))));
        assert_eq!(log.durable(), 0);
        assert_eq!(log.sync().unwrap(), end);
    });
}

#[test]
fn many_threads_append_whole_frames() {
    each_log(Durability::None, |log| {
        thread::scope(|scope| {
            for writer in 0..4u8 {
                scope.spawn(move || {
                    for number in 0..500u16 {
                        let mut payload = vec![writer; 3 + usize::from(number % 90)];
                        payload[1..3].copy_from_slice(&number.to_le_bytes());
                        log.append(&payload).unwrap();
                        if number % 100 == 0 {
                            log.sync().unwrap();
                        }
                    }
                });
            }
        });
        let mut next = [0u16; 4];
        for (_, payload) in read_all(log, 0) {
            let writer = usize::from(payload[0]);
            assert_eq!(payload[1..3], next[writer].to_le_bytes());
            assert_eq!(payload.len(), 3 + usize::from(next[writer] % 90));
            next[writer] += 1;
        }
        assert_eq!(next, [500; 4]);
    });
}
