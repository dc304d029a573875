//! A simulated disk that fails on demand, and whose crashes lose unsynced bytes.
//!
//! Every file has two contents: what a program reads back (`cache`) and what a power cut is certain
//! to leave (`stored`). Where they differ, a crash may leave either, in any order, sector by
//! sector, because a real disk may write at any time. Changes of names reach the disk in order, as
//! with a journal. After a failed sync the disk believes that nothing is left to store, as real
//! systems do: the next sync stores only bytes that were written again.

use crate::file::folder::{Folder, SegmentFile};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The unit that a power cut keeps or loses. Real sectors are larger; small ones tear more.
pub(super) const SECTOR_BYTES: usize = 32;

/// A disk with one folder. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Disk(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    names: Names,
    /// The names that a power cut is certain to leave, and the later changes, in order.
    names_stored: Names,
    name_changes: Vec<Names>,
    fault: Fault,
    /// Number of further calls that succeed before `fault` takes effect.
    spared: usize,
    /// Bytes written since the last sync of a file, and their maximum.
    unsynced: (usize, usize),
}

#[derive(Default, Clone)]
struct Contents {
    cache: Vec<u8>,
    stored: Vec<u8>,
    /// Bytes that a failed sync should have stored.
    given_up: BTreeSet<usize>,
}

type Names = BTreeMap<String, Arc<Mutex<Contents>>>;

impl Contents {
    /// A file all of which is stored.
    fn stored(bytes: Vec<u8>) -> Arc<Mutex<Contents>> {
        let stored = bytes.clone();
        Arc::new(Mutex::new(Contents { cache: bytes, stored, given_up: BTreeSet::new() }))
    }

    fn store(&mut self) {
        self.stored.resize(self.cache.len(), 0);
        for at in 0..self.cache.len() {
            if self.stored[at] != self.cache[at] && !self.given_up.contains(&at) {
                self.stored[at] = self.cache[at];
            }
        }
    }

    fn give_up(&mut self) {
        self.stored.resize(self.cache.len(), 0);
        let lost = (0..self.cache.len()).filter(|&at| self.stored[at] != self.cache[at]);
        self.given_up.extend(lost);
    }
}

/// Decides what a power cut leaves of a file, given its `cache` and `stored` contents.
pub(super) type Keep<'a> = dyn FnMut(&[u8], &[u8]) -> Vec<u8> + 'a;

/// The calls that the disk refuses.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Fault {
    #[default]
    None,
    /// Creating or enlarging a file.
    Full,
    /// Writes into files, with the error of a full disk.
    NoRoom,
    /// Writes into files.
    Write,
    /// Syncs of files.
    Sync,
    /// None; but a sync stores nothing.
    Lie,
    /// Removal of files.
    Remove,
    /// Reading.
    Read,
}

/// An open file.
struct OpenFile {
    disk: Disk,
    contents: Arc<Mutex<Contents>>,
}

impl Disk {
    pub(super) fn set_fault(&self, fault: Fault) {
        self.set_fault_after(0, fault);
    }

    /// Like [`Disk::set_fault`], after `spared` more calls that succeed.
    pub(super) fn set_fault_after(&self, spared: usize, fault: Fault) {
        let mut state = self.0.lock();
        (state.fault, state.spared) = (fault, spared);
    }

    /// The disk after the process died: everything written can be read, though not all is stored.
    pub(super) fn after_kill(&self) -> Disk {
        let state = self.0.lock();
        let mut copies: Vec<(*const Mutex<Contents>, Arc<Mutex<Contents>>)> = Vec::new();
        // A file stays one file under its present and its former names.
        let mut copy_names = |names: &Names| -> Names {
            let copy = |contents: &Arc<Mutex<Contents>>| {
                let known = copies.iter().find(|(of, _)| *of == Arc::as_ptr(contents));
                known.map(|(_, copy)| copy.clone()).unwrap_or_else(|| {
                    let copy = Arc::new(Mutex::new(contents.lock().clone()));
                    copies.push((Arc::as_ptr(contents), copy.clone()));
                    copy
                })
            };
            let mut copy = copy;
            names.iter().map(|(name, contents)| (name.clone(), copy(contents))).collect()
        };
        let names = copy_names(&state.names);
        let names_stored = copy_names(&state.names_stored);
        let name_changes = state.name_changes.iter().map(copy_names).collect();
        Disk(Arc::new(Mutex::new(State { names, names_stored, name_changes, ..State::default() })))
    }

    /// The disk after a power cut. `keep` decides what is left of each file, and the first
    /// `name_changes` changes of names survive.
    pub(super) fn after_crash(&self, keep: &mut Keep<'_>, name_changes: usize) -> Disk {
        let state = self.0.lock();
        let names = match state.name_changes.len().min(name_changes) {
            0 => &state.names_stored,
            count => &state.name_changes[count - 1],
        };
        let left = names.iter().map(|(name, contents)| {
            let contents = contents.lock();
            let bytes = keep(&contents.cache, &contents.stored);
            (name.clone(), Contents::stored(bytes))
        });
        let names: BTreeMap<_, _> = left.collect();
        let names_stored = names.clone();
        let state = State { names, names_stored, ..State::default() };
        Disk(Arc::new(Mutex::new(state)))
    }

    /// The number of unsynced changes of names.
    pub(super) fn name_changes(&self) -> usize {
        self.0.lock().name_changes.len()
    }

    /// All names with the bytes that can be read.
    pub(super) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.0.lock();
        let files = state.names.iter();
        files.map(|(name, contents)| (name.clone(), contents.lock().cache.clone())).collect()
    }

    /// Creates or replaces a file, stored at once.
    pub(super) fn put(&self, name: &str, bytes: Vec<u8>) {
        let contents = Contents::stored(bytes);
        let mut state = self.0.lock();
        state.names.insert(name.to_owned(), contents.clone());
        state.names_stored.insert(name.to_owned(), contents);
    }

    /// Removes a file.
    pub(super) fn take(&self, name: &str) {
        let mut state = self.0.lock();
        state.names.remove(name);
        state.names_stored.remove(name);
    }

    /// The maximum of bytes written between two syncs.
    pub(super) fn most_unsynced(&self) -> usize {
        self.0.lock().unsynced.1
    }

    fn count(&self, bytes: usize) {
        let (unsynced, most) = &mut self.0.lock().unsynced;
        *unsynced += bytes;
        *most = (*most).max(*unsynced);
    }

    fn check(&self, fault: Fault) -> io::Result<()> {
        let mut state = self.0.lock();
        match state.fault == fault {
            true if state.spared > 0 => {
                state.spared -= 1;
                Ok(())
            }
            true if matches!(fault, Fault::Full | Fault::NoRoom) => {
                Err(io::ErrorKind::StorageFull.into())
            }
            true => Err(io::Error::other("injected fault")),
            false => Ok(()),
        }
    }

    /// Changes the names, and records the change as unsynced.
    fn change<T>(&self, change: impl FnOnce(&mut Names) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.0.lock();
        let result = change(&mut state.names)?;
        let names = state.names.clone();
        state.name_changes.push(names);
        Ok(result)
    }
}

impl Folder for Disk {
    fn path(&self) -> &Path {
        Path::new("disk")
    }

    fn list(&self) -> io::Result<Vec<OsString>> {
        Ok(self.0.lock().names.keys().map(OsString::from).collect())
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Arc<dyn SegmentFile>> {
        self.check(Fault::Full)?;
        let contents = Contents { cache: vec![0; bytes as usize], ..Contents::default() };
        let contents = Arc::new(Mutex::new(contents));
        self.change(|names| {
            if names.contains_key(name) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            names.insert(name.to_owned(), contents.clone());
            Ok(())
        })?;
        Ok(Arc::new(OpenFile { disk: self.clone(), contents }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn SegmentFile>> {
        let contents = self.0.lock().names.get(name).cloned().ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(OpenFile { disk: self.clone(), contents }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.change(|names| {
            let contents = names.remove(from).ok_or(io::ErrorKind::NotFound)?;
            assert!(names.insert(to.to_owned(), contents).is_none(), "{to} was there");
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.check(Fault::Remove)?;
        self.change(|names| names.remove(name).map(drop).ok_or(io::ErrorKind::NotFound.into()))
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        if state.fault != Fault::Lie {
            state.names_stored = state.names.clone();
            state.name_changes.clear();
        }
        Ok(())
    }
}

impl SegmentFile for OpenFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.contents.lock().cache.len() as u64)
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        let mut contents = self.contents.lock();
        if (contents.cache.len() as u64) < bytes {
            self.disk.check(Fault::Full)?;
            contents.cache.resize(bytes as usize, 0);
        }
        Ok(())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.check(Fault::Read)?;
        let contents = self.contents.lock();
        let bytes = contents.cache.get(offset as usize..).unwrap_or(&[]);
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.check(Fault::Write)?;
        self.disk.check(Fault::NoRoom)?;
        self.disk.count(bytes.len());
        let mut contents = self.contents.lock();
        let end = offset as usize + bytes.len();
        if contents.cache.len() < end {
            contents.cache.resize(end, 0);
        }
        contents.cache[offset as usize..end].copy_from_slice(bytes);
        contents.given_up.retain(|at| !(offset as usize..end).contains(at));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let refused = self.disk.check(Fault::Sync);
        let lies = {
            let mut state = self.disk.0.lock();
            state.unsynced.0 = 0;
            state.fault == Fault::Lie
        };
        let mut contents = self.contents.lock();
        match refused {
            Ok(()) if lies => {}
            Ok(()) => contents.store(),
            Err(_) => contents.give_up(),
        }
        refused
    }
}
