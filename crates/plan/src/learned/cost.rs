//! What operations cost: five learned functions, and which of them each operation takes
//! (MorphoSys, section 5.2 and Table 1).
//!
//! | function | inputs | transaction | remaster | split | merge | add_replica | remove_replica |
//! | --- | --- | --- | --- | --- | --- | --- | --- |
//! | service | load of the site | x | x | x | x | x | x |
//! | wait for updates | versions behind, share of the site's updates | if it reads | x | | | | |
//! | lock | share of writes to what is locked | if it writes | x | x | x | | |
//! | read and write | rows read, rows written | x | | | | x | |
//! | commit | partitions read, written | x | x | x | x | | |
//!
//! A sixth function gives the load of a site from its reads, writes and refreshes, so that the load
//! under a design that does not exist yet can be foretold.
//!
//! Each function learns from the part of an operation's time that was measured for it: where time was
//! spent is observed, not guessed. All times are in microseconds.

use super::linear::{Feature, Linear};

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Operation {
    /// A transaction.
    Transaction,
    /// The right to write goes to another site.
    Remaster,
    /// One partition becomes two.
    Split,
    /// Two partitions become one.
    Merge,
    /// Another site gets a copy.
    AddReplica,
    /// A copy goes.
    RemoveReplica,
}

/// What an operation has to do; the inputs of the cost functions.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Work {
    /// The load of the site: 0 idle, 1 busy. Of several sites, the sum.
    pub load: f64,
    /// How many versions the copy to be read, or to become the master, is behind.
    pub behind: f64,
    /// Which share of the updates that the site applies is for that copy (the paper's Equation 2).
    pub update_share: f64,
    /// The share of all accesses that write to what is locked: the paper's contention.
    pub contention: f64,
    /// Rows read and written.
    pub rows: [f64; 2],
    /// Partitions read and written.
    pub partitions: [f64; 2],
}

/// Where the time of an operation goes, in microseconds; `None` for what it does not do, or what was
/// not measured.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Parts {
    /// From the router to the site and back, and until a thread took it.
    pub service: Option<f64>,
    /// For the copy to be up to date.
    pub wait: Option<f64>,
    /// For locks.
    pub lock: Option<f64>,
    /// Rows.
    pub read_write: Option<f64>,
    /// Log, versions, locks given back.
    pub commit: Option<f64>,
}

impl Parts {
    /// All of it.
    pub fn total(&self) -> f64 {
        [self.service, self.wait, self.lock, self.read_write, self.commit].iter().flatten().sum()
    }
}

/// See the [module documentation](self).
#[derive(Clone, PartialEq, Debug)]
pub struct Costs {
    service: Linear,
    wait: Linear,
    lock: Linear,
    read_write: Linear,
    commit: Linear,
    load: Linear,
}

const fn feature(name: &'static str, scale: f64, cap: f64) -> Feature {
    Feature { name, scale, cap }
}

const SERVICE: &[Feature] = &[feature("load", 1.0, 10.0)];
const WAIT: &[Feature] = &[feature("versions behind", 5000.0, 10.0), feature("share", 1.0, 1.0)];
const LOCK: &[Feature] = &[feature("share of writes", 0.1, 10.0)];
const READ_WRITE: &[Feature] =
    &[feature("rows read", 1000.0, 1000.0), feature("rows written", 100.0, 1000.0)];
const COMMIT: &[Feature] =
    &[feature("partitions read", 10.0, 10.0), feature("partitions written", 10.0, 10.0)];
const LOAD: &[Feature] = &[
    feature("reads per second", 100_000.0, 100.0),
    feature("writes per second", 100_000.0, 100.0),
    feature("refreshes per second", 100_000.0, 100.0),
];

impl Default for Costs {
    /// First guesses of the right size: an idle site, microseconds; copying rows, a microsecond each.
    fn default() -> Costs {
        Costs {
            service: Linear::new(SERVICE, &[20.0, 20.0]),
            wait: Linear::new(WAIT, &[100.0, 1000.0, 0.0]),
            lock: Linear::new(LOCK, &[1.0, 10.0]),
            read_write: Linear::new(READ_WRITE, &[1.0, 500.0, 100.0]),
            commit: Linear::new(COMMIT, &[2.0, 1.0, 5.0]),
            load: Linear::new(LOAD, &[0.0, 0.3, 0.6, 0.3]),
        }
    }
}

impl Costs {
    /// What an operation will take, part by part.
    pub fn predict(&self, operation: Operation, work: &Work) -> Parts {
        use Operation::{AddReplica, Merge, Remaster, RemoveReplica, Split, Transaction};
        let transaction = operation == Transaction;
        let reads = !transaction || work.rows[0] > 0.0;
        let writes = !transaction || work.rows[1] > 0.0;
        let takes = |operations: &[Operation]| operations.contains(&operation);
        let value = |function: &Linear, inputs: &[f64], taken: bool| {
            taken.then(|| function.predict(inputs))
        };
        let wait = takes(&[Transaction, Remaster]) && reads;
        let lock = takes(&[Transaction, Remaster, Split, Merge]) && writes;
        let commit = !takes(&[AddReplica, RemoveReplica]);
        Parts {
            service: value(&self.service, &[work.load], true),
            wait: value(&self.wait, &[work.behind, work.update_share], wait),
            lock: value(&self.lock, &[work.contention], lock),
            read_write: value(&self.read_write, &work.rows, takes(&[Transaction, AddReplica])),
            commit: value(&self.commit, &work.partitions, commit),
        }
    }

    /// Learns where the time of an operation went.
    pub fn learn(&mut self, work: &Work, took: &Parts) {
        let learn = |function: &mut Linear, inputs: &[f64], took: Option<f64>| {
            took.into_iter().for_each(|took| function.learn(inputs, took));
        };
        learn(&mut self.service, &[work.load], took.service);
        learn(&mut self.wait, &[work.behind, work.update_share], took.wait);
        learn(&mut self.lock, &[work.contention], took.lock);
        learn(&mut self.read_write, &work.rows, took.read_write);
        learn(&mut self.commit, &work.partitions, took.commit);
    }

    /// The load of a site that serves so many reads, writes and refreshes a second.
    pub fn load(&self, reads: f64, writes: f64, refreshes: f64) -> f64 {
        self.load.predict(&[reads, writes, refreshes])
    }

    /// Learns the load that a site had.
    pub fn learn_load(&mut self, reads: f64, writes: f64, refreshes: f64, load: f64) {
        self.load.learn(&[reads, writes, refreshes], load);
    }

    /// The functions by name, to be shown.
    pub fn functions(&self) -> [(&'static str, &Linear); 6] {
        [
            ("service", &self.service),
            ("wait for updates", &self.wait),
            ("lock", &self.lock),
            ("read and write", &self.read_write),
            ("commit", &self.commit),
            ("load", &self.load),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORK: Work = Work {
        load: 0.5,
        behind: 100.0,
        update_share: 0.1,
        contention: 0.05,
        rows: [10.0, 3.0],
        partitions: [2.0, 3.0],
    };

    /// Table 1, read back: which parts an operation has.
    #[test]
    fn operations_take_the_functions_of_table_1() {
        let costs = Costs::default();
        let parts = |operation, work: &Work| {
            let Parts { service, wait, lock, read_write, commit } = costs.predict(operation, work);
            let taken = [service, wait, lock, read_write, commit];
            taken.iter().map(|part| if part.is_some() { 'x' } else { '.' }).collect::<String>()
        };
        assert_eq!(parts(Operation::Transaction, &WORK), "xxxxx");
        assert_eq!(parts(Operation::Transaction, &Work { rows: [0.0, 3.0], ..WORK }), "x.xxx");
        assert_eq!(parts(Operation::Transaction, &Work { rows: [9.0, 0.0], ..WORK }), "xx.xx");
        assert_eq!(parts(Operation::Remaster, &WORK), "xxx.x");
        assert_eq!(parts(Operation::Split, &WORK), "x.x.x");
        assert_eq!(parts(Operation::Merge, &WORK), "x.x.x");
        assert_eq!(parts(Operation::AddReplica, &WORK), "x..x.");
        assert_eq!(parts(Operation::RemoveReplica, &WORK), "x....");
    }

    #[test]
    fn predictions_move_towards_what_was_observed_and_only_where_it_was() {
        let mut costs = Costs::default();
        let before = costs.predict(Operation::Transaction, &WORK);
        for _ in 0..50 {
            costs.learn(&WORK, &Parts { lock: Some(400.0), ..Parts::default() });
        }
        let after = costs.predict(Operation::Transaction, &WORK);
        assert!((after.lock.unwrap() - 400.0).abs() < 1.0, "{after:?}");
        assert_eq!(Parts { lock: None, ..after }, Parts { lock: None, ..before });
        assert!(after.total() > before.total());
    }

    #[test]
    fn a_busier_site_is_a_slower_one() {
        let mut costs = Costs::default();
        for load in [0.1, 0.3, 0.5, 0.7, 0.9].repeat(20) {
            let work = Work { load, ..WORK };
            costs.learn(&work, &Parts { service: Some(30.0 + 100.0 * load), ..Parts::default() });
        }
        let at = |load| costs.predict(Operation::Split, &Work { load, ..WORK }).service.unwrap();
        assert!((at(0.2) - 50.0).abs() < 2.0 && (at(0.8) - 110.0).abs() < 2.0);
    }
}
