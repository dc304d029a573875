//! Threads for requests.
//!
//! Requests wait for each other: one holds a lock until another comes that ends its transaction. So each has a thread of
//! its own, there is no queue in front of them, and what finds no thread is refused: whoever asked lets go of what the
//! others wait for. A thread that has nothing to do for some time ends.

use crate::edge::start;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// How long a thread waits for work.
const IDLE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// See the [module documentation](self).
pub(crate) struct Pool {
    threads: Mutex<Threads>,
    max: usize,
}

#[derive(Default)]
struct Threads {
    /// Those that wait, the one that worked last on top.
    idle: Vec<(u64, SyncSender<Job>)>,
    count: usize,
    last: u64,
}

/// A thread is counted as long as this is there.
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

    /// Does a job on a thread of its own; `false` if there is none, and the job is dropped.
    pub(crate) fn run(self: &Arc<Pool>, mut job: Job, reserve: usize) -> bool {
        loop {
            let mut threads = self.threads.lock();
            if let Some((_, idle)) = threads.idle.pop() {
                drop(threads);
                match idle.send(job) {
                    Ok(()) => return true,
                    // It has ended just now.
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
                    // Somebody has taken it for a job that is on its way.
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
        move || done.send(9).expect("somebody waits")
    }

    #[test]
    fn jobs_that_wait_for_each_other_have_threads_until_there_are_none() {
        let pool = Pool::new(3);
        let (done, came) = channel();
        let mut ends = Vec::new();
        for at in 0..3 {
            let (end, until) = channel::<()>();
            let done = done.clone();
            let job = move || {
                let _ = until.recv();
                done.send(at).expect("somebody waits");
            };
            assert!(pool.run(Box::new(job), 0));
            ends.push(end);
        }
        assert!(!pool.run(Box::new(|| {}), 0), "all three are at work");
        for (at, end) in ends.into_iter().enumerate() {
            end.send(()).expect("it waits");
            assert_eq!(came.recv(), Ok(at));
        }
        // They are used again, and one that panics is not counted any more.
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
    fn some_threads_are_kept_for_others() {
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
        assert!(pool.run(Box::new(move || done.send(1).expect("somebody waits")), 0));
        assert_eq!(came.recv(), Ok(1));
        drop(end);
    }
}
