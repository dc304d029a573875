//! Runs the golden scripts in `scripts/`. `UPDATE_GOLDENFILES=1 cargo test -p isomer-batch --test
//! scripts` updates their output.
//!
//! `locks`: steps request locks from the lock manager of one site, in order.
//!
//! ```text
//!   ask 3 write 5 read 7 write 10..20    step 3 requests locks on records and ranges
//!   release 3                            releases its locks; prints steps that have all theirs now
//!   places                               the number of records and segments with entries
//! ```
//!
//! `sequencer`: requests and time in milliseconds.
//!
//! ```text
//!   limits requests=3 wait=10    the limits at which a batch is closed
//!   ask 0 c1 7                   at 0 ms, request 7 of client 1; `attempt=2` makes it a restart
//!   tick 10                      at 10 ms
//! ```
//!
//! `turns`: statements of a database; records 0..9 have their home at s1, 10..19 at s2, 20.. at s3.
//!
//! ```text
//!   router hermes fusion=2       or calvin, gstore, leap, tpart
//!   ask 3 write 5 read 7         statement 3 waits for the next batch
//!   close                        routes the batch; prints those that have their turns
//!   end 3                        statement 3 has ended
//!   moved 5 s2 · moved 5 home    record 5 was found at s2, or at home
//!   without s2                   s2 takes no more statements
//!   show                         the numbers of statements and of records away from home
//! ```
//!
//! `batches`: three sites; accounts 0..9 have their home at s1, 10..19 at s2, 20.. at s3.
//!
//! ```text
//!   router hermes fusion=2         or calvin, gstore, leap, tpart; up to 2 fused records; alpha=0
//!   rows 0 30 100                  accounts 0..30 (exclusive), each with balance 100
//!   c1: transfer 5 12 3            a request; `footprint=none`: the client declares none
//!   c1: again                      repeats the client's last request
//!   batch                          makes the waiting requests a batch, which is planned and run
//!   hold s1 s3 · free · lose       holds messages from s1 to s3; delivers them; drops them
//!   down s2 · crash s2 · up s2     s2 takes no plans; loses its memory; takes plans again
//!   save s2                        takes a checkpoint
//!   add s4 · remove s1             adds or removes a site
//!   move 0 10 s4 rows=3            moves accounts 0..9 to s4 in chunks of 3 rows; or `start 10`
//!   tick                           advances the clock by `ASK_AFTER_NS`
//!   show · locks                   rows and fused records; steps with locks
//! ```
//!
//! The output of a command is the plan, then each message (`⇥`: held) and each answer it causes.

#[path = "script/batches.rs"]
mod batches;
#[path = "script/locks.rs"]
mod locks;
#[path = "world/procedures.rs"]
mod procedures;
#[path = "script/sequencer.rs"]
mod sequencer;
#[path = "script/turns.rs"]
mod turns;

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
