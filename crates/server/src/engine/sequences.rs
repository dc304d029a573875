//! The numbers of sequences: which is the next, and that none is given twice.
//!
//! ```text
//!   isomer_sequence_values      sequence → the last number that may have been given, and whether it was
//!   in memory, for each         1025 was given, and 1023 more may be without asking again
//! ```
//!
//! Numbers are taken from the table in blocks, so that one costs no write, and sequences are no hot spot; a block that
//! was not used up when the process ended is a gap. No transaction takes a number back. Each sequence has a lock of its
//! own, which whoever takes a block of it holds until that is written.

use super::{Engine, damaged};
use crate::backend::explain;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use isomer_cluster::Isolation;
use isomer_design::{Column, ColumnType, Key, Schema, TableId, Value};
use isomer_sql::SqlError;
use isomer_sql::catalog::Catalog;
use isomer_sql::sequence::Sequence;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Numbers are taken so many at a time, unless a sequence asks for more.
const BLOCK: i64 = 1024;

/// See the [module documentation](self).
pub(crate) struct Numbers {
    table: (TableId, Arc<Schema>),
    blocks: Mutex<HashMap<u32, Arc<Mutex<Block>>, FixedState>>,
}

/// What is known of a sequence's numbers.
#[derive(Default)]
struct Block {
    /// The last one, and whether it was given or is to be the next.
    last: Option<(i64, bool)>,
    /// How many more may be given as they follow each other.
    left: i64,
    /// For a sequence that goes so: increment, least, greatest.
    of: (i64, i64, i64),
}

pub(super) fn values_schema() -> Result<Schema, isomer_design::SchemaError> {
    let columns = vec![
        Column::new("sequence", ColumnType::Int64),
        Column::new("last", ColumnType::Int64),
        Column::new("is_called", ColumnType::Bool),
    ];
    Schema::new("isomer_sequence_values", columns, &["sequence"])
}

impl Numbers {
    pub(super) fn of(table: (TableId, Arc<Schema>)) -> Numbers {
        Numbers { table, blocks: Mutex::default() }
    }

    fn block(&self, state: u32) -> Arc<Mutex<Block>> {
        self.blocks.lock().entry(state).or_default().clone()
    }
}

impl Engine {
    /// The next number of a sequence.
    pub(crate) fn next_number(&self, sequence: &Sequence) -> Result<i64, SqlError> {
        let block = self.numbers.block(sequence.state);
        let mut block = block.lock();
        let of = (sequence.increment, sequence.min, sequence.max);
        let (last, is_called) = match block.last {
            Some(last) => last,
            None => self.kept_number(sequence)?,
        };
        let next = if is_called { sequence.after(last)? } else { last };
        if block.left > 0 && block.of == of {
            block.left -= 1;
        } else {
            // As many as there are before it ends, or begins anew.
            let way = if sequence.increment > 0 { sequence.max } else { sequence.min };
            let most = (i128::from(way) - i128::from(next)) / i128::from(sequence.increment);
            let more =
                i64::try_from(most).unwrap_or(i64::MAX).min(BLOCK.max(sequence.cache) - 1).max(0);
            let reserved = i128::from(next) + i128::from(more) * i128::from(sequence.increment);
            let reserved = i64::try_from(reserved).map_err(damaged)?;
            self.keep_number(sequence.state, reserved, true)?;
            (block.left, block.of) = (more, of);
        }
        block.last = Some((next, true));
        Ok(next)
    }

    /// Makes a number the last of a sequence; or the next, if it was not given.
    pub(crate) fn set_number(
        &self,
        sequence: &Sequence,
        value: i64,
        is_called: bool,
    ) -> Result<(), SqlError> {
        let block = self.numbers.block(sequence.state);
        let mut block = block.lock();
        self.keep_number(sequence.state, value, is_called)?;
        *block = Block { last: Some((value, is_called)), ..Block::default() };
        Ok(())
    }

    /// The last number of a sequence; or the next, if it was not given.
    pub(crate) fn last_number(&self, sequence: &Sequence) -> Result<(i64, bool), SqlError> {
        let block = self.numbers.block(sequence.state);
        let last = block.lock().last;
        last.map_or_else(|| self.kept_number(sequence), Ok)
    }

    /// The numbers of sequences that are no more.
    pub(crate) fn forget_numbers(
        &self,
        states: impl IntoIterator<Item = u32>,
    ) -> Result<(), SqlError> {
        let (table, schema) = &self.numbers.table;
        let mut rows = Vec::new();
        for state in states {
            self.numbers.blocks.lock().remove(&state);
            rows.push((schema.encode_key(&[Value::Int64(state.into())]).map_err(damaged)?, None));
        }
        if rows.is_empty() { Ok(()) } else { self.write(*table, &rows) }
    }

    /// Forgets the numbers of sequences that the catalog has not: what a crash has left.
    pub(super) fn forget_unused_numbers(&self, catalog: &Catalog) -> Result<(), SqlError> {
        let used: BTreeSet<i64> =
            catalog.sequences.values().map(|sequence| sequence.state.into()).collect();
        let (table, schema) = &self.numbers.table;
        let mut unused: Vec<u32> = Vec::new();
        self.each_row(*table, |key, row| {
            if let Ok(Value::Int64(state)) = schema.read_column(key, row, 0)
                && !used.contains(&state)
            {
                unused.extend(u32::try_from(state));
            }
            ControlFlow::Continue(())
        })?;
        self.forget_numbers(unused)
    }

    fn keep_number(&self, state: u32, last: i64, is_called: bool) -> Result<(), SqlError> {
        let (table, schema) = &self.numbers.table;
        let values = [Value::Int64(state.into()), Value::Int64(last), Value::Bool(is_called)];
        let (key, row) = schema.encode_row(&values).map_err(damaged)?;
        self.write(*table, &[(key, Some(row))])
    }

    fn kept_number(&self, sequence: &Sequence) -> Result<(i64, bool), SqlError> {
        let (table, schema) = &self.numbers.table;
        let key: Key =
            schema.encode_key(&[Value::Int64(sequence.state.into())]).map_err(damaged)?;
        let mut found = None;
        let mut txn = self.gateway().begin(Isolation::ReadCommitted, Arc::default());
        txn.get(*table, &key, |row| {
            found = schema.decode_row(key.as_bytes(), row).ok();
        })
        .map_err(explain)?;
        match found.as_deref() {
            Some([_, Value::Int64(last), Value::Bool(is_called)]) => Ok((*last, *is_called)),
            _ => Err(damaged(format!("sequence \"{}\" has no number", sequence.name))),
        }
    }
}
