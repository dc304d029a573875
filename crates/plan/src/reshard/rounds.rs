//! The replicas that are rebuilt together, so that rows stay inside data centres (Morphus, 4.2).
//!
//! A site is a set of replicas. Each round rebuilds one replica of every site from the others of
//! its round. The first round takes secondaries in the data centre of their primary, so that the
//! voting majority stays in place when they take over. Later rounds take secondaries elsewhere,
//! grouped by data centre. Primaries come last, as secondaries of the new leaders.
//!
//! ```text
//!                east          west
//!   s1           a1* a2        a3          * primary
//!   s2           b1* b3        b2
//!   round 1         a2 b3                  inside east
//!   round 2                    a3 b2       inside west
//!   round 3      a1 b1                     inside east: the old primaries
//! ```

use crate::problem::{Site, parse_site, site_name};
use crate::rows::rows;
use std::collections::BTreeMap;
use thiserror::Error;

/// One replica of a site.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Replica {
    /// The site.
    pub site: Site,
    /// The replica's name.
    pub name: String,
    /// Its data centre.
    pub centre: String,
    /// True for the replica that takes writes.
    pub primary: bool,
}

/// The replicas that are rebuilt together, by data centre.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Round {
    /// One replica of every site.
    pub replicas: Vec<Replica>,
    /// Data centres whose replicas exchange rows in this round; more than one means that rows
    /// cross the wide-area network.
    pub centres: Vec<String>,
}

impl Round {
    /// True if rows cross the wide-area network.
    pub fn is_wide(&self) -> bool {
        self.centres.len() > 1
    }
}

/// Why rounds cannot be made.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum RoundsError {
    /// A line that cannot be read.
    #[error("replicas, line {line}: {problem}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// The fault of the line, and the right form.
        problem: String,
    },
    /// A site that no replica names.
    #[error("{} has no replicas: list those of all sites", site_name(*site))]
    Missing {
        /// The site.
        site: Site,
    },
    /// A replica of a site that does not exist.
    #[error("replica {name} is of {}, and there are {sites} sites", site_name(*site))]
    UnknownSite {
        /// The replica.
        name: String,
        /// The site.
        site: Site,
        /// The sites there are.
        sites: usize,
    },
    /// Sites with different numbers of replicas.
    #[error(
        "{} has {replicas} replicas, {} has {expected}: all must have as many",
        site_name(*site),
        site_name(*first)
    )]
    Uneven {
        /// The site.
        site: Site,
        /// Its replicas.
        replicas: usize,
        /// The first site.
        first: Site,
        /// Its replicas.
        expected: usize,
    },
    /// A site does not have exactly one primary.
    #[error("{} has {primaries} primaries: exactly one is needed", site_name(*site))]
    Primaries {
        /// The site.
        site: Site,
        /// Its primaries.
        primaries: usize,
    },
}

/// Reads `site,replica,centre,role` lines; a role is `primary` or `secondary`.
pub fn parse(text: &str) -> Result<Vec<Replica>, RoundsError> {
    let fault = |(line, problem)| RoundsError::Line { line, problem };
    let mut replicas: Vec<Replica> = Vec::new();
    let lines = rows(text, "site,replica,centre,role").map_err(fault)?;
    for (line, [site, name, centre, role]) in lines {
        let fault = |problem: String| fault((line, problem));
        let Some(site) = parse_site(site) else {
            return Err(fault(format!("\"{site}\" is no site: s1, s2, ... are")));
        };
        let primary = match role {
            "primary" => true,
            "secondary" => false,
            _ => return Err(fault(format!("\"{role}\" is neither primary nor secondary"))),
        };
        if replicas.iter().any(|other| other.name == name) {
            return Err(fault(format!("there are two replicas {name}: give each its own name")));
        }
        let (name, centre) = (name.to_owned(), centre.to_owned());
        replicas.push(Replica { site, name, centre, primary });
    }
    Ok(replicas)
}

/// Checks that each of `sites` sites has replicas, and that there are no others.
pub fn check_sites(replicas: &[Replica], sites: usize) -> Result<(), RoundsError> {
    if let Some(replica) = replicas.iter().find(|replica| usize::from(replica.site) >= sites) {
        let (name, site) = (replica.name.clone(), replica.site);
        return Err(RoundsError::UnknownSite { name, site, sites });
    }
    let lacks = |site: &Site| replicas.iter().all(|replica| replica.site != *site);
    (0..sites as Site).find(lacks).map_or(Ok(()), |site| Err(RoundsError::Missing { site }))
}

/// Plans the rounds; those that cross the wide area say so ([`Round::is_wide`]).
pub fn plan(replicas: &[Replica]) -> Result<Vec<Round>, RoundsError> {
    let mut sites: BTreeMap<Site, Vec<&Replica>> = BTreeMap::new();
    replicas.iter().for_each(|replica| sites.entry(replica.site).or_default().push(replica));
    let (first, expected) = sites.iter().next().map_or((0, 0), |(&site, of)| (site, of.len()));
    let mut ordered = Vec::new();
    for (&site, of_site) in &sites {
        if of_site.len() != expected {
            let replicas = of_site.len();
            return Err(RoundsError::Uneven { site, replicas, first, expected });
        }
        let primaries: Vec<&&Replica> = of_site.iter().filter(|replica| replica.primary).collect();
        let [primary] = primaries[..] else {
            return Err(RoundsError::Primaries { site, primaries: primaries.len() });
        };
        let mut order: Vec<&Replica> = of_site.clone();
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
