//! Assigns rows on the way to their new chunks to sockets. The strategies are those that Morphus
//! compares (sections 4.1 and 5.6), as [`Pull`]s for the [model of a network](super::network).
//!
//! ```text
//!   fixed       N sockets per receiver; each takes one part of a chunk after the other,
//!               from any sender
//!   per chunk   a socket per part: the rows of a chunk from one site
//!   weighted    N sockets in all, shared out over the flows by size, or by size and latency;
//!               a flow's parts are cut or joined until it has one slice per socket
//! ```

use super::network::{Network, Piece, Pull};
use super::sockets::{self, TopologyError};
use super::{Chunks, Flow, Placement};
use crate::generate::Random;
use rand::RngExt;
use std::collections::BTreeMap;

/// The assignment of sockets to data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// This number of sockets per receiver; the paper has 1.
    Fixed(usize),
    /// One socket for each chunk and sender.
    PerChunk,
    /// This number of sockets in all, shared out by the size of flows: Orchestra.
    BySize(u64),
    /// This number of sockets in all, by size and latency: weighted fair sharing.
    Fair(u64),
}

/// The pulls of a placement, where one unit of the chunks' amounts is `bytes` bytes. With fixed
/// sharing a receiver takes the parts in random order, because the paper names none.
///
/// # Errors
/// If there are fewer sockets than flows, or the network does not join two sites.
pub fn pulls(
    chunks: &Chunks,
    placement: &Placement,
    (sharing, bytes): (Sharing, f64),
    network: &Network,
    random: &mut Random,
) -> Result<Vec<Pull>, TopologyError> {
    let piece = |from, to, amount: u64| Piece { from, to, bytes: amount as f64 * bytes };
    let parts = parts(chunks, placement);
    let shares = |topology, total| sockets::share(&chunks.flows(placement), topology, total);
    let shares = match sharing {
        Sharing::BySize(total) => shares(None, total)?,
        Sharing::Fair(total) => shares(Some(network.topology()), total)?,
        Sharing::PerChunk => {
            let alone = |part: &Flow| Pull {
                sockets: 1,
                pieces: vec![piece(part.from, part.to, part.amount)],
            };
            return Ok(parts.iter().map(alone).collect());
        }
        Sharing::Fixed(sockets) => {
            let mut of: BTreeMap<u32, Vec<Piece>> = BTreeMap::new();
            for part in &parts {
                of.entry(part.to).or_default().push(piece(part.from, part.to, part.amount));
            }
            of.values_mut().for_each(|pieces| shuffle(pieces, random));
            return Ok(of.into_values().map(|pieces| Pull { sockets, pieces }).collect());
        }
    };
    let mut pulls = Vec::new();
    for share in shares {
        let Flow { from, to, .. } = share.flow;
        let of = parts.iter().filter(|part| (part.from, part.to) == (from, to));
        let slices = slices(of.map(|part| part.amount).collect(), share.sockets as usize);
        let alone = |amount| Pull { sockets: 1, pieces: vec![piece(from, to, amount)] };
        pulls.extend(slices.into_iter().map(alone));
    }
    Ok(pulls)
}

/// The data that travels, by chunk and sender.
fn parts(chunks: &Chunks, placement: &Placement) -> Vec<Flow> {
    let of = |(chunk, &to): (usize, &u32)| {
        let local = chunks.local().of(chunk).filter(move |&(from, _)| from != to);
        local.map(move |(from, amount)| Flow { from, to, amount }).collect::<Vec<_>>()
    };
    placement.sites.iter().enumerate().flat_map(of).filter(|part| part.amount > 0).collect()
}

fn shuffle(pieces: &mut [Piece], random: &mut Random) {
    for at in (1..pieces.len()).rev() {
        pieces.swap(at, random.random_range(0..=at));
    }
}

/// Cuts parts into `sockets` slices: halves the largest or joins the two smallest until the number
/// is right (section 4.1).
pub fn slices(mut parts: Vec<u64>, sockets: usize) -> Vec<u64> {
    parts.sort_unstable_by(|a, b| b.cmp(a));
    let put = |parts: &mut Vec<u64>, part: u64| {
        let at = parts.partition_point(|&other| other >= part);
        parts.insert(at, part);
    };
    while parts.len() > sockets.max(1) {
        let two = parts.split_off(parts.len() - 2);
        put(&mut parts, two.iter().sum());
    }
    while parts.len() < sockets && parts.first().is_some_and(|&largest| largest > 1) {
        let largest = parts.remove(0);
        put(&mut parts, largest / 2);
        put(&mut parts, largest - largest / 2);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_slices_as_sockets() {
        assert_eq!(slices(vec![8, 3], 4), [4, 3, 2, 2]);
        assert_eq!(slices(vec![8, 3, 2, 1], 2), [8, 6]);
        assert_eq!(slices(vec![1], 3), [1], "nothing is cut into nothing");
    }
}
