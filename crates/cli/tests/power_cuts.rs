//! Power cuts: a server restarts with all acknowledged transactions and no partial one, whichever
//! unsynced writes the disk loses.
//!
//! ```text
//!   isomer serve, with a shim before the C library ──▶ trace: writes, syncs, changes of names
//!        ▲ transfers, DDL, checkpoints                   │  cut at random places, half of them
//!        │                                               ▼  next to a change of names
//!   acknowledgements, each with the length         isomer serve, on the content that the
//!   of the trace at that time      ◀── compare ──  disk may have kept (disk.rs)
//! ```
//!
//! The recovery after a cut is traced as well, cut once more, and checked in the same way. The test
//! must also find faults with disks that do not store synced data; otherwise it would prove
//! nothing.
//!
//! `ISOMER_CUTS` is the number of cuts (4), `ISOMER_SEED` the seed of the cuts (1). The clients'
//! work does not repeat with a seed. The test needs a C compiler and Linux.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "clients are threads that work for a while")]

#[path = "histories/chance.rs"]
mod chance;
#[path = "power_cuts/clients.rs"]
mod clients;
#[path = "power_cuts/disk.rs"]
mod disk;
#[path = "power_cuts/server.rs"]
mod server;

use chance::Chance;
use clients::Known;
use disk::{Disk, Event, Keeps, Loss};
use server::Server;
use std::path::Path;
use tempfile::TempDir;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Indexes of the events to cut after, in order: half of them anywhere, half at a change of names.
fn places(events: &[(u64, Event)], count: usize, chance: &mut Chance) -> Vec<usize> {
    let mut any = || chance.below(events.len() as i64) as usize;
    let mut places: Vec<usize> = (0..count).map(|_| any()).collect();
    for place in places.iter_mut().step_by(2) {
        let next = (*place..events.len()).find(|at| events[*at].1.is_of_names());
        *place = next.unwrap_or(*place);
    }
    places.sort_unstable();
    places
}

struct Cuts<'a> {
    shim: &'a Path,
    known: &'a Known,
    chance: Chance,
}

impl Cuts<'_> {
    /// Applies the events to a disk, and cuts the power after `count` of them. Returns the faults
    /// of the databases that are left. A database must have what was acknowledged within the first
    /// `due` bytes of the first trace; without `due`, up to the cut.
    fn of(
        &mut self,
        disk: &mut Disk,
        events: Vec<(u64, Event)>,
        count: usize,
        due: Option<u64>,
    ) -> Vec<String> {
        let mut places = places(&events, count, &mut self.chance).into_iter().peekable();
        let mut wrong = Vec::new();
        for (at, (length, event)) in events.into_iter().enumerate() {
            disk.apply(event);
            while places.next_if_eq(&at).is_some() {
                let found = self.look(disk, due.unwrap_or(length), due.is_none());
                wrong.extend(
                    found.into_iter().map(|found| format!("cut behind event {at}: {found}")),
                );
            }
        }
        wrong
    }

    /// The faults of the database after a cut at this moment; if `cuts_again`, also after a cut of
    /// its recovery.
    fn look(&mut self, disk: &Disk, due: u64, cuts_again: bool) -> Vec<String> {
        let loss = (Loss::any(&mut self.chance), Loss::any(&mut self.chance));
        self.look_after(loss, disk, due, cuts_again)
    }

    /// Like [`Cuts::look`], for a cut with the given losses of names and of contents.
    fn look_after(
        &mut self,
        loss: (Loss, Loss),
        disk: &Disk,
        due: u64,
        cuts_again: bool,
    ) -> Vec<String> {
        let folder = TempDir::new().expect("a folder");
        let data = server::data(folder.path());
        let mut left = disk.after_cut(loss, &mut self.chance, &data);
        let server = match Server::start(&data, self.shim) {
            Ok(server) => server,
            Err(said) => return vec![format!("it does not start: {said}")],
        };
        let wrong = self.known.wrong(&mut server.client(), due);
        let events = server.end();
        match wrong {
            Some(wrong) => vec![wrong],
            None if cuts_again => self.of(&mut left, events, 1, Some(due)),
            None => Vec::new(),
        }
    }
}

#[test]
fn power_cuts_lose_nothing_that_was_acknowledged_unless_the_disk_lies() {
    let folder = TempDir::new().expect("a folder");
    let Some(shim) = server::shim(folder.path()) else { return };
    let data = server::data(folder.path());
    let server = Server::start(&data, &shim).expect("a new database");
    let known = Known::of_work(&server);
    let events = server.end();
    let (seed, count) = (setting("ISOMER_SEED", 1), setting("ISOMER_CUTS", 4) as usize);
    let mut cuts = Cuts { shim: &shim, known: &known, chance: Chance::new(seed, 0) };
    let wrong = cuts.of(&mut Disk::new(&data, Keeps::WhatItSays), events.clone(), count, None);
    assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    let end = events.last().expect("there have been some").0;
    for keeps in [Keeps::NoContents, Keeps::NoNames] {
        let mut disk = Disk::new(&data, keeps);
        events.iter().for_each(|(_, event)| disk.apply(event.clone()));
        let wrong = cuts.look_after((Loss::All, Loss::All), &disk, end, false);
        assert!(!wrong.is_empty(), "a disk with {keeps:?} must lose something");
    }
}
