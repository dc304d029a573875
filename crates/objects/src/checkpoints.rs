//! The checkpoints of one site in an object store.
//!
//! ```text
//!   begin ── append … settle ── append … settle ── publish ──▶ older ones are removed,
//!            part-00000         part-00001         whole       each with `whole` first
//! ```
//!
//! A part has whole frames, each after its length. Its checksum is verified before any frame is
//! used.

use crate::manifest::{self, Part};
use crate::store::Store;
use isomer_log::{CheckpointError, Checkpoints, Draft, Found, Position};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

const WHOLE: &str = "whole";
/// A part of this length is written without waiting for `settle`.
const PART_BYTES: usize = 8 << 20;

/// The name of a checkpoint, and of a draft.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Name {
    position: Position,
    /// A random number for each attempt, so that no object is written twice.
    drawn: u64,
}

impl Name {
    fn parse(text: &str) -> Option<Name> {
        let (position, drawn) = text.split_once('-')?;
        let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
        let name = Name { position: number(position)?, drawn: number(drawn)? };
        (name.to_string() == text).then_some(name)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:016x}", self.position, self.drawn)
    }
}

fn part_name(at: usize) -> String {
    format!("part-{at:05}")
}

/// A published checkpoint.
struct Whole {
    name: Name,
    parts: Vec<Part>,
}

/// The objects of a checkpoint or a draft, and their lengths.
type Lengths = BTreeMap<String, u64>;

/// The place of a site's checkpoints.
struct Shelf {
    store: Arc<Store>,
    under: String,
}

impl Shelf {
    fn path(&self, name: Name, object: &str) -> String {
        format!("{}/{name}/{object}", self.under)
    }

    /// All checkpoints and drafts, each with its objects and their lengths.
    fn list(&self) -> Result<BTreeMap<Name, Lengths>, CheckpointError> {
        let mut found: BTreeMap<Name, Lengths> = BTreeMap::new();
        for (object, bytes) in self.store.list(&self.under)? {
            if let Some((name, object)) = object.split_once('/')
                && let Some(name) = Name::parse(name)
            {
                found.entry(name).or_default().insert(object.to_owned(), bytes);
            }
        }
        Ok(found)
    }

    /// The newest checkpoint, and its objects.
    fn newest(&self) -> Result<Option<(Name, Lengths)>, CheckpointError> {
        let mut found = self.list()?.into_iter().rev();
        Ok(found.find(|(_, objects)| objects.contains_key(WHOLE)))
    }

    /// Opens a checkpoint, if its manifest is sound and all parts are there.
    fn open(&self, name: Name, objects: &Lengths) -> Result<Whole, CheckpointError> {
        let text = self.store.get(&self.path(name, WHOLE))?;
        let parts = manifest::read(&text);
        let parts = parts.and_then(|parts| compare(&parts, objects).map(|()| parts));
        let parts = parts.map_err(|what| self.damaged(name, what))?;
        Ok(Whole { name, parts })
    }

    fn damaged(&self, name: Name, what: String) -> CheckpointError {
        CheckpointError::Damaged {
            checkpoint: self.store.name(&format!("{}/{name}", self.under)),
            what,
        }
    }

    /// Removes all objects of a checkpoint or a draft. `whole` goes first, so no incomplete
    /// checkpoint is found.
    fn remove(&self, name: Name, objects: &Lengths) -> Result<(), CheckpointError> {
        if objects.contains_key(WHOLE) {
            self.store.remove(vec![self.path(name, WHOLE)])?;
        }
        let rest = objects.keys().filter(|object| *object != WHOLE);
        self.store.remove(rest.map(|object| self.path(name, object)).collect())?;
        self.store.remove_folder(&format!("{}/{name}", self.under));
        Ok(())
    }

    fn remove_before(&self, position: Position) -> Result<(), CheckpointError> {
        let found = self.list()?;
        let mut older = found.iter().filter(|(name, _)| name.position < position);
        older.try_for_each(|(name, objects)| self.remove(*name, objects))
    }
}

/// Checks that all parts are there, with the lengths of the manifest.
fn compare(parts: &[Part], objects: &Lengths) -> Result<(), String> {
    for (at, part) in parts.iter().enumerate() {
        let name = part_name(at);
        match objects.get(&name) {
            None => return Err(format!("{name} is missing")),
            Some(bytes) if *bytes != part.bytes => {
                return Err(format!("{name} has {bytes} bytes, and should have {}", part.bytes));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// See the [module documentation](self).
pub(crate) struct ObjectCheckpoints {
    shelf: Arc<Shelf>,
    newest: Arc<Mutex<Option<Arc<Whole>>>>,
}

impl ObjectCheckpoints {
    /// Opens the checkpoints below a name, as they are now.
    pub(crate) fn open(
        store: Arc<Store>,
        under: String,
    ) -> Result<ObjectCheckpoints, CheckpointError> {
        let (shelf, mut before) = (Arc::new(Shelf { store, under }), None);
        let newest = loop {
            let Some((name, objects)) = shelf.newest()? else { break None };
            match shelf.open(name, &objects) {
                Ok(whole) => break Some(Arc::new(whole)),
                Err(error) if before == Some(name) => return Err(error),
                // Its owner may be removing it right now, after a newer one.
                Err(_) => before = Some(name),
            }
        };
        Ok(ObjectCheckpoints { shelf, newest: Arc::new(Mutex::new(newest)) })
    }
}

impl Checkpoints for ObjectCheckpoints {
    fn newest(&self) -> Option<Found> {
        let found = |whole: &Arc<Whole>| Found {
            position: whole.name.position,
            bytes: whole.parts.iter().map(|part| part.bytes).sum(),
        };
        self.newest.lock().as_ref().map(found)
    }

    fn read(&self, visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<(), CheckpointError> {
        let Some(whole) = self.newest.lock().clone() else { return Ok(()) };
        for (at, part) in whole.parts.iter().enumerate() {
            let name = part_name(at);
            let bytes = self.shelf.store.get(&self.shelf.path(whole.name, &name))?;
            let damaged = |what: &str| self.shelf.damaged(whole.name, format!("{name} {what}"));
            if Part::of(&bytes) != *part {
                return Err(damaged("is not what was written"));
            }
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (frame, after) =
                    split_frame(rest).ok_or_else(|| damaged("has half a frame"))?;
                if visit(frame).is_break() {
                    return Ok(());
                }
                rest = after;
            }
        }
        Ok(())
    }

    fn begin(&self, position: Position, _: u64) -> Result<Box<dyn Draft>, CheckpointError> {
        let drawn = getrandom::u64().map_err(|error| CheckpointError::Store {
            action: "name a checkpoint at",
            object: self.shelf.store.place().to_owned(),
            what: format!("no random number: {error}"),
        })?;
        Ok(Box::new(ObjectDraft {
            shelf: self.shelf.clone(),
            name: Name { position, drawn },
            parts: Vec::new(),
            part: Vec::new(),
            newest: self.newest.clone(),
            is_published: false,
        }))
    }
}

fn split_frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

struct ObjectDraft {
    shelf: Arc<Shelf>,
    name: Name,
    /// The parts written so far.
    parts: Vec<Part>,
    /// The next part.
    part: Vec<u8>,
    newest: Arc<Mutex<Option<Arc<Whole>>>>,
    is_published: bool,
}

impl Draft for ObjectDraft {
    fn append(&mut self, frame: &[u8]) -> Result<(), CheckpointError> {
        let length = u32::try_from(frame.len()).expect("a log takes no longer frames");
        self.part.extend_from_slice(&length.to_le_bytes());
        self.part.extend_from_slice(frame);
        if self.part.len() >= PART_BYTES { self.settle() } else { Ok(()) }
    }

    fn settle(&mut self) -> Result<(), CheckpointError> {
        if self.part.is_empty() {
            return Ok(());
        }
        let (part, bytes) = (Part::of(&self.part), std::mem::take(&mut self.part));
        self.shelf.store.put(&self.shelf.path(self.name, &part_name(self.parts.len())), bytes)?;
        self.parts.push(part);
        Ok(())
    }

    fn publish(mut self: Box<Self>) -> Result<(), CheckpointError> {
        assert!(self.part.is_empty(), "a draft is settled first");
        let (name, parts) = (self.name, std::mem::take(&mut self.parts));
        self.shelf.store.put(&self.shelf.path(name, WHOLE), manifest::write(&parts).into())?;
        self.is_published = true;
        *self.newest.lock() = Some(Arc::new(Whole { name, parts }));
        self.shelf.remove_before(name.position)
    }
}

impl Drop for ObjectDraft {
    fn drop(&mut self) {
        if self.is_published {
            return;
        }
        // If the removal fails, the next checkpoint removes the objects.
        if let Ok(found) = self.shelf.list()
            && let Some(objects) = found.get(&self.name)
        {
            let _ = self.shelf.remove(self.name, objects);
        }
    }
}
