//! Fetching the rows of a new copy from one replica, or from three. This is a model: the database
//! fetches from the master only.
//!
//! ```text
//!   primary   s1 ──────┐                   each source reads its rows on a core of its own;
//!   backup    s2 ──── switch ──── s4 new   the wires carry them;
//!   backup    s3 ──────┘                   the new site installs each range on its own core
//! ```
//!
//! DrTM+B fetches disjoint ranges from all replicas at once (4.2). Reading, carrying and installing
//! overlap, so a fetch takes as long as the slowest of the three. The laboratory's costs say what a
//! row takes of a core (`lab/costs.toml`); the wires are those of
//! [`isomer_plan::reshard::network`]. Transactions use a share of the cores and wires of the
//! sources. The new site is idle, because plans choose an idle site.
//!
//! **Left out**: bringing stale replicas up to date first, and the effect of a fetch on
//! transactions.

use isomer_lab::Costs;
use isomer_plan::reshard::network::{Network, Piece, Pull};
use serde::Serialize;

const ROWS: f64 = 1e6;
/// The mean size of a TPC-C row with its key.
const ROW_BYTES: f64 = 120.0;
const LATENCY_MS: f64 = 0.01;
const GBITS: [f64; 3] = [1.0, 10.0, 56.0];
const IN_USE: [f64; 3] = [0.0, 0.5, 0.9];
/// Gbit/s and share in use of the report's figure: a wire of the laboratory's speed, half load.
const FIGURE: (f64, f64) = (10.0, 0.5);

/// The time to fetch 1 million rows.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Fetch {
    gbit: f64,
    /// Share of the sources' cores and wires that transactions use.
    in_use: f64,
    primary_s: f64,
    three_s: f64,
}

/// Computes the fetch for all wires and loads.
///
/// # Errors
/// If the network does not join the sites, which does not happen.
pub(super) fn table() -> Result<Vec<Fetch>, String> {
    let each = |gbit: f64| IN_USE.map(|in_use| (gbit, in_use));
    let all = GBITS.into_iter().flat_map(each);
    all.map(|(gbit, in_use)| {
        let [primary_s, three_s] = [fetch(1, gbit, in_use)?, fetch(3, gbit, in_use)?];
        Ok(Fetch { gbit, in_use, primary_s, three_s })
    })
    .collect()
}

/// The speed-up of three sources over one, at [`FIGURE`].
pub(super) fn speedup(table: &[Fetch]) -> f64 {
    let one = table.iter().find(|one| (one.gbit, one.in_use) == FIGURE);
    one.map_or(0.0, |one| one.primary_s / one.three_s)
}

/// Seconds of a fetch from `sources` replicas.
fn fetch(sources: u32, gbit: f64, in_use: f64) -> Result<f64, String> {
    let costs = Costs::standard();
    let rows = ROWS / f64::from(sources);
    let read_s = rows * costs.snapshot_row / 1e9 / (1.0 - in_use);
    let install_s = rows * costs.install_row / 1e9;
    let bytes_s = gbit * 1e9 / 8.0;
    let mut network = Network::default();
    for source in 1..=sources {
        network.link(&format!("s{source}"), "switch", LATENCY_MS, bytes_s * (1.0 - in_use));
    }
    network.link("switch", "s4", LATENCY_MS, bytes_s);
    let pulls: Vec<Pull> = (0..sources)
        .map(|from| Pull {
            sockets: 1,
            pieces: vec![Piece { from, to: 3, bytes: rows * ROW_BYTES }],
        })
        .collect();
    let (wire_s, _) = network.carry(&pulls).map_err(|error| error.to_string())?;
    Ok(read_s.max(install_s).max(wire_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_sources_are_faster_until_the_wire_of_the_new_site_is_full() {
        let table = table().unwrap();
        // More connections lose up to 2 % of a wire.
        assert!(table.iter().all(|one| one.three_s <= one.primary_s * 1.02));
        let times = |gbit, in_use| {
            let one = table.iter().find(|one| (one.gbit, one.in_use) == (gbit, in_use)).unwrap();
            one.primary_s / one.three_s
        };
        assert!((times(1.0, 0.0) - 1.0).abs() < 0.02, "the wire alone: {}", times(1.0, 0.0));
        assert!((times(1.0, 0.5) - 2.0).abs() < 0.05, "half a wire: {}", times(1.0, 0.5));
        assert!((times(56.0, 0.0) - 3.0).abs() < 0.01, "the cores alone: {}", times(56.0, 0.0));
    }
}
