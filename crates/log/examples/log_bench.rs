//! Measures the cost of an append, and how many commits share a sync.
//!
//! `cargo run --release -p isomer-log --example log_bench [FOLDER]`: the files of the second half
//! are written to FOLDER, which selects the disk to measure.

// A measurement is an edge: it needs a clock.
#![allow(clippy::disallowed_methods)]

use isomer_log::{Durability, FileLog, Log, MemoryLog, MemoryOptions, Options};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

const FRAME: [u8; 400] = [7; 400];

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

fn block_on<T>(poll: impl Fn(&Waker) -> Poll<T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match poll(&waker) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// Runs `step` many times. Returns nanoseconds per step, of the best of five rounds.
fn ns_each(steps: u32, mut step: impl FnMut()) -> f64 {
    let rounds = (0..5).map(|_| {
        let start = Instant::now();
        (0..steps).for_each(|_| step());
        start.elapsed().as_nanos() as f64 / f64::from(steps)
    });
    rounds.fold(f64::INFINITY, f64::min)
}

fn main() -> Result<(), Box<dyn Error>> {
    let kept = MemoryLog::new(MemoryOptions::default());
    let ns = ns_each(200_000, || drop(kept.append(&FRAME)));
    println!("memory, everything kept:  {ns:6.1} ns per append of {} bytes", FRAME.len());

    let keep_bytes = Some(8 << 20);
    let bounded = MemoryLog::new(MemoryOptions { keep_bytes, ..MemoryOptions::default() });
    let ns = ns_each(500_000, || drop(bounded.append(&FRAME)));
    println!("memory, 8 MiB kept:       {ns:6.1} ns per append");

    let folder = std::env::args().nth(1).unwrap_or_else(|| "target/log_bench".to_owned());
    std::fs::create_dir_all(&folder)?;
    let folder = tempfile::tempdir_in(folder)?;
    let options = Options { durability: Durability::None, ..Options::default() };
    let (log, _) = FileLog::open(folder.path().join("append"), options)?;
    log.sync()?;
    let mut ns = f64::INFINITY;
    for _ in 0..20 {
        ns = ns.min(ns_each(2_000, || drop(log.append(&FRAME))));
        log.sync()?;
    }
    println!("file, append only:        {ns:6.1} ns per append");

    for threads in [1, 4, 16, 64] {
        let path = folder.path().join(threads.to_string());
        let (log, _) = FileLog::open(path, Options::default())?;
        let seconds = commit(&log, threads);
        let counters = log.counters();
        println!(
            "file, {threads:2} threads waiting: {:8.0} commits/s, {:5.0} syncs/s, \
             {:5.1} commits per sync",
            counters.frames as f64 / seconds,
            counters.syncs as f64 / seconds,
            counters.frames as f64 / counters.syncs as f64,
        );
    }
    Ok(())
}

/// `threads` threads append and wait, 1000 times each, and this one runs the flusher. Returns
/// seconds.
fn commit(log: &FileLog, threads: usize) -> f64 {
    let running = AtomicUsize::new(threads);
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..1000 {
                    let wait = |end| block_on(|waker| log.poll_durable(end, waker));
                    if log.append(&FRAME).and_then(wait).is_err() {
                        break;
                    }
                }
                running.fetch_sub(1, Ordering::AcqRel);
                // Wakes the flusher, which then finds no running thread.
                let _ = log.append(b"");
            });
        }
        while running.load(Ordering::Acquire) > 0 {
            if block_on(|waker| log.poll_work(waker)).and_then(|()| log.sync()).is_err() {
                break;
            }
        }
    });
    start.elapsed().as_secs_f64()
}
