//! The options of a run.

use crate::plant::Plant;
use std::fmt;
use std::str::FromStr;

/// The faults that a run may have. Each run draws which of them it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Faults {
    /// Sites crash and restart.
    pub crashes: bool,
    /// Messages between sites are delayed and duplicated.
    pub network: bool,
    /// Messages, requests and answers are lost while both sides run.
    pub loss: bool,
    /// Disks, links and requests stall.
    pub stalls: bool,
    /// Disks fail at a sync, and stay failed until their site restarts, much later.
    pub disks: bool,
}

impl Faults {
    /// All of them.
    pub const ALL: Faults =
        Faults { crashes: true, network: true, loss: true, stalls: true, disks: true };
    /// None of them.
    pub const NONE: Faults =
        Faults { crashes: false, network: false, loss: false, stalls: false, disks: false };
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Faults { crashes, network, loss, stalls, disks } = *self;
        let named = [
            ("crashes", crashes),
            ("network", network),
            ("loss", loss),
            ("stalls", stalls),
            ("disks", disks),
        ];
        let names: Vec<&str> = named.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect();
        f.write_str(&if names.is_empty() { "none".to_owned() } else { names.join(",") })
    }
}

impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Faults, String> {
        let mut faults = Faults::NONE;
        for name in text.split(',').filter(|name| !name.is_empty()) {
            match name {
                "all" => faults = Faults::ALL,
                "none" => faults = Faults::NONE,
                "crashes" => faults.crashes = true,
                "network" => faults.network = true,
                "loss" => faults.loss = true,
                "stalls" => faults.stalls = true,
                "disks" => faults.disks = true,
                _ => {
                    return Err(format!(
                        "`{name}` is no fault; there are: crashes, network, loss, stalls, disks, \
                         all, none"
                    ));
                }
            }
        }
        Ok(faults)
    }
}

/// The options of a run, beside its seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimOptions {
    /// The number of transactions.
    pub steps: u64,
    /// The possible faults.
    pub faults: Faults,
    /// Tables may have synchronous backups.
    pub backups: bool,
    /// Transactions that arrive statement by statement are all serializable. Otherwise each is at
    /// one of the other two levels.
    pub serializable: bool,
    /// Tables are ordered. Their rows may move between sites, and the process with the order may
    /// fail.
    pub ordered: bool,
    /// Tables have backups, the design does not change, and other sites take over from sites that
    /// stay down.
    pub failover: bool,
    /// There is a table whose layout changes again and again, as under ALTER TABLE .. SHARD BY.
    pub reshard: bool,
    /// Sites are at nodes, whose logs are in Kafka; nodes take sites from each other.
    pub cluster: bool,
    /// A bug to plant at a border of the world.
    pub plant: Option<Plant>,
    /// The number of last lines of its trace that a failure shows.
    pub lines: usize,
}

impl Default for SimOptions {
    fn default() -> SimOptions {
        let (steps, lines) = (250, 400);
        let (faults, backups, serializable, plant) = (Faults::ALL, false, false, None);
        let (failover, reshard, cluster, ordered) = (false, false, false, false);
        SimOptions {
            steps,
            faults,
            backups,
            serializable,
            ordered,
            failover,
            reshard,
            cluster,
            plant,
            lines,
        }
    }
}
