//! Successive shortest paths over sites.
//!
//! Each chain is a shortest path in a graph of N nodes, and keeps the assignment optimal for its
//! counts (successive shortest paths). With potentials all costs stay non-negative, and the search
//! stops at the first site with room. The price of the edge j → j' is the least loss over the
//! things at j. There is one price per pair of sites for the things with a worth at j'. There is
//! one per site for all sites where its things have none. So the work follows the given worths and
//! the things that cannot stay at their best site, not the number of slots.
//!
//! Invariants: no site has more than `cap` things after [`Flow::add`]. Potentials make every edge's
//! cost non-negative, so the search needs no negative edges. The assignment is optimal for the
//! things added so far.

use super::Worth;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A loss, and the thing that moves for it.
type Price = (i64, u32);

/// No thing of the site has a worth at the other.
const NONE: Price = (i64::MAX, u32::MAX);

/// Above this cap a heap per pair of sites finds the next price; below it, a scan of the site's
/// things is faster.
const SCAN_MAX: usize = 256;

/// The state of the search: the site of each thing, and the prices of moving things on.
pub(super) struct Flow<'w> {
    worth: &'w Worth,
    cap: usize,
    /// The site of each thing.
    pub(super) at: Vec<u32>,
    /// Per site: its things, and per thing its place in that list.
    things: Vec<Vec<u32>>,
    place: Vec<u32>,
    /// Per site: the cheapest thing to move to a site where it has no worth.
    anywhere: Vec<Price>,
    /// Per pair of sites: the cheapest thing of those with a worth at the target.
    there: Vec<Price>,
    /// The same prices as heaps, which may contain things that have left: of `anywhere`, then of
    /// `there`.
    heaps: Option<(Vec<Heap>, Vec<Heap>)>,
    potential: Vec<i64>,
    search: Search,
}

type Heap = BinaryHeap<Reverse<Price>>;

/// One search for the cheapest chain.
#[derive(Default)]
struct Search {
    distance: Vec<i64>,
    settled: Vec<bool>,
    order: Vec<usize>,
    /// Per site: the site before it in the chain, and the thing that moves.
    from: Vec<(u32, u32)>,
}

impl Search {
    fn start(&mut self, sites: usize, source: usize) {
        self.distance.clear();
        self.distance.resize(sites, i64::MAX);
        self.settled.clear();
        self.settled.resize(sites, false);
        self.from.resize(sites, (u32::MAX, u32::MAX));
        self.order.clear();
        self.distance[source] = 0;
    }
}

impl<'w> Flow<'w> {
    pub(super) fn new(worth: &'w Worth, cap: usize) -> Flow<'w> {
        let sites = worth.sites;
        let heaps = || (vec![Heap::new(); sites], vec![Heap::new(); sites * sites]);
        Flow {
            worth,
            cap,
            at: vec![u32::MAX; worth.len()],
            things: vec![Vec::new(); sites],
            place: vec![0; worth.len()],
            anywhere: vec![NONE; sites],
            there: vec![NONE; sites * sites],
            heaps: (cap > SCAN_MAX).then(heaps),
            potential: vec![0; sites],
            search: Search::default(),
        }
    }

    /// Puts a thing where its worth less the price is highest (potentials are negated prices). If
    /// the site is then over its cap, a thing moves on.
    pub(super) fn add(&mut self, thing: usize) {
        let (mut best, mut most) = (u32::MAX, i64::MIN);
        let offer = |site: u32, worth: u64, best: &mut u32, most: &mut i64| {
            let value = worth as i64 + self.potential[site as usize];
            let count = |site: u32| self.things[site as usize].len();
            if value > *most || (value == *most && count(site) < count(*best)) {
                (*best, *most) = (site, value);
            }
        };
        for (site, worth) in self.worth.of(thing) {
            offer(site, worth, &mut best, &mut most);
        }
        if self.worth.of(thing).len() < self.worth.sites && most <= 0 {
            // No named site is worth its price, so any other site may be better.
            for site in 0..self.worth.sites as u32 {
                offer(site, self.worth.at(thing, site), &mut best, &mut most);
            }
        }
        let site = best;
        self.arrive(site as usize, thing as u32);
        if self.things[site as usize].len() > self.cap {
            self.relieve(site as usize);
        }
    }

    /// Moves one thing on from an overfull site, along the cheapest chain.
    fn relieve(&mut self, source: usize) {
        let Some(end) = self.find(source) else { return };
        let far = self.search.distance[end];
        for &site in &self.search.order {
            self.potential[site] += self.search.distance[site] - far;
        }
        let mut to = end;
        while to != source {
            let (from, thing) = self.search.from[to];
            self.leave(from as usize, thing);
            self.arrive(to, thing);
            to = from as usize;
        }
    }

    /// Dijkstra's algorithm over the sites, up to the first with room.
    fn find(&mut self, source: usize) -> Option<usize> {
        let sites = self.worth.sites;
        self.search.start(sites, source);
        let Search { distance, settled, order, from } = &mut self.search;
        let mut site = source;
        loop {
            settled[site] = true;
            order.push(site);
            if self.things[site].len() < self.cap {
                return Some(site);
            }
            let here = distance[site] + self.potential[site];
            let (there, anywhere) = (&self.there[site * sites..][..sites], self.anywhere[site]);
            let (mut next, mut nearest) = (usize::MAX, i64::MAX);
            for to in 0..sites {
                if settled[to] {
                    continue;
                }
                let (price, thing) = there[to].min(anywhere);
                let far = here + price - self.potential[to];
                if far < distance[to] {
                    distance[to] = far;
                    from[to] = (site as u32, thing);
                }
                if distance[to] < nearest {
                    (next, nearest) = (to, distance[to]);
                }
            }
            if next == usize::MAX {
                return None;
            }
            site = next;
        }
    }

    fn arrive(&mut self, site: usize, thing: u32) {
        self.at[thing as usize] = site as u32;
        self.place[thing as usize] = self.things[site].len() as u32;
        self.things[site].push(thing);
        let here = self.worth.at(thing as usize, site as u32) as i64;
        let sites = self.worth.sites;
        let there = &mut self.there[site * sites..][..sites];
        self.anywhere[site] = self.anywhere[site].min((here, thing));
        for (to, worth) in self.worth.of(thing as usize) {
            let price = (here - worth as i64, thing);
            there[to as usize] = there[to as usize].min(price);
        }
        if let Some((anywhere, there)) = &mut self.heaps {
            anywhere[site].push(Reverse((here, thing)));
            for (to, worth) in self.worth.of(thing as usize) {
                there[site * sites + to as usize].push(Reverse((here - worth as i64, thing)));
            }
        }
    }

    fn leave(&mut self, site: usize, thing: u32) {
        let hole = self.place[thing as usize] as usize;
        self.things[site].swap_remove(hole);
        if let Some(&moved) = self.things[site].get(hole) {
            self.place[moved as usize] = hole as u32;
        }
        self.at[thing as usize] = u32::MAX;
        if self.anywhere[site].1 == thing {
            self.anywhere[site] = self.cheapest(site, None);
        }
        for (to, _) in self.worth.of(thing as usize) {
            let pair = site * self.worth.sites + to as usize;
            if self.there[pair].1 == thing {
                self.there[pair] = self.cheapest(site, Some(to));
            }
        }
    }

    /// The cheapest thing to move from a site to `to`, or with `None` to any site where it has no
    /// worth.
    fn cheapest(&mut self, site: usize, to: Option<u32>) -> Price {
        let Flow { worth, at, things, heaps, .. } = self;
        if let Some((anywhere, there)) = heaps {
            let heap = match to {
                None => &mut anywhere[site],
                Some(to) => &mut there[site * worth.sites + to as usize],
            };
            while let Some(&Reverse(price)) = heap.peek() {
                if at[price.1 as usize] as usize == site {
                    return price;
                }
                heap.pop();
            }
            return NONE;
        }
        let loss = |&thing: &u32| {
            let here = worth.at(thing as usize, site as u32) as i64;
            let there = to.map_or(0, |to| worth.at(thing as usize, to) as i64);
            (to.is_none() || there > 0).then_some((here - there, thing))
        };
        things[site].iter().filter_map(loss).min().unwrap_or(NONE)
    }
}
