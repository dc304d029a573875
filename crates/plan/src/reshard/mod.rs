//! Changing the shard key: the sites of the new chunks, and the transfer of the rows (Morphus,
//! sections 3, 4).
//!
//! ```text
//!   old chunks by old key          new chunks by new key
//!   s1  ▪▪▫▫▪   s2  ▫▪▫▫▪          NC1 ▪▪▪ (2 rows are on s1)   NC2 ▫▫▫ (3 are on s2)   …
//!                                  a row that is where its new chunk goes need not travel
//! ```
//!
//! * [`Placement::greedy`]: each new chunk goes to the site that has most of it. That is the least
//!   transfer of all plans (Lemma 1), but some sites may get many chunks.
//! * [`Placement::balanced`]: at most ⌈m/N⌉ chunks per site, and the least transfer of all such
//!   plans (Lemma 2). It is found by a flow over sites ([`crate::assign`]), not by the cubic
//!   Hungarian method.
//! * [`Placement::random`]: the baseline.
//!
//! The caller chooses the unit of amounts: rows, bytes or traffic.
//!
//! [`sockets`] shares connections out over the resulting flows, [`rounds`] orders the replicas so
//! that transfers stay inside data centres, [`advise`] ranks columns as shard keys. [`transfer`]
//! and [`network`] predict the duration on a given network.

pub mod advise;
pub mod network;
pub mod rounds;
pub mod sockets;
mod table;
pub mod transfer;

pub use table::{KeyChange, NewChunks, RowSource, TableError, chunks_of_table};

use crate::assign::{AssignError, Worth};
use crate::generate::Random;
use rand::RngExt;

/// The amount of each new chunk at each site, and the size of each chunk.
#[derive(Clone, Debug)]
pub struct Chunks {
    local: Worth,
    sizes: Vec<u64>,
}

impl Chunks {
    /// No chunks yet, over `sites` sites.
    pub fn new(sites: usize) -> Chunks {
        Chunks { local: Worth::new(sites), sizes: Vec::new() }
    }

    /// Adds a new chunk: its amount at each site (from 0), in rows, bytes or traffic.
    pub fn push(&mut self, at: impl IntoIterator<Item = (u32, u64)>) -> Result<(), AssignError> {
        self.local.push(at)?;
        let chunk = self.sizes.len();
        self.sizes.push(self.local.of(chunk).map(|(_, amount)| amount).sum());
        Ok(())
    }

    /// The number of chunks.
    pub fn len(&self) -> usize {
        self.sizes.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    /// The number of sites.
    pub fn sites(&self) -> usize {
        self.local.sites()
    }

    /// The cap of a balanced plan: ⌈m/N⌉.
    pub fn cap(&self) -> usize {
        self.len().div_ceil(self.sites().max(1))
    }

    /// The amounts of each chunk by site: W of section 3.1.
    pub fn local(&self) -> &Worth {
        &self.local
    }

    /// The amounts sent from site to site: the flows D of section 4.1 above zero, by source and
    /// destination.
    pub fn flows(&self, placement: &Placement) -> Vec<Flow> {
        let mut flows = std::collections::BTreeMap::new();
        for (chunk, &to) in placement.sites.iter().enumerate() {
            for (from, amount) in self.local.of(chunk).filter(|&(from, _)| from != to) {
                *flows.entry((from, to)).or_insert(0) += amount;
            }
        }
        flows.into_iter().map(|((from, to), amount)| Flow { from, to, amount }).collect()
    }
}

/// A transfer from one site to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow {
    /// The sender, from 0.
    pub from: u32,
    /// The receiver, from 0.
    pub to: u32,
    /// The amount, in rows, bytes or traffic.
    pub amount: u64,
}

/// The site of each new chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// By chunk, from 0.
    pub sites: Vec<u32>,
}

impl Placement {
    /// Each chunk at the site with most of it, of equals the lowest (section 3.1).
    pub fn greedy(chunks: &Chunks) -> Placement {
        Placement { sites: chunks.local.greedy() }
    }

    /// The least transfer with at most ⌈m/N⌉ chunks per site (section 3.2).
    pub fn balanced(chunks: &Chunks) -> Result<Placement, AssignError> {
        Ok(Placement { sites: chunks.local.assign(chunks.cap())? })
    }

    /// Random sites, as even as possible: a shuffled deal.
    pub fn random(chunks: &Chunks, random: &mut Random) -> Placement {
        let sites = chunks.sites().max(1);
        let mut deal: Vec<u32> = (0..chunks.len()).map(|chunk| (chunk % sites) as u32).collect();
        for at in (1..deal.len()).rev() {
            deal.swap(at, random.random_range(0..=at));
        }
        Placement { sites: deal }
    }

    /// The amount that has to travel.
    pub fn transfer(&self, chunks: &Chunks) -> u64 {
        chunks.sizes.iter().sum::<u64>() - chunks.local.total(&self.sites)
    }

    /// The number of chunks per site.
    pub fn counts(&self, sites: usize) -> Vec<usize> {
        let mut counts = vec![0; sites];
        self.sites.iter().for_each(|&site| counts[site as usize] += 1);
        counts
    }
}
