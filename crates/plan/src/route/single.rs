//! Routers that look at one transaction at a time, in the given order.

use super::batch::{Batch, Home, Positions, Route, Routed, Transaction};

/// The site that holds the most of `keys`, the lowest of equals.
fn most_at(sites: u16, keys: impl Iterator<Item = u16>) -> u16 {
    let mut here = vec![0u32; usize::from(sites)];
    keys.for_each(|site| here[usize::from(site)] += 1);
    let mut best = 0;
    for site in 1..sites {
        if here[usize::from(site)] > here[usize::from(best)] {
            best = site;
        }
    }
    best
}

/// Read and written keys, each once.
fn touched(transaction: &Transaction) -> Vec<u64> {
    let mut keys: Vec<u64> = transaction.read.iter().chain(&transaction.write).copied().collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn push(routed: &mut Routed, id: u64, site: u16) {
    let order = routed.transactions.len();
    routed.transactions.push(Route { id, order, site });
    routed.loads[usize::from(site)] += 1;
}

fn empty(sites: u16) -> Routed {
    Routed { loads: vec![0; usize::from(sites)], ..Routed::default() }
}

/// Calvin: records stay at home. Every site with written records runs the transaction; the one
/// named is the one with the most of the touched records, and its remote reads are counted.
pub fn calvin(batch: &Batch, home: Home) -> Routed {
    let mut routed = empty(home.sites());
    for transaction in batch.transactions() {
        let keys = touched(transaction);
        let site = most_at(home.sites(), keys.iter().map(|&key| home.of(key)));
        let remote = |key: &&u64| home.of(**key) != site;
        routed.remote_reads += transaction.read.iter().filter(remote).count() as u64;
        push(&mut routed, transaction.id, site);
    }
    routed
}

/// G-Store+: every record of the transaction moves to the site with the most of them, and home
/// again afterwards.
pub fn gstore(batch: &Batch, home: Home) -> Routed {
    let mut routed = empty(home.sites());
    for transaction in batch.transactions() {
        let keys = touched(transaction);
        let site = most_at(home.sites(), keys.iter().map(|&key| home.of(key)));
        let away = |key: &&u64| home.of(**key) != site;
        routed.remote_reads += transaction.read.iter().filter(away).count() as u64;
        routed.migrations += 2 * keys.iter().filter(away).count() as u64;
        push(&mut routed, transaction.id, site);
    }
    routed
}

/// LEAP: every record of the transaction moves to the site with the most of them, and stays.
pub fn leap(batch: &Batch, home: Home) -> Routed {
    let mut routed = empty(home.sites());
    let mut positions = Positions::new(|key| home.of(key));
    for transaction in batch.transactions() {
        let keys = touched(transaction);
        let site = most_at(home.sites(), keys.iter().map(|&key| positions.of(key)));
        let remote = |key: &&u64| positions.of(**key) != site;
        routed.remote_reads += transaction.read.iter().filter(remote).count() as u64;
        for &key in &keys {
            routed.migrations += u64::from(positions.set(key, site));
        }
        push(&mut routed, transaction.id, site);
    }
    routed
}
