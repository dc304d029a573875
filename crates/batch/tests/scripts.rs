//! Runs the golden scripts in `scripts/`. `UPDATE_GOLDENFILES=1 cargo test -p isomer-batch --test scripts`
//! writes the answers anew.
//!
//! `locks`: steps ask one site's lock manager, in order.
//!
//! ```text
//!   ask 3 write 5 read 7 write 10..20    step 3 asks for locks on records and ranges
//!   release 3                            and who has all locks now
//!   places                               how many records and segments are known
//! ```
//!
//! `sequencer`: requests and time, in milliseconds.
//!
//! ```text
//!   limits requests=3 wait=10    when a batch is closed
//!   ask 0 c1 7                   at 0 ms, request 7 of client 1; `attempt=2`: restarted before
//!   tick 10                      at 10 ms
//! ```
//!
//! `batches`: three sites, with accounts 0..9 at home at s1, 10..19 at s2, 20.. at s3.
//!
//! ```text
//!   router hermes fusion=2         calvin, gstore, leap, tpart; at most so many fused records; alpha=0
//!   rows 0 30 100                  accounts, each with that balance
//!   c1: transfer 5 12 3            a request; `footprint=none`: the client knows none
//!   c1: again                      the last one again
//!   batch                          the requests become a batch, which is planned and runs
//!   hold s1 s3 · free · lose       messages from s1 to s3 wait, arrive, are lost
//!   down s2 · crash s2 · up s2     s2 takes no plan; loses what is in memory; takes plans again
//!   save s2                        a checkpoint
//!   add s4 · remove s1             a site comes, goes
//!   move 0 10 s4 rows=3            accounts 0..9 get another home, in chunks of so many rows; or `start 10`
//!   tick                           the time that a site waits before it asks for pushes
//!   show · locks                   rows and fused records; steps with locks
//! ```
//!
//! Below a command stands the plan, then what it caused, message by message (`⇥`: held) and answer by answer.

#[path = "script/batches.rs"]
mod batches;
#[path = "script/locks.rs"]
mod locks;
#[path = "world/procedures.rs"]
mod procedures;
#[path = "script/sequencer.rs"]
mod sequencer;

use std::error::Error;
use std::path::Path;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Runs all scripts of a folder, each with a new runner.
fn run<R: goldenscript::Runner>(folder: &str, new: impl Fn() -> R) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts").join(folder);
    let entries = std::fs::read_dir(&folder).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        goldenscript::run(&mut new(), &path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    }
}

fn parse<T: std::str::FromStr>(what: &str, text: Option<&str>) -> Outcome<T> {
    let text = text.ok_or(format!("which {what}?"))?;
    text.parse().map_err(|_| format!("{text} is no {what}").into())
}
