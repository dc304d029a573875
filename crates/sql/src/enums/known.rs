//! The definitions of enums that are in use, by number.
//!
//! ```text
//!   SqlType::Enum(EnumId { oid 16400, definition 7 })      copied along, in plans, tables, rows
//!                                        │ known()
//!   7 ─▶ Weak ─▶ EnumType                                  as long as a catalog or a plan has it
//! ```
//!
//! **Invariants.** A number is given to one definition and to no other. A definition is forgotten
//! when its last owner drops it. An id that outlives it knows the oid alone: its labels are empty,
//! no text is one of them, and its name is `???`.

use super::EnumType;
use crate::error::{SqlError, code};
use crate::name::Name;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard, Weak};

/// The first [number](EnumId::number) of an enum; lower ones are those of the system's types.
const FIRST_NUMBER: i64 = 1 << 32;

static NEXT: AtomicU32 = AtomicU32::new(0);
static KNOWN: RwLock<BTreeMap<u32, Weak<EnumType>>> = RwLock::new(BTreeMap::new());

/// An enum as a type is copied along. Two are equal if they are of one enum, even if it has got
/// other labels since.
#[derive(Clone, Copy)]
pub struct EnumId {
    oid: u32,
    definition: u32,
}

impl PartialEq for EnumId {
    fn eq(&self, other: &EnumId) -> bool {
        self.oid == other.oid
    }
}

impl Eq for EnumId {}

impl fmt::Debug for EnumId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name().label())
    }
}

fn write() -> RwLockWriteGuard<'static, BTreeMap<u32, Weak<EnumType>>> {
    KNOWN.write().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a definition known, until it is dropped.
pub(super) fn enter(oid: u32, define: impl FnOnce(EnumId) -> EnumType) -> Arc<EnumType> {
    let definition = NEXT.fetch_add(1, Ordering::Relaxed);
    assert!(definition != u32::MAX, "a process defines fewer than 4,294,967,295 enums");
    let made = Arc::new(define(EnumId { oid, definition }));
    write().insert(definition, Arc::downgrade(&made));
    made
}

/// Forgets a definition that is dropped.
pub(super) fn leave(id: EnumId) {
    write().remove(&id.definition);
}

impl EnumId {
    /// The number for clients.
    pub fn oid(self) -> u32 {
        self.oid
    }

    /// The definition; `None` if nothing has it any more.
    pub fn known(self) -> Option<Arc<EnumType>> {
        known(self.definition)
    }

    /// True if the two have one definition, with the same labels.
    pub fn is_exactly(self, other: EnumId) -> bool {
        self.definition == other.definition
    }

    /// The number by which functions know it while a statement runs: an oid is that of one
    /// database. The next number is that of its arrays.
    pub(crate) fn number(self) -> i64 {
        FIRST_NUMBER + 2 * i64::from(self.definition)
    }

    /// The enum of a [number](EnumId::number), or of that of its arrays; with whether that is it.
    pub(crate) fn numbered(number: i64) -> Option<(EnumId, bool)> {
        let at = number.checked_sub(FIRST_NUMBER)?;
        Some((known(u32::try_from(at / 2).ok()?)?.id(), at % 2 == 1)).filter(|_| at >= 0)
    }

    /// The number of its arrays for clients.
    pub(crate) fn array_oid(self) -> u32 {
        self.known().map_or(0, |labels| labels.of.array_oid)
    }

    /// Its name.
    pub(crate) fn name(self) -> Name {
        self.known().map_or_else(|| Name::public("???"), |labels| labels.of.name.clone())
    }

    /// The label of a value.
    pub(crate) fn label(self, key: &[u8]) -> String {
        self.known().map_or_else(String::new, |labels| labels.label(key).to_owned())
    }

    /// The value of a label.
    ///
    /// # Errors
    /// 22P02; 42704 if the enum was dropped.
    pub(crate) fn key(self, label: &str) -> Result<Vec<u8>, SqlError> {
        let labels = self.known().ok_or_else(|| {
            let message = format!("type with OID {} does not exist", self.oid);
            SqlError::new(code::UNDEFINED_OBJECT, message)
        })?;
        labels.key(label).map(<[u8]>::to_vec)
    }
}

fn known(definition: u32) -> Option<Arc<EnumType>> {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    known.get(&definition)?.upgrade()
}
