//! How busy a site keeps the processors of this process's machine.
//!
//! ```text
//!   client thread     ── poll ──┐        ┌── poll ──                counted for the site whose code runs
//!                      run, read │ waits  │ commit                   waits are not
//!   worker of the site ── receive: refreshes ── ship ── tick ──      counted: messages, feeds, garbage
//! ```
//!
//! Each piece of work is measured by the clock before and after it. The thread's processor time
//! would need a system call, which costs more than a short transaction. With more threads than
//! processors, work that was preempted counts as longer than it was. If a site calls another site
//! during its work, as a coordinator in this process does, that site's work does not count for it.
//!
//! There are several counters, shared by all threads in turn, so that few transactions contend for
//! one. The worker adds them up once a second.
//!
//! Not counted are waits for the disk, checkpoints, and the work outside of sites: SQL and routing.
//! These are in the processor time of the whole process ([`Processors`]), which the kernel counts.
//! It is a share of what the process may use: of its processors, or of the quota of its control
//! group.

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The number of counters, shared by all threads.
const COUNTERS: usize = 16;
/// The time over which the share is averaged.
const WINDOW: Duration = Duration::from_secs(1);
/// Stands for a share that is not known yet.
const UNKNOWN: u64 = u64::MAX;

/// The work of a site. See the [module documentation](self).
pub(super) struct Busy {
    worked_ns: [CachePadded<AtomicU64>; COUNTERS],
    /// The site's share of all processors' time in the last window, as the bits of an `f64`.
    share: AtomicU64,
}

impl Default for Busy {
    fn default() -> Busy {
        Busy { worked_ns: Default::default(), share: AtomicU64::new(UNKNOWN) }
    }
}

thread_local! {
    /// The index of this thread's counter.
    static COUNTER: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) % COUNTERS
    };
    /// The time that was counted for sites within the current work of this thread.
    static WITHIN_NS: Cell<u64> = const { Cell::new(0) };
}

impl Busy {
    /// Does work for the site, and counts it.
    pub(super) fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        let outside_ns = WITHIN_NS.replace(0);
        let begun = now();
        let done = work();
        let took_ns = (now() - begun).as_nanos() as u64;
        let own_ns = took_ns.saturating_sub(WITHIN_NS.get());
        WITHIN_NS.set(outside_ns + took_ns);
        self.worked_ns[COUNTER.with(|at| *at)].fetch_add(own_ns, Ordering::Relaxed);
        done
    }

    /// The same for work that waits: only the time of its polls counts.
    pub(super) async fn polling<F: Future>(&self, work: F) -> F::Output {
        let mut work = pin!(work);
        poll_fn(|cx| self.during(|| work.as_mut().poll(cx))).await
    }

    /// The site's share of the time of all processors in the last second, 0 to 1. `None` in the
    /// first second.
    pub(super) fn share(&self) -> Option<f64> {
        match self.share.load(Ordering::Relaxed) {
            UNKNOWN => None,
            bits => Some(f64::from_bits(bits)),
        }
    }

    fn worked_ns(&self) -> u64 {
        self.worked_ns.iter().map(|counter| counter.load(Ordering::Relaxed)).sum()
    }
}

/// Computes a site's share once a second.
pub(super) struct Window {
    begun: Instant,
    worked_ns: u64,
    processors: usize,
}

impl Window {
    pub(super) fn begin(busy: &Busy) -> Window {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Window { begun: now(), worked_ns: busy.worked_ns(), processors }
    }

    /// To be called several times a second.
    pub(super) fn look(&mut self, busy: &Busy) {
        let (now, worked_ns) = (now(), busy.worked_ns());
        let passed = now - self.begun;
        if passed < WINDOW {
            return;
        }
        let worked = (worked_ns - self.worked_ns) as f64;
        let share = worked / (passed.as_nanos() as f64 * self.processors as f64);
        busy.share.store(share.min(1.0).to_bits(), Ordering::Relaxed);
        (self.begun, self.worked_ns) = (now, worked_ns);
    }
}

/// The use of processors by this process. See the [module documentation](self).
pub(super) struct Processors(Mutex<Last>);

/// The last window, and what the process had used at its end.
struct Last {
    ended: Instant,
    used_ns: u64,
    share: Option<f64>,
}

impl Processors {
    pub(super) fn new() -> Processors {
        Processors(Mutex::new(Last { ended: now(), used_ns: process_ns(), share: None }))
    }

    /// The share of the processors' time that the process used in the last window of at least a
    /// second that ended with a call of this method. `None` in the first second.
    pub(super) fn share(&self) -> Option<f64> {
        let (mut last, now) = (self.0.lock(), now());
        let passed = now - last.ended;
        if passed >= WINDOW {
            let used_ns = process_ns();
            let used = used_ns.saturating_sub(last.used_ns) as f64;
            let share = (used / (passed.as_nanos() as f64 * usable())).min(1.0);
            *last = Last { ended: now, used_ns, share: Some(share) };
        }
        last.share
    }
}

fn process_ns() -> u64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// The processors that this process may use now. A quota may be a part of one.
fn usable() -> f64 {
    let all = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    quota().map_or(all, |quota| quota.min(all))
}

/// The processors that the control group of this process may use, if it has a quota.
fn quota() -> Option<f64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    parse_quota(&std::fs::read_to_string(format!("/sys/fs/cgroup/{path}/cpu.max")).ok()?)
}

/// Reads a quota such as `50000 100000`, in microseconds of each period; `max` is none.
fn parse_quota(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    Some(quota / period).filter(|processors| *processors > 0.0)
}

#[allow(clippy::disallowed_methods, reason = "the edge: the runtime measures what its sites do")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spin() {
        let begun = now();
        while now() - begun < Duration::from_millis(1) {}
    }

    #[test]
    fn a_quota_may_be_a_part_of_a_processor() {
        assert_eq!(parse_quota("66000 100000\n"), Some(0.66));
        assert_eq!([parse_quota("max 100000"), parse_quota("")], [None; 2]);
    }

    #[test]
    fn a_process_uses_its_processors() {
        let processors = Processors::new();
        assert_eq!(processors.share(), None, "too early");
        while now() - processors.0.lock().ended < WINDOW {
            spin();
        }
        assert!(processors.share().is_some_and(|share| share > 0.0 && share <= 1.0));
    }

    #[test]
    fn work_within_work_counts_once_and_for_whom_it_is() {
        let (outer, inner) = (Busy::default(), Busy::default());
        let begun = now();
        outer.during(|| {
            spin();
            inner.during(spin);
            inner.during(spin);
        });
        let passed_ns = (now() - begun).as_nanos() as u64;
        assert!(outer.worked_ns() >= 1_000_000 && inner.worked_ns() >= 2_000_000);
        assert!(outer.worked_ns() + inner.worked_ns() <= passed_ns);
    }

    #[test]
    fn waits_are_no_work_and_the_share_is_known_once_a_window_is_over() {
        let busy = Busy::default();
        let mut window = Window::begin(&busy);
        let mut polled = 0;
        let work = poll_fn(|cx| {
            spin();
            polled += 1;
            cx.waker().wake_by_ref();
            if polled == 3 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        });
        let mut counted = pin!(busy.polling(work));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let mut waited = Duration::ZERO;
        while counted.as_mut().poll(&mut cx).is_pending() {
            let begun = now();
            spin();
            waited += now() - begun;
        }
        let worked_ns = busy.worked_ns();
        assert!(worked_ns >= 3_000_000);
        let passed = now() - window.begun;
        assert!(Duration::from_nanos(worked_ns) + waited <= passed);
        window.look(&busy);
        assert_eq!(busy.share(), None, "too early");
        window.begun -= WINDOW;
        window.look(&busy);
        assert!(busy.share().is_some_and(|share| share > 0.0 && share < 1.0));
    }
}
