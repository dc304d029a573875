//! Experiments: files that a person can read.

use crate::claim::Claim;
use crate::machines::Hardware;
use isomer_workload::{
    Companions, Skew, SmallBankOptions, TpccOptions, TwitterOptions, YcsbOptions,
};
use serde::{Deserialize, Serialize};

/// A question, and what it takes to answer it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its name.
    pub name: String,
    /// What it shows, in a few words.
    pub title: String,
    /// The paper's figure or section.
    pub figure: String,
    /// The systems that are compared; the first is the one that the others are compared with.
    pub systems: Vec<String>,
    /// Clients for each site.
    pub clients_per_site: u16,
    /// Virtual seconds before it is measured.
    pub warm_up_s: f64,
    /// Virtual seconds that are measured.
    pub seconds: f64,
    /// How many seeds: each is a run.
    pub seeds: u64,
    /// The kind of transaction whose latency is wanted.
    pub kind: Option<String>,
    /// Rows of a partition at first.
    pub partition_rows: u64,
    /// What the paper says.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
    /// What differs from one point to the next; a single point if missing.
    pub vary: Option<Vary>,
    /// What else there is to know.
    pub remark: Option<String>,
    /// The machines.
    pub cluster: Hardware,
    /// What clients do.
    pub workload: WorkloadSpec,
}

/// What differs from one point of an experiment to the next.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vary {
    /// What.
    pub what: Varied,
    /// Its values.
    pub values: Vec<f64>,
}

/// What can be varied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Varied {
    /// The number of sites.
    Sites,
    /// How much slower cores are.
    Slowdown,
    /// The share of TPC-C's orders and payments that touch another warehouse.
    Remote,
    /// TPC-C's warehouses for each site.
    Warehouses,
}

/// What clients do.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadSpec {
    /// YCSB.
    Ycsb(YcsbSpec),
    /// SmallBank.
    SmallBank(SmallBankSpec),
    /// TPC-C.
    Tpcc(TpccSpec),
    /// Twitter.
    Twitter(TwitterSpec),
}

impl WorkloadSpec {
    /// Seconds from one move of a hot spot to the next, if one moves.
    pub(crate) fn shift_every_s(&self) -> Option<f64> {
        match self {
            WorkloadSpec::Ycsb(ycsb) => ycsb.shift_every_s,
            _ => None,
        }
    }
}

/// YCSB in an experiment file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct YcsbSpec {
    /// Rows.
    pub rows: u64,
    /// The share of scans.
    pub scans: f64,
    /// How far the keys of a read-modify-write are from each other at most; independent if missing.
    pub near: Option<u64>,
    /// The exponent of the Zipf distribution; uniform if there is none.
    pub zipf: Option<f64>,
    /// The rows stand for so many, of which they are the first: none is hotter than it would be there. Needs an
    /// exponent.
    pub of: Option<u64>,
    /// Seconds from one move of the hot spot to the next.
    pub shift_every_s: Option<f64>,
}

/// SmallBank in an experiment file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SmallBankSpec {
    /// Customers.
    pub customers: u64,
}

const FILES: [(&str, &str); 13] = [
    ("ycsb-read-zipf", include_str!("../experiments/ycsb-read-zipf.toml")),
    ("ycsb-write-zipf", include_str!("../experiments/ycsb-write-zipf.toml")),
    ("ycsb-read-uniform", include_str!("../experiments/ycsb-read-uniform.toml")),
    ("ycsb-write-uniform", include_str!("../experiments/ycsb-write-uniform.toml")),
    ("steady", include_str!("../experiments/steady.toml")),
    ("ycsb-shift", include_str!("../experiments/ycsb-shift.toml")),
    ("memory", include_str!("../experiments/memory.toml")),
    ("scale", include_str!("../experiments/scale.toml")),
    ("tpcc", include_str!("../experiments/tpcc.toml")),
    ("tpcc-remote", include_str!("../experiments/tpcc-remote.toml")),
    ("smallbank", include_str!("../experiments/smallbank.toml")),
    ("twitter", include_str!("../experiments/twitter.toml")),
    ("slowdown", include_str!("../experiments/slowdown.toml")),
];

impl Experiment {
    /// Reads an experiment.
    ///
    /// # Errors
    /// In words: what cannot be read, and where.
    pub fn read(text: &str) -> Result<Experiment, String> {
        let read: Experiment = toml::from_str(text).map_err(|error| error.to_string())?;
        match &read.workload {
            WorkloadSpec::Ycsb(YcsbSpec { zipf: None, of: Some(_), .. }) => {
                Err("`of` says how many rows a skew is of: give `zipf = 0.75` as well".to_owned())
            }
            _ => Ok(read),
        }
    }

    /// The experiments that come with the crate.
    pub fn all() -> Vec<Experiment> {
        let read = |(name, text): &(&str, &str)| {
            Experiment::read(text)
                .unwrap_or_else(|error| panic!("experiments/{name}.toml: {error}"))
        };
        FILES.iter().map(read).collect()
    }

    /// The experiment of a name.
    ///
    /// # Errors
    /// In words, which there are.
    pub fn named(name: &str) -> Result<Experiment, String> {
        let all = Experiment::all();
        let names: Vec<&str> = all.iter().map(|experiment| experiment.name.as_str()).collect();
        let unknown = format!("there is no experiment `{name}`; there are: {}", names.join(", "));
        all.into_iter().find(|experiment| experiment.name == name).ok_or(unknown)
    }

    /// The experiment at each of its points, with the value of what is varied there.
    pub fn points(&self) -> Vec<(Option<f64>, Experiment)> {
        let Some(vary) = &self.vary else { return vec![(None, self.clone())] };
        let point = |value: &f64| {
            let mut point = self.clone();
            match vary.what {
                Varied::Sites => point.cluster.sites = *value as u16,
                Varied::Slowdown => point.cluster.slowdown = *value,
                Varied::Remote | Varied::Warehouses => {
                    let WorkloadSpec::Tpcc(tpcc) = &mut point.workload else {
                        panic!("{} varies TPC-C, but its workload is another", self.name)
                    };
                    match vary.what {
                        Varied::Remote => tpcc.remote = Some(*value),
                        _ => tpcc.warehouses_per_site = *value as u32,
                    }
                }
            }
            (Some(*value), point)
        };
        vary.values.iter().map(point).collect()
    }

    /// The same question, asked in seconds: fewer sites, rows and seeds. Its answers mean little; that
    /// it can be answered is what is tested.
    #[must_use]
    pub fn smoke(&self) -> Experiment {
        let mut smoke = self.clone();
        smoke.cluster.sites = 2;
        smoke.clients_per_site = 4;
        (smoke.warm_up_s, smoke.seconds, smoke.seeds) = (0.2, 0.5, 1);
        if let Some(vary) = smoke.vary.as_mut().filter(|vary| vary.what == Varied::Sites) {
            vary.values = vec![2.0, 3.0];
        }
        match &mut smoke.workload {
            WorkloadSpec::Ycsb(ycsb) => ycsb.rows = 5000,
            WorkloadSpec::SmallBank(bank) => bank.customers = 1000,
            WorkloadSpec::Tpcc(tpcc) => (tpcc.customers, tpcc.items) = (30, 200),
            WorkloadSpec::Twitter(twitter) => twitter.users = 200,
        }
        smoke
    }
}

/// TPC-C in an experiment file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TpccSpec {
    /// Warehouses for each site.
    pub warehouses_per_site: u32,
    /// Customers of a district.
    pub customers: u32,
    /// Items.
    pub items: u32,
    /// All five procedures, and not only New-Order, Payment and Stock-Level.
    #[serde(default)]
    pub full_mix: bool,
    /// The share of orders and of payments that touch another warehouse, if not the standard's.
    pub remote: Option<f64>,
}

/// Twitter in an experiment file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TwitterSpec {
    /// Users.
    pub users: u32,
}

impl TpccSpec {
    pub(crate) fn options(&self, sites: u16) -> TpccOptions {
        let standard = TpccOptions::default();
        TpccOptions {
            warehouses: self.warehouses_per_site * u32::from(sites),
            customers: self.customers,
            items: self.items,
            mix: if self.full_mix { TpccOptions::FULL_MIX } else { TpccOptions::SHORT_MIX },
            remote_orders: self.remote.unwrap_or(standard.remote_orders),
            remote_payments: self.remote.unwrap_or(standard.remote_payments),
            ..standard
        }
    }
}

impl TwitterSpec {
    pub(crate) fn options(&self) -> TwitterOptions {
        TwitterOptions { users: self.users, ..TwitterOptions::default() }
    }
}

impl YcsbSpec {
    fn skew(&self) -> Skew {
        match (self.zipf, self.of) {
            (None, _) => Skew::Uniform,
            (Some(exponent), None) => Skew::Zipf(exponent),
            (Some(exponent), Some(population)) => Skew::ZipfOf { exponent, population },
        }
    }

    pub(crate) fn options(&self) -> YcsbOptions {
        YcsbOptions {
            keys: self.rows,
            value_bytes: 10,
            scan_share: self.scans,
            skew: self.skew(),
            companions: self.near.map_or(Companions::Independent, Companions::Near),
            ..YcsbOptions::default()
        }
    }
}

impl SmallBankSpec {
    pub(crate) fn options(&self) -> SmallBankOptions {
        SmallBankOptions { customers: self.customers, ..SmallBankOptions::default() }
    }
}
