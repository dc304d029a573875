//! Hermes: prescient routing of a batch (Hermes, section 3.2, Algorithm 1).
//!
//! 1. Order and route: the transaction and site with the fewest remote reads come first. Its
//!    written keys are at that site from then on, so later transactions follow them instead of
//!    pulling records to and fro.
//! 2. Find the sites above θ = ⌈b/n·(1+α)⌉.
//! 3. From the last transaction to the first, move transactions away from those sites where that
//!    adds at most δ remote edges. Raise δ after each pass until no site is above θ.
//!
//! # What makes it fast
//!
//! ```text
//!   step 1   here[t][s]   how many of t's reads are at s         readers of key k ──▶ t, t', …
//!            bucket[r]    waiting transactions with r remote reads at their best site
//!   step 3   near[t][s]   how many of t's partners are at s      partners: the writer before each
//!                         (a partner may be a resting record)    read, the readers of each write
//! ```
//!
//! When a key moves, only transactions that wait to read it change a counter, and maybe a bucket.
//! When a transaction moves, only its partners change a counter. So step 1 costs the number of key
//! moves times their waiting readers. A pass of step 3 costs n counters per transaction on an
//! overloaded site.
//!
//! # Better than the paper
//!
//! Algorithm 1 never revises a route that later moves made worse. [`Options::polish`] does so until
//! nothing improves. A transaction goes to a site with room where it has fewer remote edges. Two
//! transactions exchange sites if both together have fewer. A transaction takes another place in
//! the order if that saves reads, in batches of up to [`REORDER_MAX`] transactions.
//!
//! Choices: the earlier transaction wins among equals; only writes move records (the paper permits
//! both); δ grows per pass, as the paper's text says.

mod balance;
mod order;

use super::batch::{Alpha, Batch, Key, Places, Routed, count};
use balance::Balancing;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use order::Ordering;

/// The site that wins when several need equally few remote reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tie {
    /// The site with the lowest number.
    LowestSite,
    /// The site at index (transaction number modulo the number of tied sites).
    TransactionModulo,
}

/// The options of Algorithm 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// The tolerance of a site's share.
    pub alpha: Alpha,
    /// True if transactions may change places: the paper does it, its public code does not.
    pub reorder: bool,
    /// The site that wins among equals.
    pub tie: Tie,
    /// Improves the result of Algorithm 1 step by step; this is our addition.
    pub polish: bool,
}

/// The largest batch whose order is polished too, because that takes cubic time.
pub const REORDER_MAX: usize = 32;

impl Default for Options {
    fn default() -> Options {
        Options { alpha: Alpha::PAPER, reorder: true, tie: Tie::LowestSite, polish: false }
    }
}

/// Routes a batch.
pub fn hermes<K: Key>(
    batch: &Batch<K>,
    places: &(impl Places<K> + ?Sized),
    options: Options,
) -> Routed<K> {
    let (keys, sites) = (Keys::new(batch, places), places.sites());
    let mut routes = Ordering::new(batch, &keys, sites, options).run();
    Balancing::new(&keys, sites, options, &mut routes).run();
    if options.polish && options.reorder && routes.len() <= REORDER_MAX {
        reorder(batch, &mut routes, places, &keys, options);
    }
    count(batch, &routes, places)
}

/// Moves single transactions to other places while that saves remote reads, polishing the routes
/// of each order.
fn reorder<K: Key>(
    batch: &Batch<K>,
    routes: &mut Vec<(usize, u16)>,
    places: &(impl Places<K> + ?Sized),
    keys: &Keys,
    options: Options,
) {
    let mut best = count(batch, routes, places).remote_reads;
    loop {
        let before = best;
        for from in 0..routes.len() {
            for to in 0..routes.len() {
                let mut tried = routes.clone();
                let moved = tried.remove(from);
                tried.insert(to, moved);
                Balancing::new(keys, places.sites(), options, &mut tried).run();
                let remote = count(batch, &tried, places).remote_reads;
                if remote < best {
                    (best, *routes) = (remote, tried);
                }
            }
        }
        if best == before {
            return;
        }
    }
}

/// The batch's keys, numbered densely, and their sites before it.
struct Keys {
    /// Per transaction: numbers of the keys it reads, and of those it writes.
    reads: Vec<Vec<u32>>,
    writes: Vec<Vec<u32>>,
    start: Vec<u16>,
}

impl Keys {
    fn new<K: Key>(batch: &Batch<K>, start: &(impl Places<K> + ?Sized)) -> Keys {
        let mut numbers: HashMap<K, u32, FixedState> = HashMap::default();
        let mut keys = Keys { reads: Vec::new(), writes: Vec::new(), start: Vec::new() };
        let mut number = |key: &K, places: &mut Vec<u16>| {
            *numbers.entry(key.clone()).or_insert_with(|| {
                places.push(start.of(key));
                places.len() as u32 - 1
            })
        };
        for transaction in batch.transactions() {
            let places = &mut keys.start;
            keys.reads.push(transaction.read.iter().map(|key| number(key, places)).collect());
            keys.writes.push(transaction.write.iter().map(|key| number(key, places)).collect());
        }
        keys
    }
}
