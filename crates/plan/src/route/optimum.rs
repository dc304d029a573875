//! The fewest remote reads over all orders and all routes within θ: the oracle for tiny batches.

use super::batch::{Alpha, Batch, Key, Places, Positions, RouteError, Routed, count};

/// The most transactions that are solved exactly: 7! orders, times the routes.
const TRANSACTIONS_MAX: usize = 7;

/// Tries every order and every route (Equation 1 of Hermes), and prunes branches that cannot
/// improve. Without `reorder`, tries only the given order.
pub fn optimum<K: Key>(
    batch: &Batch<K>,
    places: &(impl Places<K> + ?Sized),
    alpha: Alpha,
    reorder: bool,
) -> Result<Routed<K>, RouteError> {
    let (transactions, sites) = (batch.transactions().len(), places.sites());
    if transactions > TRANSACTIONS_MAX || sites > 8 {
        let most = TRANSACTIONS_MAX;
        return Err(RouteError::TooLarge { transactions, sites, most });
    }
    let threshold = alpha.threshold(transactions, sites);
    let mut search = Search {
        batch,
        reorder,
        threshold,
        positions: Positions::new(places),
        loads: vec![0; usize::from(sites)],
        used: vec![false; transactions],
        routes: Vec::new(),
        best: None,
    };
    search.descend(0);
    let routes = search.best.map(|(_, routes)| routes).unwrap_or_default();
    Ok(count(batch, &routes, places))
}

struct Search<'a, K, P: ?Sized> {
    batch: &'a Batch<K>,
    reorder: bool,
    threshold: usize,
    positions: Positions<'a, K, P>,
    loads: Vec<usize>,
    used: Vec<bool>,
    routes: Vec<(usize, u16)>,
    best: Option<(usize, Vec<(usize, u16)>)>,
}

impl<K: Key, P: Places<K> + ?Sized> Search<'_, K, P> {
    fn descend(&mut self, remote: usize) {
        if self.best.as_ref().is_some_and(|(best, _)| remote >= *best) {
            return;
        }
        if self.routes.len() == self.used.len() {
            self.best = Some((remote, self.routes.clone()));
            return;
        }
        for at in (0..self.used.len()).filter(|&at| !self.used[at]).collect::<Vec<_>>() {
            self.try_all_sites(at, remote);
            if !self.reorder {
                break;
            }
        }
    }

    fn try_all_sites(&mut self, at: usize, remote: usize) {
        let transaction = &self.batch.transactions()[at];
        for site in 0..self.loads.len() as u16 {
            if self.loads[usize::from(site)] == self.threshold {
                continue;
            }
            let reads = transaction.read.iter();
            let more = reads.filter(|key| self.positions.of(key) != site).count();
            let before: Vec<u16> =
                transaction.write.iter().map(|key| self.positions.of(key)).collect();
            transaction.write.iter().for_each(|key| {
                self.positions.set(key, site);
            });
            self.used[at] = true;
            self.loads[usize::from(site)] += 1;
            self.routes.push((at, site));
            self.descend(remote + more);
            self.routes.pop();
            self.loads[usize::from(site)] -= 1;
            self.used[at] = false;
            for (key, &site) in transaction.write.iter().zip(&before) {
                self.positions.set(key, site);
            }
        }
    }
}
