//! Changes of the design while clients work: splits, merges, remasters, replicas that come and go.
//!
//! They are asked for in SQL, as an operator would. What to change is drawn from a seed; a change that the
//! design cannot take (a merge where nothing was split) is refused, and another is drawn.

use super::tpcc::told;
use crate::clock;
use crate::failure::Failure;
use isomer_workload::Random;
use postgres::Client;
use postgres::error::SqlState;
use rand::RngExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A table is split into so many parts at most.
const SPLITS_MAX: usize = 12;

/// How often a pause is looked at whether it still is one.
const LOOK: Duration = Duration::from_millis(20);

/// A table, and the range that the first column of its key has: from 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) table: &'static str,
    pub(super) keys: i32,
}

/// Changes the design of some tables again and again.
pub(super) struct Shaker {
    client: Client,
    rng: Random,
    targets: Vec<Target>,
    sites: u16,
    pause: Duration,
    splits: Vec<(&'static str, i32)>,
}

impl Shaker {
    /// One that begins a change every `pause`, or as soon as the one before has been made.
    pub(super) fn new(
        client: Client,
        rng: Random,
        targets: Vec<Target>,
        sites: u16,
        pause: Duration,
    ) -> Shaker {
        Shaker { client, rng, targets, sites, pause, splits: Vec::new() }
    }

    /// Makes changes until it is told to stop; returns how many.
    pub(super) fn shake_until(&mut self, stop: &AtomicBool) -> Result<u64, Failure> {
        let mut changes = 0;
        while !stop.load(Ordering::Relaxed) {
            let begun = clock::now();
            changes += u64::from(self.change()?);
            while begun.elapsed() < self.pause && !stop.load(Ordering::Relaxed) {
                clock::sleep(self.pause.min(LOOK));
            }
        }
        Ok(changes)
    }

    /// Makes one change; `false` if those that were drawn do not fit the design.
    fn change(&mut self) -> Result<bool, Failure> {
        for _ in 0..10 {
            let Target { table, keys } = self.targets[self.rng.random_range(0..self.targets.len())];
            let (key, site) =
                (self.rng.random_range(1..=keys), self.rng.random_range(1..=self.sites));
            let text = match self.rng.random_range(0..8) {
                0 | 1 if self.splits.len() < SPLITS_MAX * self.targets.len() => {
                    self.splits.push((table, key));
                    format!("ALTER TABLE {table} SPLIT AT ({key})")
                }
                2 | 3 if !self.splits.is_empty() => {
                    let at = self.rng.random_range(0..self.splits.len());
                    let (table, key) = self.splits.swap_remove(at);
                    format!("ALTER TABLE {table} MERGE AT ({key})")
                }
                4 => format!("ALTER TABLE {table} ADD REPLICA AT ({key}) ON SITE {site}"),
                5 => format!("ALTER TABLE {table} DROP REPLICA AT ({key}) ON SITE {site}"),
                _ => format!("ALTER TABLE {table} REMASTER AT ({key}) TO SITE {site}"),
            };
            match self.client.batch_execute(&text) {
                Ok(()) => return Ok(true),
                Err(error) if error.code() == Some(&SqlState::INVALID_PARAMETER_VALUE) => {}
                Err(error) => return Err(told(&text, &error)),
            }
        }
        Ok(false)
    }
}
