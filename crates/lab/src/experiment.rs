//! Experiments, read from TOML files.

use crate::claim::Claim;
use crate::machines::Hardware;
use isomer_workload::{
    Companions, Skew, SmallBankOptions, TpccOptions, TwitterOptions, YcsbOptions,
};
use serde::{Deserialize, Serialize};

/// An experiment: a question, and the setup that answers it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its name.
    pub name: String,
    /// A short title.
    pub title: String,
    /// The paper's figure or section.
    pub figure: String,
    /// The compared systems. The others are compared with the first one.
    pub systems: Vec<String>,
    /// The number of clients per site.
    pub clients_per_site: u16,
    /// Virtual seconds before the measurement.
    pub warm_up_s: f64,
    /// Virtual seconds of the measurement.
    pub seconds: f64,
    /// The number of seeds, which is the number of runs.
    pub seeds: u64,
    /// The kind of transaction whose latency is reported separately.
    pub kind: Option<String>,
    /// The rows of an initial partition.
    pub partition_rows: u64,
    /// The claims of the paper.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
    /// The parameter that varies between points; a single point if missing.
    pub vary: Option<Vary>,
    /// A remark for the page.
    pub remark: Option<String>,
    /// The machines.
    pub cluster: Hardware,
    /// The workload of the clients.
    pub workload: WorkloadSpec,
}

/// The parameter that varies between the points of an experiment.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vary {
    /// The parameter.
    pub what: Varied,
    /// Its values.
    pub values: Vec<f64>,
}

/// The parameters that can vary.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Varied {
    /// The number of sites.
    Sites,
    /// The factor by which cores are slower.
    Slowdown,
    /// The share of TPC-C's orders and payments that involve another warehouse.
    Remote,
    /// TPC-C's warehouses per site.
    Warehouses,
}

/// A workload in an experiment file.
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
    /// Seconds between moves of the hot spot, if it moves.
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
    /// The number of rows.
    pub rows: u64,
    /// The share of scans.
    pub scans: f64,
    /// The maximum distance between the keys of a read-modify-write; independent keys if missing.
    pub near: Option<u64>,
    /// The exponent of the Zipf distribution; uniform if missing.
    pub zipf: Option<f64>,
    /// The size of the population of which the rows are the head, as in [`Skew::ZipfOf`]. Requires
    /// `zipf`.
    pub of: Option<u64>,
    /// Seconds between moves of the hot spot.
    pub shift_every_s: Option<f64>,
}

/// SmallBank in an experiment file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SmallBankSpec {
    /// The number of customers.
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
    /// Parses an experiment.
    ///
    /// # Errors
    /// The problem and its position in words.
    pub fn read(text: &str) -> Result<Experiment, String> {
        let read: Experiment = toml::from_str(text).map_err(|error| error.to_string())?;
        match &read.workload {
            WorkloadSpec::Ycsb(YcsbSpec { zipf: None, of: Some(_), .. }) => {
                Err("`of` says how many rows a skew is of: give `zipf = 0.75` as well".to_owned())
            }
            _ => Ok(read),
        }
    }

    /// The experiments of this crate.
    pub fn all() -> Vec<Experiment> {
        let read = |(name, text): &(&str, &str)| {
            Experiment::read(text)
                .unwrap_or_else(|error| panic!("experiments/{name}.toml: {error}"))
        };
        FILES.iter().map(read).collect()
    }

    /// Returns the experiment with a name.
    ///
    /// # Errors
    /// A message that lists the known experiments.
    pub fn named(name: &str) -> Result<Experiment, String> {
        let all = Experiment::all();
        let names: Vec<&str> = all.iter().map(|experiment| experiment.name.as_str()).collect();
        let unknown = format!("there is no experiment `{name}`; there are: {}", names.join(", "));
        all.into_iter().find(|experiment| experiment.name == name).ok_or(unknown)
    }

    /// The points of the experiment, each with the value of the varied parameter.
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

    /// The same experiment with fewer sites, rows and seeds, so that it runs in seconds. Its
    /// results mean little; it tests only that the experiment runs.
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
    /// The number of warehouses per site.
    pub warehouses_per_site: u32,
    /// The number of customers per district.
    pub customers: u32,
    /// The number of items.
    pub items: u32,
    /// Runs all five procedures instead of only New-Order, Payment and Stock-Level.
    #[serde(default)]
    pub full_mix: bool,
    /// The share of orders and of payments that involve another warehouse; the standard's if
    /// missing.
    pub remote: Option<f64>,
}

/// Twitter in an experiment file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TwitterSpec {
    /// The number of users.
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
