//! The encoding of values with invariants: decoding keeps the invariants, or refuses.
//!
//! | type | as | refused |
//! | --- | --- | --- |
//! | [`Key`] | bytes | more than 65,535 bytes, which a record of the redo log cannot hold |
//! | [`SiteId`] | its number | a number out of range |
//! | [`SiteSet`] | its sites, in order | |
//! | [`Footprint`] | its items; they are sorted again | |
//!
//! All other types have derived encodings.

use crate::{Footprint, Item, Key, SITES_MAX, SiteId, SiteSet};
use serde::de::{Error, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// The longest key in the encoding: keys of rows are shorter, but ends of ranges follow them.
const NAMED_BYTES_MAX: usize = u16::MAX as usize;

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_bytes(KeyBytes)
    }
}

struct KeyBytes;

impl Visitor<'_> for KeyBytes {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a key of at most {NAMED_BYTES_MAX} bytes")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Key, E> {
        match bytes.len() {
            0..=NAMED_BYTES_MAX => Ok(Key::from_bytes(bytes)),
            length => Err(E::invalid_length(length, &self)),
        }
    }
}

impl Serialize for SiteId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SiteId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SiteId, D::Error> {
        let site = SiteId(u16::deserialize(deserializer)?);
        let expected = format!("the number of a site, 1 to {SITES_MAX}");
        let unexpected = Unexpected::Unsigned(site.0.into());
        let is_one = SiteSet::can_hold(site);
        is_one.then_some(site).ok_or_else(|| Error::invalid_value(unexpected, &&*expected))
    }
}

impl Serialize for SiteSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let sites: Vec<SiteId> = self.iter().collect();
        sites.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SiteSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SiteSet, D::Error> {
        deserializer.deserialize_seq(Sites)
    }
}

struct Sites;

impl<'de> Visitor<'de> for Sites {
    type Value = SiteSet;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sites")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sites: A) -> Result<SiteSet, A::Error> {
        let mut set = SiteSet::EMPTY;
        while let Some(site) = sites.next_element()? {
            set.insert(site);
        }
        Ok(set)
    }
}

impl Serialize for Footprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.items().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Footprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Footprint, D::Error> {
        let mut footprint = Footprint::new();
        for Item { table, span, access } in Vec::deserialize(deserializer)? {
            footprint.add(table, span, access);
        }
        Ok(footprint)
    }
}
