//! Which replicas are rebuilt together, so that rows stay inside data centres (Morphus, 4.2).
//!
//! A shard is a set of replicas; each round rebuilds one replica of every shard, from the others of
//! its round. The first round takes secondaries in the data centre of their primary, so that the
//! voting majority stays where it is when they take over; later rounds take secondaries elsewhere,
//! grouped by data centre; primaries come last, as secondaries of the new leaders.

use std::collections::BTreeMap;
use thiserror::Error;

/// One replica of a shard.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Replica {
    /// The shard, from 0.
    pub shard: usize,
    /// The replica's name.
    pub name: String,
    /// Its data centre.
    pub centre: String,
    /// True for the one that takes writes.
    pub primary: bool,
}

/// The replicas that are rebuilt together, by data centre.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Round {
    /// One replica of every shard.
    pub replicas: Vec<Replica>,
    /// Data centres whose replicas exchange rows in this round; more than one means that rows
    /// cross the wide-area network.
    pub centres: Vec<String>,
}

/// Why rounds cannot be made.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum RoundsError {
    /// Shards have different numbers of replicas.
    #[error("shard {shard} has {replicas} replicas, shard 0 has {expected}: all must have as many")]
    Uneven {
        /// The shard.
        shard: usize,
        /// Its replicas.
        replicas: usize,
        /// Those of the first shard.
        expected: usize,
    },
    /// A shard does not have exactly one primary.
    #[error("shard {shard} has {primaries} primaries: exactly one is needed")]
    Primaries {
        /// The shard.
        shard: usize,
        /// Its primaries.
        primaries: usize,
    },
}

/// Plans the rounds. Each wide-area round is listed in its [`Round::centres`], to warn of.
pub fn plan(replicas: &[Replica]) -> Result<Vec<Round>, RoundsError> {
    let mut shards: BTreeMap<usize, Vec<&Replica>> = BTreeMap::new();
    replicas.iter().for_each(|replica| shards.entry(replica.shard).or_default().push(replica));
    let expected = shards.values().next().map_or(0, Vec::len);
    let mut ordered = Vec::new();
    for (&shard, of_shard) in &shards {
        if of_shard.len() != expected {
            return Err(RoundsError::Uneven { shard, replicas: of_shard.len(), expected });
        }
        let primaries: Vec<&&Replica> = of_shard.iter().filter(|replica| replica.primary).collect();
        let [primary] = primaries[..] else {
            return Err(RoundsError::Primaries { shard, primaries: primaries.len() });
        };
        let mut order: Vec<&Replica> = of_shard.clone();
        // Secondaries beside the primary, other secondaries by data centre, the primary last.
        let rank = |replica: &&Replica| {
            let away = replica.centre != primary.centre;
            (replica.primary, away, replica.centre.clone(), replica.name.clone())
        };
        order.sort_by_key(rank);
        ordered.push(order);
    }
    let round = |at: usize| {
        let replicas: Vec<Replica> = ordered.iter().map(|order| order[at].clone()).collect();
        let mut centres: Vec<String> =
            replicas.iter().map(|replica| replica.centre.clone()).collect();
        centres.sort();
        centres.dedup();
        Round { replicas, centres }
    };
    Ok((0..expected).map(round).collect())
}
