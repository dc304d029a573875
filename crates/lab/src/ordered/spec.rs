//! Experiments about transactions in a total order: files that a person can read.

use super::claim::Claim;
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
    /// The systems that are compared.
    pub systems: Vec<String>,
    /// Clients for each site; each has one request under way.
    pub clients_per_site: u16,
    /// Virtual seconds before it is measured.
    pub warm_up_s: f64,
    /// Virtual seconds that are measured.
    pub seconds: f64,
    /// How many seeds: each is a run.
    pub seeds: u64,
    /// A batch has so many requests.
    pub batch: usize,
    /// Or its first one has waited so long, in milliseconds.
    pub batch_wait_ms: f64,
    /// The fusion table has room for this share of all records; for all if missing.
    pub fusion: Option<f64>,
    /// Where records are at first.
    #[serde(default)]
    pub placement: Initial,
    /// A site is added while it runs.
    pub scale_out: Option<ScaleOut>,
    /// Show what happened over time.
    #[serde(default)]
    pub over_time: bool,
    /// What the paper says.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
    /// What differs from one point to the next; a single point if missing.
    pub vary: Option<Vary>,
    /// What else there is to know: what was scaled, what bounds the figures.
    pub remark: Option<String>,
    /// The machines.
    pub cluster: Cluster,
    /// What clients do.
    pub workload: WorkloadSpec,
}

/// The machines: sites, and one more that puts requests in order.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// How many sites.
    pub sites: u16,
    /// Cores of each machine.
    pub cores: u16,
    /// A core takes so many times as long as one of the machine on which costs were measured.
    pub slowdown: f64,
    /// The code of a transaction itself takes a core so long, in microseconds, beside what the engine does for it.
    pub logic_us: f64,
    /// From one machine to another, in microseconds.
    pub latency_us: u64,
    /// Megabits per second that a machine can send.
    pub bandwidth_mbit: u64,
    /// A sync of the order's log, in microseconds.
    pub sync_us: u64,
    /// A record on the wire, in bytes.
    pub record_bytes: u64,
}

/// Where records are at first.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Initial {
    /// By range, each site as much: what somebody would choose who knows the workload.
    #[default]
    Range,
    /// Each key by itself, by a hash.
    Hash,
    /// By range, but the first site has the first seven of sixteen parts.
    Skewed,
}

/// A site is added, and gets the first part of the first site's records.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScaleOut {
    /// So many virtual seconds after the clients began.
    pub at_s: f64,
    /// The cold records go in chunks of so many keys, one after the other.
    pub chunk: u64,
    /// From one chunk's end to the next chunk, in milliseconds.
    pub pause_ms: f64,
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
    /// Requests of a batch.
    Batch,
    /// The share of all records that the fusion table has room for.
    Fusion,
    /// Google: the mean number of records of a transaction.
    Length,
    /// TPC-C: the share of the transactions that go to the warehouses of the first site.
    Hot,
}

/// What clients do.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadSpec {
    /// YCSB under the loads of real machines (5.2.2).
    Google(GoogleSpec),
    /// New-Order and Payment of TPC-C (5.3.1).
    Tpcc(TpccSpec),
    /// Tenants with a hot spot that moves, or one that is hot (5.3.2, 5.4).
    Tenants(TenantsSpec),
}

/// YCSB under the loads of real machines.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoogleSpec {
    /// Whose loads.
    pub load: Load,
    /// Records of each site.
    pub keys_per_site: u64,
    /// Zipf's exponent.
    pub theta: f64,
    /// The mean number of records of a transaction and its standard deviation as a share of it; two if missing.
    pub length: Option<(f64, f64)>,
}

/// Whose loads machines have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// Machines of a cluster of Google's: processor time that was asked for.
    Google,
    /// Virtual machines of Azure's: processor time that was used.
    Azure,
    /// Made up: one machine after the other has ten times the load of the others.
    Wandering,
}

/// New-Order and Payment of TPC-C.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TpccSpec {
    /// Warehouses of each site.
    pub warehouses_per_site: u64,
    /// The share of the transactions that go to the warehouses of the first site; all alike if missing.
    pub hot: Option<f64>,
}

/// Tenants: four for each site.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantsSpec {
    /// Records of each site.
    pub keys_per_site: u64,
    /// Seconds from one move of the hot spot to the next site; it has 90 percent.
    pub change_s: Option<f64>,
    /// The share of the first tenant, if it is hot instead.
    pub tenant: Option<f64>,
}

const FILES: [(&str, &str); 12] = [
    ("google", include_str!("../../experiments/hermes/google.toml")),
    ("azure", include_str!("../../experiments/hermes/azure.toml")),
    ("ablation", include_str!("../../experiments/hermes/ablation.toml")),
    ("length", include_str!("../../experiments/hermes/length.toml")),
    ("batch", include_str!("../../experiments/hermes/batch.toml")),
    ("fusion", include_str!("../../experiments/hermes/fusion.toml")),
    ("hermes-tpcc", include_str!("../../experiments/hermes/tpcc.toml")),
    ("tenants", include_str!("../../experiments/hermes/tenants.toml")),
    ("perfect", include_str!("../../experiments/hermes/perfect.toml")),
    ("hash", include_str!("../../experiments/hermes/hash.toml")),
    ("skewed", include_str!("../../experiments/hermes/skewed.toml")),
    ("scale-out", include_str!("../../experiments/hermes/scale-out.toml")),
];

impl Experiment {
    /// Reads an experiment.
    ///
    /// # Errors
    /// In words: what cannot be read, and where.
    pub fn read(text: &str) -> Result<Experiment, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// The experiments that come with the crate.
    pub fn all() -> Vec<Experiment> {
        let read = |(name, text): &(&str, &str)| {
            Experiment::read(text)
                .unwrap_or_else(|error| panic!("experiments/hermes/{name}.toml: {error}"))
        };
        FILES.iter().map(read).collect()
    }

    /// The experiment at each of its points, with the value of what is varied there.
    ///
    /// # Panics
    /// If what is varied is not in it.
    pub fn points(&self) -> Vec<(Option<f64>, Experiment)> {
        let Some(vary) = &self.vary else { return vec![(None, self.clone())] };
        let point = |&value: &f64| {
            let mut point = self.clone();
            match (vary.what, &mut point.workload) {
                (Varied::Batch, _) => point.batch = value as usize,
                (Varied::Fusion, _) => point.fusion = Some(value),
                (Varied::Length, WorkloadSpec::Google(google)) => {
                    google.length = Some((value, google.length.map_or(0.5, |length| length.1)));
                }
                (Varied::Hot, WorkloadSpec::Tpcc(tpcc)) => {
                    tpcc.hot = (value > 0.0).then_some(value);
                }
                (what, _) => panic!("{} varies {what:?}, but its workload has none", self.name),
            }
            (Some(value), point)
        };
        vary.values.iter().map(point).collect()
    }

    /// The same question, asked in parts of a second: fewer sites, records, clients and seeds. Its answers mean
    /// little; that it can be answered, and that no promise is broken meanwhile, is what is tested.
    #[must_use]
    pub fn smoke(&self) -> Experiment {
        let mut smoke = self.clone();
        smoke.cluster.sites = smoke.cluster.sites.min(4);
        smoke.clients_per_site = 10;
        (smoke.warm_up_s, smoke.seconds, smoke.seeds) = (0.1, 0.4, 1);
        smoke.batch = smoke.batch.min(25);
        match &mut smoke.workload {
            WorkloadSpec::Google(google) => google.keys_per_site = 300,
            WorkloadSpec::Tpcc(tpcc) => tpcc.warehouses_per_site = 2,
            WorkloadSpec::Tenants(tenants) => {
                tenants.keys_per_site = 400;
                tenants.change_s = tenants.change_s.map(|_| 0.2);
            }
        }
        if let Some(scale_out) = &mut smoke.scale_out {
            (scale_out.at_s, scale_out.chunk) = (0.2, 20);
        }
        if let Some(vary) = &mut smoke.vary {
            vary.values.truncate(2);
        }
        smoke
    }

    /// The name of what is varied.
    pub fn varied(&self) -> Option<String> {
        self.vary.as_ref().map(|vary| format!("{:?}", vary.what).to_lowercase())
    }
}
