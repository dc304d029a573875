//! The costs of transactions and of changes of the design: learned functions of their work
//! (MorphoSys, section 5.2 and Table 1).
//!
//! | function | inputs | of a transaction |
//! | --- | --- | --- |
//! | service | load of the site | always |
//! | wait for updates | share of transactions that write to partitions read as copies | if any |
//! | lock | queue for its locks | if it writes |
//! | read and write | rows read, rows written | always |
//! | commit | partitions read, written | always |
//! | over several sites | sites, queue for its locks | instead of all these |
//! | split, merge | load of the site, remaining time of the lock holder | |
//! | remaster | load of both sites, remaining time of the lock holder | |
//! | add_replica | load of both sites, rows | |
//! | remove_replica | load of the site | |
//! | load | rows read, written, refreshed; transactions there; parts of distributed ones | |
//!
//! The time of a transaction is measured at its site, part by part, so each part trains its own
//! function. The paper adds up the same five functions for changes too. But a remaster, which
//! crosses two sites and waits for two logs, has other parts than a transaction, and shared weights
//! would distort both. A change is therefore learned as a whole, from the inputs that Table 1 gives
//! it. So is a distributed transaction, which the paper's system does not have.
//!
//! **Locks.** The paper's contention is the share of accesses that write to a partition. Waiting
//! time is not proportional to that. A lock that is held for a tenth of the time causes hardly any
//! wait; a lock that is held nearly always stops all writers. So the input is the waiting time of
//! an M/M/1 queue ([`queue`]). If each writer holds the lock for *h*, and the lock is held for the
//! share *u* of all time, it is `h·u/(1 − u)`. A change overtakes all waiters and waits for the
//! present holder only, `h·u`. Both are times already; the function learns their error.
//!
//! **Updates.** The paper's Equation 2 estimates the number of versions that a copy lacks. The
//! input here is simpler: the share of all sampled transactions that write to the partition, and of
//! several partitions the largest share. The function is trained with measured waits.
//!
//! **Load.** The last function predicts the utilisation of a site under a design that does not
//! exist yet. It passes through zero: a site without work is idle. With a constant, inexact rates
//! (they are counted from samples) would attribute much of the load to the constant, and little to
//! work.
//!
//! All times are in microseconds.

use super::linear::{Feature, Linear};
use super::score::Score;
use super::traffic::Rates;
use super::tuning::Tuning;
use isomer_design::Change;
use serde::{Deserialize, Serialize};

/// The work of a transaction: the inputs of its cost functions.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Work {
    /// The load of the site: 0 idle, 1 busy.
    pub load: f64,
    /// The share of all transactions that write to a partition of which it reads a copy; of several
    /// partitions, the largest share. It replaces the paper's Equation 2.
    pub updates: f64,
    /// The expected queue for its locks, in microseconds.
    pub queue_us: f64,
    /// Rows read and written.
    pub rows: [f64; 2],
    /// Partitions read and written.
    pub partitions: [f64; 2],
}

/// The work of a change.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Effort {
    /// The load of the site; for two sites, the sum.
    pub load: f64,
    /// The remaining time of the lock holder, in microseconds.
    pub holder_us: f64,
    /// Rows copied.
    pub rows: f64,
}

/// The parts of a transaction's time, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Parts {
    /// The network between router and site, and the queue for a thread.
    pub service: f64,
    /// The wait for replicas to be up to date.
    pub wait: f64,
    /// The wait for locks.
    pub lock: f64,
    /// Reading and writing rows.
    pub read_write: f64,
    /// Log, versions, release of locks.
    pub commit: f64,
}

impl Parts {
    /// The sum of all parts.
    pub fn total(&self) -> f64 {
        self.service + self.at_site()
    }

    /// All parts without the service.
    pub fn at_site(&self) -> f64 {
        self.wait + self.lock + self.read_write + self.commit
    }
}

/// The functions, in the order in which they are stored.
#[derive(Clone, Copy, Debug)]
enum Function {
    Service,
    Wait,
    Lock,
    ReadWrite,
    Commit,
    Across,
    Split,
    Merge,
    Remaster,
    AddReplica,
    RemoveReplica,
    Load,
}

/// Per function: its name, its inputs with their scales, and a first guess of the right magnitude,
/// in microseconds. The guesses are for an idle site, a network within a building, and a
/// microsecond per copied row.
fn functions() -> [(&'static str, &'static [Feature], &'static [f64]); 12] {
    [
        ("service", &[("load", 1.0)], &[50.0, 200.0]),
        ("wait for updates", &[("share of updates", 0.1)], &[0.0, 100.0]),
        ("lock", &[("queue, µs", 1e3)], &[1.0, 1e3]),
        ("read and write", &[("rows read", 1e3), ("rows written", 100.0)], &[1.0, 500.0, 100.0]),
        ("commit", &[("partitions read", 10.0), ("partitions written", 10.0)], &[2.0, 1.0, 5.0]),
        ("over several sites", &[("sites", 10.0), ("queue, µs", 1e3)], &[200.0, 1e3, 1e3]),
        ("split", &[("load", 1.0), ("holder, µs", 1e3)], &[100.0, 100.0, 1e3]),
        ("merge", &[("load", 1.0), ("holder, µs", 1e3)], &[100.0, 100.0, 1e3]),
        ("remaster", &[("load", 1.0), ("holder, µs", 1e3)], &[500.0, 200.0, 1e3]),
        ("add_replica", &[("load", 1.0), ("rows", 1e3)], &[500.0, 200.0, 1e3]),
        ("remove_replica", &[("load", 1.0)], &[200.0, 100.0]),
        (
            "load",
            &[
                ("reads per second", 1e5),
                ("writes per second", 1e5),
                ("refreshes per second", 1e5),
                ("transactions per second", 1e4),
                ("parts of transactions over several sites per second", 1e4),
            ],
            &[0.3, 0.6, 0.3, 0.02, 0.1],
        ),
    ]
}

/// The mean queue length at a resource that is in use for a share of the time. Near saturation,
/// where the queue would have no bound, it grows linearly.
pub(crate) fn queue(used: f64) -> f64 {
    used / (1.0 - used.min(Tuning::NEARLY_FULL))
}

/// See the [module documentation](self).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Costs {
    functions: [Linear; 12],
    /// The accuracy of the sum of the parts for transactions at one site.
    whole: Score,
}

impl Default for Costs {
    fn default() -> Costs {
        let functions = functions().map(|(_, features, guess)| Linear::new(features, guess));
        Costs { functions, whole: Score::default() }
    }
}

/// The function of a change, and its inputs. Adding and removing sites has no learned cost.
fn of_change(change: &Change, effort: &Effort) -> Option<(Function, Vec<f64>)> {
    let Effort { load, holder_us, rows } = *effort;
    Some(match change {
        Change::Split { .. } => (Function::Split, vec![load, holder_us]),
        Change::Merge { .. } => (Function::Merge, vec![load, holder_us]),
        Change::Remaster { .. } => (Function::Remaster, vec![load, holder_us]),
        Change::AddReplica { .. } => (Function::AddReplica, vec![load, rows]),
        Change::RemoveReplica { .. } => (Function::RemoveReplica, vec![load]),
        Change::AddSite { .. } | Change::RemoveSite { .. } => return None,
    })
}

impl Costs {
    /// New costs that continue with learned costs that were saved and loaded.
    #[must_use]
    pub fn resumed(learned: Costs) -> Costs {
        let mut written = learned.functions.into_iter();
        let next = |new: Linear| new.resumed(written.next().expect("there are as many"));
        Costs { functions: Costs::default().functions.map(next), whole: learned.whole }
    }

    fn predict(&self, function: Function, inputs: &[f64]) -> f64 {
        self.functions[function as usize].predict(inputs)
    }

    fn learn(&mut self, function: Function, inputs: &[f64], came: f64) {
        self.functions[function as usize].learn(inputs, came);
    }

    /// The predicted parts of a transaction's time.
    pub fn transaction(&self, work: &Work) -> Parts {
        let if_some = |amount: f64, cost: f64| if amount > 0.0 { cost } else { 0.0 };
        let wait = self.predict(Function::Wait, &[work.updates]);
        let lock = self.predict(Function::Lock, &[work.queue_us]);
        Parts {
            service: self.service(work.load),
            wait: if_some(work.updates, wait),
            lock: if_some(work.rows[1] + work.partitions[1], lock),
            read_write: self.predict(Function::ReadWrite, &work.rows),
            commit: self.predict(Function::Commit, &work.partitions),
        }
    }

    /// The predicted time of a transaction that commits over `sites` sites, in all.
    pub fn across(&self, work: &Work, sites: usize) -> f64 {
        self.predict(Function::Across, &[sites as f64, work.queue_us])
    }

    /// Learns the time of a distributed transaction.
    pub fn learn_across(&mut self, work: &Work, sites: usize, took_us: f64) {
        self.learn(Function::Across, &[sites as f64, work.queue_us], took_us);
    }

    /// The predicted time to reach a site of this load and be served.
    pub fn service(&self, load: f64) -> f64 {
        self.predict(Function::Service, &[load])
    }

    /// The predicted time of a change.
    pub fn change(&self, change: &Change, effort: &Effort) -> f64 {
        of_change(change, effort).map_or(0.0, |(function, inputs)| self.predict(function, &inputs))
    }

    /// Learns the parts of a transaction's time.
    pub fn learn_transaction(&mut self, work: &Work, took: &Parts) {
        self.whole.keep(took.total(), took.total() - self.transaction(work).total());
        self.learn(Function::Service, &[work.load], took.service);
        if work.updates > 0.0 {
            self.learn(Function::Wait, &[work.updates], took.wait);
        }
        if work.rows[1] + work.partitions[1] > 0.0 {
            self.learn(Function::Lock, &[work.queue_us], took.lock);
        }
        self.learn(Function::ReadWrite, &work.rows, took.read_write);
        self.learn(Function::Commit, &work.partitions, took.commit);
    }

    /// Learns the time of a change.
    pub fn learn_change(&mut self, change: &Change, effort: &Effort, took_us: f64) {
        if let Some((function, inputs)) = of_change(change, effort) {
            self.learn(function, &inputs, took_us);
        }
    }

    /// The predicted load of a site with these rates.
    pub fn load(&self, rates: Rates) -> f64 {
        self.predict(Function::Load, &rates)
    }

    /// Learns the measured load of a site.
    pub fn learn_load(&mut self, rates: Rates, load: f64) {
        self.learn(Function::Load, &rates, load);
    }

    /// The accuracy of predictions for transactions at one site, as the sum of their parts.
    pub fn whole(&self) -> &Score {
        &self.whole
    }

    /// The functions by name, for display.
    pub fn functions(&self) -> [(&'static str, &Linear); 12] {
        let names = functions().map(|(name, ..)| name);
        std::array::from_fn(|at| (names[at], &self.functions[at]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_design::{Key, TableId};

    const WORK: Work = Work {
        load: 0.5,
        updates: 0.01,
        queue_us: 50.0,
        rows: [10.0, 3.0],
        partitions: [2.0, 3.0],
    };

    /// Table 1, read back: the parts of each kind of transaction.
    #[test]
    fn transactions_take_the_functions_of_table_1() {
        let costs = Costs::default();
        let taken = |work: &Work| {
            let Parts { service, wait, lock, read_write, commit } = costs.transaction(work);
            let parts = [service, wait, lock, read_write, commit];
            parts.map(|part| if part > 0.0 { 'x' } else { '.' }).iter().collect::<String>()
        };
        assert_eq!(taken(&WORK), "xxxxx");
        assert_eq!(taken(&Work { updates: 0.0, ..WORK }), "x.xxx");
        let reading = Work { rows: [9.0, 0.0], partitions: [2.0, 0.0], ..WORK };
        assert_eq!(taken(&reading), "xx.xx");
    }

    #[test]
    fn predictions_move_towards_observations_and_only_there() {
        let mut costs = Costs::default();
        let before = costs.transaction(&WORK);
        (0..50).for_each(|_| costs.learn_transaction(&WORK, &Parts { lock: 400.0, ..before }));
        let after = costs.transaction(&WORK);
        assert!((after.lock - 400.0).abs() < 1.0, "{after:?}");
        let others = Parts { lock: before.lock, ..after };
        assert!((others.total() - before.total()).abs() < 1e-6, "{before:?} {after:?}");
    }

    #[test]
    fn each_change_is_learned_by_itself() {
        let mut costs = Costs::default();
        let (table, at) = (TableId(1), Key::int(5));
        let split = Change::Split { table, at: at.clone() };
        let merge = Change::Merge { table, at };
        let effort = Effort { load: 0.3, holder_us: 100.0, rows: 0.0 };
        let merging = costs.change(&merge, &effort);
        (0..50).for_each(|_| costs.learn_change(&split, &effort, 7000.0));
        assert!((costs.change(&split, &effort) - 7000.0).abs() < 10.0);
        assert_eq!(costs.change(&merge, &effort), merging);
    }
}
