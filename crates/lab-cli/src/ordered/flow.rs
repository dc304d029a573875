//! Loads of sites and moves of records, counted from plans.
//!
//! ```text
//!   most of its records are at home at s3: a request of s3
//!     it runs at s3                              at home
//!     it runs at s1, which has most of them now  an earlier transaction had left them there
//!     it runs at s2, which has not               there was room: s3 had its share of the batch
//! ```

use isomer::text;
use isomer_batch::{Homes, Leg, Plan, Step, Work};
use isomer_design::SiteId;
use isomer_plan::route::Alpha;
use std::collections::BTreeMap;

/// Counts of a sequence of plans.
#[derive(Clone, Default)]
pub(super) struct Flow {
    pub(super) batches: u64,
    pub(super) planned: u64,
    /// By the number of the site, from 1.
    pub(super) asked_of: Vec<u64>,
    pub(super) run_by: Vec<u64>,
    pub(super) single_site: u64,
    pub(super) at_home: u64,
    pub(super) where_left: u64,
    pub(super) where_room: u64,
    pub(super) moved: BTreeMap<(SiteId, SiteId), u64>,
    /// Batches in which a site ran more than Hermes allows.
    pub(super) above_share: u64,
    /// Records that are not at home.
    pub(super) away: usize,
}

/// Width of the bars of a line, in characters.
const BAR: usize = 24;

impl Flow {
    pub(super) fn new(sites: usize) -> Flow {
        Flow { asked_of: vec![0; sites], run_by: vec![0; sites], ..Flow::default() }
    }

    /// Adds the counts of a batch.
    pub(super) fn count(&mut self, plan: &Plan, homes: &Homes, away: usize) {
        let sites = self.run_by.len();
        let mut here = vec![0u64; sites];
        for step in &plan.steps {
            for leg in &step.legs {
                if let Leg::Record { from, to, .. } = leg
                    && from != to
                {
                    *self.moved.entry((*from, *to)).or_default() += 1;
                }
            }
            if let Work::Call(_) = step.work {
                here[at(step.executors[0])] += 1;
                self.call(step, homes);
            }
        }
        let calls: u64 = here.iter().sum();
        let most = Alpha::PAPER.threshold(calls as usize, sites as u16) as u64;
        self.above_share += u64::from(here.iter().any(|&count| count > most));
        here.iter().zip(&mut self.run_by).for_each(|(count, sum)| *sum += count);
        (self.batches, self.planned) = (self.batches + 1, self.planned + calls);
        self.away = away;
    }

    fn call(&mut self, step: &Step, homes: &Homes) {
        let (runs, sites) = (step.executors[0], self.run_by.len());
        let (mut at_home, mut now) = (vec![0; sites], vec![0; sites]);
        let mut records = 0;
        for leg in &step.legs {
            let Leg::Record { record, from, .. } = leg else { continue };
            let home = homes.home(record.0, &record.1).expect("its table exists");
            at_home[at(home)] += 1;
            now[at(*from)] += 1;
            records += 1;
        }
        let most = |counts: &[u32]| counts.iter().copied().max().unwrap_or_default();
        let asked = at_home.iter().position(|count| *count == most(&at_home)).unwrap_or_default();
        self.asked_of[asked] += 1;
        self.single_site += u64::from(now[at(runs)] == records);
        match (now[at(runs)] == most(&now), at_home[at(runs)] == most(&at_home)) {
            (true, true) => self.at_home += 1,
            (true, false) => self.where_left += 1,
            (false, _) => self.where_room += 1,
        }
    }

    /// The difference from an earlier state.
    pub(super) fn since(&self, before: &Flow) -> Flow {
        let less = |now: &[u64], then: &[u64]| {
            now.iter().zip(then).map(|(now, then)| now - then).collect::<Vec<u64>>()
        };
        let moved = self
            .moved
            .iter()
            .map(|(way, count)| (*way, count - before.moved.get(way).copied().unwrap_or_default()));
        Flow {
            batches: self.batches - before.batches,
            planned: self.planned - before.planned,
            asked_of: less(&self.asked_of, &before.asked_of),
            run_by: less(&self.run_by, &before.run_by),
            single_site: self.single_site - before.single_site,
            at_home: self.at_home - before.at_home,
            where_left: self.where_left - before.where_left,
            where_room: self.where_room - before.where_room,
            moved: moved.collect(),
            above_share: self.above_share - before.above_share,
            away: self.away,
        }
    }

    /// Counts by site as shares.
    pub(super) fn shares(&self, counts: &[u64]) -> Vec<f64> {
        let all = counts.iter().sum::<u64>().max(1) as f64;
        counts.iter().map(|count| *count as f64 / all).collect()
    }

    /// Text about the last `seconds` seconds, which end at `at_s`.
    pub(super) fn to_text(&self, at_s: f64, seconds: f64) -> String {
        let (asked, run) = (self.shares(&self.asked_of), self.shares(&self.run_by));
        let mut ways: Vec<_> = self.moved.iter().filter(|(_, count)| **count > 0).collect();
        ways.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let ways = ways.iter().take(3);
        let ways: Vec<String> = ways
            .map(|((from, to), count)| format!("{from}→{to} {}", text::count(**count)))
            .collect();
        format!(
            "{at_s:5.1} s  {:>8} tx/s in batches of {}; {} find all at one site; {} records moved: {}\n\
             {:9}asked of  {}\n{:9}run by    {}\n{:9}why       {}",
            text::count((self.planned as f64 / seconds) as u64),
            self.planned / self.batches.max(1),
            text::percent(self.single_site as f64 / self.planned.max(1) as f64),
            text::count(self.moved.values().sum::<u64>()),
            if ways.is_empty() { "none".to_owned() } else { ways.join(", ") },
            "",
            bars(&asked),
            "",
            bars(&run),
            "",
            self.why(&asked),
        )
    }

    /// The reason for the loads of the sites.
    fn why(&self, asked: &[f64]) -> String {
        let hottest =
            asked.iter().copied().enumerate().max_by(|one, other| one.1.total_cmp(&other.1));
        let Some((hottest, share)) = hottest else { return String::new() };
        let most = 1.1 / asked.len() as f64;
        let mut why = match share > most {
            true => format!(
                "s{} is asked for {} and may run {}: {} went where there was room",
                hottest + 1,
                text::percent(share),
                text::percent(most),
                text::count(self.where_room)
            ),
            false => format!(
                "no site is asked for more than it may run, {}: {} went where there was room",
                text::percent(most),
                text::count(self.where_room)
            ),
        };
        why += &format!(
            ", {} to where earlier ones had left their records ({} are away from home)",
            text::count(self.where_left),
            text::count(self.away as u64)
        );
        why
    }
}

/// Shares of sites as bars.
pub(super) fn bars(shares: &[f64]) -> String {
    let one = |(at, share): (usize, &f64)| {
        let width = BAR / shares.len().clamp(1, 6);
        let bar = text::bar((share * shares.len() as f64 / 2.5).min(1.0), width.max(4));
        format!("s{} {bar} {:>6}", at + 1, text::percent(*share))
    };
    shares.iter().enumerate().map(one).collect::<Vec<_>>().join("  ")
}

fn at(site: SiteId) -> usize {
    usize::from(site.0) - 1
}
