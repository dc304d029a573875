//! The result of a run: a line for a person, or a broken promise with the command to reproduce it.

use crate::options::SimOptions;
use std::fmt;

/// A run in which every promise was kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// The seed.
    pub seed: u64,
    /// Sites.
    pub sites: usize,
    /// Clients.
    pub clients: u64,
    /// Transactions that committed.
    pub committed: usize,
    /// Transactions that had no effect: rolled back, refused, duplicate keys.
    pub without_effect: usize,
    /// Transactions whose answer was lost.
    pub unknown: usize,
    /// Design changes that were made.
    pub changes: u64,
    /// The number of switches of a table to another layout.
    pub switches: u64,
    /// The number of restarts of the process that makes these switches.
    pub restarts: u64,
    /// Crashes of sites, or of nodes.
    pub crashes: u64,
    /// The number of sites that a node's process took from another process that was still running.
    pub taken: u64,
    /// Virtual time, in milliseconds.
    pub virtual_ms: u64,
    /// A hash of the whole trace; the same for the same seed and options.
    pub trace_hash: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {:4}  {} sites  {} clients  {:4} committed  {:3} without effect  {:2} unknown  \
             {:3} changes  {:2} crashes  {:5} ms  trace {:016x}",
            self.seed,
            self.sites,
            self.clients,
            self.committed,
            self.without_effect,
            self.unknown,
            self.changes,
            self.crashes,
            self.virtual_ms,
            self.trace_hash
        )?;
        if self.taken > 0 {
            write!(f, "  {} taken", self.taken)?;
        }
        match (self.switches, self.restarts) {
            (0, 0) => Ok(()),
            (switches, restarts) => write!(f, "  {switches} switches  {restarts} restarts"),
        }
    }
}

/// A promise that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The options of the run.
    pub options: SimOptions,
    /// The promise: a checker's name, `settles` or `no_panic`.
    pub checker: &'static str,
    /// The violation, in words.
    pub what: String,
    /// The end of the trace.
    pub lines: Vec<String>,
}

impl Failure {
    /// The command that reproduces it.
    pub fn command(&self) -> String {
        let SimOptions { steps, faults, plant, backups, serializable, .. } = self.options;
        let SimOptions { failover, reshard, cluster, ordered, .. } = self.options;
        let seed = self.seed;
        let plant = plant.map(|plant| format!(" --plant {plant}")).unwrap_or_default();
        let option = |is_on: bool, name: &'static str| if is_on { name } else { "" };
        let backups = option(backups, " --backups");
        let failover = option(failover, " --failover");
        let reshard = option(reshard, " --reshard");
        let cluster = option(cluster, " --cluster");
        let isolation = match ordered {
            true => " --isolation ordered",
            false => option(serializable, " --isolation serializable"),
        };
        format!(
            "isomer-lab sim --seeds {seed}..{seed} --steps {steps} --faults \
             {faults}{backups}{failover}{reshard}{cluster}{isolation}{plant}"
        )
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {:4}  FAILED {}: {}\n  {}",
            self.seed,
            self.checker,
            self.what,
            self.command()
        )
    }
}

impl std::error::Error for Failure {}
