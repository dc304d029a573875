//! Encodes rows, and maintains the entries of indexes.

use super::immutable::Evaluate;
use super::{Exec, Row};
use crate::catalog::{Beside, Copies, Index, Part, Table};
use crate::datum::{Datum, convert};
use crate::error::{SqlError, code};
use crate::plan::RowRules;
use crate::transaction::{Base, LockKind};
use isomer_design::{Key, KeyRange, RowError, TableId, Value};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The key of a row whose key columns have these values.
pub(crate) fn key_of(table: &Table, values: &[Datum]) -> Result<Key, SqlError> {
    let slots = table.key_slots();
    let values = slots.iter().zip(values);
    let values: Vec<Value> =
        values.map(|(&slot, value)| value.clone().into_value(table.slot_type(slot))).collect();
    table.schema.encode_key(&values).map_err(refused)
}

fn refused(error: RowError) -> SqlError {
    let code = match error {
        RowError::KeyTooLong { .. } | RowError::RowTooLong { .. } => code::PROGRAM_LIMIT,
        _ => code::DATATYPE_MISMATCH,
    };
    SqlError::new(code, error.to_string())
}

/// The text of a row in an error.
type Shown<'s> = &'s dyn Fn(&[Datum]) -> String;

/// Converts values of a row to the types of their columns.
fn fit_types(
    table: &Table,
    columns: impl Iterator<Item = usize>,
    values: &mut [Datum],
) -> Result<(), SqlError> {
    for at in columns {
        let given = std::mem::replace(&mut values[at], Datum::Null);
        values[at] = convert(given, table.columns[at].ty, false)?;
    }
    Ok(())
}

fn check_nulls(
    table: &Table,
    columns: impl Iterator<Item = usize>,
    values: &[Datum],
    shown: Shown<'_>,
) -> Result<(), SqlError> {
    for at in columns {
        let column = &table.columns[at];
        if values[at].is_null() && (column.not_null || table.is_in_key(at)) {
            return Err(is_null(table, at, &shown(values)));
        }
    }
    Ok(())
}

fn is_null(table: &Table, at: usize, row: &str) -> SqlError {
    let message = format!(
        "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
        table.columns[at].name, table.name
    );
    let error = failing(code::NOT_NULL_VIOLATION, message, row);
    error.about_column(&table.schema_name, &table.name, &table.columns[at].name)
}

fn failing(code: &'static str, message: String, row: &str) -> SqlError {
    SqlError::new(code, message).detail(format!("Failing row contains {row}."))
}

impl Exec<'_> {
    /// Converts and checks the values of a new row.
    pub(super) fn fit(
        &self,
        table: &Table,
        rules: &RowRules,
        values: &mut [Datum],
    ) -> Result<(), SqlError> {
        let columns = 0..table.columns.len();
        self.fit_columns(table, columns, rules, values, &|values| show(table, values))
    }

    /// As [`Exec::fit`], if the other columns are valid already: computed columns are among these.
    pub(super) fn fit_columns(
        &self,
        table: &Table,
        columns: impl Iterator<Item = usize> + Clone,
        rules: &RowRules,
        values: &mut [Datum],
        shown: Shown<'_>,
    ) -> Result<(), SqlError> {
        fit_types(table, columns.clone(), values)?;
        for (at, value) in &rules.computed {
            let value = self.eval(value, Row { values, given: &[] })?;
            values[*at] = convert(value, table.columns[*at].ty, false)?;
        }
        for (at, rule) in &rules.domains {
            if columns.clone().any(|column| column == *at) {
                self.check_domain(rule, &values[*at])?;
            }
        }
        check_nulls(table, columns, values, shown)?;
        let row = Row { values, given: &[] };
        for check in &rules.checks {
            if self.holds(&check.condition, row)? == Some(false) {
                let message = format!(
                    "new row for relation \"{}\" violates check constraint \"{}\"",
                    table.name, check.name
                );
                let error = failing(code::CHECK_VIOLATION, message, &shown(values));
                return Err(error.about(&table.schema_name, &table.name, &check.name));
            }
        }
        Ok(())
    }
}

/// The largest length of a value in errors.
const SHOWN_BYTES: usize = 64;

/// The text of a row in errors.
pub(super) fn show(table: &Table, values: &[Datum]) -> String {
    let shown = table.columns.iter().zip(values).map(|(column, value)| match value {
        Datum::Null => "null".to_owned(),
        value => {
            let shown = crate::text::format(value, column.ty);
            let end = shown.floor_char_boundary(SHOWN_BYTES);
            if end < shown.len() { format!("{}...", &shown[..end]) } else { shown.into_owned() }
        }
    });
    format!("({})", shown.collect::<Vec<_>>().join(", "))
}

/// The key and the bytes of a row whose values have the types of their columns.
pub(crate) fn encode(table: &Table, values: &[Datum]) -> Result<(Key, Vec<u8>), SqlError> {
    let values: Vec<Value> = values
        .iter()
        .enumerate()
        .map(|(slot, value)| value.clone().into_value(table.slot_type(slot)))
        .collect();
    table.schema.encode_row(&values).map_err(refused)
}

/// The bytes of a row with new values in the assigned columns, none of which is in the key.
pub(super) fn patch(
    table: &Table,
    row: Vec<u8>,
    set: &[(usize, Datum)],
    new: &[Datum],
) -> Result<Vec<u8>, SqlError> {
    let changes = set.iter().map(|&(at, _)| (at, new[at].clone().into_value(table.slot_type(at))));
    table.schema.patch_row(row, &changes.collect::<Vec<_>>()).map_err(refused)
}

/// The value of a part of an index.
fn part_of(part: &Part, values: &[Datum], by: &dyn Evaluate) -> Result<Datum, SqlError> {
    match part {
        Part::Column(at) => Ok(values[*at].clone()),
        Part::Computed(computed) => convert(by.value(&computed.value, values)?, computed.ty, false),
    }
}

/// The first values of a row's entry in an index: its parts. The second result is true if one of
/// them is NULL.
fn entry_prefix(
    table: &Table,
    index: &Index,
    values: &[Datum],
    by: &dyn Evaluate,
) -> Result<(Vec<Value>, bool), SqlError> {
    let (mut prefix, mut has_null) = (Vec::new(), false);
    for part in &index.parts {
        let (value, ty) = (part_of(part, values, by)?, part.ty(table));
        let is_null = value.is_null();
        has_null |= is_null;
        if !part.is_known(table) {
            prefix.push(Value::Bool(is_null));
        }
        prefix.push(if is_null { zero(ty.storage()) } else { value.into_value(ty) });
    }
    Ok((prefix, has_null))
}

/// The value that follows a NULL mark.
fn zero(ty: isomer_design::ColumnType) -> Value {
    use isomer_design::ColumnType;
    match ty {
        ColumnType::Int64 | ColumnType::Date => Value::Int64(0),
        ColumnType::Float64 => Value::Float64(0.0),
        ColumnType::Decimal { .. } => Value::Decimal(0),
        ColumnType::Bool => Value::Bool(false),
        ColumnType::Numeric => Value::from("0"),
        ColumnType::Text => Value::Text(String::new()),
        ColumnType::Bytes => Value::Bytes(Vec::new()),
        ColumnType::Timestamp => Value::Timestamp(0),
    }
}

/// True if a row has an entry in an index: there is no predicate, or it holds.
fn is_in(index: &Index, values: &[Datum], by: &dyn Evaluate) -> Result<bool, SqlError> {
    match &index.predicate {
        None => Ok(true),
        Some(predicate) => Ok(by.truth(&predicate.value, values)? == Some(true)),
    }
}

/// See [`crate::catalog::entry_key`].
pub(crate) fn entry_key(
    table: &Table,
    index: &Index,
    values: &[Datum],
    by: &dyn Evaluate,
) -> Result<Option<Key>, SqlError> {
    if !is_in(index, values, by)? {
        return Ok(None);
    }
    let (mut entry, _) = entry_prefix(table, index, values, by)?;
    let key = table.key_slots();
    entry.extend(key.iter().map(|&slot| values[slot].clone().into_value(table.slot_type(slot))));
    index.schema.encode_key(&entry).map(Some).map_err(refused)
}

impl Exec<'_> {
    /// Writes or removes a row's entry in an index, if it has one. The row is locked, and so is its
    /// entry.
    pub(crate) fn put_entry(
        &self,
        table: &Table,
        index: &Index,
        values: &[Datum],
        present: bool,
    ) -> Result<(), SqlError> {
        if present && !index.is_entered {
            return Ok(());
        }
        let key = match entry_key(table, index, values, self) {
            // While the index is built there may be rows that it will not contain, and that have no
            // entry.
            Err(error) if !present && index.readable.is_none() && error.is_of_data() => None,
            key => key?,
        };
        let Some(key) = key else { return Ok(()) };
        self.txn.borrow_mut().put(index.id, key, Base::Any, present.then(Vec::new))
    }

    /// Repeats a change of a row in the table's other layout, if it has one. Locking the row in its
    /// own layout is sufficient: each row has one slot in each layout.
    pub(super) fn mirror(
        &self,
        table: &Table,
        old: Option<&[Datum]>,
        new: Option<&[Datum]>,
    ) -> Result<(), SqlError> {
        let Some(beside) = &table.beside else { return Ok(()) };
        if beside.layout.has_key() || !table.has_key() {
            return self.mirror_as(beside, old, new);
        }
        let id = self.row_id_beside(table, &beside.layout, old)?;
        let with = |values: &[Datum]| [values, std::slice::from_ref(&id)].concat();
        self.mirror_as(beside, old.map(with).as_deref(), new.map(with).as_deref())
    }

    /// The row id of a row in a layout that has no primary key yet. It is found by the unique index
    /// that enforces the key; a new row gets a new id.
    fn row_id_beside(
        &self,
        table: &Table,
        layout: &Table,
        old: Option<&[Datum]>,
    ) -> Result<Datum, SqlError> {
        let is_it = |index: &&Arc<Index>| index.is_of_all() && index.columns == table.key;
        let wrong = |what: String| SqlError::new(code::INTERNAL, what);
        let index = layout.indexes.iter().find(is_it);
        let index = index.ok_or_else(|| wrong("no index has the primary key".to_owned()))?;
        // The index may have been dropped while the statement waited, and the sequence of the row
        // ids is dropped after it. In this case the statement is planned again.
        self.txn.borrow_mut().hold(index.id)?;
        let Some(old) = old else {
            let sequence = crate::system::row_id_sequence(layout.id);
            return Ok(Datum::Int(self.txn.borrow_mut().next_value(&sequence)?));
        };
        let (prefix, _) = entry_prefix(layout, index, old, self)?;
        let prefix = index.schema.encode_prefix(&prefix).map_err(refused)?;
        let place = self.other_row(layout, index, &prefix, None)?;
        let place = place.ok_or_else(|| wrong("a row has no place beside".to_owned()))?;
        match layout.schema.decode_key(&place).map_err(refused)?.pop() {
            Some(Value::Int64(id)) => Ok(Datum::Int(id)),
            other => Err(wrong(format!("{other:?} is no row id"))),
        }
    }

    fn mirror_as(
        &self,
        beside: &Beside,
        old: Option<&[Datum]>,
        new: Option<&[Datum]>,
    ) -> Result<(), SqlError> {
        let layout = &*beside.layout;
        let mut removed: Vec<(TableId, Key)> = match old {
            Some(old) => places(layout, old, self)?,
            None => Vec::new(),
        };
        if let Some(new) = new {
            // A row that is invalid in the layout is refused, whether it is added or not.
            let added = copies(layout, new, self)?;
            for (to, key, row) in added.into_iter().filter(|_| beside.is_entered) {
                removed.retain(|place| (place.0, &place.1) != (to, &key));
                self.txn.borrow_mut().put(to, key, Base::Any, Some(row))?;
            }
        }
        for (from, key) in removed {
            self.txn.borrow_mut().put(from, key, Base::Any, None)?;
        }
        Ok(())
    }

    /// An error if a row has moved to another slot: the transaction waited for has changed its key,
    /// and the statement has to search again. PostgreSQL reports this for a row that moved to
    /// another partition.
    pub(super) fn check_moved(&self, table: &Table, key: &Key) -> Result<(), SqlError> {
        let Some(index) = &table.primary else { return Ok(()) };
        let damaged = |e: RowError| SqlError::new(code::INTERNAL, e.to_string());
        let (slots, place) = (table.key_slots(), table.schema.decode_key(key).map_err(damaged)?);
        let at = |column: &usize| slots.iter().position(|slot| slot == column);
        let named = index.columns.iter().filter_map(at).map(|at| place[at].clone());
        let prefix = index.schema.encode_prefix(&named.collect::<Vec<_>>()).map_err(damaged)?;
        match self.other_row(table, index, &prefix, Some(key))? {
            None => Ok(()),
            Some(_) => {
                let message = "the row was moved to another place while the statement waited";
                Err(SqlError::new(code::SERIALIZATION, message).hint("Run it again."))
            }
        }
    }

    /// The key of another row with the same values in a unique index, if there is one. Other
    /// transactions that want to write these values wait until this transaction ends.
    pub(crate) fn taken(
        &self,
        table: &Table,
        index: &Index,
        values: &[Datum],
        own: Option<&Key>,
    ) -> Result<Option<Key>, SqlError> {
        let Some(prefix) = unique_prefix(self, table, index, values)? else { return Ok(None) };
        // Another transaction may be about to delete the other row. The values are not locked while
        // waiting for it, as that transaction may want to write them again.
        if let Some(other) = self.other_row(table, index, &prefix, own)? {
            // The lock of an UPDATE does not tell whether an expression or a condition changes.
            let is_column = |part: &Part| matches!(part, Part::Column(_));
            let deletion = index.is_of_all() && index.parts.iter().all(is_column);
            self.txn.borrow_mut().wait_for_holders(table.id, &other, deletion)?;
        }
        self.txn.borrow_mut().lock(index.id, &prefix, LockKind::Exclusive, true)?;
        self.other_row(table, index, &prefix, own)
    }

    /// The key of the first row, except `own`, whose current entry in an index has this prefix.
    fn other_row(
        &self,
        table: &Table,
        index: &Index,
        prefix: &Key,
        own: Option<&Key>,
    ) -> Result<Option<Key>, SqlError> {
        let mut entries = Vec::new();
        let range = KeyRange::starting_with(prefix.clone());
        self.txn.borrow_mut().scan_newest(index.id, &range, &mut |key, _| {
            entries.push(Key::from_bytes(key));
            ControlFlow::Continue(())
        })?;
        for entry in entries {
            let key = super::find::row_key(table, index, &entry)?;
            if own != Some(&key) {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }
}

/// The values of a row in a unique index, if no other row may have the same.
pub(super) fn unique_prefix(
    exec: &Exec<'_>,
    table: &Table,
    index: &Index,
    values: &[Datum],
) -> Result<Option<Key>, SqlError> {
    if !index.unique || !is_in(index, values, exec)? {
        return Ok(None);
    }
    let (prefix, has_null) = entry_prefix(table, index, values, exec)?;
    if has_null && !index.nulls_equal {
        return Ok(None);
    }
    index.schema.encode_prefix(&prefix).map_err(refused).map(Some)
}

/// The slots of a row and its entries in a layout.
fn places(
    layout: &Table,
    values: &[Datum],
    by: &dyn Evaluate,
) -> Result<Vec<(TableId, Key)>, SqlError> {
    let slots = layout.key_slots();
    let place: Vec<Datum> = slots.iter().map(|&slot| values[slot].clone()).collect();
    let mut places = vec![(layout.id, key_of(layout, &place)?)];
    for index in layout.maintained() {
        places.extend(entry_key(layout, index, values, by)?.map(|key| (index.id, key)));
    }
    Ok(places)
}

/// See [`crate::catalog::copies`].
pub(crate) fn copies(
    layout: &Table,
    values: &[Datum],
    by: &dyn Evaluate,
) -> Result<Copies, SqlError> {
    if let Some(&at) = layout.key_slots().iter().find(|&&at| values[at].is_null()) {
        let hint = match layout.shard.contains(&at) {
            true => "The table is being sharded by this column.",
            false => "The column is about to be one of the primary key.",
        };
        return Err(is_null(layout, at, &show(layout, values)).hint(hint));
    }
    // There is no row id if there is a primary key.
    let (key, row) = encode(layout, &values[..layout.width()])?;
    let mut copies = vec![(layout.id, key, row)];
    for index in layout.maintained() {
        let entry = entry_key(layout, index, values, by)?;
        copies.extend(entry.map(|key| (index.id, key, Vec::new())));
    }
    Ok(copies)
}

/// The values of a row in a key or an index, as text for errors.
pub(crate) fn shown_key(
    table: &Table,
    parts: &[Part],
    values: &[Datum],
    by: &dyn Evaluate,
) -> String {
    let names: Vec<String> = parts.iter().map(|part| part.said(table)).collect();
    let shown = |part: &Part| {
        // It was computed before without an error.
        match part_of(part, values, by).unwrap_or(Datum::Null) {
            Datum::Null => "null".to_owned(),
            value => crate::text::format(&value, part.ty(table)).into_owned(),
        }
    };
    let shown: Vec<String> = parts.iter().map(shown).collect();
    format!("({})=({})", names.join(", "), shown.join(", "))
}

/// The error of a row whose values in a constraint another row has.
pub(super) fn taken_by(
    exec: &Exec<'_>,
    table: &Table,
    other: &Key,
    (constraint, parts): (&str, &[Part]),
    values: &[Datum],
) -> SqlError {
    match exec.txn.borrow_mut().has_come_since(table.id, other) {
        Err(error) => error,
        Ok(false) => duplicate(table, constraint, parts, values, exec),
        // It may be a later version of a row that the transaction has read, or looked for.
        Ok(true) => {
            let message = "another transaction has written the same values since this one began";
            SqlError::new(code::SERIALIZATION, message).hint("Run the transaction again.")
        }
    }
}

/// 23505, as PostgreSQL words it.
fn duplicate(
    table: &Table,
    constraint: &str,
    parts: &[Part],
    values: &[Datum],
    by: &dyn Evaluate,
) -> SqlError {
    let message = format!("duplicate key value violates unique constraint \"{constraint}\"");
    let detail = format!("Key {} already exists.", shown_key(table, parts, values, by));
    SqlError::new(code::UNIQUE_VIOLATION, message).detail(detail).about(
        &table.schema_name,
        &table.name,
        constraint,
    )
}

/// See [`crate::catalog::parts_of_entry`].
pub(crate) fn parts_of_entry(
    table: &Table,
    index: &Index,
    entry: &Key,
) -> Result<(Option<Key>, Key), SqlError> {
    let values = index.schema.decode_key(entry).map_err(refused)?;
    let indexed = values.len() - table.key_slots().len();
    let is_null = |at: usize| {
        let is_mark = index.slot_type(table, at).is_some_and(|(_, is_mark)| is_mark);
        is_mark && values[at] == Value::Bool(true)
    };
    let common = match !index.nulls_equal && (0..indexed).any(is_null) {
        true => None,
        false => Some(index.schema.encode_prefix(&values[..indexed]).map_err(refused)?),
    };
    Ok((common, table.schema.encode_key(&values[indexed..]).map_err(refused)?))
}

/// See [`crate::catalog::row_of`].
pub(crate) fn row_of(table: &Table, values: &[Datum]) -> Result<(Key, Vec<u8>), SqlError> {
    let mut values = values.to_vec();
    let columns = 0..table.columns.len();
    fit_types(table, columns.clone(), &mut values)?;
    check_nulls(table, columns, &values, &|values| show(table, values))?;
    encode(table, &values)
}
