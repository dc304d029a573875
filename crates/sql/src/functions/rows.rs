//! Functions that make rows and ask about them.

use crate::budget::Budget;
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::row_value::RowValue;
use crate::types::SqlType;

/// A function of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowFunc {
    /// A row of the columns of the first argument, which is a row itself, with the other arguments
    /// as values.
    Make,
    /// As `Make`, of a source of a query. A row without any value is taken to be the missing side
    /// of an outer join.
    OfSource,
    /// The elements of an array, of the type with this number.
    OfArray,
    /// `IS NULL`: each value is NULL.
    IsEmpty,
    /// `IS NOT NULL`: no value is NULL.
    IsFull,
}

/// Calls a function.
///
/// # Errors
/// 54000 if the memory of the statement does not suffice.
pub(super) fn call(func: RowFunc, args: &[Datum], budget: &Budget) -> Result<Datum, SqlError> {
    let (values, may_be_missing) = match func {
        RowFunc::Make => (args.get(1..), false),
        RowFunc::OfSource => (args.get(1..), true),
        RowFunc::OfArray => return of_array(args, budget),
        RowFunc::IsEmpty => return Ok(Datum::Bool(asked(&args[0], |row| row.is_empty(), true))),
        RowFunc::IsFull => return Ok(Datum::Bool(asked(&args[0], |row| row.is_full(), false))),
    };
    let (Some(Datum::Row(columns)), Some(values)) = (args.first(), values) else {
        return Err(SqlError::new(code::INTERNAL, "a row has no description of its columns"));
    };
    if may_be_missing && values.iter().all(Datum::is_null) {
        return Ok(Datum::Null);
    }
    budget.charge(values.iter().map(Datum::bytes).sum())?;
    Ok(Datum::Row(Box::new(columns.with(values))))
}

fn of_array(args: &[Datum], budget: &Budget) -> Result<Datum, SqlError> {
    let ty = args.get(1).and_then(Datum::as_int).and_then(SqlType::numbered);
    let (Some(Datum::Text(array)), Some(ty)) = (args.first(), ty) else { return Ok(Datum::Null) };
    budget.charge(array.len() * size_of::<Datum>())?;
    let values = crate::array::values(array, ty).collect::<Result<Vec<_>, _>>()?;
    let columns = vec![(String::new(), ty); values.len()];
    Ok(Datum::Row(Box::new(RowValue::of_nulls(columns).with(&values))))
}

fn asked(value: &Datum, ask: impl Fn(&RowValue) -> bool, of_null: bool) -> bool {
    match value {
        Datum::Row(row) => ask(row),
        value => value.is_null() == of_null,
    }
}
