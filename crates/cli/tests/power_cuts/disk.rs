//! A model of a disk: it gets the file operations of a process, and yields a content that a power
//! cut may leave.
//!
//! ```text
//!   events   W log@0  B1  W log@512  S1  C new  W new@0  R new → old     B: a sync begins
//!                                     │          │                       S: it has ended
//!            a cut here keeps the log as it was at B1; the sector at 512 may be lost
//!                                                │
//!            after a cut here `new` may exist or not; if it does, with any of its sectors
//! ```
//!
//! Each unsynced sector is kept or lost by itself. Changes of names reach the disk in order, as in
//! a journal, and at the latest when a folder is synced. A sync of a file does not cover its name.

use crate::chance::Chance;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const SECTOR: u64 = 512;

type Sector = [u8; SECTOR as usize];
const ZEROS: Sector = [0; SECTOR as usize];

/// A file operation of a process.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Create {
        inode: u64,
        path: PathBuf,
    },
    Folder {
        path: PathBuf,
    },
    Write {
        inode: u64,
        size: u64,
        offset: u64,
        bytes: Vec<u8>,
    },
    Truncate {
        inode: u64,
        size: u64,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Remove {
        path: PathBuf,
    },
    SyncBegins {
        inode: u64,
        size: u64,
        number: u64,
    },
    /// A sync of a folder.
    NamesSyncBegin {
        number: u64,
    },
    SyncEnds {
        number: u64,
    },
}

impl Event {
    /// True if it changes the names of files or folders.
    pub(crate) fn is_of_names(&self) -> bool {
        use Event::{Create, Folder, Remove, Rename};
        matches!(self, Create { .. } | Folder { .. } | Rename { .. } | Remove { .. })
    }
}

/// Reads the next event of a trace, and its length in bytes; `None` at the end of the trace.
pub(crate) fn read(trace: &[u8]) -> Option<(Event, usize)> {
    const HEADER: usize = 48;
    let number =
        |at: usize| Some(u64::from_le_bytes(trace.get(8 * at..8 * at + 8)?.try_into().ok()?));
    let (inode, size, offset, what) = (number(0)?, number(1)?, number(2)?, number(5)?);
    let (first, second) = (number(3)? as usize, number(4)? as usize);
    let (first, second) = (HEADER..HEADER + first, HEADER + first..HEADER + first + second);
    let end = second.end;
    let (first, second) = (trace.get(first)?, trace.get(second)?);
    let path = |bytes: &[u8]| PathBuf::from(String::from_utf8_lossy(bytes).into_owned());
    let event = match what as u8 {
        b'C' => Event::Create { inode, path: path(first) },
        b'M' => Event::Folder { path: path(first) },
        b'W' => Event::Write { inode, size, offset, bytes: first.to_vec() },
        b'Z' => {
            let count = usize::from_le_bytes(first.try_into().ok()?);
            Event::Write { inode, size, offset, bytes: vec![0; count] }
        }
        b'T' => Event::Truncate { inode, size },
        b'R' => Event::Rename { from: path(first), to: path(second) },
        b'U' => Event::Remove { path: path(first) },
        b'B' => Event::SyncBegins { inode, size, number: offset },
        b'D' => Event::NamesSyncBegin { number: offset },
        b'S' => Event::SyncEnds { number: offset },
        other => panic!("an event of an unknown kind: {other}"),
    };
    Some((event, end))
}

/// A file: the content that processes read, and the content that a power cut leaves at least.
#[derive(Clone, Default)]
struct File {
    cached: BTreeMap<u64, Sector>,
    stored: BTreeMap<u64, Sector>,
    /// Sectors in which the two may differ, each with the number of its last write.
    dirty: BTreeMap<u64, u64>,
    writes: u64,
    size: u64,
    stored_size: u64,
}

impl File {
    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            let place = offset + at as u64;
            let (sector, within) = (place / SECTOR, (place % SECTOR) as usize);
            let count = (SECTOR as usize - within).min(bytes.len() - at);
            let piece = &bytes[at..at + count];
            at += count;
            if piece.iter().all(|byte| *byte == 0) && !self.cached.contains_key(&sector) {
                continue;
            }
            self.cached.entry(sector).or_insert(ZEROS)[within..within + count]
                .copy_from_slice(piece);
            self.mark(sector);
        }
    }

    fn mark(&mut self, sector: u64) {
        self.writes += 1;
        self.dirty.insert(sector, self.writes);
    }

    fn truncate(&mut self, size: u64) {
        let gone: Vec<u64> =
            self.cached.range(size.div_ceil(SECTOR)..).map(|(at, _)| *at).collect();
        for sector in gone {
            self.cached.remove(&sector);
            self.mark(sector);
        }
        if let Some(last) = self.cached.get_mut(&(size / SECTOR)) {
            last[(size % SECTOR) as usize..].fill(0);
            self.mark(size / SECTOR);
        }
        self.size = size;
    }

    /// Makes a sector durable with this content.
    fn store(&mut self, sector: u64, content: Option<Sector>) {
        match content {
            Some(content) => drop(self.stored.insert(sector, content)),
            None => drop(self.stored.remove(&sector)),
        }
    }

    /// The file after a power cut; `keep` decides for each unsynced sector.
    fn after_cut(&self, keep: &mut impl FnMut() -> bool) -> File {
        let mut left = File { stored: self.stored.clone(), ..File::default() };
        left.size = if keep() { self.size } else { self.stored_size };
        for sector in self.dirty.keys().filter(|_| keep()) {
            left.store(*sector, self.cached.get(sector).copied());
        }
        left.stored_size = left.size;
        left.cached = left.stored.clone();
        left
    }
}

#[derive(Clone, PartialEq)]
enum Node {
    Folder,
    /// Index in [`Disk::files`].
    File(usize),
}

#[derive(Clone)]
enum Change {
    Add(PathBuf, Node),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

#[derive(Clone, Default)]
struct Names(BTreeMap<PathBuf, Node>);

impl Names {
    fn apply(&mut self, change: Change) {
        match change {
            Change::Add(path, node) => drop(self.0.insert(path, node)),
            Change::Remove(path) => drop(self.0.remove(&path)),
            Change::Rename(from, to) => {
                let moved: Vec<PathBuf> =
                    self.0.keys().filter(|path| path.starts_with(&from)).cloned().collect();
                for path in moved {
                    let node = self.0.remove(&path).expect("it was found");
                    let rest = path.strip_prefix(&from).expect("it begins so");
                    let to = if rest.as_os_str().is_empty() { to.clone() } else { to.join(rest) };
                    self.0.insert(to, node);
                }
            }
        }
    }
}

/// The state at the begin of a sync.
enum Begun {
    /// The unsynced sectors of a file, each with the number of its last write and its content.
    File { at: usize, sectors: Vec<(u64, u64, Option<Sector>)>, size: u64 },
    /// The number of changes of names made so far.
    Names(u64),
}

/// The unsynced state that a power cut loses.
#[derive(Clone, Copy)]
pub(crate) enum Loss {
    All,
    /// Each sector with probability 1/2; the changes of names after a random one.
    Some,
    Nothing,
}

impl Loss {
    pub(crate) fn any(chance: &mut Chance) -> Loss {
        [Loss::All, Loss::Some, Loss::Nothing][chance.below(3) as usize]
    }
}

/// The synced state that the disk really stores.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keeps {
    WhatItSays,
    NoContents,
    NoNames,
}

/// See the [module documentation](self).
pub(crate) struct Disk {
    /// The folder of all files.
    root: PathBuf,
    keeps: Keeps,
    files: Vec<File>,
    /// Inode numbers are reused, so this has the newest file of each.
    inodes: HashMap<u64, usize>,
    stored: Names,
    /// Changes that may be lost, in order; earlier ones are stored.
    changes: VecDeque<Change>,
    changes_stored: u64,
    syncs: HashMap<u64, Begun>,
}

impl Disk {
    /// A disk with an empty folder.
    pub(crate) fn new(root: &Path, keeps: Keeps) -> Disk {
        Disk {
            root: root.to_owned(),
            keeps,
            files: Vec::new(),
            inodes: HashMap::new(),
            stored: Names::default(),
            changes: VecDeque::new(),
            changes_stored: 0,
            syncs: HashMap::new(),
        }
    }

    pub(crate) fn apply(&mut self, event: Event) {
        match event {
            Event::Create { inode, path } => {
                self.inodes.insert(inode, self.files.len());
                self.changes.push_back(Change::Add(path, Node::File(self.files.len())));
                self.files.push(File::default());
            }
            Event::Folder { path } => self.changes.push_back(Change::Add(path, Node::Folder)),
            Event::Rename { from, to } => self.changes.push_back(Change::Rename(from, to)),
            Event::Remove { path } => self.changes.push_back(Change::Remove(path)),
            Event::Write { inode, size, offset, bytes } => {
                let file = self.file(inode);
                file.write(offset, &bytes);
                file.size = size;
            }
            Event::Truncate { inode, size } => self.file(inode).truncate(size),
            Event::SyncBegins { inode, size, number } => {
                let at = self.inodes[&inode];
                let file = &mut self.files[at];
                // The size includes space reserved by calls that the shim does not see.
                file.size = size;
                let content = |sector| file.cached.get(sector).copied();
                let sectors = file.dirty.iter().map(|(at, write)| (*at, *write, content(at)));
                let begun = Begun::File { at, sectors: sectors.collect(), size };
                self.syncs.insert(number, begun);
            }
            Event::NamesSyncBegin { number } => {
                let made = self.changes_stored + self.changes.len() as u64;
                self.syncs.insert(number, Begun::Names(made));
            }
            Event::SyncEnds { number } => {
                let begun = self.syncs.remove(&number).expect("a sync that ends has begun");
                self.end(begun);
            }
        }
    }

    fn file(&mut self, inode: u64) -> &mut File {
        let at = self.inodes.get(&inode).expect("a file was made before it is written");
        &mut self.files[*at]
    }

    fn end(&mut self, begun: Begun) {
        match (begun, self.keeps) {
            (Begun::File { .. }, Keeps::NoContents) | (Begun::Names(_), Keeps::NoNames) => {}
            (Begun::Names(made), _) => {
                let stored = made.saturating_sub(self.changes_stored) as usize;
                self.changes.drain(..stored).for_each(|change| self.stored.apply(change));
                self.changes_stored += stored as u64;
            }
            (Begun::File { at, sectors, size }, _) => {
                let file = &mut self.files[at];
                file.stored_size = size;
                for (sector, write, content) in sectors {
                    file.store(sector, content);
                    if file.dirty.get(&sector) == Some(&write) {
                        file.dirty.remove(&sector);
                    }
                }
            }
        }
    }

    /// The disk after a power cut with the given losses of names and of contents. Its files are
    /// written to `folder`, which must be empty.
    pub(crate) fn after_cut(
        &self,
        (of_names, of_contents): (Loss, Loss),
        chance: &mut Chance,
        folder: &Path,
    ) -> Disk {
        let mut names = self.stored.clone();
        let kept = match of_names {
            Loss::All => 0,
            Loss::Some => chance.below(self.changes.len() as i64 + 1) as usize,
            Loss::Nothing => self.changes.len(),
        };
        self.changes.iter().take(kept).for_each(|change| names.apply(change.clone()));
        let mut keep = || match of_contents {
            Loss::All => false,
            Loss::Some => chance.below(2) == 0,
            Loss::Nothing => true,
        };
        let files = self.files.iter().map(|file| file.after_cut(&mut keep)).collect();
        let moved = names.0.into_iter().map(|(path, node)| {
            let within = path.strip_prefix(&self.root).expect("all names are below the root");
            (folder.join(within), node)
        });
        let stored = Names(moved.collect());
        let mut disk = Disk { files, stored, ..Disk::new(folder, Keeps::WhatItSays) };
        disk.lay();
        disk
    }

    /// Writes its files to its folder.
    fn lay(&mut self) {
        for (path, node) in &self.stored.0 {
            match node {
                Node::Folder => DirBuilder::new().mode(0o700).create(path).expect("a folder"),
                Node::File(at) => {
                    let mut made = OpenOptions::new();
                    let made = made.write(true).create_new(true).mode(0o600).open(path);
                    let (made, File { stored, size, .. }) =
                        (made.expect("a file"), &self.files[*at]);
                    for (sector, content) in stored.range(..size.div_ceil(SECTOR)) {
                        made.write_all_at(content, sector * SECTOR).expect("there is room");
                    }
                    made.set_len(*size).expect("there is room");
                    self.inodes.insert(made.metadata().expect("it is there").ino(), *at);
                }
            }
        }
    }
}
