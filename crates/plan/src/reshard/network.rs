//! The duration of transfers on a network: a model, in virtual time.
//!
//! ```text
//!   s1 ──┐                 ┌── s3        a link has a latency, and a bandwidth per direction
//!        rack1 ─ core ─ rack2
//!   s2 ──┘                 └── s4        a connection takes the path of least latency
//! ```
//!
//! Active connections share the links as TCP connections do:
//!
//! * **Max-min**: all rates grow until a link is full. The connections across that link keep their
//!   rate, and the others share the remaining capacity.
//! * **Round trips**: of two connections across the same full link, the one with half the
//!   round-trip time gets twice the rate. So an application that opens more connections gets more.
//! * **Congestion**: a link with its queue holds a fixed number of packets. Shared by many
//!   connections, each has a small window of W packets. A window of that size needs losses: a
//!   fraction of 1.5/W² of the packets (Mathis et al., CCR 1997, section 3), which are sent again.
//!
//! Rates are constant until a connection has carried its piece, so the model jumps from one such
//! event to the next. It is exact and has no randomness.
//!
//! **Left out**: slow start (a few round trips, milliseconds), time-outs, acknowledgements that
//! share the way back with data, and other users of the network. Also reading, writing and index
//! entries at the ends, and the idle round trip of a connection between two pieces.

use super::sockets::{Topology, TopologyError};
use std::collections::{BTreeMap, VecDeque};

/// The bytes of a packet, which is Ethernet's frame size, and the packets that queue at a link
/// before one is lost. The queue is that of the emulated links of Emulab (dummynet), on which
/// Morphus was measured.
const PACKET_BYTES: f64 = 1500.0;
const QUEUE_PACKETS: f64 = 50.0;
/// The least window of a connection, in packets; the law of losses does not apply below.
const WINDOW_MIN: f64 = 2.0;

/// Places with links between them.
#[derive(Clone, Default, Debug)]
pub struct Network {
    topology: Topology,
    /// Bytes per second from one place to the next.
    speed: BTreeMap<(String, String), f64>,
}

/// Data to carry from one site to another.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Piece {
    /// The sender, from 0.
    pub from: u32,
    /// The receiver, from 0.
    pub to: u32,
    /// The size of the piece in bytes.
    pub bytes: f64,
}

/// Pieces, and the sockets that carry them: each socket takes the next piece when it has carried
/// one.
#[derive(Clone, PartialEq, Debug)]
pub struct Pull {
    /// The number of sockets.
    pub sockets: usize,
    /// The pieces, in the order in which they are carried.
    pub pieces: Vec<Piece>,
}

/// An active connection.
struct Active {
    route: usize,
    bytes_left: f64,
    pull: usize,
}

/// The path from one site to another: its links and its round-trip time.
struct Route {
    links: Vec<usize>,
    round_trip_s: f64,
}

/// The paths of all connections, and the speeds of the links.
struct Ways {
    routes: Vec<Route>,
    by_sites: BTreeMap<(u32, u32), usize>,
    bytes_s: Vec<f64>,
}

impl Network {
    /// Links two places, in both directions: sites (`s1`, `s2`, …) or switches.
    pub fn link(&mut self, a: &str, b: &str, latency_ms: f64, bytes_s: f64) {
        self.topology.link(a, b, latency_ms);
        self.speed.insert((a.to_owned(), b.to_owned()), bytes_s);
        self.speed.insert((b.to_owned(), a.to_owned()), bytes_s);
    }

    /// The links and their latencies.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The seconds until everything is carried, and the time at which each pull has ended, in the
    /// order of the pulls.
    ///
    /// # Errors
    /// If the network does not join two sites.
    pub fn carry(&self, pulls: &[Pull]) -> Result<(f64, Vec<f64>), TopologyError> {
        let ways = self.ways(pulls)?;
        let mut waiting: Vec<VecDeque<Piece>> =
            pulls.iter().map(|pull| pull.pieces.iter().copied().collect()).collect();
        let mut ends = vec![0.0; pulls.len()];
        let mut active: Vec<Active> = Vec::new();
        for (at, pull) in pulls.iter().enumerate() {
            let first = (0..pull.sockets).filter_map(|_| waiting[at].pop_front());
            active.extend(first.map(|piece| ways.begin(at, &piece)));
        }
        let mut now_s = 0.0;
        while !active.is_empty() {
            let rates = ways.rates(&active);
            let time = |one: &Active| one.bytes_left / rates[one.route];
            let step_s = active.iter().map(time).fold(f64::INFINITY, f64::min);
            now_s += step_s;
            let mut going = Vec::with_capacity(active.len());
            for mut one in active {
                // Pieces that would end within a millionth of the step end now, because sums of
                // fractions are never equal.
                let is_over = time(&one) <= step_s * (1.0 + 1e-6);
                one.bytes_left -= rates[one.route] * step_s;
                if !is_over {
                    going.push(one);
                    continue;
                }
                ends[one.pull] = now_s;
                going.extend(waiting[one.pull].pop_front().map(|next| ways.begin(one.pull, &next)));
            }
            active = going;
        }
        Ok((now_s, ends))
    }

    fn ways(&self, pulls: &[Pull]) -> Result<Ways, TopologyError> {
        let numbers: BTreeMap<&(String, String), usize> = self.speed.keys().zip(0..).collect();
        let bytes_s = self.speed.values().copied().collect();
        let mut ways = Ways { routes: Vec::new(), by_sites: BTreeMap::new(), bytes_s };
        for piece in pulls.iter().flat_map(|pull| &pull.pieces) {
            let sites = (piece.from, piece.to);
            if ways.by_sites.contains_key(&sites) {
                continue;
            }
            let [from, to] = [piece.from, piece.to].map(|site| format!("s{}", site + 1));
            let path = self.topology.path(&from, &to)?;
            let steps = path.windows(2).map(|pair| (pair[0].clone(), pair[1].clone()));
            let links = steps.map(|step| numbers[&step]).collect();
            let one_way_ms = self.topology.latencies(&from)?[to.as_str()];
            ways.by_sites.insert(sites, ways.routes.len());
            ways.routes.push(Route { links, round_trip_s: 2.0 * one_way_ms / 1000.0 });
        }
        Ok(ways)
    }
}

impl Ways {
    fn begin(&self, pull: usize, piece: &Piece) -> Active {
        let route = self.by_sites[&(piece.from, piece.to)];
        Active { route, bytes_left: piece.bytes, pull }
    }

    /// The rate of one connection of each route, in bytes per second.
    fn rates(&self, active: &[Active]) -> Vec<f64> {
        let mut connections = vec![0.0; self.routes.len()];
        active.iter().for_each(|one| connections[one.route] += 1.0);
        let mut left = self.goodput(&connections);
        let mut weight = vec![0.0; left.len()];
        let of = |route: usize| connections[route] / self.routes[route].round_trip_s;
        let mut open: Vec<usize> =
            (0..self.routes.len()).filter(|&route| connections[route] > 0.0).collect();
        for &route in &open {
            self.routes[route].links.iter().for_each(|&link| weight[link] += of(route));
        }
        let mut rates = vec![0.0; self.routes.len()];
        while !open.is_empty() {
            // The link that fills first while all unserved connections grow alike.
            let crossed = (0..left.len()).filter(|&link| weight[link] > 1e-12);
            let per_weight = |link: usize| left[link] / weight[link];
            let Some(full) = crossed.min_by(|&a, &b| per_weight(a).total_cmp(&per_weight(b)))
            else {
                break;
            };
            let share = per_weight(full).max(0.0);
            let (served, others): (Vec<usize>, Vec<usize>) =
                open.into_iter().partition(|&route| self.routes[route].links.contains(&full));
            for &route in &served {
                rates[route] = share / self.routes[route].round_trip_s;
                for &link in &self.routes[route].links {
                    left[link] -= share * of(route);
                    weight[link] -= of(route);
                }
            }
            weight[full] = 0.0;
            open = others;
        }
        rates
    }

    /// The goodput of each link (without retransmissions) for its number of connections.
    fn goodput(&self, connections: &[f64]) -> Vec<f64> {
        let mut count = vec![0.0; self.bytes_s.len()];
        let mut round_trips_s = vec![0.0; self.bytes_s.len()];
        for (route, &many) in self.routes.iter().zip(connections) {
            for &link in &route.links {
                count[link] += many;
                round_trips_s[link] += many * route.round_trip_s;
            }
        }
        let goodput = |link: usize| {
            let (bytes_s, many) = (self.bytes_s[link], count[link]);
            if many == 0.0 {
                return bytes_s;
            }
            let on_the_way = bytes_s * round_trips_s[link] / many / PACKET_BYTES;
            let window = ((on_the_way + QUEUE_PACKETS) / many).max(WINDOW_MIN);
            bytes_s * (1.0 - 1.5 / (window * window))
        };
        (0..self.bytes_s.len()).map(goodput).collect()
    }
}
