//! Recorded keys in the order of a design, and the ranges that they represent.
//!
//! A recorded key is the value of the first key column, so its rows are the keys that begin with
//! it: a range. The range lies in one partition, or in several with one master. Going through the
//! keys of a table in order, each takes the rest of its first partition from the previous key on:
//!
//! ```text
//!   partitions   [            )[                    )[           )
//!   keys             3    5               60
//!   shares       [3      )[5  )[60                  )               the last partition is nobody's
//! ```
//!
//! Invariant: shares are disjoint, and cover every partition that holds a recorded key.

use super::MappedError;
use crate::problem::Site;
use crate::recording::{KeyTable, RecordedKey, Vertex};
use isomer_design::{Column, ColumnType, Key, KeyRange, Schema, TableDesign, TableId, Value};

/// The range that a recorded key represents, and the site of its master.
#[derive(Clone, Debug)]
pub(super) struct Share {
    pub(super) table: TableId,
    pub(super) range: KeyRange,
    pub(super) site: Site,
}

/// The type of a column with these keys: int64 if all of them are, else text.
pub(crate) fn key_type<'a>(mut keys: impl Iterator<Item = &'a RecordedKey>) -> ColumnType {
    match keys.all(|key| matches!(key, RecordedKey::Int(_))) {
        true => ColumnType::Int64,
        false => ColumnType::Text,
    }
}

/// The first bound of the rows of a key in a schema. Types other than int64 and text are parsed as
/// in the design's text form.
pub(crate) fn encode_key(schema: &Schema, key: &RecordedKey) -> Result<Key, MappedError> {
    let wrong = |problem: String| MappedError::Key {
        key: key.to_string(),
        table: schema.name().to_owned(),
        column: schema.key_columns().next().map(Column::to_string).unwrap_or_default(),
        problem,
    };
    let ty = schema.key_columns().next().map(|column| column.ty);
    let bound = match (ty, key) {
        (Some(ColumnType::Int64), RecordedKey::Int(key)) => {
            schema.encode_prefix(&[Value::Int64(*key)])?
        }
        (Some(ColumnType::Text), key) => schema.encode_prefix(&[Value::Text(key.to_string())])?,
        (_, key) => {
            schema.parse_key(&key.to_string()).map_err(|error| wrong(error.problem.to_string()))?
        }
    };
    match bound.is_empty() {
        true => Err(wrong("it is empty".to_owned())),
        false => Ok(bound),
    }
}

/// The vertices of a table: neighbours, because a recording's keys are sorted.
pub(super) fn vertices_of(
    keys: &KeyTable,
    table: u16,
) -> impl Iterator<Item = Vertex> + Clone + '_ {
    let all = 0..keys.len() as Vertex;
    all.skip_while(move |&key| keys.table_of(key) < table)
        .take_while(move |&key| keys.table_of(key) == table)
}

/// The first bound of the rows of each key, as the table's schema has it.
pub(super) fn bounds(
    keys: &KeyTable,
    schema: &Schema,
    of: impl Iterator<Item = Vertex>,
) -> Result<Vec<(Key, Vertex)>, MappedError> {
    of.map(|vertex| Ok((encode_key(schema, keys.vertex(vertex).1)?, vertex))).collect()
}

/// Divides the partitions of a table among its recorded keys.
pub(super) fn divide(
    keys: &KeyTable,
    number: u16,
    id: TableId,
    table: &TableDesign,
    shares: &mut [Share],
) -> Result<(), MappedError> {
    let mut sorted = bounds(keys, table.schema(), vertices_of(keys, number))?;
    sorted.sort();
    // The limit of the previous key's share: the end of its partition.
    let mut last: Option<(Vertex, Key, Option<Key>)> = None;
    for (bound, vertex) in sorted {
        let rows = KeyRange::starting_with(bound.clone());
        let mut partitions = table.partitions_in(&rows);
        let Some((first, placement)) = partitions.next() else { continue };
        let mut end = first.end;
        for (next, other) in partitions {
            if other.master != placement.master {
                let (key, first, second) = (keys.label(vertex), placement.master, other.master);
                return Err(MappedError::Cut { key, first, second });
            }
            end = next.end;
        }
        let mut start = first.start;
        if let Some((before, same, limit)) = last.take() {
            if same == bound {
                let (first, second) = (keys.label(before), keys.label(vertex));
                return Err(MappedError::Same { first, second });
            }
            if limit.as_ref().is_none_or(|limit| *limit > start) {
                start = bound.clone();
                shares[before as usize].range.end = Some(bound.clone());
            }
        }
        let site = placement.master.0 - 1;
        let range = KeyRange::new(start, end.clone());
        shares[vertex as usize] = Share { table: id, range, site };
        last = Some((vertex, bound, end));
    }
    Ok(())
}
