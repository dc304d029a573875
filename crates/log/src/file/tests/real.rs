//! The file log on a real folder, with threads.

use super::{SplitMix, frames};
use crate::{Durability, FileLog, Log, OpenError, Options, Position};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Wake, Waker};
use std::thread::{self, Thread};

/// A waker that unparks a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

/// Parks the thread until a poll is ready.
fn block_on<T>(poll: impl Fn(&Waker) -> Poll<T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match poll(&waker) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// Runs the flusher until `stop` is set.
fn drive(log: &FileLog, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        block_on(|waker| log.poll_work(waker)).unwrap();
        log.sync().unwrap();
    }
}

#[test]
fn positions_continue_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { segment_bytes: 4096, ..Options::default() };
    let mut end = 0;
    for round in 0..5 {
        let (log, report) = FileLog::open(folder.path(), options).unwrap();
        assert_eq!((report.begin, report.end, report.torn), (0, end, None));
        for i in 0..40 {
            assert_eq!(log.end(), end);
            end = log.append(format!("frame {i} of round {round}").as_bytes()).unwrap();
            if i % 7 == 0 {
                log.sync().unwrap();
            }
        }
        log.sync().unwrap();
        assert_eq!(frames(&log, 0).len(), 40 * (round + 1));
        assert!(log.counters().bytes > 1000);
    }
    let large = vec![7; 100_000];
    let (log, _) = FileLog::open(folder.path(), options).unwrap();
    log.append(&large).unwrap();
    log.append(&large).unwrap();
    log.sync().unwrap();
    assert_eq!(frames(&log, end)[1].1, large);
    log.append(b"after").unwrap();
    log.truncate_before(log.end()).unwrap();
    assert!(log.begin() > end, "whole segments are dropped");
    log.sync().unwrap();
    let begin = log.begin();
    drop(log);
    let (log, report) = FileLog::open(folder.path(), options).unwrap();
    assert_eq!((report.begin, report.end), (begin, log.end()));
    assert_eq!(frames(&log, begin).last().map(|(_, payload)| &payload[..]), Some(&b"after"[..]));
}

#[test]
fn a_folder_has_one_owner() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = FileLog::open(folder.path(), Options::default()).unwrap();
    let second = FileLog::open(folder.path(), Options::default());
    assert!(matches!(second, Err(OpenError::InUse { .. })));
    drop(log);
    FileLog::open(folder.path(), Options::default()).unwrap();
}

/// Sixteen threads append and wait, one runs the flusher: every wait ends, and no sync is wasted.
#[test]
fn commits_of_many_threads_share_syncs() {
    const THREADS: usize = 16;
    const COMMITS: usize = 50;
    let folder = tempfile::tempdir().unwrap();
    let options = Options { segment_bytes: 16 << 10, ..Options::default() };
    let (log, _) = FileLog::open(folder.path(), options).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| drive(&log, &stop));
        let workers: Vec<_> = (0..THREADS)
            .map(|worker| {
                let log = &log;
                scope.spawn(move || {
                    for commit in 0..COMMITS {
                        let end = log.append(&[worker as u8; 200][..100 + commit]).unwrap();
                        block_on(|waker| log.poll_durable(end, waker)).unwrap();
                        assert!(log.durable() >= end);
                    }
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        stop.store(true, Ordering::Release);
        log.append(b"wakes the flusher").unwrap();
    });
    let counters = log.counters();
    assert_eq!(counters.frames as usize, THREADS * COMMITS + 1);
    assert!(counters.syncs <= counters.frames);
    drop(log);
    let (log, report) = FileLog::open(folder.path(), options).unwrap();
    assert_eq!(report.torn, None);
    assert!(frames(&log, 0).len() >= THREADS * COMMITS);
}

/// A reader follows the log while frames are appended, written and dropped: it sees each frame
/// once, in order, whether it comes from memory or from a file.
#[test]
fn a_reader_follows_the_log_while_it_grows() {
    const FRAMES: u64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let durability = Durability::None;
    let options = Options { segment_bytes: 64 << 10, durability, ..Options::default() };
    let (log, _) = FileLog::open(folder.path(), options).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| drive(&log, &stop));
        scope.spawn(|| {
            let mut rng = SplitMix(1);
            for number in 0..FRAMES {
                let mut payload = number.to_le_bytes().to_vec();
                payload.resize(8 + rng.below(200), 0xcc);
                log.append(&payload).unwrap();
            }
        });
        let (mut at, mut expected): (Position, u64) = (0, 0);
        while expected < FRAMES {
            let mut left = 1000;
            at = log
                .read(at, &mut |_, payload| {
                    assert_eq!(payload[..8], expected.to_le_bytes());
                    expected += 1;
                    left -= 1;
                    if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })
                .unwrap();
            log.truncate_before(at).unwrap();
            assert!(log.begin() <= at);
        }
        assert_eq!(at, log.end());
        stop.store(true, Ordering::Release);
        log.append(b"wakes the flusher").unwrap();
    });
}
