//! Threads for requests.
//!
//! Requests wait for each other: one holds a lock until a later one ends its transaction. So each
//! request has a thread of its own, and there is no queue. If no thread is free, a request is
//! refused, and its sender releases the locks for which the others wait. An idle thread ends after
//! [`IDLE`].

use crate::edge::start;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// How long an idle thread waits for work.
const IDLE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// See the [module documentation](self).
pub(crate) struct Pool {
    threads: Mutex<Threads>,
    max: usize,
}

#[derive(Default)]
struct Threads {
    /// Idle threads; the one that worked last is at the end.
    idle: Vec<(u64, SyncSender<Job>)>,
    count: usize,
    last: u64,
}

/// Counts a thread until it is dropped.
struct Counted(Arc<Pool>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.threads.lock().count -= 1;
    }
}

impl Pool {
    pub(crate) fn new(max: usize) -> Arc<Pool> {
        Arc::new(Pool { threads: Mutex::default(), max })
    }

    /// Runs a job on a thread of its own; drops it and returns false if none is free. Leaves
    /// `reserve` threads free.
    pub(crate) fn run(self: &Arc<Pool>, mut job: Job, reserve: usize) -> bool {
        loop {
            let mut threads = self.threads.lock();
            if let Some((_, idle)) = threads.idle.pop() {
                drop(threads);
                match idle.send(job) {
                    Ok(()) => return true,
                    // The thread has just ended.
                    Err(unsent) => job = unsent.0,
                }
                continue;
            }
            if threads.count + reserve >= self.max {
                return false;
            }
            threads.count += 1;
            drop(threads);
            let counted = Counted(self.clone());
            return start("isomer-request", move || work(&counted.0.clone(), job, &counted))
                .is_ok();
        }
    }

    #[cfg(test)]
    fn count(&self) -> usize {
        self.threads.lock().count
    }
}

fn work(pool: &Pool, job: Job, _counted: &Counted) {
    let (sender, jobs) = sync_channel(1);
    job();
    loop {
        let number = {
            let mut threads = pool.threads.lock();
            threads.last += 1;
            let number = threads.last;
            threads.idle.push((number, sender.clone()));
            number
        };
        let job = match jobs.recv_timeout(IDLE) {
            Ok(job) => job,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                let mut threads = pool.threads.lock();
                let at = threads.idle.iter().position(|(other, _)| *other == number);
                match at {
                    Some(at) => {
                        threads.idle.remove(at);
                        return;
                    }
                    // The thread was chosen for a job that is about to arrive.
                    None => {
                        drop(threads);
                        match jobs.recv() {
                            Ok(job) => job,
                            Err(_) => return,
                        }
                    }
                }
            }
        };
        job();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    fn says(done: &Sender<usize>) -> impl FnOnce() + Send + 'static {
        let done = done.clone();
        move || done.send(9).expect("the test waits")
    }

    #[test]
    fn jobs_that_wait_for_each_other_have_a_thread_each_up_to_the_limit() {
        let pool = Pool::new(3);
        let (done, came) = channel();
        let mut ends = Vec::new();
        for at in 0..3 {
            let (end, until) = channel::<()>();
            let done = done.clone();
            let job = move || {
                let _ = until.recv();
                done.send(at).expect("the test waits");
            };
            assert!(pool.run(Box::new(job), 0));
            ends.push(end);
        }
        assert!(!pool.run(Box::new(|| {}), 0), "all three are at work");
        for (at, end) in ends.into_iter().enumerate() {
            end.send(()).expect("it waits");
            assert_eq!(came.recv(), Ok(at));
        }
        // Threads are reused, and one that panics is no longer counted.
        for _ in 0..100 {
            while !pool.run(Box::new(says(&done)), 0) {}
            assert_eq!(came.recv(), Ok(9));
        }
        assert!(pool.count() <= 3);
        while !pool.run(Box::new(|| panic!("a job panics, as the test wants")), 0) {}
        for _ in 0..3 {
            while !pool.run(Box::new(says(&done)), 0) {}
            assert_eq!(came.recv(), Ok(9));
        }
    }

    #[test]
    fn reserved_threads_are_kept_for_other_jobs() {
        let pool = Pool::new(2);
        let (end, until) = channel::<()>();
        assert!(pool.run(
            Box::new(move || {
                let _ = until.recv();
            }),
            1
        ));
        assert!(!pool.run(Box::new(|| {}), 1), "the second is for those that end transactions");
        let (done, came) = channel();
        assert!(pool.run(Box::new(move || done.send(1).expect("the test waits")), 0));
        assert_eq!(came.recv(), Ok(1));
        drop(end);
    }
}
