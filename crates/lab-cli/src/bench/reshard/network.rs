//! Morphus' experiments on networks, with its plans on a [model](isomer_plan::reshard::network) of
//! them: the sharing of sockets (Figure 9), rounds inside of data centres (Table 2), more machines
//! (Figures 8c and 10), and the choice of sites for chunks (Figure 7).
//!
//! ```text
//!   figure 9    9 servers in racks of 3, 3, 3 and of 6, 2, 1
//!               1 ms inside of a rack, 2 ms between racks                   500 MB
//!   table 2     6 servers in one data centre, 3 in another
//!               0.07 ms inside, 2.5 ms between them                         100 MB
//!   figure 10   8, 16, 33 replica sets                                      25, 50, 100 GB
//!   figure 8c   3 to 9 replica sets                                         1 GB
//!   figure 7    3 replica sets, with related and with unrelated keys        1 GB
//! ```
//!
//! These settings, and 100 Mbit/s for each link, are the paper's (sections 5.1, 5.4 to 5.7). A
//! replica set has three members, and each round rebuilds one member of each set (section 2.2).
//! Nine servers are therefore three rounds of three servers that exchange rows. The paper does not
//! say which members share a rack or a round; the model draws them, and times are means over
//! [`DRAWS`] draws. Chunks have at most 64 MB, MongoDB's size. Rows are the ratings, film to
//! viewer, scaled to the paper's amount of bytes; where the paper draws keys at random, so does the
//! model.
//!
//! **Left out**: all but carrying the rows, such as preparing, replay of a log, disk and processor.

use isomer::failure::Failure;
use isomer::{out, text};
use isomer_plan::generate::random;
use isomer_plan::reshard::network::Network;
use isomer_plan::reshard::rounds::{self, Replica};
use isomer_plan::reshard::transfer::{Sharing, pulls};
use isomer_plan::reshard::{Chunks, KeyChange, Placement, RowSource, chunks_of_table};
use rand::RngExt;
use serde::Serialize;
use std::fmt::Write;

/// Drawn cluster layouts.
const DRAWS: u64 = 50;
const LINK_BYTES_S: f64 = 100e6 / 8.0;
const CHUNK_BYTES: f64 = 64e6;
/// Members of a replica set.
const MEMBERS: usize = 3;
/// Latencies in milliseconds: in a rack, between racks; in a data centre, between two.
const RACK_MS: [f64; 2] = [1.0, 2.0];
const CENTRE_MS: [f64; 2] = [0.07, 2.5];
/// The paper's numbers of sockets.
const SOCKETS: [u64; 2] = [21, 28];
/// Fixed numbers of sockets for each receiver.
const FIXED: [usize; 5] = [1, 2, 4, 8, 16];

/// Results of the model; times are in seconds.
#[derive(Serialize)]
pub(super) struct Report {
    homogeneous: Racks,
    heterogeneous: Racks,
    centres: Centres,
    /// Replica sets, and seconds, with the same amount of data for each set.
    growth: Vec<(usize, f64)>,
    /// Replica sets, and seconds, with the same amount of data in all.
    more_sites: Vec<(usize, f64)>,
    related: Placed,
    unrelated: Placed,
}

/// Figure 9: seconds by the sharing of sockets.
#[derive(Serialize)]
struct Racks {
    /// Sockets for each receiver, and seconds. The first number is the paper's.
    fixed: Vec<(usize, f64)>,
    per_chunk: f64,
    /// Sockets in all, and seconds.
    by_size: Vec<(u64, f64)>,
    fair: Vec<(u64, f64)>,
    /// Seconds of the busiest link alone.
    bound: f64,
}

/// Table 2: seconds by the members that are rebuilt together.
#[derive(Serialize)]
struct Centres {
    aware: f64,
    unaware: f64,
    unaware_fair: f64,
    /// Bandwidth between the centres as a share of the links', and the ratio unaware over aware.
    narrow: Vec<(f64, f64)>,
}

/// Figure 7: seconds by the choice of sites.
#[derive(Serialize)]
struct Placed {
    greedy: f64,
    balanced: f64,
    random: f64,
}

impl Racks {
    /// The ratios of the paper: the fixed sharing, sockets per chunk, and the best fixed number,
    /// each over the better of the fair ones.
    fn ratios(&self) -> [f64; 3] {
        let least = |times: &mut dyn Iterator<Item = f64>| times.fold(f64::INFINITY, f64::min);
        let fair = least(&mut self.fair.iter().map(|one| one.1));
        let best = least(&mut self.fixed.iter().map(|one| one.1));
        [self.fixed[0].1 / fair, self.per_chunk / fair, best / fair]
    }
}

/// Runs all experiments. `keys` has the old and the new key of each rating.
pub(super) fn report(keys: &[(i64, i64)]) -> Result<Report, Failure> {
    let unrelated = |sites| at_random(sites, 1e9);
    Ok(Report {
        homogeneous: racks(keys, &[3, 3, 3])?,
        heterogeneous: racks(keys, &[6, 2, 1])?,
        centres: centres(keys)?,
        growth: [8, 16, 33]
            .map(|sets| switched(&at_random(sets, 25e9 / 8.0 * sets as f64), sets))
            .into_iter()
            .collect::<Result<_, _>>()?,
        more_sites: (3..=9)
            .map(|sets| switched(&unrelated(sets), sets))
            .collect::<Result<_, _>>()?,
        related: placed(&of_keys(&backwards(), MEMBERS, 1e9)?)?,
        unrelated: placed(&unrelated(MEMBERS))?,
    })
}

/// New chunks, and the bytes of one unit of their amounts.
struct Data {
    chunks: Chunks,
    unit_bytes: f64,
}

/// The number of chunks of at most 64 MB, a multiple of `sites`.
fn count(sites: usize, bytes: f64) -> usize {
    ((bytes / CHUNK_BYTES / sites as f64).ceil() as usize).max(1) * sites
}

/// Chunks of rows with these old and new keys, which have `bytes` bytes in all.
fn of_keys(keys: &[(i64, i64)], sites: usize, bytes: f64) -> Result<Data, Failure> {
    let mut text = "old,new\n".to_owned();
    for (old, new) in keys {
        let _ = writeln!(text, "{old},{new}");
    }
    let change = KeyChange {
        old: "old",
        new: "new",
        weight: None,
        chunks: count(sites, bytes),
        sites,
        source: RowSource::Ranges,
    };
    let chunks = chunks_of_table(text.as_bytes(), &change).map_err(Failure::failed)?.chunks;
    Ok(Data { chunks, unit_bytes: bytes / keys.len() as f64 })
}

/// Rows of 1000 bytes whose new key is unrelated to the old one: the parts of each chunk at the
/// sites are about equal.
fn at_random(sites: usize, bytes: f64) -> Data {
    let (many, mut rng) = (count(sites, bytes), random(1));
    let rows = bytes / 1000.0 / (many * sites) as f64;
    let mut chunks = Chunks::new(sites);
    for _ in 0..many {
        // Draws around the mean, about as wide as counts of independent rows spread.
        let about = |mean: f64, chance: f64| (mean + mean.sqrt() * 3.5 * (chance - 0.5)) as u64;
        let local = (0..sites as u32).map(|site| (site, about(rows, rng.random_range(0.0..1.0))));
        chunks.push(local.collect::<Vec<_>>()).expect("sites are numbered from 0");
    }
    Data { chunks, unit_bytes: 1000.0 }
}

/// A new key that is the old one backwards.
fn backwards() -> Vec<(i64, i64)> {
    (0..100_000).map(|old| (old, 100_000 - old)).collect()
}

fn seconds(
    data: &Data,
    placement: &Placement,
    (sharing, draw): (Sharing, u64),
    network: &Network,
) -> Result<f64, Failure> {
    let how = (sharing, data.unit_bytes);
    let pulls = pulls(&data.chunks, placement, how, network, &mut random(draw));
    let carried = pulls.and_then(|pulls| network.carry(&pulls)).map_err(Failure::failed)?;
    Ok(carried.0)
}

fn balanced(data: &Data) -> Result<Placement, Failure> {
    Placement::balanced(&data.chunks).map_err(Failure::failed)
}

/// Deals servers at places (racks or centres) to replica sets: the places of each set's members by
/// round.
fn deal(places: &[usize], draw: u64) -> Vec<Vec<usize>> {
    let servers = places.iter().enumerate();
    let mut at: Vec<usize> = servers.flat_map(|(place, &n)| vec![place; n]).collect();
    let mut rng = random(draw);
    for one in (1..at.len()).rev() {
        at.swap(one, rng.random_range(0..=one));
    }
    at.chunks(MEMBERS).map(<[usize]>::to_vec).collect()
}

/// The network of the sites that exchange rows. `at` has the place of each site; latencies are
/// those inside of a place and between two.
fn joined(at: &[usize], [inside_ms, between_ms]: [f64; 2], between_bytes_s: f64) -> Network {
    let mut network = Network::default();
    for (site, place) in at.iter().enumerate() {
        let (site, switch) = (format!("s{}", site + 1), format!("switch{place}"));
        network.link(&site, &switch, inside_ms / 2.0, LINK_BYTES_S);
    }
    let mut places = at.to_vec();
    places.sort_unstable();
    places.dedup();
    for place in places {
        let up_ms = (between_ms - inside_ms) / 2.0;
        network.link(&format!("switch{place}"), "core", up_ms, between_bytes_s);
    }
    network
}

fn racks(keys: &[(i64, i64)], servers: &[usize]) -> Result<Racks, Failure> {
    let data = of_keys(keys, MEMBERS, 500e6)?;
    let placement = balanced(&data)?;
    let time = |sharing| -> Result<f64, Failure> {
        let mut all_s = 0.0;
        for draw in 1..=DRAWS {
            let sets = deal(servers, draw);
            for round in 0..MEMBERS {
                let at: Vec<usize> = sets.iter().map(|set| set[round]).collect();
                let network = joined(&at, RACK_MS, LINK_BYTES_S);
                all_s += seconds(&data, &placement, (sharing, draw), &network)?;
            }
        }
        Ok(all_s / DRAWS as f64)
    };
    let of = |sharing: fn(u64) -> Sharing| {
        SOCKETS.iter().map(|&n| Ok((n, time(sharing(n))?))).collect::<Result<_, Failure>>()
    };
    let fixed = FIXED.iter().map(|&n| Ok((n, time(Sharing::Fixed(n))?)));
    let flows = data.chunks.flows(&placement);
    let busiest = |end: &dyn Fn(&isomer_plan::reshard::Flow) -> u32| {
        let of = |site| flows.iter().filter(|flow| end(flow) == site).map(|flow| flow.amount).sum();
        (0..MEMBERS as u32).map(of).max().unwrap_or(0_u64)
    };
    let most = busiest(&|flow| flow.from).max(busiest(&|flow| flow.to)) as f64;
    Ok(Racks {
        fixed: fixed.collect::<Result<_, Failure>>()?,
        per_chunk: time(Sharing::PerChunk)?,
        by_size: of(Sharing::BySize)?,
        fair: of(Sharing::Fair)?,
        bound: MEMBERS as f64 * most * data.unit_bytes / LINK_BYTES_S,
    })
}

/// Table 2. Each set has its primary and a secondary in one data centre, and a secondary in the
/// other.
fn centres(keys: &[(i64, i64)]) -> Result<Centres, Failure> {
    let data = of_keys(keys, MEMBERS, 100e6)?;
    let placement = balanced(&data)?;
    let replica = |site: usize, at: usize| Replica {
        site: site as u16,
        name: format!("{site}.{at}"),
        centre: ["near", "near", "far"][at].to_owned(),
        primary: at == 0,
    };
    let all = |site: usize| (0..MEMBERS).map(move |at| replica(site, at));
    let replicas: Vec<Replica> = (0..MEMBERS).flat_map(all).collect();
    let rounds = rounds::plan(&replicas).map_err(Failure::failed)?;
    let aware: Vec<Vec<usize>> = rounds
        .iter()
        .map(|round| round.replicas.iter().map(|one| usize::from(one.centre == "far")).collect())
        .collect();
    // A plan that ignores centres takes the secondaries in any order, and the primary last.
    let unaware = |draw: u64| {
        let mut rng = random(draw);
        let far: Vec<usize> = (0..MEMBERS).map(|_| rng.random_range(0..MEMBERS - 1)).collect();
        let round = |round| far.iter().map(|&far| usize::from(far == round)).collect();
        (0..MEMBERS).map(round).collect::<Vec<Vec<usize>>>()
    };
    let time = |rounds: &dyn Fn(u64) -> Vec<Vec<usize>>, sharing, part: f64| {
        let mut all_s = 0.0;
        for draw in 1..=DRAWS {
            for at in rounds(draw) {
                let network = joined(&at, CENTRE_MS, LINK_BYTES_S * part);
                all_s += seconds(&data, &placement, (sharing, draw), &network)?;
            }
        }
        Ok::<f64, Failure>(all_s / DRAWS as f64)
    };
    let (known, fair) = (|_| aware.clone(), Sharing::Fair(SOCKETS[1]));
    let narrow = |part: f64| {
        let unaware = time(&unaware, Sharing::PerChunk, part)?;
        Ok((part, unaware / time(&known, Sharing::PerChunk, part)?))
    };
    Ok(Centres {
        aware: time(&known, Sharing::PerChunk, 1.0)?,
        unaware: time(&unaware, Sharing::PerChunk, 1.0)?,
        unaware_fair: time(&unaware, fair, 1.0)?,
        narrow: [0.5, 0.25].map(narrow).into_iter().collect::<Result<_, Failure>>()?,
    })
}

/// Replica sets at one switch. There is a socket for each chunk, and at least one for each flow.
fn switched(data: &Data, sets: usize) -> Result<(usize, f64), Failure> {
    let network = joined(&vec![0; sets], [RACK_MS[0]; 2], LINK_BYTES_S);
    let sockets = data.chunks.len().max(sets * (sets - 1)) as u64;
    let sharing = (Sharing::Fair(sockets), 1);
    Ok((sets, seconds(data, &balanced(data)?, sharing, &network)?))
}

fn placed(data: &Data) -> Result<Placed, Failure> {
    let network = joined(&[0; MEMBERS], [RACK_MS[0]; 2], LINK_BYTES_S);
    let time = |placement: &Placement| seconds(data, placement, (Sharing::PerChunk, 1), &network);
    let mut at_random = 0.0;
    for draw in 1..=DRAWS {
        at_random += time(&Placement::random(&data.chunks, &mut random(draw)))? / DRAWS as f64;
    }
    Ok(Placed {
        greedy: time(&Placement::greedy(&data.chunks))?,
        balanced: time(&balanced(data)?)?,
        random: at_random,
    })
}

/// Prints the report as a table.
pub(super) fn tell(report: &Report) {
    let s = |time: f64| format!("{time:.1} s");
    let mut rows = Vec::new();
    let mut row = |what: String, values: &[String]| {
        rows.push([&[what][..], values].concat());
    };
    let (equal, other) = (&report.homogeneous, &report.heterogeneous);
    row("sockets".into(), &["racks 3 3 3".into(), "racks 6 2 1".into()]);
    for (a, b) in equal.fixed.iter().zip(&other.fixed) {
        row(format!("fixed, {} each", a.0), &[s(a.1), s(b.1)]);
    }
    row("per chunk".into(), &[s(equal.per_chunk), s(other.per_chunk)]);
    for (name, a, b) in
        [("by size", &equal.by_size, &other.by_size), ("fair", &equal.fair, &other.fair)]
    {
        for (a, b) in a.iter().zip(b) {
            row(format!("{name}, {} in all", a.0), &[s(a.1), s(b.1)]);
        }
    }
    row("the busiest link alone".into(), &[s(equal.bound), s(other.bound)]);
    let ratios = [equal, other].map(|racks| racks.ratios().map(|ratio| format!("{ratio:.2}")));
    for (at, name) in ["fixed", "per chunk", "the best fixed"].iter().enumerate() {
        let of = ratios.each_ref().map(|ratios| ratios[at].clone());
        row(format!("{name} by fair"), &of);
    }
    let centres = &report.centres;
    row("rounds".into(), &["by centres".into(), "in any order".into(), "of these, fair".into()]);
    row("6 and 3 servers".into(), &[s(centres.aware), s(centres.unaware), s(centres.unaware_fair)]);
    for (part, ratio) in &centres.narrow {
        let what = format!("any order by centres, {} of a link", text::percent(*part));
        row(what, &[format!("{ratio:.2}")]);
    }
    for (name, times) in [("growth", &report.growth), ("more sites", &report.more_sites)] {
        let times = times.iter().map(|(sets, time)| format!("{sets}: {}", s(*time)));
        row(name.into(), &times.collect::<Vec<_>>());
    }
    row("placement".into(), &["greedy".into(), "balanced".into(), "random".into()]);
    for (name, placed) in [("related", &report.related), ("unrelated", &report.unrelated)] {
        row(name.into(), &[placed.greedy, placed.balanced, placed.random].map(s));
    }
    out::print(text::columns(&rows, 0));
}
