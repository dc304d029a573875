//! DrTM+B: move hot partitions to a site that already has a backup (DrTM+B, section 5, Algorithm
//! 1).
//!
//! A primary that moves to a site with a backup costs no copying. Partitions are taken in order of
//! falling load. If the primary's site is above the mean, the partition goes to the least loaded
//! site below the mean that has a backup of it. Only if the sites are still unbalanced, hot keys
//! are tracked one by one as in E-Store. They preferably move to sites with a backup of them.
//!
//! Left open by the paper and chosen here: *balanced* means within the imbalance of the problem. A
//! recording has neither partitions nor backups. There, a partition is the same span of keys in all
//! tables, and backups of site i are on i+1, i+2, … A database has its own backups
//! ([`plan_over_backups`]).

use super::estore::Spread;
use crate::problem::{Move, Placement, PlanError, Problem, Proposal, Site, check_share, site_name};
use crate::recording::Vertex;
use std::collections::BTreeMap;

/// The parameters of DrTM+B.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Options {
    /// The number of partitions that a site's share of the keys is cut into (32 in the paper: 192
    /// over 6).
    pub partitions_per_site: usize,
    /// Backups of each partition.
    pub backups: usize,
    /// The share of keys that are tracked one by one.
    pub hot_share: f64,
}

impl Default for Options {
    fn default() -> Options {
        Options { partitions_per_site: 32, backups: 2, hot_share: 0.01 }
    }
}

/// The sites that hold a backup of a key.
pub type Backups<'b> = &'b dyn Fn(Vertex) -> Vec<Site>;

/// One partition: keys that move together.
struct Partition {
    name: String,
    keys: Vec<Vertex>,
    load: f64,
    home: Site,
}

/// Plans.
pub fn plan(problem: &Problem<'_>, options: Options) -> Result<Proposal, PlanError> {
    problem.validate()?;
    check_share("hot share", options.hot_share)?;
    let partitions = partitions(problem, options.partitions_per_site.max(1));
    let sites = problem.placement.sites();
    let backups = |key: Vertex| {
        let home = problem.placement.site(key);
        backups(home, options.backups, sites).collect()
    };
    Ok(plan_for(problem, &partitions, options.hot_share, &backups))
}

/// Plans with each key of the graph as one partition, and with the given backups.
pub fn plan_over_backups(
    problem: &Problem<'_>,
    hot_share: f64,
    backups: Backups<'_>,
) -> Result<Proposal, PlanError> {
    problem.validate()?;
    check_share("hot share", hot_share)?;
    let graph = problem.graph;
    let of = |key: Vertex| Partition {
        name: format!("partition {}", graph.label(key)),
        keys: vec![key],
        load: graph.accesses(key),
        home: problem.placement.site(key),
    };
    let partitions = by_load((0..graph.len() as Vertex).map(of).collect());
    Ok(plan_for(problem, &partitions, hot_share, backups))
}

fn plan_for(
    problem: &Problem<'_>,
    partitions: &[Partition],
    hot_share: f64,
    backups: Backups<'_>,
) -> Proposal {
    let mut spread = Spread::new(problem);
    greedy(&mut spread, partitions, backups);
    let coarse = spread.moves.len();
    let mut notes = vec![format!("{coarse} partitions move to a site that holds their backup")];
    if (0..problem.placement.sites() as Site).any(|site| spread.overloaded(site)) {
        fine_grained(&mut spread, hot_share, backups);
        notes.push(format!("still unbalanced: {} keys moved singly", spread.moves.len() - coarse));
    }
    notes.extend(spread.overload_notes());
    let Spread { placement, moves, lost, .. } = spread;
    Proposal { strategy: "drtmb", placement, moves, lost, notes }
}

/// The partitions, heaviest first: spans of keys, split by their current site.
fn partitions(problem: &Problem<'_>, per_site: usize) -> Vec<Partition> {
    let sites = problem.placement.sites();
    let spans = Placement::by_range(problem.graph.keys(), sites.saturating_mul(per_site));
    let mut groups: BTreeMap<(Site, Site), Vec<Vertex>> = BTreeMap::new();
    for vertex in 0..problem.graph.len() as Vertex {
        let pair = (spans.site(vertex), problem.placement.site(vertex));
        groups.entry(pair).or_default().push(vertex);
    }
    let make = |((span, home), keys): ((Site, Site), Vec<Vertex>)| Partition {
        name: format!("partition {} of {}", u32::from(span) + 1, site_name(home)),
        load: keys.iter().map(|&key| problem.graph.accesses(key)).sum(),
        keys,
        home,
    };
    by_load(groups.into_iter().map(make).collect())
}

/// The partitions with load, the heaviest first.
fn by_load(mut partitions: Vec<Partition>) -> Vec<Partition> {
    partitions.retain(|partition| partition.load > 0.0);
    partitions.sort_by(|a, b| b.load.total_cmp(&a.load));
    partitions
}

/// The sites that hold backups of what is on `home`.
fn backups(home: Site, count: usize, sites: usize) -> impl Iterator<Item = Site> {
    let next = move |step| ((usize::from(home) + step) % sites) as Site;
    (1..=count.min(sites - 1)).map(next)
}

/// Lines 3 to 14 of Algorithm 1.
fn greedy(spread: &mut Spread<'_, '_>, partitions: &[Partition], backups: Backups<'_>) {
    let mean = spread.loads.mean();
    for partition in partitions {
        let load = |site: Site| spread.loads.0[usize::from(site)];
        let home = partition.home;
        if load(home) <= mean {
            continue;
        }
        let with_backup = partition.keys.first().map_or(Vec::new(), |key| backups(*key));
        let below = with_backup.into_iter().filter(|&site| site != home && load(site) < mean);
        let Some(to) = below.min_by(|&a, &b| load(a).total_cmp(&load(b)).then(a.cmp(&b))) else {
            if spread.lost.len() < 20 {
                let name = &partition.name;
                spread.lost.push(format!("{name}: every site with a backup is above the mean"));
            }
            continue;
        };
        let reason = format!(
            "{}: {} accesses, {} has {} > {mean:.1}, the backup on {} becomes primary",
            partition.name,
            partition.load,
            site_name(home),
            load(home),
            site_name(to),
        );
        partition.keys.iter().for_each(|&key| spread.placement.set(key, to));
        spread.loads.0[usize::from(home)] -= partition.load;
        spread.loads.0[usize::from(to)] += partition.load;
        spread.moves.push(Move { keys: partition.keys.clone(), to, reason });
    }
}

/// E-Store's planning of single keys: to a site below the mean with a backup, else to the least
/// loaded site. The latter needs a new replica.
fn fine_grained(spread: &mut Spread<'_, '_>, hot_share: f64, backups: Backups<'_>) {
    let mean = spread.loads.mean();
    for key in spread.hot_keys(hot_share) {
        let from = spread.placement.site(key);
        if !spread.overloaded(from) {
            continue;
        }
        let load = |site: Site| spread.loads.0[usize::from(site)];
        let near = backups(key)
            .into_iter()
            .filter(|&site| site != from && load(site) < mean)
            .min_by(|&a, &b| load(a).total_cmp(&load(b)).then(a.cmp(&b)));
        match near {
            Some(to) => spread.offer(vec![key], from, to, "split off, a backup is there:"),
            None => spread.offer(vec![key], from, spread.loads.least(), "split off, new replica:"),
        }
    }
}
