//! Planted bugs (mutations): faulty adapters at the world's borders, to prove that checkers notice.
//!
//! The code of the system is unchanged; only the adapters outside of it misbehave. Each kind is a
//! bug that such a system could well have:
//!
//! | plant | border | caught by |
//! | --- | --- | --- |
//! | `lying-disk` | disk | no_lost_write: it reports durable, and loses |
//! | `lost-checkpoints` | disk | no_panic: a checkpoint is published, the log is cut, and a crash loses the checkpoint |
//! | `dropped-events` | network | copies or snapshots: a feed loses events, and keeps its closed time |
//! | `early-close` | network | snapshot_isolation: a feed's closed time is too late |
//! | `garbled-rows` | network | copies_agree: a replica gets another value |
//! | `forgotten-session` | transport | session_order: the site is not told what the session saw |
//! | `two-transactions` | transport | snapshot_isolation: read and write run separately, updates get lost |
//! | `error-after-commit` | transport | no_phantom_write: committed, and reported as refused |
//! | `commit-after-nothing` | transport | no_lost_write: nothing ran, and it is reported as committed |
//! | `repeated-transaction` | transport | no_phantom_write: runs twice |
//! | `second-master` | operator | one_master: another site creates partitions of the same keys |
//! | `forgotten-decision` | network | no_lost_write: a coordinator that has committed answers aborted |
//! | `hidden-gaps` | network | copies or snapshots: a feed is lost, and the next takes its number |
//! | `unchecked-commit` | transport | open_transactions: a commit ignores which versions were read |
//! | `moving-snapshot` | transport | open_transactions: a statement reads at another time than its own |
//! | `early-release` | transport | open_transactions: row locks are released before publication |
//! | `unsynced-read` | transport | open_transactions: the result of a read is told before it is durable |
//! | `early-ack` | network | backed_up: a backup acknowledges events that it has not written |
//! | `unvalidated-reads` | transport | serializable: a commit does not validate its reads |
//! | `unvalidated-ranges` | transport | serializable: it validates keys, and no range |
//! | `early-validation` | transport | serializable: it validates, releases its locks, and writes |
//! | `sudden-order` | job | orders_agree: rows are added to a layout before all writers know it |
//! | `missed-writers` | job | orders_agree: rows are copied before writers that know one layout only have ended |
//! | `unlocked-copy` | job | orders_agree: rows are copied without locks, over newer ones |
//! | `early-switch` | job | orders_agree, open_transactions: layouts are switched while a writer runs |
//! | `no-fencing` | brokers | no_lost_write, no_panic: an owner takes each answer for one to a record that counts |
//! | `acks-one` | brokers | no_lost_write, no_panic: they answer before all replicas have a record |
//! | `stale-owner` | log | snapshot_isolation: an owner serves reads however long ago its ownership was confirmed |
//! | `eager-owner` | log | open_transactions: an owner commits while the one before may serve reads, by a long lease |
//! | `wrong-offset` | log | no_panic: a process that opens a log skips the last record before its claim |
//! | `early-batch` | order | one_order: a batch is executed before the order has it on disk |
//! | `repeated-batch` | transport | one_order: a site executes a batch twice |
//! | `own-time` | transport | one_order: a site applies a batch at a time of its own |
//! | `own-outcome` | transport | one_order: a site is told another outcome than the others |
//! | `unchecked-batch` | transport | open_transactions: neither reads nor versions are checked |
//! | `unsettled-batch` | transport | no_lost_write: the next batch begins before all sites have the last |
//! | `hasty-site` | transport | reads: a site that has restarted does not wait for the order |
//! | `lost-move` | transport | reads: a fused row is lost on its way |
//! | `kept-write` | clients | no_lost_write: a rollback to a savepoint undoes nothing |

pub(crate) mod disk;
pub(crate) mod network;
pub(crate) mod order;
pub(crate) mod transport;

use std::fmt;
use std::str::FromStr;

/// A planted bug. See the [module documentation](self).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the table of the module says what each does")]
pub enum Plant {
    LyingDisk,
    LostCheckpoints,
    DroppedEvents,
    EarlyClose,
    GarbledRows,
    ForgottenSession,
    TwoTransactions,
    ErrorAfterCommit,
    CommitAfterNothing,
    RepeatedTransaction,
    SecondMaster,
    ForgottenDecision,
    HiddenGaps,
    UncheckedCommit,
    MovingSnapshot,
    EarlyRelease,
    UnsyncedRead,
    KeptWrite,
    EarlyAck,
    UnvalidatedReads,
    UnvalidatedRanges,
    EarlyValidation,
    SuddenOrder,
    MissedWriters,
    UnlockedCopy,
    EarlySwitch,
    NoFencing,
    AcksOne,
    StaleOwner,
    EagerOwner,
    WrongOffset,
    EarlyBatch,
    RepeatedBatch,
    OwnTime,
    OwnOutcome,
    UncheckedBatch,
    UnsettledBatch,
    HastySite,
    LostMove,
}

impl Plant {
    /// All of them, with the names by which they are chosen.
    pub const ALL: [(&str, Plant); 39] = [
        ("lying-disk", Plant::LyingDisk),
        ("lost-checkpoints", Plant::LostCheckpoints),
        ("dropped-events", Plant::DroppedEvents),
        ("early-close", Plant::EarlyClose),
        ("garbled-rows", Plant::GarbledRows),
        ("forgotten-session", Plant::ForgottenSession),
        ("two-transactions", Plant::TwoTransactions),
        ("error-after-commit", Plant::ErrorAfterCommit),
        ("commit-after-nothing", Plant::CommitAfterNothing),
        ("repeated-transaction", Plant::RepeatedTransaction),
        ("second-master", Plant::SecondMaster),
        ("forgotten-decision", Plant::ForgottenDecision),
        ("hidden-gaps", Plant::HiddenGaps),
        ("unchecked-commit", Plant::UncheckedCommit),
        ("moving-snapshot", Plant::MovingSnapshot),
        ("early-release", Plant::EarlyRelease),
        ("unsynced-read", Plant::UnsyncedRead),
        ("kept-write", Plant::KeptWrite),
        ("early-ack", Plant::EarlyAck),
        ("unvalidated-reads", Plant::UnvalidatedReads),
        ("unvalidated-ranges", Plant::UnvalidatedRanges),
        ("early-validation", Plant::EarlyValidation),
        ("sudden-order", Plant::SuddenOrder),
        ("missed-writers", Plant::MissedWriters),
        ("unlocked-copy", Plant::UnlockedCopy),
        ("early-switch", Plant::EarlySwitch),
        ("no-fencing", Plant::NoFencing),
        ("acks-one", Plant::AcksOne),
        ("stale-owner", Plant::StaleOwner),
        ("eager-owner", Plant::EagerOwner),
        ("wrong-offset", Plant::WrongOffset),
        ("early-batch", Plant::EarlyBatch),
        ("repeated-batch", Plant::RepeatedBatch),
        ("own-time", Plant::OwnTime),
        ("own-outcome", Plant::OwnOutcome),
        ("unchecked-batch", Plant::UncheckedBatch),
        ("unsettled-batch", Plant::UnsettledBatch),
        ("hasty-site", Plant::HastySite),
        ("lost-move", Plant::LostMove),
    ];

    pub(crate) fn disk_lies(self) -> bool {
        self == Plant::LyingDisk
    }

    pub(crate) fn loses_checkpoints(self) -> bool {
        self == Plant::LostCheckpoints
    }
}

impl fmt::Display for Plant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Plant::ALL.iter().find(|(_, plant)| plant == self).map(|(name, _)| *name);
        f.write_str(name.unwrap_or_default())
    }
}

impl FromStr for Plant {
    type Err = String;

    fn from_str(text: &str) -> Result<Plant, String> {
        let names = || Plant::ALL.map(|(name, _)| name).join(", ");
        let found = Plant::ALL.iter().find(|(name, _)| *name == text);
        found
            .map(|(_, plant)| *plant)
            .ok_or_else(|| format!("`{text}` is no planted bug; there are: {}", names()))
    }
}
