//! Batches as input, routes as output, and the counters that all routers share.
//!
//! ```text
//!   key 0 … w−1 at home at site 0, w … 2w−1 at site 1, …    unless the fusion table overrides it
//!   a remote read    a key that a transaction reads and that is at another site in its turn
//!   a migration      a key that it writes and that was elsewhere: it stays where it was written
//! ```
//!
//! All numbers are integers, and every map that is iterated has an order, so the same batch gives
//! the same routes on every machine.

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use std::hash::Hash;
use std::str::FromStr;
use thiserror::Error;

/// One transaction: the keys it reads and those it writes, each once, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction<K = u64> {
    /// Its number.
    pub id: u64,
    /// The keys it reads.
    pub read: Vec<K>,
    /// The keys it writes.
    pub write: Vec<K>,
}

/// Transactions in their total order.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Batch<K = u64>(Vec<Transaction<K>>);

/// The keys that a router accepts: it only compares, hashes and copies them.
pub trait Key: Clone + Ord + Hash {}

impl<K: Clone + Ord + Hash> Key for K {}

/// The sites of keys before a batch.
pub trait Places<K> {
    /// The number of sites.
    fn sites(&self) -> u16;

    /// The home of a key.
    fn home(&self, key: &K) -> u16;

    /// The site that a key is at.
    fn of(&self, key: &K) -> u16;

    /// False if a key stays at home, such as a key that stands for a range.
    fn can_move(&self, _: &K) -> bool {
        true
    }
}

/// Homes of equal width: the site of each key before any router has moved it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Home {
    sites: u16,
    width: u64,
}

/// Why a batch cannot be routed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum RouteError {
    /// Two transactions with one number.
    #[error("transaction {0} is there twice: numbers must be unique within a batch")]
    DuplicateTransaction(u64),
    /// No site, or sites without keys.
    #[error("{what} is 0: at least 1 is needed")]
    Zero {
        /// The parameter that is zero.
        what: &'static str,
    },
    /// A key that no site is home to.
    #[error("transaction {id} touches key {key}: {sites} sites of {width} keys end at {}", *.sites as u64 * .width - 1)]
    KeyBeyond {
        /// The transaction.
        id: u64,
        /// The key.
        key: u64,
        /// The number of sites.
        sites: u16,
        /// The number of keys per site.
        width: u64,
    },
    /// Text that is no tolerance.
    #[error("alpha is \"{0}\": a decimal number of at least 0 with at most six decimals is needed")]
    Alpha(String),
    /// A batch too large for its sites.
    #[error(
        "{transactions} transactions over {sites} sites: routing takes at most {CELLS_MAX} of one \
         times the other; cut the batch"
    )]
    TooMany {
        /// The transactions of the batch.
        transactions: usize,
        /// The number of sites.
        sites: u16,
    },
    /// A batch too large to be solved exactly.
    #[error(
        "{transactions} transactions over {sites} sites: the exact optimum takes at most {most}"
    )]
    TooLarge {
        /// The transactions of the batch.
        transactions: usize,
        /// The number of sites.
        sites: u16,
        /// The most transactions that can be solved exactly.
        most: usize,
    },
}

impl<K: Ord> Batch<K> {
    /// Checks the numbers and sorts the keys.
    pub fn new(transactions: Vec<Transaction<K>>) -> Result<Batch<K>, RouteError> {
        let mut ids: HashSet<u64, FixedState> = HashSet::default();
        let mut batch = transactions;
        for transaction in &mut batch {
            if !ids.insert(transaction.id) {
                return Err(RouteError::DuplicateTransaction(transaction.id));
            }
            for keys in [&mut transaction.read, &mut transaction.write] {
                keys.sort_unstable();
                keys.dedup();
            }
        }
        Ok(Batch(batch))
    }
}

impl<K> Batch<K> {
    /// The transactions, in their order.
    pub fn transactions(&self) -> &[Transaction<K>] {
        &self.0
    }
}

impl Home {
    /// `sites` sites of `width` keys each.
    pub fn new(sites: u16, width: u64) -> Result<Home, RouteError> {
        match (sites, width) {
            (0, _) => Err(RouteError::Zero { what: "the number of sites" }),
            (_, 0) => Err(RouteError::Zero { what: "the number of keys a site is home to" }),
            _ => Ok(Home { sites, width }),
        }
    }

    /// The number of sites.
    pub fn sites(&self) -> u16 {
        self.sites
    }

    /// The home of a key.
    #[inline]
    pub fn of(&self, key: u64) -> u16 {
        (key / self.width).min(u64::from(self.sites) - 1) as u16
    }

    /// Refuses keys without a home, and batches with more transactions × sites than `CELLS_MAX`.
    pub fn check(&self, batch: &Batch) -> Result<(), RouteError> {
        let Home { sites, width } = *self;
        let transactions = batch.transactions().len();
        if transactions.saturating_mul(usize::from(sites)) > CELLS_MAX {
            return Err(RouteError::TooMany { transactions, sites });
        }
        for transaction in batch.transactions() {
            let mut keys = transaction.read.iter().chain(&transaction.write);
            if let Some(&key) = keys.find(|&&key| key / width >= u64::from(sites)) {
                return Err(RouteError::KeyBeyond { id: transaction.id, key, sites, width });
            }
        }
        Ok(())
    }
}

impl Places<u64> for Home {
    fn sites(&self) -> u16 {
        self.sites
    }

    fn home(&self, key: &u64) -> u16 {
        Home::of(self, *key)
    }

    fn of(&self, key: &u64) -> u16 {
        Home::of(self, *key)
    }
}

/// The most counters of a batch, one per transaction and site: 2 GB.
const CELLS_MAX: usize = 1 << 28;

/// The tolerance of a site's share: α of Hermes' section 3.2, in millionths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Alpha {
    millionths: u64,
}

impl Alpha {
    /// Exactly the share, rounded up.
    pub const ZERO: Alpha = Alpha { millionths: 0 };
    /// So much that nothing is balanced.
    pub const ANY: Alpha = Alpha { millionths: u64::MAX >> 8 };
    /// The tolerance of the paper's experiments.
    pub const PAPER: Alpha = Alpha { millionths: 100_000 };

    /// θ = ⌈b/n · (1 + α)⌉, at least 1.
    pub fn threshold(self, transactions: usize, sites: u16) -> usize {
        let product = transactions as u128 * u128::from(1_000_000 + self.millionths);
        (product.div_ceil(u128::from(sites) * 1_000_000) as usize).max(1)
    }
}

impl FromStr for Alpha {
    type Err = RouteError;

    fn from_str(text: &str) -> Result<Alpha, RouteError> {
        let wrong = || RouteError::Alpha(text.to_owned());
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || fraction.len() > 6 || !digits(whole) || !digits(fraction) {
            return Err(wrong());
        }
        let millionths: u64 = format!("{fraction:0<6}").parse().map_err(|_| wrong())?;
        let whole: u64 = whole.parse().map_err(|_| wrong())?;
        let millionths = whole.checked_mul(1_000_000).and_then(|sum| sum.checked_add(millionths));
        Ok(Alpha { millionths: millionths.ok_or_else(wrong)? })
    }
}

/// Where one transaction runs, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The transaction.
    pub id: u64,
    /// Its place in the new order, from 0.
    pub order: usize,
    /// Its site, from 0.
    pub site: u16,
}

/// A routed batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routed<K = u64> {
    /// In the new order.
    pub transactions: Vec<Route>,
    /// Records read from another site.
    pub remote_reads: u64,
    /// Records that change their site.
    pub migrations: u64,
    /// Transactions per site.
    pub loads: Vec<u64>,
    /// Keys evicted from a full fusion table; they go home with the last transaction.
    pub evicted: Vec<K>,
}

impl<K> Routed<K> {
    /// No routes yet, over `sites` sites.
    pub(super) fn new(sites: u16) -> Routed<K> {
        let loads = vec![0; usize::from(sites)];
        let (transactions, evicted) = (Vec::new(), Vec::new());
        Routed { transactions, remote_reads: 0, migrations: 0, loads, evicted }
    }
}

/// The sites of keys while a batch is routed: moved keys, and otherwise the home.
pub(super) struct Positions<'a, K, P: ?Sized> {
    moved: HashMap<K, u16, FixedState>,
    start: &'a P,
}

impl<'a, K: Key, P: Places<K> + ?Sized> Positions<'a, K, P> {
    pub(super) fn new(start: &'a P) -> Positions<'a, K, P> {
        Positions { moved: HashMap::default(), start }
    }

    #[inline]
    pub(super) fn of(&self, key: &K) -> u16 {
        self.moved.get(key).copied().unwrap_or_else(|| self.start.of(key))
    }

    /// Moves a key; true if it was at another site.
    pub(super) fn set(&mut self, key: &K, site: u16) -> bool {
        let changes = self.of(key) != site;
        if changes {
            self.moved.insert(key.clone(), site);
        }
        changes
    }
}

/// Counts the cost of routes, given that written keys stay where they were written.
pub(super) fn count<K: Key>(
    batch: &Batch<K>,
    routes: &[(usize, u16)],
    start: &(impl Places<K> + ?Sized),
) -> Routed<K> {
    let mut positions = Positions::new(start);
    let mut routed = Routed::new(start.sites());
    for (order, &(at, site)) in routes.iter().enumerate() {
        let transaction = &batch.transactions()[at];
        let remote = |key: &&K| positions.of(key) != site;
        routed.remote_reads += transaction.read.iter().filter(remote).count() as u64;
        for key in &transaction.write {
            routed.migrations += u64::from(positions.set(key, site));
        }
        routed.loads[usize::from(site)] += 1;
        routed.transactions.push(Route { id: transaction.id, order, site });
    }
    routed
}
