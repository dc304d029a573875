//! The sessions of all gateways, and the questions of gateways to each other. [`crate::sums`] has
//! the sums of their counts.
//!
//! ```text
//!   b: SELECT * FROM pg_stat_activity ── sessions ──▶ a, c: the activity of their clients
//!   b: SELECT * FROM pg_stat_database ── counts ────▶ a, c: their transactions and rows
//!   b: SELECT * FROM isomer.all_metrics ─ rows of ──▶ a, c: the rows of their isomer.metrics
//!   b: graphs of the console ─────────── load ─────▶ a, c: their statements, commits and sites
//!   b: SELECT pg_cancel_backend(9) ───── signal 9 ──▶ a, c: the one that has client 9 cancels
//!   b: CancelRequest 9, secret ───────── cancel 9 ──▶ a, c: the one that has client 9 compares
//! ```
//!
//! **Numbers of clients** (process ids) are unique over the gateways, because a site belongs to one
//! process. The 10 high bits are the number of the lowest site that the process had at its start,
//! less one, and the 21 low bits count its clients. A count that has come round skips the numbers
//! of clients that are connected.
//!
//! **A gateway that does not reply** delays the others by a second. The answer lacks its sessions,
//! and a warning names it ([`Sessions::silent`]). Sums of counts and rows lack its part.
//!
//! **Rights** are checked at the gateway of the client that asks, with the user that the other
//! gateway reports. A secret is compared at the gateway of the client that it belongs to. So a
//! request to cancel, which comes before any login, costs a question to all gateways if its number
//! is of another process; the limit of connections before login bounds that.

use crate::cells::Cell;
use crate::engine::questions::ToldCopy;
use crate::loads::Load;
use isomer_cluster::Database;
use isomer_cluster::gateways::Replied;
use isomer_design::SITES_MAX;
use isomer_sql::system::{Counts, SessionShown, Sessions};
use serde::{Deserialize, Serialize};

/// The bits of a client's number that count the clients of a process.
const COUNT_BITS: u32 = 21;
const _: () = assert!(SITES_MAX as u32 == 1 << (i32::BITS - 1 - COUNT_BITS));

/// A question of a gateway to all others.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Inquiry {
    /// Which sessions have you?
    Sessions,
    /// Cancel the statement of a client, or end its session.
    Signal { process: i32, ends_session: bool },
    /// Cancel the statement of a client, if this is its secret.
    Cancel { process: i32, secret: Vec<u8> },
    /// What have your transactions done?
    Counts,
    /// The rows of a view about your process.
    Rows(String),
    /// The copies of partitions at your sites.
    Copies,
    /// What have you done since your start?
    Load,
}

/// The reply of each.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum OfGateway {
    Sessions(Vec<SessionShown>),
    /// True if the gateway has the client.
    Done(bool),
    Counts(Counts),
    Rows(Vec<Vec<Cell>>),
    Copies(Vec<ToldCopy>),
    Load(Load),
}

/// The part of the clients' numbers that belongs to a process.
pub(crate) fn part(database: &Database) -> i32 {
    let sites = database.sites();
    let lowest = sites.iter().map(|report| report.site.0).min().unwrap_or(SITES_MAX);
    i32::from(lowest - 1) << COUNT_BITS
}

/// The number of a process's client, from a counter.
pub(crate) fn numbered(part: i32, count: u32) -> i32 {
    part | (count & ((1 << COUNT_BITS) - 1)) as i32
}

/// The part of the clients' numbers that a number is in.
pub(crate) fn part_of(process: i32) -> i32 {
    process >> COUNT_BITS << COUNT_BITS
}

/// Asks all other gateways. The replies come with the names of the processes.
pub(crate) fn ask(database: &Database, inquiry: &Inquiry) -> Vec<(String, Option<OfGateway>)> {
    let question = serde_json::to_vec(inquiry).expect("names of fields are text");
    let nothing = |_| vec![Replied { name: String::new(), reply: None }];
    let replies = database.others().inquire(question).unwrap_or_else(nothing);
    let read = |reply: Vec<u8>| serde_json::from_slice(&reply).ok();
    replies.into_iter().map(|it| (it.name, it.reply.and_then(read))).collect()
}

/// Adds the sessions of all other gateways to those of this one.
pub(crate) fn with_others(database: &Database, shown: Vec<SessionShown>) -> Sessions {
    let mut all = Sessions { shown, silent: Vec::new() };
    for (name, reply) in ask(database, &Inquiry::Sessions) {
        match reply {
            Some(OfGateway::Sessions(theirs)) => all.shown.extend(theirs),
            _ => all.silent.push(name),
        }
    }
    all.join_guests();
    all
}

/// Has the gateway of a client cancel its statement or end its session. False if no gateway that
/// replies has the client.
pub(crate) fn pass_on(database: &Database, inquiry: &Inquiry) -> bool {
    let is_done = |(_, reply)| matches!(reply, Some(OfGateway::Done(true)));
    ask(database, inquiry).into_iter().any(is_done)
}
