//! Routers that decide one transaction at a time, in the given order.

use super::batch::{Batch, Key, Places, Positions, Route, Routed, Transaction};

/// The site that holds most of `keys`; of equals the lowest.
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
fn touched<K: Key>(transaction: &Transaction<K>) -> Vec<&K> {
    let mut keys: Vec<&K> = transaction.read.iter().chain(&transaction.write).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn push<K>(routed: &mut Routed<K>, id: u64, site: u16) {
    let order = routed.transactions.len();
    routed.transactions.push(Route { id, order, site });
    routed.loads[usize::from(site)] += 1;
}

/// Calvin: records stay at home. Every site with written records runs the transaction. The route
/// names the site with most of the touched records, and counts its remote reads.
pub fn calvin<K: Key>(batch: &Batch<K>, places: &(impl Places<K> + ?Sized)) -> Routed<K> {
    let mut routed = Routed::new(places.sites());
    for transaction in batch.transactions() {
        let keys = touched(transaction);
        let site = most_at(places.sites(), keys.iter().map(|key| places.home(key)));
        let remote = |key: &&K| places.home(key) != site;
        routed.remote_reads += transaction.read.iter().filter(remote).count() as u64;
        push(&mut routed, transaction.id, site);
    }
    routed
}

/// G-Store+: every record of the transaction moves to the site with most of them, and home again
/// afterwards.
pub fn gstore<K: Key>(batch: &Batch<K>, places: &(impl Places<K> + ?Sized)) -> Routed<K> {
    let mut routed = Routed::new(places.sites());
    for transaction in batch.transactions() {
        let keys = touched(transaction);
        let site = most_at(places.sites(), keys.iter().map(|key| places.home(key)));
        let away = |key: &&K| places.home(key) != site;
        routed.remote_reads += transaction.read.iter().filter(|key| away(key)).count() as u64;
        routed.migrations +=
            2 * keys.iter().filter(|key| away(key) && places.can_move(key)).count() as u64;
        push(&mut routed, transaction.id, site);
    }
    routed
}

/// LEAP: every record of the transaction moves to the site with most of them, and stays.
pub fn leap<K: Key>(batch: &Batch<K>, places: &(impl Places<K> + ?Sized)) -> Routed<K> {
    let mut routed = Routed::new(places.sites());
    let mut positions = Positions::new(places);
    for transaction in batch.transactions() {
        let keys = touched(transaction);
        let site = most_at(places.sites(), keys.iter().map(|key| positions.of(key)));
        let remote = |key: &&K| positions.of(key) != site;
        routed.remote_reads += transaction.read.iter().filter(remote).count() as u64;
        for key in keys.into_iter().filter(|key| places.can_move(key)) {
            routed.migrations += u64::from(positions.set(key, site));
        }
        push(&mut routed, transaction.id, site);
    }
    routed
}
