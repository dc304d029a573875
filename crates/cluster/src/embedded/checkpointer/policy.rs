//! When a checkpoint is due, and how fast it is written: pure functions of measurements.
//!
//! A restart reads a site's checkpoint and the log since. A megabyte of either takes about the same
//! time. So with a log of up to half the table, a restart after a crash takes up to 1.5 times as
//! long as one after a clean stop. A checkpoint is written for every half of its length in log, so
//! all bytes are written three times. The limit of small tables is [`Checkpointing::log_bytes`]:
//!
//! ```text
//!   limit = max(64 MiB, table / 2)
//!
//!   log since the last checkpoint began
//!   0                        limit            limit + slack
//!   ├──────────────────────────┼────────────────────┤
//!                          due: begins         ends by then, however fast the log grows
//! ```
//!
//! **The pace** is a budget of bytes: [`Checkpointing::bytes_per_second`] since its start. If the
//! log grows faster than that allows, the budget is a share of the table: the log's growth divided
//! by the slack. So a checkpoint is slow while the log grows slowly, and always ends within the
//! slack. If several sites wait for their turn, they divide the slack.
//!
//! **By time**, a checkpoint is due if the log has grown by at least a sixteenth of the limit. A
//! shorter log costs a restart next to nothing, while a checkpoint always costs the same.
//!
//! **After a failure** a checkpoint is tried again after a second, then two, four, up to 64 s.

use isomer_design::Time;
use std::time::Duration;

/// When a database in a folder makes checkpoints, and how fast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checkpointing {
    /// The growth of a site's log in bytes, since the last checkpoint began, at which one is due.
    /// For a site with more than twice this number of bytes of rows, half of the bytes of rows.
    pub log_bytes: u64,
    /// The time after which one is due, if the log has grown by at least a sixteenth of that limit.
    pub every: Duration,
    /// The rate in bytes a second at which it is written. It is higher if the log grows fast.
    pub bytes_per_second: u64,
}

impl Default for Checkpointing {
    /// 64 MiB of log, five minutes, 32 MiB a second.
    fn default() -> Checkpointing {
        Checkpointing {
            log_bytes: 64 << 20,
            every: Duration::from_secs(300),
            bytes_per_second: 32 << 20,
        }
    }
}

/// Divides the limit: by time, a checkpoint needs at least this part of it in log.
const WORTH: u64 = 16;
/// The longest pause after a failure is two to the power of this number, in seconds.
const PAUSE_LOG_MAX: u32 = 6;

/// The state of a site before a checkpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub(super) now: Time,
    /// When the last one began, or the site started.
    pub(super) since: Time,
    /// When the last failure was, and the number of failures since the last success.
    pub(super) failed: Option<(Time, u32)>,
    /// Bytes of the log since the last checkpoint began.
    pub(super) log_bytes: u64,
    /// The approximate number of bytes of a checkpoint.
    pub(super) table_bytes: u64,
}

/// The state of a checkpoint that is being made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacing {
    pub(super) elapsed: Duration,
    /// Bytes by which the log has grown since it began.
    pub(super) log_bytes: u64,
    /// The approximate number of its bytes.
    pub(super) table_bytes: u64,
    /// The number of other sites that wait for their turn.
    pub(super) waiting: u64,
}

impl Checkpointing {
    /// The bytes of log at which a checkpoint is due.
    fn limit(&self, table_bytes: u64) -> u64 {
        self.log_bytes.max(table_bytes / 2).max(1)
    }

    /// Whether a checkpoint is due. If so, the length of the log in percent of its limit.
    pub(super) fn due(&self, standing: &Standing) -> Option<u64> {
        let passed = |since: Time| Duration::from_nanos(standing.now.0.saturating_sub(since.0));
        if let Some((at, failures)) = standing.failed
            && passed(at) < Duration::from_secs(1 << (failures - 1).min(PAUSE_LOG_MAX))
        {
            return None;
        }
        let limit = self.limit(standing.table_bytes);
        let is_old = passed(standing.since) >= self.every;
        let is_due = standing.log_bytes >= limit || (is_old && standing.log_bytes >= limit / WORTH);
        is_due.then(|| standing.log_bytes.saturating_mul(100) / limit)
    }

    /// The number of bytes that a checkpoint may have written by now.
    pub(super) fn allowed(&self, pacing: &Pacing) -> u64 {
        let by_time = self.bytes_per_second as f64 * pacing.elapsed.as_secs_f64();
        let slack = self.limit(pacing.table_bytes) / 2 / (1 + pacing.waiting);
        if pacing.log_bytes >= slack {
            return u64::MAX;
        }
        let by_log = pacing.table_bytes as f64 * pacing.log_bytes as f64 / slack as f64;
        by_time.max(by_log) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn standing(seconds: u64, log_mib: u64, table_mib: u64) -> Standing {
        let (now, since) = (Time((1000 + seconds) * 1_000_000_000), Time(1000 * 1_000_000_000));
        let (log_bytes, table_bytes) = (log_mib * MIB, table_mib * MIB);
        Standing { now, since, failed: None, log_bytes, table_bytes }
    }

    #[test]
    fn a_checkpoint_is_due_by_log_and_by_time() {
        let policy = Checkpointing::default();
        let due = |seconds, log, table| policy.due(&standing(seconds, log, table));
        assert_eq!([due(0, 63, 1), due(0, 64, 1), due(0, 128, 1)], [None, Some(100), Some(200)]);
        // A larger table allows a longer log.
        assert_eq!([due(0, 499, 1000), due(0, 500, 1000)], [None, Some(100)]);
        // By time, a short log causes no checkpoint.
        assert_eq!([due(299, 10, 1), due(300, 10, 1), due(300, 3, 1)], [None, Some(15), None]);
        assert_eq!(due(100_000, 0, 0), None);
    }

    #[test]
    fn after_a_failure_it_is_tried_again_later_and_later() {
        let policy = Checkpointing::default();
        let due = |seconds, failures| {
            let failed = Some((Time(1000 * 1_000_000_000), failures));
            policy.due(&Standing { failed, ..standing(seconds, 100, 1) }).is_some()
        };
        assert_eq!([due(0, 1), due(1, 1), due(1, 2), due(2, 2)], [false, true, false, true]);
        assert_eq!([due(63, 90), due(64, 90)], [false, true]);
    }

    #[test]
    fn it_keeps_to_its_rate_unless_the_log_grows_too_fast() {
        let policy = Checkpointing::default();
        let allowed = |millis, log_mib, waiting| {
            let elapsed = Duration::from_millis(millis);
            let (log_bytes, table_bytes) = (log_mib * MIB, 100 * MIB);
            policy.allowed(&Pacing { elapsed, log_bytes, table_bytes, waiting }) / MIB
        };
        assert_eq!([allowed(0, 0, 0), allowed(1000, 0, 0), allowed(1000, 1, 0)], [0, 32, 32]);
        // Half of the slack of 32 MiB is used, so half of the table may be written.
        assert_eq!([allowed(1000, 16, 0), allowed(1000, 15, 0)], [50, 46]);
        assert_eq!(allowed(0, 32, 0), u64::MAX / MIB);
        assert_eq!([allowed(0, 15, 1), allowed(0, 16, 1)], [93, u64::MAX / MIB]);
    }

    /// The log stays within the limit and the slack until a checkpoint is made, at any growth for
    /// which the disk can write the checkpoint in time.
    #[test]
    fn the_log_is_bounded_whatever_its_rate() {
        let policy = Checkpointing::default();
        for table_mib in [1, 100, 1000] {
            let table_bytes = table_mib * MIB;
            let limit = policy.limit(table_bytes);
            for log_rate in [MIB, 10 * MIB, 200 * MIB] {
                let (mut log, mut written, mut step) = (limit, 0, 0u64);
                while written < table_bytes {
                    step += 1;
                    log += log_rate / 100;
                    let elapsed = Duration::from_millis(10 * step);
                    let (log_bytes, waiting) = (log - limit, 0);
                    let pacing = Pacing { elapsed, log_bytes, table_bytes, waiting };
                    // The disk writes up to 1 GiB a second.
                    written = policy.allowed(&pacing).min(written + 10 * MIB).max(written);
                    assert!(step < 100_000, "it never ends");
                }
                let most = (limit + limit / 2).max(limit + log_rate * table_bytes / (1000 * MIB));
                assert!(log <= most + log_rate / 50, "{table_mib} MiB at {log_rate}: {log}");
            }
        }
    }
}
