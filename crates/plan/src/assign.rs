//! Assignment of many things to few sites, with a cap per site, at the highest total worth.
//!
//! Morphus gives each site ⌈m/N⌉ slots and matches m chunks to slots, which is cubic in m. Slots of
//! one site are all alike, so the problem is a flow over *sites* instead:
//!
//! ```text
//!   start       every thing at its best site: optimal, but some sites are too full
//!   repeat      from the sites that are too full, find the cheapest chain
//!                   full ──k──▶ site ──k'──▶ … ──▶ site with room
//!               where handing thing k from j to j' costs worth(k, j) − worth(k, j')
//! ```
//!
//! Each chain is a shortest path in a graph of N nodes, and keeps the assignment optimal for its
//! counts (successive shortest paths). With potentials all costs stay non-negative; the search stops at
//! the first site with room. The price of the edge j → j' is the least over the things at j, kept
//! in a heap per pair of sites for worths above zero, and one heap per site for all others, to
//! which a thing is worth nothing. So memory follows the worths that are given, and work the
//! number of things that cannot stay at their best site, not the number of slots.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use thiserror::Error;

/// What things are worth at sites: nothing where it does not say.
#[derive(Clone, Debug, Default)]
pub struct Worth {
    sites: usize,
    starts: Vec<usize>,
    entries: Vec<(u32, u64)>,
}

/// Why things cannot be assigned.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum AssignError {
    /// There is no site.
    #[error("no site to assign {0} things to: at least one is needed")]
    NoSites(usize),
    /// The caps are too small.
    #[error("{things} things do not fit: {sites} sites of at most {cap} hold {}", sites * cap)]
    TooMany {
        /// Things there are.
        things: usize,
        /// Sites there are.
        sites: usize,
        /// The cap of each.
        cap: usize,
    },
    /// A site that does not exist.
    #[error("thing {thing} names site {site}, and there are {sites}")]
    UnknownSite {
        /// The thing, from 0.
        thing: usize,
        /// The site, from 0.
        site: u32,
        /// Sites there are.
        sites: usize,
    },
    /// A worth too large to be added up safely.
    #[error("thing {thing} is worth {worth} at a site: at most 2^40 can be planned with")]
    TooLarge {
        /// The thing, from 0.
        thing: usize,
        /// Its worth.
        worth: u64,
    },
}

/// The largest worth of one thing: sums along a chain stay far from overflow.
const WORTH_MAX: u64 = 1 << 40;

impl Worth {
    /// Nothing yet, over `sites` sites.
    pub fn new(sites: usize) -> Worth {
        Worth { sites, starts: vec![0], entries: Vec::new() }
    }

    /// Adds a thing: its worth by site (from 0). Worths of a site named twice add up.
    pub fn push(&mut self, worths: impl IntoIterator<Item = (u32, u64)>) -> Result<(), AssignError> {
        let (first, thing, sites) = (self.entries.len(), self.len(), self.sites);
        self.entries.extend(worths.into_iter().filter(|&(_, worth)| worth > 0));
        let mut kept = first;
        self.entries[first..].sort_unstable();
        for at in first..self.entries.len() {
            let (site, worth) = self.entries[at];
            if site as usize >= sites {
                self.entries.truncate(first);
                return Err(AssignError::UnknownSite { thing, site, sites });
            }
            if kept > first && self.entries[kept - 1].0 == site {
                let sum = &mut self.entries[kept - 1].1;
                *sum = sum.saturating_add(worth);
            } else {
                self.entries[kept] = (site, worth);
                kept += 1;
            }
        }
        self.entries.truncate(kept);
        if let Some(&(_, worth)) = self.entries[first..].iter().find(|entry| entry.1 > WORTH_MAX) {
            self.entries.truncate(first);
            return Err(AssignError::TooLarge { thing, worth });
        }
        self.starts.push(kept);
        Ok(())
    }

    /// How many things there are.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many sites there are.
    pub fn sites(&self) -> usize {
        self.sites
    }

    /// The worths of a thing, by site.
    pub fn of(&self, thing: usize) -> &[(u32, u64)] {
        &self.entries[self.starts[thing]..self.starts[thing + 1]]
    }

    /// The worth of a thing at a site.
    pub fn at(&self, thing: usize, site: u32) -> u64 {
        let entries = self.of(thing);
        entries.binary_search_by_key(&site, |entry| entry.0).map_or(0, |at| entries[at].1)
    }

    /// The total worth of an assignment.
    pub fn total(&self, assignment: &[u32]) -> u64 {
        assignment.iter().enumerate().map(|(thing, &site)| self.at(thing, site)).sum()
    }

    /// Each thing at its best site, the lowest of equals: Morphus' greedy (section 3.1).
    pub fn greedy(&self) -> Vec<u32> {
        let best = |thing| {
            let first = |best: (u32, u64), &next: &(u32, u64)| if next.1 > best.1 { next } else { best };
            self.of(thing).iter().fold((0, 0), first).0
        };
        (0..self.len()).map(best).collect()
    }

    /// The assignment of highest total worth with at most `cap` things a site (section 3.2).
    pub fn assign(&self, cap: usize) -> Result<Vec<u32>, AssignError> {
        let (things, sites) = (self.len(), self.sites);
        if sites == 0 {
            return Err(AssignError::NoSites(things));
        }
        if sites.saturating_mul(cap) < things {
            return Err(AssignError::TooMany { things, sites, cap });
        }
        let mut flow = Flow::new(self, cap);
        while flow.augment() {}
        Ok(flow.at)
    }
}

type Cheapest = BinaryHeap<Reverse<(u64, u32)>>;

/// The state of the search: who is where, and the prices of handing on.
struct Flow<'w> {
    worth: &'w Worth,
    cap: usize,
    at: Vec<u32>,
    counts: Vec<usize>,
    /// Per site: its things by their worth there, for handing to a site where they are worth 0.
    any: Vec<Cheapest>,
    /// Per pair of sites: things of the first that are worth something at the second, by their
    /// loss plus `WORTH_MAX`, which keeps the number positive.
    pair: Vec<Cheapest>,
    /// The least loss of each pair over `any` and `pair`, as far as known; `MAX` without things.
    potential: Vec<i64>,
}

impl<'w> Flow<'w> {
    fn new(worth: &'w Worth, cap: usize) -> Flow<'w> {
        let sites = worth.sites;
        let mut flow = Flow {
            worth,
            cap,
            at: vec![0; worth.len()],
            counts: vec![0; sites],
            any: vec![Cheapest::new(); sites],
            pair: vec![Cheapest::new(); sites * sites],
            potential: vec![0; sites],
        };
        for thing in 0..worth.len() {
            let site = flow.best_and_emptiest(thing);
            flow.at[thing] = site;
            flow.counts[site as usize] += 1;
        }
        flow.fill_heaps();
        flow
    }

    /// The best site; among equals one with few things, so that less must be handed on.
    fn best_and_emptiest(&self, thing: usize) -> u32 {
        let best = self.worth.of(thing).iter().map(|entry| entry.1).max();
        let Some(best) = best else {
            let sites = 0..self.worth.sites as u32;
            return sites.min_by_key(|&site| self.counts[site as usize]).unwrap_or(0);
        };
        let equals = self.worth.of(thing).iter().filter(|entry| entry.1 == best);
        equals.map(|entry| entry.0).min_by_key(|&site| self.counts[site as usize]).unwrap_or(0)
    }

    /// Heaps are built at once, which is linear.
    fn fill_heaps(&mut self) {
        let sites = self.worth.sites;
        let mut any: Vec<Vec<Reverse<(u64, u32)>>> = vec![Vec::new(); sites];
        let mut pair: Vec<Vec<Reverse<(u64, u32)>>> = vec![Vec::new(); sites * sites];
        for (thing, &from) in self.at.iter().enumerate() {
            let here = self.worth.at(thing, from);
            any[from as usize].push(Reverse((here, thing as u32)));
            for &(to, there) in self.worth.of(thing) {
                if to != from {
                    let loss = WORTH_MAX + here - there;
                    pair[from as usize * sites + to as usize].push(Reverse((loss, thing as u32)));
                }
            }
        }
        self.any = any.into_iter().map(Cheapest::from).collect();
        self.pair = pair.into_iter().map(Cheapest::from).collect();
    }

    /// The cheapest thing to hand from one site to another, and the loss.
    fn price(&mut self, from: usize, to: usize) -> Option<(i64, u32)> {
        let at = &self.at;
        let clean = |heap: &mut Cheapest| {
            while let Some(&Reverse((loss, thing))) = heap.peek() {
                if at[thing as usize] as usize == from {
                    return Some((loss, thing));
                }
                heap.pop();
            }
            None
        };
        let (any, any_thing) = clean(&mut self.any[from])?;
        let any = any as i64;
        match clean(&mut self.pair[from * self.worth.sites + to]) {
            Some((loss, thing)) if (loss as i64 - WORTH_MAX as i64) < any => {
                Some((loss as i64 - WORTH_MAX as i64, thing))
            }
            _ => Some((any, any_thing)),
        }
    }

    /// Takes one thing from the sites that are too full to one with room; false if none is.
    fn augment(&mut self) -> bool {
        let sites = self.worth.sites;
        let mut distance = vec![i64::MAX; sites];
        let mut came: Vec<Option<(usize, u32)>> = vec![None; sites];
        let mut settled = vec![false; sites];
        let mut any_full = false;
        for site in 0..sites {
            if self.counts[site] > self.cap {
                distance[site] = 0;
                any_full = true;
            }
        }
        if !any_full {
            return false;
        }
        let end = loop {
            let open = (0..sites).filter(|&site| !settled[site]);
            let Some(site) = open.min_by_key(|&site| distance[site]) else { return false };
            if distance[site] == i64::MAX {
                return false;
            }
            settled[site] = true;
            if self.counts[site] < self.cap {
                break site;
            }
            for to in 0..sites {
                if settled[to] {
                    continue;
                }
                let Some((price, thing)) = self.price(site, to) else { break };
                let reduced = price + self.potential[site] - self.potential[to];
                if distance[site] + reduced < distance[to] {
                    distance[to] = distance[site] + reduced;
                    came[to] = Some((site, thing));
                }
            }
        };
        for site in (0..sites).filter(|&site| settled[site]) {
            self.potential[site] += distance[site] - distance[end];
        }
        self.hand_on(end, &came);
        true
    }

    fn hand_on(&mut self, end: usize, came: &[Option<(usize, u32)>]) {
        let mut to = end;
        let mut handed = Vec::new();
        while let Some((from, thing)) = came[to] {
            handed.push((thing, to));
            self.counts[from] -= 1;
            self.counts[to] += 1;
            to = from;
        }
        for (thing, to) in handed {
            self.place(thing as usize, to);
        }
    }

    fn place(&mut self, thing: usize, site: usize) {
        self.at[thing] = site as u32;
        let here = self.worth.at(thing, site as u32);
        self.any[site].push(Reverse((here, thing as u32)));
        for &(to, there) in self.worth.of(thing) {
            if to as usize != site {
                let loss = WORTH_MAX + here - there;
                let heap = &mut self.pair[site * self.worth.sites + to as usize];
                heap.push(Reverse((loss, thing as u32)));
            }
        }
    }
}
