//! Checkers: each reads a recorded [`History`], and returns a message if its promise is broken.
//!
//! Snapshots are cuts through one order of all commits, and the answer to a transaction names its
//! cut and its position. So no search is needed: the claimed times are a witness, and a checker
//! verifies it. If the witness holds, the history has the promised isolation. If not, the system
//! has broken its promise, even if another witness exists.
//!
//! | checker | promises |
//! | --- | --- |
//! | [`mod@one_master`] | at no time two sites may write the same key, and in the end one may |
//! | [`mod@one_order`] | all sites run the same batches of the total order, with the same outcomes |
//! | [`mod@no_lost_write`] | an acknowledged commit is in the log, all of it, at that time |
//! | [`mod@no_phantom_write`] | a commit in the log was requested by a client, once, and not refused |
//! | [`mod@snapshot_isolation`] | reads come from the claimed snapshot; no other commit is between snapshot and commit |
//! | [`mod@session_order`] | a session never goes back |
//! | [`mod@open_transactions`] | the rules of statements, at all levels; row locks keep writers apart |
//! | [`mod@serializable`] | serializable transactions have no cycle, and their commit times are a serial order |
//! | [`mod@backed_up`] | an acknowledged commit was on the disks of enough backups by then |
//! | [`mod@copies_agree`] | in the end every copy of a partition is the sum of the commits |
//!
//! **Write skew is allowed** below SERIALIZABLE: two transactions that each read what the other
//! writes may both commit under snapshot isolation.

mod backed_up;
mod copies_agree;
mod no_lost_write;
mod no_phantom_write;
mod one_master;
mod one_order;
mod open_transactions;
mod serializable;
mod session_order;
mod snapshot_isolation;

pub use backed_up::backed_up;
pub use copies_agree::copies_agree;
pub use no_lost_write::no_lost_write;
pub use no_phantom_write::no_phantom_write;
pub use one_master::one_master;
pub use one_order::one_order;
pub use open_transactions::open_transactions;
pub use serializable::serializable;
pub use session_order::session_order;
pub use snapshot_isolation::snapshot_isolation;

use crate::history::History;

/// Checks a history; the error is a sentence.
pub type Checker = fn(&History) -> Result<(), String>;

/// All checkers by name.
pub const CHECKERS: [(&str, Checker); 10] = [
    ("one_master", one_master),
    ("one_order", one_order),
    ("no_lost_write", no_lost_write),
    ("no_phantom_write", no_phantom_write),
    ("session_order", session_order),
    ("snapshot_isolation", snapshot_isolation),
    ("open_transactions", open_transactions),
    ("serializable", serializable),
    ("backed_up", backed_up),
    ("copies_agree", copies_agree),
];
