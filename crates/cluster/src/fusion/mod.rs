//! Data fusion: rows of ordered tables move to the process that writes them.
//!
//! *Problem.* A partition has one master. A row that the clients of another process write is read
//! over the network each time, though its neighbours are used where they are. *Solution* (Hermes,
//! section 3.1): the row itself moves, and its partition stays. A **fused** row is a row of one
//! more ordered table, the fused table, whose key begins with a site. Its home keeps a **stub**.
//!
//! ```text
//!   accounts        7 → stub: s3      home of 7: s1           isomer_fused   (s3, accounts, 7) → row
//!                   8 → row                                                  (s3, accounts, 9) → row
//!                   9 → stub: s3                               the partition of s3 is mastered there
//! ```
//!
//! A move is a part of the commit that writes the row: all its rows change at one time. So at any
//! time a row is at one place, and every snapshot finds it. Recovery, replicas, backups and
//! checkpoints see rows of tables, and nothing new.
//!
//! **Reads** ([`crate::open`]) follow stubs. If the home of a row is in another process, they look
//! into the fused rows of the own sites first, which costs no message. A commit validates the row
//! where it was found.
//!
//! **A row moves** to a site of the process whose gateway writes it, if that gateway has written
//! its version before, too. So a row that many processes write stays where it is. Hermes moves
//! each row when it is first written, and chooses the site from a whole batch; its transactions
//! run after that. So it is here for statements that are routed beforehand
//! ([`crate::ordered::ahead`]). Other transactions have run before they are ordered, at the
//! gateways of their clients, so the gateway is the place to be.
//!
//! **The fused table is bounded** by a number of rows for each site ([`homeward`]). Rows over it go
//! home, the ones that were written longest ago first, by commits of their own. With room for 0
//! rows, all go home.
//!
//! **Invariants.** A stub for site s exists if and only if the fused table has the row of s. A
//! table that is not ordered has no stub. A row moves only if the fused table has as many backups
//! as its own table. If that table asks for more later, the conductor gives them to the fused one.
//!
//! **Left out.** Moves of rows that are only read. Procedures of the library, which cannot read a
//! table with stubs.

pub(crate) mod homeward;
mod mover;

pub use homeward::FusedTable;
pub(crate) use mover::Mover;

use isomer_design::{
    Column, ColumnType, KEY_BYTES_MAX, Key, KeyRange, Schema, SchemaError, SiteId, TableDesign,
    TableId,
};

/// The name of the fused table, which no other table can get.
pub(crate) const FUSED: &str = "isomer_fused";

/// True if a table of a design is the fused table, and not one from before the name was taken.
pub(crate) fn is_fused(table: &TableDesign) -> bool {
    table.name() == FUSED && schema().is_ok_and(|schema| **table.schema() == schema)
}

/// True if plans may move a table: the fused table has a partition at each site.
pub fn follows_plans(table: &TableDesign) -> bool {
    !is_fused(table)
}

/// True if no table of an application can have this name.
pub fn is_reserved(name: &str) -> bool {
    name == FUSED
}

/// The beginning of a stub. No row of an ordered table may be a stub ([`is_stub`]).
const STUB: [u8; 18] = *b"\xf5\x1b~fused row at\xa9\x02\xfe";

/// The row that a fused row leaves at home.
pub(crate) fn stub(site: SiteId) -> Vec<u8> {
    [&STUB[..], &site.0.to_le_bytes()].concat()
}

/// The site of a fused row, if these bytes are a stub.
#[inline]
pub fn site_of(row: &[u8]) -> Option<SiteId> {
    match row.strip_prefix(&STUB) {
        Some(&[low, high]) => Some(SiteId(u16::from_le_bytes([low, high]))),
        _ => None,
    }
}

/// The place of a fused row in the fused table; `None` if its key would be too long.
pub(crate) fn place(site: SiteId, table: TableId, key: &[u8]) -> Option<Key> {
    let place = Key::from_bytes(&[of_table(site, table).as_bytes(), key].concat());
    (place.len() <= KEY_BYTES_MAX).then_some(place)
}

/// The places of the fused rows of a range.
pub(crate) fn places(site: SiteId, table: TableId, range: &KeyRange) -> KeyRange {
    let at = |key: &Key| Key::from_bytes(&[of_table(site, table).as_bytes(), key].concat());
    let end = range.end.as_ref().map_or_else(|| of_table(site, TableId(table.0 + 1)), at);
    KeyRange::new(at(&range.start), Some(end))
}

/// The site, the table and the key of a fused row, from its place.
pub fn parse(place: &[u8]) -> Option<(SiteId, TableId, Key)> {
    // The numbers are at least 1, so the first byte says how many bytes follow.
    let number = |bytes: &[u8]| {
        let length = 1 + usize::from(bytes.first()?.checked_sub(0x80)?);
        let [number] = Key::from_bytes(bytes.get(..length)?).to_ints()?[..] else { return None };
        Some((number, length))
    };
    let (site, first) = number(place)?;
    let (table, second) = number(&place[first..])?;
    let key = Key::from_bytes(&place[first + second..]);
    Some((SiteId(u16::try_from(site).ok()?), TableId(u32::try_from(table).ok()?), key))
}

/// The first place of a site's partition.
pub(crate) fn of_site(site: SiteId) -> Key {
    Key::int(i64::from(site.0))
}

fn of_table(site: SiteId, table: TableId) -> Key {
    Key::ints(&[i64::from(site.0), i64::from(table.0)])
}

/// The columns of the fused table. Its rows are those of the other tables, as these encode them.
fn schema() -> Result<Schema, SchemaError> {
    let columns = vec![
        Column::new("site", ColumnType::Int64),
        Column::new("table_id", ColumnType::Int64),
        Column::new("key", ColumnType::Bytes),
        Column::new("row", ColumnType::Bytes),
    ];
    Schema::new(FUSED, columns, &["site", "table_id", "key"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_tells_the_row_it_is_of() {
        for (site, table, key) in [(1, 1, &b""[..]), (3, 700, b"\x81\x07"), (900, 70_000, b"\0\0")]
        {
            let (site, table) = (SiteId(site), TableId(table));
            let place = place(site, table, key).expect("it is short");
            assert_eq!(parse(&place), Some((site, table, Key::from_bytes(key))));
            assert!(places(site, table, &KeyRange::all()).contains(&place));
            assert!(!places(site, TableId(table.0 + 1), &KeyRange::all()).contains(&place));
            assert!(of_site(site) <= place && place < of_site(SiteId(site.0 + 1)));
        }
        assert_eq!(place(SiteId(1), TableId(1), &[7; KEY_BYTES_MAX]), None);
        assert_eq!(parse(b"\x7f"), None);
    }

    #[test]
    fn only_a_stub_is_a_stub() {
        assert_eq!(site_of(&stub(SiteId(513))), Some(SiteId(513)));
        assert_eq!(site_of(&STUB), None);
        assert_eq!(site_of(&[&stub(SiteId(1))[..], b"."].concat()), None);
    }
}
