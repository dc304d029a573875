//! Enums: types whose values are an ordered list of labels.
//!
//! ```text
//!   create type mood as enum ('sad', 'happy')        alter type mood add value 'ok' before 'happy'
//!
//!   label     sort key                               label     sort key
//!   sad       40 00                                  sad       40 00
//!   happy     40 01                                  ok        40 00 80
//!                                                    happy     40 01
//! ```
//!
//! A value is the *sort key* of its label, as bytes: in a row, in a key of an index, and while a
//! statement runs. So keys have the order of the labels, and a label can be renamed. Between two
//! keys there is always room for a new one, because their length is not fixed; so no row is ever
//! rewritten.
//!
//! **Invariants.** The keys of a type have the order of its labels. As fractions (`40 00 80` is
//! 0.400080 to the base 256) they are all different: behind the first two bytes, none ends with
//! zero. The label of a key never changes, as labels are never removed.
//!
//! **Definitions live as long as a catalog or a plan has them.** A type is copied along with every
//! expression, and values are read and written where no catalog is at hand. So a type has an
//! [`EnumId`], and the definition is found by it ([`known`]).
//!
//! Left out: arrays of enums store their elements by label, so a label cannot be renamed while a
//! column has such a type.

mod known;

pub use known::EnumId;

use crate::error::{SqlError, clipped, code};
use crate::name::Name;
use crate::types::SqlType;
use isomer_design::{ColumnType, Value};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

/// The largest number of labels. Half that many numbers are free below the first label, and more
/// above the last.
const LABELS_MAX: usize = 16_384;
/// The first two bytes of the first key.
const FIRST: u16 = 0x4000;

/// The enums of a catalog, by name; all that share it keep their definitions.
pub type Enums = Arc<BTreeMap<Name, Arc<EnumType>>>;

/// A label and its position in the order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Label {
    /// The sort key: the value.
    pub key: Vec<u8>,
    /// Its text.
    pub name: String,
}

/// The definition of an enum: all that is stored of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Definition {
    /// Its oid.
    pub oid: u32,
    /// The oid of its array type.
    pub array_oid: u32,
    /// Its name, with its schema.
    pub name: Name,
    /// Its labels, in order.
    pub labels: Vec<Label>,
}

/// An enum.
pub struct EnumType {
    /// Its definition.
    pub of: Definition,
    id: EnumId,
    places: HashMap<String, usize>,
}

/// The position of a new label.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// Behind all others.
    Last,
    /// Before this one.
    Before(&'a str),
    /// Behind this one.
    After(&'a str),
}

impl fmt::Debug for EnumType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.of.name.label())
    }
}

impl Definition {
    /// A new enum.
    ///
    /// # Errors
    /// 23505, 42602, 54000.
    pub fn new(
        (oid, array_oid): (u32, u32),
        name: Name,
        labels: &[String],
    ) -> Result<Definition, SqlError> {
        let mut new = Definition { oid, array_oid, name, labels: Vec::new() };
        check_count(labels.len())?;
        for (at, label) in labels.iter().enumerate() {
            check_label(label)?;
            if labels[..at].contains(label) {
                let message = format!("enum label \"{label}\" used more than once");
                return Err(SqlError::new(code::UNIQUE_VIOLATION, message));
            }
            let key = (FIRST + at as u16).to_be_bytes().to_vec();
            new.labels.push(Label { key, name: label.clone() });
        }
        Ok(new)
    }

    /// The enum with one more label.
    ///
    /// # Errors
    /// 42710 if it exists already, 22023 if the other label does not exist, 42602, 54000.
    pub fn with_label(&self, label: &str, place: Place<'_>) -> Result<Definition, SqlError> {
        check_label(label)?;
        check_count(self.labels.len() + 1)?;
        if self.labels.iter().any(|other| other.name == label) {
            let message = format!("enum label \"{label}\" already exists");
            return Err(SqlError::new(code::DUPLICATE_OBJECT, message));
        }
        let at = match place {
            Place::Last => self.labels.len(),
            Place::Before(other) => self.place_of(other)?,
            Place::After(other) => self.place_of(other)? + 1,
        };
        let below = at.checked_sub(1).map(|below| &*self.labels[below].key);
        let above = self.labels.get(at).map(|above| &*above.key);
        let key = key_between(below, above);
        let mut new = self.clone();
        new.labels.insert(at, Label { key, name: label.to_owned() });
        Ok(new)
    }

    /// The enum with a renamed label.
    ///
    /// # Errors
    /// 42710, 22023, 42602.
    pub fn with_renamed(&self, from: &str, to: &str) -> Result<Definition, SqlError> {
        let at = self.place_of(from)?;
        check_label(to)?;
        if self.labels.iter().any(|other| other.name == to) {
            let message = format!("enum label \"{to}\" already exists");
            return Err(SqlError::new(code::DUPLICATE_OBJECT, message));
        }
        let mut new = self.clone();
        to.clone_into(&mut new.labels[at].name);
        Ok(new)
    }

    fn place_of(&self, label: &str) -> Result<usize, SqlError> {
        self.labels.iter().position(|other| other.name == label).ok_or_else(|| {
            let message = format!("\"{label}\" is not an existing enum label");
            SqlError::new(code::INVALID_PARAMETER, message)
        })
    }

    /// The stored form without its name and its oid: the oid of its array type, and a line for each
    /// label.
    pub fn kept(&self) -> String {
        let line = |label: &Label| {
            let key: String = label.key.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("\n{key}\t{}", ColumnType::Text.format(&Value::from(label.name.as_str())))
        };
        let lines: String = self.labels.iter().map(line).collect();
        format!("enum\t{}{lines}", self.array_oid)
    }

    /// Reads the [stored form](Definition::kept).
    pub fn read(name: Name, oid: u32, kept: &str) -> Option<Definition> {
        let mut lines = kept.split('\n');
        let array_oid = lines.next()?.strip_prefix("enum\t")?.parse().ok()?;
        let label = |line: &str| {
            let (digits, name) = line.split_once('\t')?;
            let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
            let key = (0..digits.len()).step_by(2).map(byte).collect::<Option<Vec<u8>>>()?;
            let Value::Text(name) = ColumnType::Text.parse(name)? else { return None };
            Some(Label { key, name })
        };
        let labels = lines.map(label).collect::<Option<Vec<Label>>>()?;
        labels.is_sorted_by(|a, b| a.key < b.key).then_some(())?;
        Some(Definition { oid, array_oid, name, labels })
    }
}

impl EnumType {
    /// The enum of a definition.
    pub fn new(of: Definition) -> Arc<EnumType> {
        let names = of.labels.iter().enumerate();
        let places = names.map(|(at, label)| (label.name.clone(), at)).collect();
        known::enter(of.oid, |id| EnumType { of, id, places })
    }

    /// As types have it.
    pub fn id(&self) -> EnumId {
        self.id
    }

    /// The type as a [`SqlType`].
    pub fn ty(&self) -> SqlType {
        SqlType::Enum(self.id)
    }

    /// The type of its arrays.
    pub fn array(&self) -> SqlType {
        SqlType::EnumArray(self.id)
    }

    /// The label of a value.
    pub(crate) fn label(&self, key: &[u8]) -> &str {
        let found = self.of.labels.binary_search_by(|label| label.key.as_slice().cmp(key));
        // A reader of rows knows all labels that occur in them.
        found.map_or("", |at| &self.of.labels[at].name)
    }

    /// The value of a label.
    ///
    /// # Errors
    /// 22P02.
    pub(crate) fn key(&self, label: &str) -> Result<&[u8], SqlError> {
        let found = self.places.get(label).ok_or_else(|| {
            let (name, label) = (&self.of.name.name, clipped(label));
            let message = format!("invalid input value for enum {name}: \"{label}\"");
            SqlError::new(code::INVALID_TEXT, message)
        })?;
        Ok(&self.of.labels[*found].key)
    }

    /// The labels from one value to another, in order; without a bound, to the end.
    pub(crate) fn range(
        &self,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> impl Iterator<Item = &str> {
        let is_in = move |label: &&Label| {
            from.is_none_or(|from| *label.key >= *from) && to.is_none_or(|to| *label.key <= *to)
        };
        self.of.labels.iter().filter(is_in).map(|label| label.name.as_str())
    }
}

impl Drop for EnumType {
    fn drop(&mut self) {
        known::leave(self.id);
    }
}

fn check_count(count: usize) -> Result<(), SqlError> {
    if count <= LABELS_MAX {
        return Ok(());
    }
    let message = format!("an enum can have at most {LABELS_MAX} labels");
    Err(SqlError::new(code::PROGRAM_LIMIT, message))
}

fn check_label(label: &str) -> Result<(), SqlError> {
    if label.len() <= crate::parse::NAME_BYTES_MAX {
        return Ok(());
    }
    let message = format!("invalid enum label \"{}\"", clipped(label));
    Err(SqlError::new("42602", message).detail("Labels must be 63 bytes or less."))
}

/// A key between two others, each of which is optional.
fn key_between(below: Option<&[u8]>, above: Option<&[u8]>) -> Vec<u8> {
    let head = |key: &[u8]| u16::from_be_bytes([key[0], key[1]]);
    match (below, above) {
        (None, None) => FIRST.to_be_bytes().to_vec(),
        // There are fewer labels than numbers on either side.
        (Some(below), None) => (head(below) + 1).to_be_bytes().to_vec(),
        (None, Some(above)) => (head(above) - 1).to_be_bytes().to_vec(),
        (Some(below), Some(above)) => fraction_between(below, above),
    }
}

/// A fraction between two others, with as few digits as possible.
fn fraction_between(below: &[u8], above: &[u8]) -> Vec<u8> {
    let mut digits = Vec::new();
    let mut is_less = false;
    for at in 0.. {
        let low = u16::from(below.get(at).copied().unwrap_or(0));
        let high = above.get(at).filter(|_| !is_less).map_or(256, |digit| u16::from(*digit));
        if high > low + 1 {
            digits.push(u16::midpoint(low, high) as u8);
            break;
        }
        digits.push(low as u8);
        is_less |= low < high;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(labels: &[&str]) -> Definition {
        let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        Definition::new((7, 8), Name::public("e"), &labels).expect("an enum")
    }

    fn names(definition: &Definition) -> Vec<&str> {
        definition.labels.iter().map(|label| label.name.as_str()).collect()
    }

    #[test]
    fn there_is_always_room_between_two_labels() {
        let mut places = 1_u64;
        for way in 0..4 {
            let mut now = of(&["a", "z"]);
            for number in 0..600 {
                places = places.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = match way {
                    0 => 1,
                    1 => now.labels.len() - 1,
                    2 => now.labels.len(),
                    _ => places as usize % (now.labels.len() + 1),
                };
                let other = now.labels.get(at).map(|label| label.name.clone());
                let place = other.as_deref().map_or(Place::Last, Place::Before);
                let next = now.with_label(&format!("n{number}"), place).expect("one more");
                let keys = next.labels.iter().map(|label| &label.key);
                assert!(keys.is_sorted_by(|a, b| a < b), "{next:?}");
                assert!(
                    next.labels.iter().all(|one| one.key.len() == 2 || !one.key.ends_with(&[0]))
                );
                // Existing labels do not change.
                assert!(now.labels.iter().all(|label| next.labels.contains(label)));
                now = next;
            }
            let read = Definition::read(now.name.clone(), now.oid, &now.kept());
            assert_eq!(read, Some(now));
        }
    }

    #[test]
    fn labels_are_added_and_renamed() {
        let now = of(&["sad", "happy"]);
        let now = now.with_label("ok", Place::Before("happy")).expect("a label");
        let now = now.with_label("worst", Place::Before("sad")).expect("a label");
        let now = now.with_label("best", Place::After("happy")).expect("a label");
        assert_eq!(names(&now), ["worst", "sad", "ok", "happy", "best"]);
        let renamed = now.with_renamed("ok", "so, so\n").expect("another name");
        assert_eq!(renamed.labels[2].key, now.labels[2].key);
        assert_eq!(Definition::read(Name::public("e"), 7, &renamed.kept()), Some(renamed));
        assert_eq!(now.with_label("ok", Place::Last).unwrap_err().code, code::DUPLICATE_OBJECT);
        assert_eq!(now.with_renamed("x", "y").unwrap_err().code, code::INVALID_PARAMETER);
        for damaged in
            ["", "enum\tx", "enum\t8\n40", "enum\t8\n4\t'a'", "enum\t8\n41\t'a'\n40\t'b'"]
        {
            assert_eq!(Definition::read(Name::public("e"), 7, damaged), None, "{damaged}");
        }
    }

    #[test]
    fn a_definition_lives_as_long_as_it_is_used() {
        let known = EnumType::new(of(&["a", "b"]));
        let id = known.id();
        assert_eq!(known.label(known.key("b").expect("a label")), "b");
        assert_eq!(id.label(&id.key("b").expect("a label")), "b");
        assert_eq!(id.key("c").unwrap_err().message, "invalid input value for enum e: \"c\"");
        assert_eq!(EnumId::numbered(id.number()), Some((id, false)));
        assert_eq!(EnumId::numbered(id.number() + 1), Some((id, true)));
        assert_eq!(EnumId::numbered(25), None);
        let other = EnumType::new(of(&["a"]));
        assert!(id == other.id() && !id.is_exactly(other.id()));
        drop(known);
        assert!(id.known().is_none() && EnumId::numbered(id.number()).is_none());
        assert_eq!(id.key("b").unwrap_err().code, code::UNDEFINED_OBJECT);
        assert_eq!((id.label(&[64, 0]), id.oid()), (String::new(), 7));
        assert!(other.id().known().is_some());
    }
}
