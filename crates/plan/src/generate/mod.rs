//! Generated recordings: the workloads of the papers, from a seed.
//!
//! A [`Workload`] makes one transaction after the other; [`Generated`] turns it into a stream of
//! accesses at a steady rate. Definitions and parameters follow the papers and the public code of
//! their authors; where those differ, the published configuration is used.
//!
//! | workload | the question it puts to a planner | section |
//! | --- | --- | --- |
//! | [`Pps`] | shared parts: no tree fits, a few suppliers are hot | Clay 8.4 |
//! | [`Tpcc`] | three hot warehouses on one site; remote ones random or fixed | Clay 8.2, 8.3 |
//! | [`Twitter`] | a social graph: many loose communities | Clay 8.5 |
//! | [`Google`] | load that wanders over machines and keys | Hermes 5.2 |
//! | [`MultiTenant`] | one hot site at a time, moving on | Hermes 5.3.2 |

mod google;
mod multitenant;
mod pps;
mod tpcc;
mod twitter;
mod zipf;

pub use google::{Google, LoadTrace};
pub use multitenant::MultiTenant;
pub use pps::Pps;
pub use tpcc::{Remote, Tpcc};
pub use twitter::{FollowGraph, Twitter};
pub use zipf::Zipf;

use crate::recording::{Access, KeyRef, RecordingError, Source};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use thiserror::Error;

/// The source of randomness.
pub type Random = Xoshiro256PlusPlus;

/// A random generator with a seed.
pub fn random(seed: u64) -> Random {
    Random::seed_from_u64(seed)
}

/// A parameter that makes no workload.
#[derive(Clone, PartialEq, Debug, Error)]
#[error("{what} is {value}: {right} is needed")]
pub struct GenerateError {
    /// The name of the parameter.
    pub what: &'static str,
    /// Its value.
    pub value: f64,
    /// The right values.
    pub right: &'static str,
}

/// One access of a transaction in the making.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Touch {
    /// The index of the table in [`Workload::tables`].
    pub table: u8,
    /// The key.
    pub key: i64,
    /// True if it is written.
    pub write: bool,
}

/// Makes transactions.
pub trait Workload {
    /// The names of the tables.
    fn tables(&self) -> &'static [&'static str];

    /// Makes the transaction that runs `at_us` microseconds after the start. `touches` is empty at
    /// the call.
    fn transaction(&mut self, at_us: i64, random: &mut Random, touches: &mut Vec<Touch>);
}

/// A workload as a stream of accesses.
pub struct Generated<W> {
    workload: W,
    random: Random,
    transactions: u64,
    per_second: f64,
    made: u64,
    touches: Vec<Touch>,
    next: usize,
}

impl<W: Workload> Generated<W> {
    /// A stream of `transactions` transactions, evenly spread, `per_second` each second.
    pub fn new(
        workload: W,
        transactions: u64,
        per_second: f64,
        seed: u64,
    ) -> Result<Generated<W>, GenerateError> {
        if !(per_second.is_finite() && per_second > 0.0) {
            let (what, right) = ("transactions a second", "a finite rate above 0");
            return Err(GenerateError { what, value: per_second, right });
        }
        if transactions == 0 {
            return Err(GenerateError { what: "transactions", value: 0.0, right: "at least 1" });
        }
        let random = Random::seed_from_u64(seed);
        let (made, touches, next) = (0, Vec::new(), 0);
        Ok(Generated { workload, random, transactions, per_second, made, touches, next })
    }

    fn time_us(&self, transaction: u64) -> i64 {
        (transaction as f64 * 1e6 / self.per_second) as i64
    }
}

impl<W: Workload> Source for Generated<W> {
    fn next_access(&mut self) -> Result<Option<Access<'_>>, RecordingError> {
        while self.next == self.touches.len() {
            if self.made == self.transactions {
                return Ok(None);
            }
            self.touches.clear();
            self.next = 0;
            let at_us = self.time_us(self.made);
            self.workload.transaction(at_us, &mut self.random, &mut self.touches);
            self.made += 1;
        }
        let Touch { table, key, write } = self.touches[self.next];
        self.next += 1;
        Ok(Some(Access {
            time_us: self.time_us(self.made - 1),
            transaction: self.made,
            table: self.workload.tables().get(usize::from(table)).copied().unwrap_or("?"),
            key: KeyRef::Int(key),
            write,
        }))
    }
}

/// The most keys of a workload: their numbers stay far from the ends of an i64.
const KEYS_MAX: u64 = 1 << 40;

/// Refuses 0 and values above `most`.
fn sized(
    what: &'static str,
    value: u64,
    most: u64,
    right: &'static str,
) -> Result<(), GenerateError> {
    at_least_one(what, value)?;
    match value > most {
        true => Err(GenerateError { what, value: value as f64, right }),
        false => Ok(()),
    }
}

fn at_least_one(what: &'static str, value: u64) -> Result<(), GenerateError> {
    match value {
        0 => Err(GenerateError { what, value: 0.0, right: "at least 1" }),
        _ => Ok(()),
    }
}
