//! Checkers: each looks at a recorded [`History`] and says in words what is wrong with it.
//!
//! Snapshots are cuts through one order of all commits, and a transaction's answer names its cut and
//! its place. So nothing has to be searched for: the claimed times are a witness, and a checker
//! verifies it. If the witness holds, the history has the promised isolation; if not, the system has
//! broken its word, even where another witness could be found.
//!
//! | checker | promises |
//! | --- | --- |
//! | [`mod@one_master`] | at no time two sites may write the same key, and in the end one may |
//! | [`mod@no_lost_write`] | what a client was told has committed is in the log, all of it, at that time |
//! | [`mod@no_phantom_write`] | what is in the log was asked for by somebody, once, and not refused |
//! | [`mod@snapshot_isolation`] | reads come from the claimed snapshot; nobody wrote in between |
//! | [`mod@session_order`] | a session never goes back |
//! | [`mod@open_transactions`] | what holds statement by statement, at all levels; row locks keep writers apart |
//! | [`mod@serializable`] | what is serializable has no circle of who was before whom, and its commit times are an order for it |
//! | [`mod@backed_up`] | what a client was told has committed was on the disks of enough backups by then |
//! | [`mod@copies_agree`] | in the end every copy of a partition is what the commits add up to |
//!
//! **Write skew is allowed** where nobody asked for more: two transactions that each read what the other writes may both
//! commit under snapshot isolation, and nothing here forbids it.

mod backed_up;
mod copies_agree;
mod no_lost_write;
mod no_phantom_write;
mod one_master;
mod open_transactions;
mod serializable;
mod session_order;
mod snapshot_isolation;

pub use backed_up::backed_up;
pub use copies_agree::copies_agree;
pub use no_lost_write::no_lost_write;
pub use no_phantom_write::no_phantom_write;
pub use one_master::one_master;
pub use open_transactions::open_transactions;
pub use serializable::serializable;
pub use session_order::session_order;
pub use snapshot_isolation::snapshot_isolation;

use crate::history::History;

/// Looks at a history; the error is a sentence.
pub type Checker = fn(&History) -> Result<(), String>;

/// All checkers by name.
pub const CHECKERS: [(&str, Checker); 9] = [
    ("one_master", one_master),
    ("no_lost_write", no_lost_write),
    ("no_phantom_write", no_phantom_write),
    ("session_order", session_order),
    ("snapshot_isolation", snapshot_isolation),
    ("open_transactions", open_transactions),
    ("serializable", serializable),
    ("backed_up", backed_up),
    ("copies_agree", copies_agree),
];
