//! The outcome of a statement, as a client sees it.

use super::statements::Statement;
use postgres::types::private::BytesMut;
use postgres::types::{Format, FromSql, IsNull, ToSql, Type, to_sql_checked};
use postgres::{Client, Error, SimpleQueryMessage};

/// An outcome.
#[derive(PartialEq, Debug)]
pub(crate) enum Outcome {
    /// Rows and counts of a statement sent as text.
    Told(Vec<String>),
    /// Types of the parameters and of the columns, and rows in their binary form.
    Typed { params: Vec<Type>, columns: Vec<(String, Type)>, rows: Vec<String> },
    /// The class of an error.
    Refused(String),
}

impl Outcome {
    /// The kind of outcome, for counting.
    pub(crate) fn kind(&self) -> &str {
        match self {
            Outcome::Told(rows) if rows.len() > 1 => "text, rows",
            Outcome::Told(_) => "text, no rows",
            Outcome::Typed { rows, .. } if rows.is_empty() => "prepared, no rows",
            Outcome::Typed { .. } => "prepared, rows",
            Outcome::Refused(class) => class,
        }
    }
}

/// Runs a statement.
pub(crate) fn outcome(client: &mut Client, statement: &Statement) -> Outcome {
    let done = match &statement.params {
        None => told(client, &statement.text),
        Some(params) => typed(client, &statement.text, params),
    };
    match done {
        Ok(Outcome::Told(mut rows)) if !statement.is_ordered => {
            rows.sort();
            Outcome::Told(rows)
        }
        Ok(Outcome::Typed { params, columns, mut rows }) if !statement.is_ordered => {
            rows.sort();
            Outcome::Typed { params, columns, rows }
        }
        Ok(done) => done,
        Err(error) => {
            let code = error.code().unwrap_or_else(|| panic!("{error:?}: {statement:?}"));
            assert_ne!(code.code(), "XX000", "{error:?}: {statement:?}");
            Outcome::Refused(code.code()[..2].to_owned())
        }
    }
}

fn told(client: &mut Client, text: &str) -> Result<Outcome, Error> {
    let line = |message| match message {
        SimpleQueryMessage::Row(row) => {
            let values = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL"));
            Some(values.collect::<Vec<_>>().join("|"))
        }
        SimpleQueryMessage::CommandComplete(count) => Some(format!("({count})")),
        _ => None,
    };
    Ok(Outcome::Told(client.simple_query(text)?.into_iter().filter_map(line).collect()))
}

fn typed(client: &mut Client, text: &str, params: &[String]) -> Result<Outcome, Error> {
    let prepared = client.prepare(text)?;
    let given: Vec<Given<'_>> = params.iter().map(|text| Given(text)).collect();
    let given: Vec<&(dyn ToSql + Sync)> = given.iter().map(|it| it as _).collect();
    let rows = client.query(&prepared, &given)?;
    let line = |row: &postgres::Row| {
        (0..row.len()).map(|at| row.get::<_, Raw>(at).0).collect::<Vec<_>>().join("|")
    };
    let columns = prepared.columns().iter();
    Ok(Outcome::Typed {
        params: prepared.params().to_vec(),
        columns: columns.map(|one| (one.name().to_owned(), one.type_().clone())).collect(),
        rows: rows.iter().map(line).collect(),
    })
}

/// A parameter given as text, independent of its type.
#[derive(Debug)]
struct Given<'t>(&'t str);

impl ToSql for Given<'_> {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

/// A value in its binary form.
struct Raw(String);

impl<'a> FromSql<'a> for Raw {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Raw, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Raw(raw.escape_ascii().to_string()))
    }

    fn from_sql_null(_: &Type) -> Result<Raw, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Raw("NULL".to_owned()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}
