//! `t TABLESAMPLE BERNOULLI | SYSTEM (percent) [REPEATABLE (seed)]` as a query.
//!
//! ```text
//!   FROM t AS x TABLESAMPLE bernoulli (10)
//!   FROM (SELECT * FROM t WHERE random() * 100 < "sample percent"(10)) AS x
//! ```
//!
//! There are no pages, so SYSTEM takes single rows as BERNOULLI does. With REPEATABLE, the values
//! of a row and the seed decide about it, so equal rows are in the sample together.

use crate::error::{SqlError, code};
use sqlparser::ast::{
    Ident, Statement, TableAlias, TableFactor, TableSample, TableSampleKind, TableSampleMethod,
    TableSampleModifier, TableSampleSeedModifier, Value,
};

/// The functions of the condition.
pub(crate) const PERCENT: &str = "sample percent";
pub(crate) const NUMBER: &str = "sample number";

/// A source with TABLESAMPLE as a query; `None` for other sources.
///
/// # Errors
/// 42601, 42704, 2202G, 2202H.
pub(crate) fn sampled(factor: &TableFactor) -> Result<Option<TableFactor>, SqlError> {
    let TableFactor::Table { name, alias, sample: Some(kind), .. } = factor else {
        return Ok(None);
    };
    let (TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) =
        kind;
    let percent = percent(sample)?;
    let last = name.0.last().and_then(|part| part.as_ident());
    let number = match &sample.seed {
        None => "random()".to_owned(),
        Some(seed) if seed.value.value == Value::Null => {
            let message = "TABLESAMPLE REPEATABLE parameter cannot be null";
            return Err(SqlError::new("2202G", message));
        }
        Some(seed) => {
            let row = last.map(Ident::to_string).unwrap_or_default();
            format!("\"{NUMBER}\"({}, {row})", seed.value)
        }
    };
    let text = format!("SELECT * FROM {name} WHERE {number} * 100 < \"{PERCENT}\"({percent})");
    let Some(super::Parsed::Sql(statement)) = super::parse(&text)?.pop() else {
        return Err(SqlError::new(code::SYNTAX, "a sample is no query"));
    };
    let Statement::Query(subquery) = *statement else {
        return Err(SqlError::new(code::SYNTAX, "a sample is no query"));
    };
    let own = || {
        last.map(|name| TableAlias {
            explicit: false,
            name: name.clone(),
            columns: Vec::new(),
            at: None,
        })
    };
    let alias = alias.clone().or_else(own);
    Ok(Some(TableFactor::Derived { lateral: false, subquery, alias, sample: None }))
}

/// The percentage of a sample, as written.
fn percent(sample: &TableSample) -> Result<String, SqlError> {
    let wrong =
        |near: &str| SqlError::new(code::SYNTAX, format!("syntax error at or near \"{near}\""));
    if sample.modifier != TableSampleModifier::TableSample {
        return Err(wrong("SAMPLE"));
    }
    if let Some(seed) = &sample.seed
        && seed.modifier != TableSampleSeedModifier::Repeatable
    {
        return Err(wrong("SEED"));
    }
    if sample.bucket.is_some() || sample.offset.is_some() {
        return Err(wrong("("));
    }
    match &sample.name {
        Some(TableSampleMethod::Bernoulli | TableSampleMethod::System) => {}
        Some(other) => {
            let name = other.to_string().to_lowercase();
            let message = format!("tablesample method {name} does not exist");
            return Err(SqlError::new(code::UNDEFINED_OBJECT, message));
        }
        None => return Err(wrong("(")),
    }
    match &sample.quantity {
        Some(quantity) if quantity.unit.is_none() && quantity.parenthesized => {
            Ok(quantity.value.to_string())
        }
        _ => Err(wrong(")")),
    }
}
