//! Experiments with transactions in a total order, read from TOML files.

use super::claim::Claim;
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
    /// The compared systems.
    pub systems: Vec<String>,
    /// The number of clients per site. Each client has one request in flight.
    pub clients_per_site: u16,
    /// Virtual seconds before the measurement.
    pub warm_up_s: f64,
    /// Virtual seconds of the measurement.
    pub seconds: f64,
    /// The number of seeds, which is the number of runs.
    pub seeds: u64,
    /// The number of requests at which a batch is closed.
    pub batch: usize,
    /// The age of its first request at which a batch is closed, in milliseconds.
    pub batch_wait_ms: f64,
    /// The capacity of the fusion table as a share of all records; unbounded if missing.
    pub fusion: Option<f64>,
    /// The initial placement of records.
    #[serde(default)]
    pub placement: Initial,
    /// The addition of a site during the run, if any.
    pub scale_out: Option<ScaleOut>,
    /// True if results are plotted over time.
    #[serde(default)]
    pub over_time: bool,
    /// The claims of the paper.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
    /// The parameter that varies between points; a single point if missing.
    pub vary: Option<Vary>,
    /// A remark for the page: what was scaled down, and what limits the results.
    pub remark: Option<String>,
    /// The machines.
    pub cluster: Cluster,
    /// The workload of the clients.
    pub workload: WorkloadSpec,
}

/// The machines: one for each site, and one for the leader, which orders requests.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// The number of sites.
    pub sites: u16,
    /// The number of cores per machine.
    pub cores: u16,
    /// The factor by which a core is slower than that of the machine on which the costs were
    /// measured.
    pub slowdown: f64,
    /// The core time of a transaction's own code in microseconds, in addition to the engine's work.
    pub logic_us: f64,
    /// The latency between two machines, in microseconds.
    pub latency_us: u64,
    /// The bandwidth with which a machine sends, in megabits per second.
    pub bandwidth_mbit: u64,
    /// The duration of a sync of the order's log, in microseconds.
    pub sync_us: u64,
    /// The size of a record on a link, in bytes.
    pub record_bytes: u64,
}

/// The initial placement of records.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Initial {
    /// By range in equal parts, as with knowledge of the workload.
    #[default]
    Range,
    /// By a hash of each key.
    Hash,
    /// By range, but the first site gets the first seven of sixteen parts.
    Skewed,
}

/// The addition of a site, to which the first part of the first site's records moves.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScaleOut {
    /// The virtual time since the clients began, in seconds.
    pub at_s: f64,
    /// The number of keys in a chunk of cold records. Chunks move one after the other.
    pub chunk: u64,
    /// The pause between chunks in milliseconds.
    pub pause_ms: f64,
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
    /// The number of requests of a batch.
    Batch,
    /// The capacity of the fusion table as a share of all records.
    Fusion,
    /// Google: the mean number of records of a transaction.
    Length,
    /// TPC-C: the share of transactions at the warehouses of the first site.
    Hot,
}

/// A workload in an experiment file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadSpec {
    /// YCSB that follows the load of real machines (section 5.2.2).
    Google(GoogleSpec),
    /// New-Order and Payment of TPC-C (section 5.3.1).
    Tpcc(TpccSpec),
    /// Tenants with a moving hot spot or a hot tenant (sections 5.3.2, 5.4).
    Tenants(TenantsSpec),
}

/// YCSB that follows the load of real machines.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoogleSpec {
    /// The source of the load.
    pub load: Load,
    /// The number of records per site.
    pub keys_per_site: u64,
    /// The exponent of the Zipf distribution.
    pub theta: f64,
    /// The mean number of records of a transaction, and its standard deviation as a share of the
    /// mean. Two records if missing.
    pub length: Option<(f64, f64)>,
}

/// The source of the load of machines.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// Machines of a Google cluster: requested processor time.
    Google,
    /// Virtual machines of Azure: used processor time.
    Azure,
    /// Synthetic: each machine in turn has ten times the load of the others.
    Wandering,
}

/// New-Order and Payment of TPC-C.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TpccSpec {
    /// The number of warehouses per site.
    pub warehouses_per_site: u64,
    /// The share of transactions at the warehouses of the first site; uniform if missing.
    pub hot: Option<f64>,
}

/// Tenants, four per site.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantsSpec {
    /// The number of records per site.
    pub keys_per_site: u64,
    /// Seconds between moves of the hot spot to the next site. It gets 90 percent of the
    /// transactions.
    pub change_s: Option<f64>,
    /// The share of the first tenant, if that is hot instead.
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
    /// Parses an experiment.
    ///
    /// # Errors
    /// The problem and its position in words.
    pub fn read(text: &str) -> Result<Experiment, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// The experiments of this crate.
    pub fn all() -> Vec<Experiment> {
        let read = |(name, text): &(&str, &str)| {
            Experiment::read(text)
                .unwrap_or_else(|error| panic!("experiments/hermes/{name}.toml: {error}"))
        };
        FILES.iter().map(read).collect()
    }

    /// The points of the experiment, each with the value of the varied parameter.
    ///
    /// # Panics
    /// If the workload does not have the varied parameter.
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

    /// The same experiment with fewer sites, records, clients and seeds, so that it runs in less
    /// than a second. Its results mean little; it tests that the experiment runs and that no
    /// guarantee is violated.
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

    /// The name of the varied parameter.
    pub fn varied(&self) -> Option<String> {
        self.vary.as_ref().map(|vary| format!("{:?}", vary.what).to_lowercase())
    }
}
