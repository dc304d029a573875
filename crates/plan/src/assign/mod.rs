//! Assignment of many things to few sites at the highest total worth, with a cap per site.
//!
//! Morphus gives each site ⌈m/N⌉ slots and matches m chunks to slots, which is cubic in m. The
//! slots of one site are alike, so the problem is a flow over *sites* instead:
//!
//! ```text
//!   for each thing   put it where it is worth most after prices; if that site is too full now,
//!                    find the cheapest chain
//!                        full ──k──▶ site ──k'──▶ … ──▶ site with room
//!                    where handing thing k from j to j' costs worth(k, j) − worth(k, j')
//! ```
//!
//! `flow.rs` solves it. This module holds the input: [`Worth`].

mod flow;

use flow::Flow;
use thiserror::Error;

/// The worths of things at sites; 0 where none is given.
#[derive(Clone, Debug, Default)]
pub struct Worth {
    sites: usize,
    starts: Vec<usize>,
    entry_sites: Vec<u32>,
    entry_worths: Vec<u64>,
}

/// Why things cannot be assigned.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum AssignError {
    /// There is no site.
    #[error("no site to assign {0} things to: at least one is needed")]
    NoSites(usize),
    /// More sites than the search supports.
    #[error("{0} sites to assign to: at most {SITES_MAX} can be planned for")]
    TooManySites(usize),
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

/// The most sites: the search keeps a price for every pair of them.
pub const SITES_MAX: usize = 4096;

/// Refuses zero sites, and more than [`SITES_MAX`].
pub(crate) fn check_sites(sites: usize, things: usize) -> Result<(), AssignError> {
    match sites {
        0 => Err(AssignError::NoSites(things)),
        1..=SITES_MAX => Ok(()),
        _ => Err(AssignError::TooManySites(sites)),
    }
}

/// The largest worth of one thing: sums along a chain stay far from overflow.
const WORTH_MAX: u64 = 1 << 40;

impl Worth {
    /// No things yet, over `sites` sites.
    pub fn new(sites: usize) -> Worth {
        Worth { sites, starts: vec![0], entry_sites: Vec::new(), entry_worths: Vec::new() }
    }

    /// Adds a thing by its worth per site (from 0). Worths of a site named twice add up.
    pub fn push(
        &mut self,
        worths: impl IntoIterator<Item = (u32, u64)>,
    ) -> Result<(), AssignError> {
        let (thing, sites) = (self.len(), self.sites);
        let mut row: Vec<(u32, u64)> = worths.into_iter().filter(|&(_, worth)| worth > 0).collect();
        row.sort_unstable();
        row.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            same
        });
        if let Some(&(site, _)) = row.last().filter(|&&(site, _)| site as usize >= sites) {
            return Err(AssignError::UnknownSite { thing, site, sites });
        }
        if let Some(&(_, worth)) = row.iter().find(|entry| entry.1 > WORTH_MAX) {
            return Err(AssignError::TooLarge { thing, worth });
        }
        self.entry_sites.extend(row.iter().map(|entry| entry.0));
        self.entry_worths.extend(row.iter().map(|entry| entry.1));
        self.starts.push(self.entry_sites.len());
        Ok(())
    }

    /// The number of things.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of sites.
    pub fn sites(&self) -> usize {
        self.sites
    }

    /// The worths of a thing, by site.
    pub fn of(&self, thing: usize) -> impl ExactSizeIterator<Item = (u32, u64)> + '_ {
        let range = self.starts[thing]..self.starts[thing + 1];
        let worths = self.entry_worths[range.clone()].iter().copied();
        self.entry_sites[range].iter().copied().zip(worths)
    }

    /// The worth of a thing at a site.
    pub fn at(&self, thing: usize, site: u32) -> u64 {
        let range = self.starts[thing]..self.starts[thing + 1];
        if range.len() == self.sites {
            return self.entry_worths[range.start + site as usize];
        }
        let found = self.entry_sites[range.clone()].binary_search(&site);
        found.map_or(0, |at| self.entry_worths[range.start + at])
    }

    /// The total worth of an assignment.
    pub fn total(&self, assignment: &[u32]) -> u64 {
        assignment.iter().enumerate().map(|(thing, &site)| self.at(thing, site)).sum()
    }

    /// Each thing at its best site, of equals the lowest: Morphus' greedy (section 3.1).
    pub fn greedy(&self) -> Vec<u32> {
        let best = |thing| {
            let more =
                |best: (u32, u64), next: (u32, u64)| if next.1 > best.1 { next } else { best };
            self.of(thing).fold((0, 0), more).0
        };
        (0..self.len()).map(best).collect()
    }

    /// The assignment of highest total worth with at most `cap` things per site (section 3.2).
    pub fn assign(&self, cap: usize) -> Result<Vec<u32>, AssignError> {
        let (things, sites) = (self.len(), self.sites);
        check_sites(sites, things)?;
        if sites.saturating_mul(cap) < things {
            return Err(AssignError::TooMany { things, sites, cap });
        }
        let mut flow = Flow::new(self, cap);
        (0..things).for_each(|thing| flow.add(thing));
        Ok(flow.at)
    }
}
