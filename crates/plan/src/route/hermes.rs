//! Hermes: prescient routing of a batch (Hermes, section 3.2, Algorithm 1).
//!
//! 1. Order and route: the transaction and site with the fewest remote reads come first; what it
//!    writes is there from then on, so later ones follow it instead of pulling records to and fro.
//! 2. Find the sites above θ = ⌈b/n·(1+α)⌉.
//! 3. From the last transaction to the first, move transactions away from them where that adds at
//!    most δ remote edges; raise δ after each pass until no site is above θ.
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
//! When a key moves, only transactions that wait to read it change a counter and maybe a bucket.
//! When a transaction moves, only its partners change a counter. So step 1 costs the moves of keys
//! times their waiting readers, and a pass of step 3 costs one look at n counters for each
//! transaction on an overloaded site.
//!
//! # Better than the paper
//!
//! Algorithm 1 never looks back at a route that could be better now. [`Options::polish`] does so
//! until nothing improves: a transaction goes to a site with room where it has fewer remote edges;
//! two transactions change sites if both together have fewer; and one takes another place in the order if
//! that saves reads (tried for batches up to [`REORDER_MAX`] transactions only).
//!
//! Choices: the earlier transaction wins among equals; only writes move records (as the paper
//! allows itself); δ grows per pass, as its text says.

use super::batch::{Alpha, Batch, Home, Routed, count};
use super::fusion::FusionTable;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Which site wins when several need equally few remote reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tie {
    /// The one with the lowest number.
    LowestSite,
    /// The transaction's number modulo how many they are picks one.
    TransactionModulo,
}

/// The switches of Algorithm 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// How much more than its share a site may get.
    pub alpha: Alpha,
    /// May transactions change places? The paper does it, its public code does not.
    pub reorder: bool,
    /// Which site wins among equals.
    pub tie: Tie,
    /// Improve the result of Algorithm 1 step by step; our addition.
    pub polish: bool,
}

/// The largest batch whose order is polished too: that takes cubic time.
pub const REORDER_MAX: usize = 32;

impl Default for Options {
    fn default() -> Options {
        Options { alpha: Alpha::PAPER, reorder: true, tie: Tie::LowestSite, polish: false }
    }
}

/// Routes a batch; the fusion table says which keys are away from home, and is not changed.
pub fn hermes(batch: &Batch, home: Home, fusion: &FusionTable, options: Options) -> Routed {
    let start = |key: u64| fusion.get(key).unwrap_or_else(|| home.of(key));
    let keys = Keys::new(batch, start);
    let mut routes = Ordering::new(batch, &keys, home.sites(), options).run();
    Balancing::new(batch, &keys, home.sites(), options, &mut routes).run();
    if options.polish && options.reorder && routes.len() <= REORDER_MAX {
        reorder(batch, &mut routes, home.sites(), start, &keys, options);
    }
    count(batch, &routes, home.sites(), start)
}

/// Moves single transactions to other places while that saves remote reads, polishing the routes
/// of each order.
fn reorder(
    batch: &Batch,
    routes: &mut Vec<(usize, u16)>,
    sites: u16,
    start: impl Fn(u64) -> u16,
    keys: &Keys,
    options: Options,
) {
    let mut best = count(batch, routes, sites, &start).remote_reads;
    loop {
        let before = best;
        for from in 0..routes.len() {
            for to in 0..routes.len() {
                let mut tried = routes.clone();
                let moved = tried.remove(from);
                tried.insert(to, moved);
                Balancing::new(batch, keys, sites, options, &mut tried).run();
                let remote = count(batch, &tried, sites, &start).remote_reads;
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

/// The batch's keys, numbered densely, and where they are before it.
struct Keys {
    /// Per transaction: numbers of the keys it reads, and of those it writes.
    reads: Vec<Vec<u32>>,
    writes: Vec<Vec<u32>>,
    start: Vec<u16>,
}

impl Keys {
    fn new(batch: &Batch, start: impl Fn(u64) -> u16) -> Keys {
        let mut numbers: HashMap<u64, u32, FixedState> = HashMap::default();
        let mut keys = Keys { reads: Vec::new(), writes: Vec::new(), start: Vec::new() };
        let mut number = |key: &u64, places: &mut Vec<u16>| {
            *numbers.entry(*key).or_insert_with(|| {
                places.push(start(*key));
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

/// Step 1.
struct Ordering<'a> {
    batch: &'a Batch,
    keys: &'a Keys,
    sites: usize,
    options: Options,
    position: Vec<u16>,
    /// Per key: the transactions that read it.
    readers: Vec<Vec<u32>>,
    /// Per transaction and site: how many of its reads are there.
    here: Vec<u16>,
    /// Per transaction: remote reads at its best site; `DONE` when it is routed.
    remote: Vec<u32>,
    buckets: Buckets,
}

const DONE: u32 = u32::MAX;

impl<'a> Ordering<'a> {
    fn new(batch: &'a Batch, keys: &'a Keys, sites: u16, options: Options) -> Ordering<'a> {
        let (transactions, sites) = (keys.reads.len(), usize::from(sites));
        let mut readers = vec![Vec::new(); keys.start.len()];
        let mut here = vec![0u16; transactions * sites];
        for (at, reads) in keys.reads.iter().enumerate() {
            for &key in reads {
                readers[key as usize].push(at as u32);
                here[at * sites + usize::from(keys.start[key as usize])] += 1;
            }
        }
        let most = keys.reads.iter().map(Vec::len).max().unwrap_or(0);
        let mut ordering = Ordering {
            batch,
            keys,
            sites,
            options,
            position: keys.start.clone(),
            readers,
            here,
            remote: vec![0; transactions],
            buckets: Buckets::new(most + 1, transactions),
        };
        for at in 0..transactions {
            ordering.remote[at] = ordering.fewest_remote(at);
            ordering.buckets.insert(ordering.remote[at], at);
        }
        ordering
    }

    fn row(&self, at: usize) -> &[u16] {
        &self.here[at * self.sites..(at + 1) * self.sites]
    }

    fn fewest_remote(&self, at: usize) -> u32 {
        let most = self.row(at).iter().copied().max().unwrap_or(0);
        self.keys.reads[at].len() as u32 - u32::from(most)
    }

    fn best_site(&self, at: usize) -> u16 {
        let row = self.row(at);
        let most = row.iter().copied().max().unwrap_or(0);
        let mut equals = row.iter().enumerate().filter(|&(_, &here)| here == most);
        let skip = match self.options.tie {
            Tie::LowestSite => 0,
            Tie::TransactionModulo => {
                let ties = row.iter().filter(|&&here| here == most).count() as u64;
                self.batch.transactions()[at].id % ties.max(1)
            }
        };
        equals.nth(skip as usize).map_or(0, |(site, _)| site as u16)
    }

    fn run(mut self) -> Vec<(usize, u16)> {
        let mut routes = Vec::with_capacity(self.remote.len());
        for place in 0..self.remote.len() {
            let at = if self.options.reorder { self.buckets.first() } else { place };
            self.buckets.remove(self.remote[at], at);
            self.remote[at] = DONE;
            let site = self.best_site(at);
            routes.push((at, site));
            for &key in &self.keys.writes[at] {
                self.move_key(key as usize, site);
            }
        }
        routes
    }

    fn move_key(&mut self, key: usize, to: u16) {
        let from = std::mem::replace(&mut self.position[key], to);
        if from == to {
            return;
        }
        let readers = std::mem::take(&mut self.readers[key]);
        for &at in &readers {
            let at = at as usize;
            if self.remote[at] == DONE {
                continue;
            }
            self.here[at * self.sites + usize::from(from)] -= 1;
            self.here[at * self.sites + usize::from(to)] += 1;
            let remote = self.fewest_remote(at);
            if remote != self.remote[at] {
                self.buckets.remove(self.remote[at], at);
                self.buckets.insert(remote, at);
                self.remote[at] = remote;
            }
        }
        self.readers[key] = readers;
    }
}

/// Waiting transactions by their remote reads: a set of bits for each number.
struct Buckets {
    words: usize,
    bits: Vec<u64>,
    counts: Vec<usize>,
}

impl Buckets {
    fn new(buckets: usize, transactions: usize) -> Buckets {
        let words = transactions.div_ceil(64);
        Buckets { words, bits: vec![0; buckets * words], counts: vec![0; buckets] }
    }

    fn insert(&mut self, bucket: u32, at: usize) {
        self.bits[bucket as usize * self.words + at / 64] |= 1 << (at % 64);
        self.counts[bucket as usize] += 1;
    }

    fn remove(&mut self, bucket: u32, at: usize) {
        self.bits[bucket as usize * self.words + at / 64] &= !(1 << (at % 64));
        self.counts[bucket as usize] -= 1;
    }

    /// The earliest transaction of the first bucket that is not empty.
    fn first(&self) -> usize {
        let bucket = self.counts.iter().position(|&count| count > 0).unwrap_or(0);
        let words = &self.bits[bucket * self.words..(bucket + 1) * self.words];
        let word = words.iter().position(|&word| word != 0).unwrap_or(0);
        word * 64 + words[word].trailing_zeros() as usize
    }
}

/// Steps 2 and 3. Transactions are known by their place in the new order.
struct Balancing<'r> {
    routes: &'r mut [(usize, u16)],
    sites: usize,
    threshold: usize,
    loads: Vec<usize>,
    /// Per place: the places it exchanges records with, as often as it does.
    partners: Vec<Vec<u32>>,
    polish: bool,
    /// Per place and site: how many partners and resting records are there.
    near: Vec<u32>,
}

impl<'r> Balancing<'r> {
    fn new(
        batch: &Batch,
        keys: &Keys,
        sites: u16,
        options: Options,
        routes: &'r mut [(usize, u16)],
    ) -> Balancing<'r> {
        let threshold = options.alpha.threshold(batch.transactions().len(), sites);
        let sites = usize::from(sites);
        let mut partners = vec![Vec::new(); routes.len()];
        let mut near = vec![0u32; routes.len() * sites];
        let mut loads = vec![0; sites];
        let mut writer: Vec<Option<u32>> = vec![None; keys.start.len()];
        for (place, &(at, site)) in routes.iter().enumerate() {
            loads[usize::from(site)] += 1;
            for &key in &keys.reads[at] {
                let Some(before) = writer[key as usize] else {
                    near[place * sites + usize::from(keys.start[key as usize])] += 1;
                    continue;
                };
                let there = routes[before as usize].1;
                near[place * sites + usize::from(there)] += 1;
                near[before as usize * sites + usize::from(site)] += 1;
                partners[place].push(before);
                partners[before as usize].push(place as u32);
            }
            keys.writes[at].iter().for_each(|&key| writer[key as usize] = Some(place as u32));
        }
        let polish = options.polish;
        Balancing { routes, sites, threshold, loads, partners, polish, near }
    }

    fn run(mut self) {
        let mut delta_max = 1i64;
        while self.loads.iter().any(|&load| load > self.threshold) {
            for place in (0..self.routes.len()).rev() {
                let from = usize::from(self.routes[place].1);
                if self.loads[from] > self.threshold
                    && let Some(to) = self.new_route(place, from, delta_max)
                {
                    self.reroute(place, from, to);
                }
            }
            delta_max += 1;
        }
        while self.polish && self.improve() {}
    }

    /// One pass of single moves and exchanges that lower the remote edges; false without any.
    fn improve(&mut self) -> bool {
        let mut improved = false;
        for place in 0..self.routes.len() {
            let from = usize::from(self.routes[place].1);
            for to in (0..self.sites).filter(|&to| to != from) {
                let gain = self.gain(place, from, to);
                if gain <= 0 {
                    continue;
                }
                if self.loads[to] < self.threshold {
                    self.reroute(place, from, to);
                    improved = true;
                    break;
                }
                if let Some(other) = self.exchange(place, from, to, gain) {
                    self.reroute(place, from, to);
                    self.reroute(other, to, from);
                    improved = true;
                    break;
                }
            }
        }
        improved
    }

    fn gain(&self, place: usize, from: usize, to: usize) -> i64 {
        i64::from(self.near[place * self.sites + to])
            - i64::from(self.near[place * self.sites + from])
    }

    /// A transaction of the full site `to` that can take the place of one with this gain. Their
    /// shared edges stay remote, and count as saved in both gains.
    fn exchange(&self, place: usize, from: usize, to: usize, gain: i64) -> Option<usize> {
        let shared = |other: usize| {
            self.partners[place].iter().filter(|&&partner| partner as usize == other).count() as i64
        };
        let others =
            (0..self.routes.len()).filter(|&other| usize::from(self.routes[other].1) == to);
        others
            .map(|other| (gain + self.gain(other, to, from) - 2 * shared(other), other))
            .filter(|&(total, _)| total > 0)
            .max_by_key(|&(total, other)| (total, std::cmp::Reverse(other)))
            .map(|(_, other)| other)
    }

    fn new_route(&self, place: usize, from: usize, delta_max: i64) -> Option<usize> {
        let near = &self.near[place * self.sites..(place + 1) * self.sites];
        let delta = |site: usize| i64::from(near[from]) - i64::from(near[site]);
        let under = (0..self.sites).filter(|&site| self.loads[site] < self.threshold);
        let best = under.min_by_key(|&site| (delta(site), self.loads[site], site))?;
        (delta(best) <= delta_max).then_some(best)
    }

    fn reroute(&mut self, place: usize, from: usize, to: usize) {
        self.loads[from] -= 1;
        self.loads[to] += 1;
        self.routes[place].1 = to as u16;
        for &partner in &self.partners[place] {
            self.near[partner as usize * self.sites + from] -= 1;
            self.near[partner as usize * self.sites + to] += 1;
        }
    }
}
