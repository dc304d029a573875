//! The values of sequences: assigns the next one, and none twice.
//!
//! ```text
//!   isomer_sequence_values    sequence → the last value reserved, and true if it was assigned
//!   in memory, for each       1025 was assigned, and 1023 more can be without a write
//! ```
//!
//! Values are reserved in blocks, so a value costs no write and sequences are no hot spot. The
//! rest of a block becomes a gap when the process ends. A rollback returns no value. Each sequence
//! has its own lock, which is held while a block is reserved.

use super::gateways::tell;
use super::{Engine, Told, damaged};
use crate::backend::explain;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use isomer_cluster::{Isolation, LockMode, OpenError};
use isomer_design::{Column, ColumnType, Key, Schema, TableId, Value};
use isomer_sql::SqlError;
use isomer_sql::catalog::Catalog;
use isomer_sql::sequence::Sequence;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The values of a block, unless the sequence has a larger CACHE.
const BLOCK: i64 = 1024;

/// See the [module documentation](self).
pub(crate) struct Numbers {
    table: (TableId, Arc<Schema>),
    blocks: Mutex<HashMap<u32, Arc<Mutex<Block>>, FixedState>>,
}

/// The state of a sequence in memory.
#[derive(Default)]
struct Block {
    /// The last value, and true if it was assigned; otherwise it is the next one.
    last: Option<(i64, bool)>,
    /// The number of further values that are reserved.
    left: i64,
    /// The increment, minimum and maximum of the reservation.
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

    /// Gives up the values of a sequence that are reserved here, because it was set elsewhere.
    pub(super) fn forget_block(&self, state: u32) {
        self.blocks.lock().remove(&state);
    }
}

impl Engine {
    /// Assigns the next value of a sequence.
    pub(crate) fn next_number(&self, sequence: &Sequence) -> Result<i64, SqlError> {
        let block = self.numbers.block(sequence.state);
        let mut block = block.lock();
        let of = (sequence.increment, sequence.min, sequence.max);
        if let Some((last, _)) = block.last.filter(|_| block.left > 0 && block.of == of) {
            let next = sequence.after(last)?;
            (block.last, block.left) = (Some((next, true)), block.left - 1);
            return Ok(next);
        }
        let before = block.last.filter(|_| !self.database().others().are_there());
        let (mut next, mut more) = (0, 0);
        change_number(self, sequence, |stored| {
            // Without other gateways, the rest of a block with other bounds is not lost.
            let (last, is_called) = before.unwrap_or(stored);
            next = if is_called { sequence.after(last)? } else { last };
            // At most the values up to the end of the sequence or its wrap-around.
            let way = if sequence.increment > 0 { sequence.max } else { sequence.min };
            let most = (i128::from(way) - i128::from(next)) / i128::from(sequence.increment);
            more =
                i64::try_from(most).unwrap_or(i64::MAX).min(BLOCK.max(sequence.cache) - 1).max(0);
            let reserved = i128::from(next) + i128::from(more) * i128::from(sequence.increment);
            Ok((i64::try_from(reserved).map_err(damaged)?, true))
        })?;
        *block = Block { last: Some((next, true)), left: more, of };
        Ok(next)
    }

    /// Sets the last value of a sequence, or the next one if `is_called` is false.
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
        drop(block);
        tell(self, &Told::Number(sequence.state));
        Ok(())
    }

    /// The last value of a sequence, or the next one with false.
    pub(crate) fn last_number(&self, sequence: &Sequence) -> Result<(i64, bool), SqlError> {
        let block = self.numbers.block(sequence.state);
        let last = block.lock().last;
        last.map_or_else(|| self.kept_number(sequence), Ok)
    }

    /// Deletes the states of dropped sequences.
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

    /// Deletes the states of sequences that are not in the catalog, left over by a crash.
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
        let (key, row) = number_row(self, state, last, is_called)?;
        self.write(self.numbers.table.0, &[(key, Some(row))])
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
        stored(sequence, found.as_deref())
    }
}

/// Changes the stored value of a sequence, while no other gateway does.
fn change_number(
    engine: &Engine,
    sequence: &Sequence,
    mut change: impl FnMut((i64, bool)) -> Result<(i64, bool), SqlError>,
) -> Result<(), SqlError> {
    let (table, schema) = &engine.numbers.table;
    let key = schema.encode_key(&[Value::Int64(sequence.state.into())]).map_err(damaged)?;
    loop {
        let mut txn = engine.gateway().begin(Isolation::ReadCommitted, Arc::default());
        txn.lock(*table, &key, LockMode::Exclusive, true).map_err(explain)?;
        txn.look_again();
        let mut found = None;
        let read = |row: &[u8]| found = schema.decode_row(key.as_bytes(), row).ok();
        let locked = txn.get_locked(*table, &key, read).map_err(explain)?;
        let (last, is_called) = change(stored(sequence, found.as_deref())?)?;
        let row = number_row(engine, sequence.state, last, is_called)?.1;
        txn.put(*table, key.clone(), locked.base, Some(row)).map_err(explain)?;
        match txn.commit() {
            Err(OpenError::Changed) => {}
            done => return done.map(drop).map_err(explain),
        }
    }
}

fn number_row(
    engine: &Engine,
    state: u32,
    last: i64,
    is_called: bool,
) -> Result<(Key, Vec<u8>), SqlError> {
    let values = [Value::Int64(state.into()), Value::Int64(last), Value::Bool(is_called)];
    engine.numbers.table.1.encode_row(&values).map_err(damaged)
}

/// The value in the row of a sequence.
fn stored(sequence: &Sequence, row: Option<&[Value]>) -> Result<(i64, bool), SqlError> {
    match row {
        Some([_, Value::Int64(last), Value::Bool(is_called)]) => Ok((*last, *is_called)),
        _ => Err(damaged(format!("sequence \"{}\" has no number", sequence.name))),
    }
}
