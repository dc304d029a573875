//! Clay's decisions, step by step, for explanations and scripts.

use crate::heat::HeatGraph;
use crate::problem::{Site, plural, site_name};
use crate::recording::Vertex;

/// One decision.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// A site is above the threshold.
    Overloaded {
        /// The site.
        site: Site,
        /// Its load.
        load: f64,
        /// The threshold.
        threshold: f64,
    },
    /// The clump has begun or grown; the verdict says whether it is feasible.
    Considered {
        /// The key that came last.
        key: Vertex,
        /// The site of that key.
        at: Site,
        /// The number of keys of the clump.
        keys: usize,
        /// The destination.
        to: Site,
        /// The rise of the destination's load.
        receiver_delta: f64,
        /// The rise of the overloaded site's load.
        sender_delta: f64,
        /// The verdict on this form of the clump.
        verdict: Verdict,
    },
    /// The best candidate is moved.
    Moved {
        /// The keys.
        keys: Vec<Vertex>,
        /// The destination.
        to: Site,
        /// Load of the overloaded site, after.
        load: f64,
    },
    /// No candidate was found.
    Stuck {
        /// The key that the clump began with.
        key: Vertex,
        /// The number of keys that the clump reached.
        keys: usize,
    },
    /// A server is added.
    SitesAdded {
        /// The number of sites afterwards.
        sites: usize,
    },
}

/// The verdict on a form of a clump.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The first feasible clump, or one at least as good as the best so far.
    Candidate,
    /// Feasible, but worse than the best so far.
    Worse,
    /// The destination would be overloaded.
    Overloads,
    /// The overloaded site would gain nothing.
    NoRelief,
}

impl Step {
    /// The step in words.
    pub fn describe(&self, graph: &HeatGraph) -> String {
        match self {
            Step::Overloaded { site, load, threshold } => {
                let (load, threshold) = (graph.rate(*load), graph.rate(*threshold));
                format!("{} is overloaded: load {load} > {threshold}", site_name(*site))
            }
            Step::Considered { key, at, keys, to, receiver_delta, sender_delta, verdict } => {
                let verdict = match verdict {
                    Verdict::Candidate => "candidate",
                    Verdict::Worse => "worse than the candidate",
                    Verdict::Overloads => "would overload it",
                    Verdict::NoRelief => "brings no relief",
                };
                format!(
                    "  + {} of {} makes {keys} to {}: receiver {}, sender {}, {verdict}",
                    graph.label(*key),
                    site_name(*at),
                    site_name(*to),
                    graph.rate_change(*receiver_delta),
                    graph.rate_change(*sender_delta),
                )
            }
            Step::Moved { keys, to, load } => {
                let names: Vec<String> = keys.iter().map(|&key| graph.label(key)).collect();
                let names = names.join(" ");
                format!("move {names} to {}: load falls to {}", site_name(*to), graph.rate(*load))
            }
            Step::Stuck { key, keys } => {
                format!(
                    "  no move for the clump of {} ({})",
                    graph.label(*key),
                    plural(*keys, "key")
                )
            }
            Step::SitesAdded { sites } => format!("add a server: {sites} sites now"),
        }
    }
}
