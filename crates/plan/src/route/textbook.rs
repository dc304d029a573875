//! Algorithm 1 of Hermes as printed: the oracle for the fast version.
//!
//! It keeps no state between iterations. Step 1 tries every waiting transaction at every site; step
//! 3 finds the writers and readers of each key by walking through the order.

use super::batch::{Batch, Key, Places, Positions, Routed, Transaction, count};
use super::hermes::{Options, Tie};

/// Routes a batch. Returns the same result as [`super::hermes`], slowly.
pub fn textbook<K: Key>(
    batch: &Batch<K>,
    places: &(impl Places<K> + ?Sized),
    options: Options,
) -> Routed<K> {
    let mut routes = order_and_route(batch, places, options);
    balance(batch, places, options, &mut routes);
    count(batch, &routes, places)
}

/// Step 1: repeatedly takes the transaction and site with the fewest remote reads. Ties: the
/// earlier transaction, then the site by the tie rule.
fn order_and_route<K: Key>(
    batch: &Batch<K>,
    start: &(impl Places<K> + ?Sized),
    options: Options,
) -> Vec<(usize, u16)> {
    let sites = start.sites();
    let mut positions = Positions::new(start);
    let mut waiting: Vec<usize> = (0..batch.transactions().len()).collect();
    let mut routes = Vec::new();
    while !waiting.is_empty() {
        let looked_at = if options.reorder { waiting.len() } else { 1 };
        let mut best: Option<(usize, usize, u16)> = None;
        for (place, &at) in waiting[..looked_at].iter().enumerate() {
            let transaction = &batch.transactions()[at];
            let remote =
                |site: u16| transaction.read.iter().filter(|key| positions.of(key) != site).count();
            let counts: Vec<usize> = (0..sites).map(remote).collect();
            let fewest = counts.iter().copied().min().unwrap_or(0);
            if best.is_none_or(|(least, ..)| fewest < least) {
                let equals: Vec<u16> =
                    (0..sites).filter(|&site| counts[usize::from(site)] == fewest).collect();
                best = Some((fewest, place, choose(options.tie, transaction, &equals)));
            }
        }
        let Some((_, place, site)) = best else { break };
        let at = waiting.remove(place);
        for key in &batch.transactions()[at].write {
            positions.set(key, site);
        }
        routes.push((at, site));
    }
    routes
}

fn choose<K>(tie: Tie, transaction: &Transaction<K>, equals: &[u16]) -> u16 {
    match tie {
        Tie::LowestSite => equals[0],
        Tie::TransactionModulo => equals[(transaction.id % equals.len() as u64) as usize],
    }
}

/// Steps 2 and 3: from the last transaction to the first, away from overloaded sites, if that adds
/// at most δ remote edges. δ grows with each pass.
fn balance<K: Key>(
    batch: &Batch<K>,
    start: &(impl Places<K> + ?Sized),
    options: Options,
    routes: &mut [(usize, u16)],
) {
    let sites = start.sites();
    let threshold = options.alpha.threshold(routes.len(), sites);
    let mut loads = vec![0usize; usize::from(sites)];
    routes.iter().for_each(|&(_, site)| loads[usize::from(site)] += 1);
    let mut delta_max = 1i64;
    while loads.iter().any(|&load| load > threshold) {
        for i in (0..routes.len()).rev() {
            let from = routes[i].1;
            if loads[usize::from(from)] <= threshold {
                continue;
            }
            let now = remote_edges(batch, routes, start, i, from);
            let under = (0..sites).filter(|&site| loads[usize::from(site)] < threshold);
            let best = under
                .map(|site| (remote_edges(batch, routes, start, i, site) - now, site))
                .min_by_key(|&(delta, site)| (delta, loads[usize::from(site)], site));
            if let Some((delta, to)) = best
                && delta <= delta_max
            {
                loads[usize::from(from)] -= 1;
                loads[usize::from(to)] += 1;
                routes[i].1 = to;
            }
        }
        delta_max += 1;
    }
}

/// The remote edges of the i-th transaction at `site`: its reads of keys at other sites, and later
/// reads at other sites of the keys that it writes.
fn remote_edges<K: Key>(
    batch: &Batch<K>,
    routes: &[(usize, u16)],
    start: &(impl Places<K> + ?Sized),
    i: usize,
    site: u16,
) -> i64 {
    let of = |place: usize| &batch.transactions()[routes[place].0];
    let mut edges = 0;
    for key in &of(i).read {
        let writer = (0..i).rev().find(|&before| of(before).write.contains(key));
        let source = writer.map_or_else(|| start.of(key), |before| routes[before].1);
        edges += i64::from(source != site);
    }
    for key in &of(i).write {
        for (later, route) in routes.iter().enumerate().skip(i + 1) {
            if of(later).read.contains(key) {
                edges += i64::from(route.1 != site);
            }
            if of(later).write.contains(key) {
                break;
            }
        }
    }
    edges
}
