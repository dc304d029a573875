//! T-Part: a transaction goes to the site with the lowest sum of load and remote edges.

use super::batch::{Batch, Key, Places, Positions, Routed, count};

/// Routes in the given order. The cost of a site is load·(1−β) + remote reads·β, with β in ten
/// thousandths (8000 in the published experiments; 10 000 counts only remote reads). The lowest
/// site wins among equals. Records are pushed from writer to reader and go home after the batch,
/// which counts as one migration each.
pub fn tpart<K: Key>(batch: &Batch<K>, places: &(impl Places<K> + ?Sized), beta: u32) -> Routed<K> {
    let beta = u64::from(beta.min(10_000));
    let sites = places.sites();
    let mut positions = Positions::new(places);
    let mut loads = vec![0u64; usize::from(sites)];
    let mut routes = Vec::new();
    let mut written = Vec::new();
    for (at, transaction) in batch.transactions().iter().enumerate() {
        let cost = |site: u16| {
            let remote = transaction.read.iter().filter(|key| positions.of(key) != site);
            loads[usize::from(site)] * (10_000 - beta) + remote.count() as u64 * beta
        };
        let site = (0..sites).min_by_key(|&site| (cost(site), site)).unwrap_or(0);
        loads[usize::from(site)] += 1;
        for key in &transaction.write {
            positions.set(key, site);
            written.push(key);
        }
        routes.push((at, site));
    }
    written.sort_unstable();
    written.dedup();
    let back = written.iter().filter(|key| positions.of(key) != places.home(key)).count();
    let mut routed = count(batch, &routes, places);
    routed.migrations += back as u64;
    routed
}
