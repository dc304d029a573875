//! Step 1 of Hermes: the order and the first routes.
//!
//! ```text
//!   here      s0 s1 s2    reads       bucket 0   T2 T5 T6     all they read is at one site
//!   T1         2  1  0      3         bucket 1   T1 T3 T4
//!   T2         0  2  0      2         ▲ the first transaction of the first bucket is next
//! ```
//!
//! When a key moves, each waiting reader of it changes two counters, and its bucket if its best
//! site gained or lost. No other transaction is visited.

use super::{Keys, Options, Tie};
use crate::route::batch::Batch;

/// The waiting transactions.
pub(super) struct Ordering<'a, K> {
    batch: &'a Batch<K>,
    keys: &'a Keys,
    sites: usize,
    options: Options,
    position: Vec<u16>,
    /// Per key: the transactions that read it.
    readers: Vec<Vec<u32>>,
    /// Per transaction and site: the number of its reads at that site.
    here: Vec<u32>,
    /// Per transaction: remote reads at its best site; `DONE` when it is routed.
    remote: Vec<u32>,
    buckets: Buckets,
}

const DONE: u32 = u32::MAX;

impl<'a, K> Ordering<'a, K> {
    pub(super) fn new(
        batch: &'a Batch<K>,
        keys: &'a Keys,
        sites: u16,
        options: Options,
    ) -> Ordering<'a, K> {
        let (transactions, sites) = (keys.reads.len(), usize::from(sites));
        let mut readers = vec![Vec::new(); keys.start.len()];
        let mut here = vec![0u32; transactions * sites];
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

    fn row(&self, at: usize) -> &[u32] {
        &self.here[at * self.sites..(at + 1) * self.sites]
    }

    fn fewest_remote(&self, at: usize) -> u32 {
        let most = self.row(at).iter().copied().max().unwrap_or(0);
        self.keys.reads[at].len() as u32 - most
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

    /// Routes all transactions; returns their numbers and sites in the new order.
    pub(super) fn run(mut self) -> Vec<(usize, u16)> {
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

/// Waiting transactions by their number of remote reads: one bit set per number.
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
