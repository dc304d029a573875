//! Boundary refinement: a full site hands partitions at its border to less busy sites, where no
//! other design is better than the present one.
//!
//! ```text
//!   busy     s1 1.0              s2 0.7              s3 0.7          mean 0.8
//!            ┌──┬──┬──┬──┐       ┌──┬──┬──┐          ┌──┬──┐
//!            │a │b │c │d │═══════│e │f │g │          │x │y │         ═ accessed together
//!            └──┴──┴──┴──┘       └──┴──┴──┘          └──┴──┘
//!   s1 hands over d, which loses its edge to c and gains one to e; then, if that is not enough, c
//! ```
//!
//! A candidate that partitions everything anew moves half of it, and pays where the design is bad.
//! Where the design is good but one site is full, everybody waits there while other sites idle.
//!
//! **The step.** From the busiest site to each other one, partitions are ordered greedily: always
//! the one that cuts least per access, given those before it. The longest prefix whose cut is at
//! most 0.1 of its accesses may go ([`Tuning::CUT_RATIO_MAX`]); the largest such relief wins. Prefixes, not single
//! partitions, because at a border hardly anything is tied: the first steps are dear, and the next
//! sparse place pays for them. A site that got too much hands over in turn, so a busy neighbour is
//! no obstacle.
//!
//! **Load is measured** per site, and divided among its partitions by the samples: a thousand
//! samples tell a site's load to some percent only, and refining noise would never end.
//!
//! Left out: a site without neighbours hands over nothing, as all that it could is dear. A single
//! partition with more load than a site can bear must be split, which [`super::beneficial`] sees
//! to.

use super::tuning::Tuning;
use crate::heat::HeatGraph;
use crate::problem::Site;
use crate::recording::Vertex;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Sites, as busy as they are with what they have so far.
struct Sites<'h> {
    heat: &'h HeatGraph,
    /// Where each partition is.
    masters: Vec<Site>,
    /// Which share of a site's time each takes.
    loads: Vec<f64>,
    /// Which share of its time each site uses.
    busy: Vec<f64>,
    /// As busy as a site should be at most.
    most: f64,
}

/// What moves where, if a site is more than `clearly` times as busy as the mean and has hardly any
/// time left (it uses `full_from` of it), and how many times less busy the busiest is then. `busy` has the share of its time
/// that each site uses.
pub(crate) fn rebalanced(
    heat: &HeatGraph,
    masters: Vec<Site>,
    busy: &[f64],
    clearly: f64,
    full_from: f64,
) -> (Vec<(Vertex, Site)>, f64) {
    let mean = busy.iter().sum::<f64>() / busy.len() as f64;
    let before = masters.clone();
    let mut sites = Sites::new(heat, masters, busy, mean);
    let busiest = |busy: &[f64]| busy.iter().copied().fold(0.0, f64::max);
    if busiest(busy) < full_from.max(clearly * mean) {
        return (Vec::new(), 1.0);
    }
    let mut stuck = vec![false; busy.len()];
    for _ in 0..Tuning::SEVERAL * busy.len() {
        let Some(site) = sites.busiest_but(&stuck) else { break };
        let has_moved = sites.hand_over(site as Site);
        // Who had nobody to hand over to may have now.
        if has_moved { stuck.fill(false) } else { stuck[site] = true }
    }
    let gain = busiest(busy) / busiest(&sites.busy).max(f64::MIN_POSITIVE);
    let moved = sites.masters.iter().zip(before).enumerate().filter(|(_, (to, from))| *to != from);
    (moved.map(|(vertex, (to, _))| (vertex as Vertex, *to)).collect(), gain)
}

impl<'h> Sites<'h> {
    fn new(heat: &'h HeatGraph, masters: Vec<Site>, busy: &[f64], most: f64) -> Sites<'h> {
        let mut weights = vec![0.0; busy.len()];
        let weight = |vertex: usize| heat.weight(vertex as Vertex);
        masters.iter().enumerate().for_each(|(at, site)| weights[usize::from(*site)] += weight(at));
        let load = |(at, site): (usize, &Site)| {
            let site = usize::from(*site);
            weight(at) * busy[site] / weights[site].max(f64::MIN_POSITIVE)
        };
        let loads = masters.iter().enumerate().map(load).collect();
        Sites { heat, masters, loads, busy: busy.to_vec(), most }
    }

    /// The busiest site that is busier than it should be, but for some.
    fn busiest_but(&self, stuck: &[bool]) -> Option<usize> {
        let able =
            (0..self.busy.len()).filter(|site| !stuck[*site] && self.busy[*site] > self.most);
        able.max_by(|a, b| self.busy[*a].total_cmp(&self.busy[*b]))
    }

    /// Lets a site hand over to one other as much as it should; `false` if there is nothing to hand
    /// over to anybody.
    fn hand_over(&mut self, from: Site) -> bool {
        let others = (0..self.busy.len() as Site).filter(|to| *to != from);
        let peeled = others.filter_map(|to| Some((self.boundary_prefix(from, to)?, to)));
        let Some(((_, vertices), to)) = peeled.max_by(|((a, _), _), ((b, _), _)| a.total_cmp(b))
        else {
            return false;
        };
        vertices.into_iter().for_each(|vertex| self.bring(vertex, to));
        true
    }

    /// What goes from one site to another, and how busy that keeps one: the most of it that is not
    /// dear.
    fn boundary_prefix(&self, from: Site, to: Site) -> Option<(f64, Vec<Vertex>)> {
        let busy = |site: Site| self.busy[usize::from(site)];
        let wanted = (busy(from) - self.most).min((busy(from) - busy(to)) / 2.0);
        let own = (0..self.masters.len() as Vertex).filter(|at| self.masters[*at as usize] == from);
        // What nobody writes weighs nothing, and is no relief.
        let own = own.filter(|at| (f64::MIN_POSITIVE..wanted).contains(&self.loads[*at as usize]));
        // What each cuts if it goes now.
        let mut cuts: BTreeMap<Vertex, f64> = own.map(|at| (at, self.cut(at, from, to))).collect();
        let dear = |at: Vertex, cut: f64| {
            Reverse((cut / self.heat.weight(at) * Tuning::WEIGHT_UNIT) as i64)
        };
        let mut heap: BinaryHeap<_> = cuts.iter().map(|(at, cut)| (dear(*at, *cut), *at)).collect();
        let (mut gone, mut best) = (Vec::new(), None);
        let (mut load, mut weight, mut cut) = (0.0, 0.0, 0.0);
        while let Some((_, next)) = heap.pop() {
            let Some(this) = cuts.remove(&next) else { continue };
            load += self.loads[next as usize];
            if load > wanted {
                break;
            }
            (weight, cut) = (weight + self.heat.weight(next), cut + this);
            gone.push(next);
            if cut <= Tuning::CUT_RATIO_MAX * weight {
                best = Some((load, gone.len()));
            }
            for (other, tie) in self.heat.neighbours(next) {
                if let Some(cut) = cuts.get_mut(&other) {
                    // It was tied to what stays, and is tied to what has gone.
                    *cut -= 2.0 * tie;
                    heap.push((dear(other, *cut), other));
                }
            }
        }
        let (load, count) = best?;
        gone.truncate(count);
        Some((load, gone))
    }

    /// How many more ties to its site than to another a partition has.
    fn cut(&self, vertex: Vertex, from: Site, to: Site) -> f64 {
        let ties =
            self.heat.neighbours(vertex).map(|(other, tie)| match self.masters[other as usize] {
                site if site == from => tie,
                site if site == to => -tie,
                _ => 0.0,
            });
        ties.sum()
    }

    fn site(&self, vertex: Vertex) -> usize {
        usize::from(self.masters[vertex as usize])
    }

    fn bring(&mut self, vertex: Vertex, to: Site) {
        let (from, load) = (self.site(vertex), self.loads[vertex as usize]);
        self.busy[from] -= load;
        self.busy[usize::from(to)] += load;
        self.masters[vertex as usize] = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row of partitions that are accessed equally often and tied to the next, so many at each
    /// site.
    fn row(counts: &[usize], tie: f64) -> (HeatGraph, Vec<Site>) {
        let masters: Vec<Site> = counts
            .iter()
            .enumerate()
            .flat_map(|(site, count)| std::iter::repeat_n(site as Site, *count))
            .collect();
        let weights = vec![1000.0; masters.len()];
        let edges: Vec<_> =
            (1..masters.len() as Vertex).map(|at| (at - 1, at, 1000.0 * tie)).collect();
        (HeatGraph::from_parts(&weights, &edges).unwrap(), masters)
    }

    #[test]
    fn what_lies_at_a_border_goes_over_it() {
        let (heat, masters) = row(&[300, 200, 200], 1.0);
        let (moves, gain) = rebalanced(&heat, masters.clone(), &[1.0, 0.7, 0.7], 1.1, 0.8);
        let mut after = masters;
        moves.iter().for_each(|(at, to)| after[*at as usize] = *to);
        let counts = [0, 1, 2].map(|site| after.iter().filter(|at| **at == site).count());
        assert!(counts[0] < 250 && counts[1] > 200 && counts[2] > 200, "{counts:?}");
        let borders = after.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(borders <= 4, "{borders}");
        assert!((1.2..1.3).contains(&gain), "{gain}");
    }

    #[test]
    fn what_would_cut_many_ties_stays() {
        // All of the first site's partitions are tied to one another, and to no other.
        let edges: Vec<(Vertex, Vertex, f64)> =
            (0..6).flat_map(|a| (a + 1..6).map(move |b| (a, b, 1000.0))).collect();
        let heat = HeatGraph::from_parts(&[1000.0; 9], &edges).unwrap();
        let masters = vec![0, 0, 0, 0, 0, 0, 1, 1, 1];
        assert!(rebalanced(&heat, masters, &[1.0, 0.5], 1.1, 0.8).0.is_empty());
    }

    #[test]
    fn nobody_hands_over_who_has_time_or_is_like_the_others() {
        for busy in [[0.7, 0.4, 0.4], [1.0, 0.97, 0.97]] {
            let (heat, masters) = row(&[30, 20, 20], 1.0);
            assert!(rebalanced(&heat, masters, &busy, 1.1, 0.8).0.is_empty(), "{busy:?}");
        }
    }
}
