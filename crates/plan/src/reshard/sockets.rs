//! Weighted fair sharing of sockets over flows (Morphus, section 4.1).
//!
//! A flow from i to j that carries D rows over a path of latency L gets sockets in proportion to
//! D·L. So all flows end at about the same time. First each receiver gets a share of all K sockets
//! in proportion to its incoming rows. Then it divides its share among its senders by D·L. Every
//! flow gets at least one. Shares are rounded by largest remainder, so they add up to K.

use super::Flow;
use crate::rows::rows;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use thiserror::Error;

/// A network: its links and their latencies.
#[derive(Clone, Default, Debug)]
pub struct Topology {
    links: BTreeMap<String, Vec<(String, f64)>>,
}

/// Why a topology does not work.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// A line that cannot be read.
    #[error("topology, line {line}: {problem}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// The fault of the line, and the right form.
        problem: String,
    },
    /// A site that no link mentions.
    #[error("the topology does not mention {0}: every site needs a link")]
    Unknown(String),
    /// Two sites without a path.
    #[error("no path from {from} to {to}: the topology must connect all sites")]
    Disconnected {
        /// One site.
        from: String,
        /// The other.
        to: String,
    },
    /// Fewer sockets than flows.
    #[error("{sockets} sockets for {flows} flows: at least one each is needed")]
    TooFewSockets {
        /// The sockets available.
        sockets: u64,
        /// The flows.
        flows: usize,
    },
}

impl Topology {
    /// Reads `from,to,latency_ms` lines; names are sites (`s1`, `s2`, …) or switches.
    pub fn parse(text: &str) -> Result<Topology, TopologyError> {
        let mut topology = Topology::default();
        let fault = |(line, problem)| TopologyError::Line { line, problem };
        for (line, [from, to, latency]) in rows(text, "from,to,latency_ms").map_err(fault)? {
            match latency.parse::<f64>() {
                Ok(latency) if latency.is_finite() && latency > 0.0 => {
                    topology.link(from, to, latency);
                }
                _ => return Err(fault((line, format!("\"{latency}\" is no latency above 0")))),
            }
        }
        Ok(topology)
    }

    /// Refuses a topology that does not join all of `sites` sites, independent of the flows.
    pub fn check_connects(&self, sites: usize) -> Result<(), TopologyError> {
        let name = |site: usize| format!("s{}", site + 1);
        let known = self.latencies(&name(0))?;
        match (1..sites).map(name).find(|to| !known.contains_key(to.as_str())) {
            None => Ok(()),
            Some(to) if self.links.contains_key(&to) => {
                Err(TopologyError::Disconnected { from: name(0), to })
            }
            Some(to) => Err(TopologyError::Unknown(to)),
        }
    }

    /// Links two places, in both directions.
    pub fn link(&mut self, a: &str, b: &str, latency_ms: f64) {
        self.links.entry(a.to_owned()).or_default().push((b.to_owned(), latency_ms));
        self.links.entry(b.to_owned()).or_default().push((a.to_owned(), latency_ms));
    }

    /// The latencies of the shortest paths from a place, by place.
    pub fn latencies(&self, from: &str) -> Result<BTreeMap<&str, f64>, TopologyError> {
        let reached = self.reached(from)?;
        Ok(reached.into_iter().map(|(place, (latency, _))| (place, latency)).collect())
    }

    /// The places of the shortest path between two places, both included.
    pub fn path(&self, from: &str, to: &str) -> Result<Vec<String>, TopologyError> {
        let reached = self.reached(from)?;
        if !reached.contains_key(to) {
            let (from, to) = (from.to_owned(), to.to_owned());
            return Err(match self.links.contains_key(&to) {
                true => TopologyError::Disconnected { from, to },
                false => TopologyError::Unknown(to),
            });
        }
        let mut path = vec![to.to_owned()];
        let mut at = to;
        while at != from {
            at = reached[at].1;
            path.push(at.to_owned());
        }
        path.reverse();
        Ok(path)
    }

    /// The places reachable from a place: the latency of the shortest path to each, and the last
    /// place before it on that path.
    fn reached(&self, from: &str) -> Result<BTreeMap<&str, (f64, &str)>, TopologyError> {
        let (start, _) = self
            .links
            .get_key_value(from)
            .ok_or_else(|| TopologyError::Unknown(from.to_owned()))?;
        // Latencies are positive, so their bits have the order of their values.
        let mut next =
            BinaryHeap::from([Reverse((0.0f64.to_bits(), start.as_str(), start.as_str()))]);
        let mut settled: BTreeMap<&str, (f64, &str)> = BTreeMap::new();
        while let Some(Reverse((bits, place, before))) = next.pop() {
            if settled.contains_key(place) {
                continue;
            }
            let latency = f64::from_bits(bits);
            settled.insert(place, (latency, before));
            for (to, more) in self.links.get(place).map_or(&[][..], Vec::as_slice) {
                next.push(Reverse(((latency + more).to_bits(), to, place)));
            }
        }
        Ok(settled)
    }
}

/// The sockets of one flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// The flow.
    pub flow: Flow,
    /// Its sockets.
    pub sockets: u64,
}

/// Shares `sockets` out over the flows. Latencies come from the topology; without one, every
/// latency is 1.
pub fn share(
    flows: &[Flow],
    topology: Option<&Topology>,
    sockets: u64,
) -> Result<Vec<Share>, TopologyError> {
    if sockets < flows.len() as u64 {
        return Err(TopologyError::TooFewSockets { sockets, flows: flows.len() });
    }
    let latency = latencies(flows, topology)?;
    let mut receivers: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (at, flow) in flows.iter().enumerate() {
        receivers.entry(flow.to).or_default().push(at);
    }
    let groups: Vec<&Vec<usize>> = receivers.values().collect();
    let received = |group: &&Vec<usize>| group.iter().map(|&at| flows[at].amount as f64).sum();
    let weights: Vec<f64> = groups.iter().map(received).collect();
    let least: Vec<u64> = groups.iter().map(|group| group.len() as u64).collect();
    let mut result = vec![0; flows.len()];
    for (group, sockets) in groups.iter().zip(apportion(&weights, &least, sockets)) {
        let weights: Vec<f64> =
            group.iter().map(|&at| flows[at].amount as f64 * latency[at]).collect();
        let shares = apportion(&weights, &vec![1; group.len()], sockets);
        group.iter().zip(shares).for_each(|(&at, share)| result[at] = share);
    }
    Ok(flows.iter().zip(result).map(|(&flow, sockets)| Share { flow, sockets }).collect())
}

fn latencies(flows: &[Flow], topology: Option<&Topology>) -> Result<Vec<f64>, TopologyError> {
    let Some(topology) = topology else { return Ok(vec![1.0; flows.len()]) };
    let name = |site: u32| format!("s{}", site + 1);
    let mut latencies = Vec::with_capacity(flows.len());
    // Flows are in the order of their senders: one search for each.
    for group in flows.chunk_by(|a, b| a.from == b.from) {
        let from = name(group[0].from);
        let known = topology.latencies(&from)?;
        for flow in group {
            let to = name(flow.to);
            match known.get(to.as_str()) {
                Some(&latency) => latencies.push(latency),
                None if topology.links.contains_key(&to) => {
                    return Err(TopologyError::Disconnected { from, to });
                }
                None => return Err(TopologyError::Unknown(to)),
            }
        }
    }
    Ok(latencies)
}

/// Whole shares of `total` in proportion to the weights, none below its least. The largest
/// remainders are rounded up, of equals the first.
fn apportion(weights: &[f64], least: &[u64], total: u64) -> Vec<u64> {
    let sum: f64 = weights.iter().sum();
    let spare = total.saturating_sub(least.iter().sum());
    let exact = |weight: f64| if sum > 0.0 { spare as f64 * weight / sum } else { 0.0 };
    let mut shares: Vec<u64> = Vec::with_capacity(weights.len());
    for (&weight, &least) in weights.iter().zip(least) {
        shares.push(least + exact(weight).floor() as u64);
    }
    let mut order: Vec<usize> = (0..weights.len()).collect();
    let remainder = |at: usize| exact(weights[at]).fract();
    order.sort_by(|&a, &b| remainder(b).total_cmp(&remainder(a)).then(a.cmp(&b)));
    let given: u64 = shares.iter().sum();
    order.iter().cycle().take(total.saturating_sub(given) as usize).for_each(|&at| shares[at] += 1);
    shares
}
