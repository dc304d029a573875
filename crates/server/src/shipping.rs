//! Statements that run at another process: the messages of sessions to its [guests](crate::guests),
//! and the answers; and what is counted.
//!
//! A statement travels as its text, with the values of its parameters and the settings of its
//! session. The answer is made of messages of the protocol, which the session passes on.

use crate::figures::Figure;
use crate::wire::{Formats, Reader};
use isomer_cluster::{CancelReason, Committed, Place, Ran};
use isomer_design::{SiteId, Time};
use isomer_sql::datum::Datum;
use isomer_sql::error::About;
use isomer_sql::plan::OutputColumn;
use isomer_sql::statement::Unplaced;
use isomer_sql::{SqlError, SqlType, binary};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Identifies a statement: the number of its client, and the client's count.
pub(crate) type Number = (i32, u64);

/// A request to the guests of another process.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Asked<'a> {
    /// Run a statement.
    #[serde(borrow)]
    Run(Shipped<'a>),
    /// End a statement, for a reason.
    End(Number, u8),
    /// The client's process knows what is to be committed: commit it.
    Go(Number),
}

/// Bytes that come before the answer to [`Asked::Run`].
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Early<'a> {
    /// The statement has ended, with this result, and is about to commit.
    Promise(#[serde(borrow)] Answered<'a>, &'a [u8]),
    /// The commit is visible, and has this time.
    Published(u64),
}

/// A statement.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) struct Shipped<'a> {
    pub(crate) number: Number,
    /// See [`crate::settings::sent`].
    pub(crate) settings: &'a [u8],
    /// The time of its beginning, in microseconds since 1970.
    pub(crate) begun_us: i64,
    pub(crate) text: &'a str,
    /// The types of parameters that the client has specified, by oid.
    pub(crate) given: Vec<u32>,
    /// The types of all parameters, and their values: see [`params`].
    pub(crate) types: Vec<u32>,
    pub(crate) params: &'a [u8],
    /// True for each column of the result that is to be binary.
    pub(crate) formats: &'a [u8],
    pub(crate) describes: bool,
    /// The columns that the client knows: see [`columns`].
    pub(crate) columns: u64,
    /// The rows of ordered tables that it writes move to the process that runs it.
    pub(crate) takes_rows: bool,
}

/// The answer to [`Asked::Run`].
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Answer<'a> {
    /// Nothing was done, for a reason.
    NotHere(&'a str),
    #[serde(borrow)]
    Ran(Answered<'a>),
}

/// The result of a statement.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) struct Answered<'a> {
    /// The messages to the client.
    pub(crate) messages: &'a [u8],
    pub(crate) error: Option<Box<Told>>,
    /// The number of rows, for statistics.
    pub(crate) rows: u64,
    /// The sites of the commit: the first, whether there are others, changes of the design, time.
    pub(crate) ran: Option<(u16, bool, usize, Option<u64>)>,
}

impl Answered<'_> {
    /// The commit, as the session's own.
    pub(crate) fn ran(&self) -> Option<Ran> {
        let (site, is_distributed, changes, commit) = self.ran?;
        let place = match is_distributed {
            true => Place::Distributed { coordinator: SiteId(site) },
            false => Place::At(SiteId(site)),
        };
        let commit = commit.map(Time);
        let committed = Committed { snapshot: commit.unwrap_or(Time::ZERO), commit };
        Some(Ran { place, committed, changes, is_found: false })
    }
}

/// A commit, as it is sent.
pub(crate) fn sent(ran: &Ran) -> (u16, bool, usize, Option<u64>) {
    let is_distributed = matches!(ran.place, Place::Distributed { .. });
    (ran.place.site().0, is_distributed, ran.changes, ran.committed.commit.map(|time| time.0))
}

/// An error, as it is sent.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) struct Told {
    code: String,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
    position: Option<usize>,
    about: Option<[String; 6]>,
}

impl From<SqlError> for Told {
    fn from(error: SqlError) -> Told {
        let SqlError { code, message, detail, hint, position, about } = error;
        let about = about.map(|about| {
            let About { schema, table, column, datatype, constraint, context } = *about;
            [schema, table, column, datatype, constraint, context]
        });
        Told { code: code.to_owned(), message, detail, hint, position, about }
    }
}

impl From<Told> for SqlError {
    fn from(told: Told) -> SqlError {
        let Told { code, message, detail, hint, position, about } = told;
        let about = about.map(|[schema, table, column, datatype, constraint, context]| {
            Box::new(About { schema, table, column, datatype, constraint, context })
        });
        SqlError { code: known_code(&code), message, detail, hint, position, about }
    }
}

/// The SQLSTATEs that have come from other processes, each once.
static CODES: LazyLock<Mutex<BTreeSet<&'static str>>> = LazyLock::new(Mutex::default);
/// More codes than there are.
const CODES_MAX: usize = 1_000;

/// The same code, for ever.
fn known_code(code: &str) -> &'static str {
    let mut codes = CODES.lock();
    match codes.get(code) {
        Some(known) => known,
        None if codes.len() < CODES_MAX && code.len() == 5 => {
            let known: &'static str = Box::leak(code.to_owned().into_boxed_str());
            codes.insert(known);
            known
        }
        None => isomer_sql::code::INTERNAL,
    }
}

/// The values of parameters: for each, its length or -1, and its binary form.
pub(crate) fn params(values: &[Datum], types: &[SqlType]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (value, ty) in values.iter().zip(types) {
        let at = bytes.len();
        bytes.extend((-1i32).to_be_bytes());
        if !value.is_null() {
            binary::encode(value, *ty, &mut bytes);
            let length = (bytes.len() - at - 4) as i32;
            bytes[at..at + 4].copy_from_slice(&length.to_be_bytes());
        }
    }
    bytes
}

/// Reads [`params`].
///
/// # Errors
/// If the bytes are no values of these types.
pub(crate) fn read_params(bytes: &[u8], types: &[SqlType]) -> Result<Vec<Datum>, SqlError> {
    let mut reader = Reader::new(bytes);
    let value = |ty: &SqlType| match usize::try_from(reader.i32()?) {
        Ok(length) => binary::decode(reader.bytes(length)?, *ty),
        Err(_) => Ok(Datum::Null),
    };
    types.iter().map(value).collect()
}

/// The formats of the columns of a result.
pub(crate) fn formats(formats: &Formats, columns: usize) -> Vec<u8> {
    (0..columns).map(|at| u8::from(formats.is_binary(at))).collect()
}

/// Reads [`formats`].
pub(crate) fn read_formats(bytes: &[u8]) -> Formats {
    let mut body = (bytes.len() as u16).to_be_bytes().to_vec();
    bytes.iter().for_each(|format| body.extend(u16::from(*format != 0).to_be_bytes()));
    Formats::read(&mut Reader::new(&body)).unwrap_or_default()
}

/// A number for the names and types of the columns of a result. Two results with the same number
/// have the same columns.
pub(crate) fn columns(output: Option<&[OutputColumn]>) -> u64 {
    use std::hash::{BuildHasher, Hash, Hasher};
    let mut hash = foldhash::fast::FixedState::default().build_hasher();
    for column in output.unwrap_or_default() {
        (&*column.name, column.ty.oid(), column.ty.modifier(), column.origin).hash(&mut hash);
    }
    (output.is_some(), hash.finish()).hash(&mut hash);
    hash.finish()
}

pub(crate) fn write(value: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(value).expect("values without rules of their own can always be written")
}

pub(crate) fn read<'b, T: Deserialize<'b>>(bytes: &'b [u8]) -> Option<T> {
    postcard::from_bytes(bytes).ok()
}

/// The reason of this number.
pub(crate) fn reason(number: u8) -> CancelReason {
    use CancelReason::{
        Asked, Gone, LockTime, SentAway, Shutdown, StatementTime, Terminated, TransactionTime,
    };
    let all = [Asked, StatementTime, TransactionTime, LockTime, Shutdown, SentAway, Gone];
    all.into_iter().find(|why| *why as u8 == number).unwrap_or(Terminated)
}

/// Where a statement outside of a block has run, and why not elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Outcome {
    /// At another process, which has its rows.
    Shipped,
    /// Here, because `ship_statements` is off.
    Off,
    /// Here, where its rows are.
    RowsHere,
    /// Here, because its rows are at several processes.
    RowsSpread,
    /// Here, because its rows are not known before it runs, or its table is ordered.
    RowsUnknown,
    /// Here, because a function in it depends on the session.
    Function,
    /// Here, because the session has temporary tables or advisory locks.
    Session,
    /// Here, because other statements may belong to its transaction.
    NotAlone,
    /// Here, because the other process cannot be reached.
    Unreachable,
    /// Here, because the other process refused it.
    Refused,
    /// Here, a second time, because the other process was lost. It only reads.
    Repeated,
    /// The other process was lost, and the outcome is not known.
    Lost,
}

impl Outcome {
    /// Its labels: where it has run, and why.
    fn labels(self) -> [&'static str; 2] {
        match self {
            Outcome::Shipped => ["elsewhere", "rows"],
            Outcome::Off => ["here", "off"],
            Outcome::RowsHere => ["here", "rows"],
            Outcome::RowsSpread => ["here", "rows spread"],
            Outcome::RowsUnknown => ["here", "rows unknown"],
            Outcome::Function => ["here", "function"],
            Outcome::Session => ["here", "session"],
            Outcome::NotAlone => ["here", "not alone"],
            Outcome::Unreachable => ["here", "unreachable"],
            Outcome::Refused => ["here", "refused"],
            Outcome::Repeated => ["here", "lost"],
            Outcome::Lost => ["unknown", "lost"],
        }
    }
}

impl From<Unplaced> for Outcome {
    fn from(why: Unplaced) -> Outcome {
        match why {
            Unplaced::Kind | Unplaced::Rows => Outcome::RowsUnknown,
            Unplaced::Function => Outcome::Function,
        }
    }
}

/// Counts of statements outside of a block by where they have run.
#[derive(Default)]
pub(crate) struct Shipments(Mutex<BTreeMap<Outcome, u64>>);

impl Shipments {
    pub(crate) fn count(&self, outcome: Outcome) {
        *self.0.lock().entry(outcome).or_default() += 1;
    }

    pub(crate) fn figures(&self) -> Vec<Figure> {
        let help = "Statements outside of a block, by where they have run and why.";
        let figure = |(outcome, count): (&Outcome, &u64)| {
            let [ran, why] = outcome.labels();
            let figure = Figure::counter("isomer_statements_shipped", help, *count);
            figure.with("ran", ran).with("reason", why)
        };
        let mut counts = self.0.lock();
        // Rates need a count that was 0.
        counts.entry(Outcome::Shipped).or_default();
        counts.iter().map(figure).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_arrives_with_all_its_fields() {
        let error = SqlError::new("23505", "no")
            .detail("a detail")
            .hint("a hint")
            .context("here".to_owned());
        let bytes = write(&Told::from(SqlError { position: Some(7), ..error.clone() }));
        let there: SqlError = read::<Told>(&bytes).expect("an error").into();
        assert_eq!(there, SqlError { position: Some(7), ..error });
        assert_eq!(known_code("no code"), "XX000");
    }

    #[test]
    fn values_and_formats_arrive() {
        let types = [SqlType::Int4, SqlType::Text, SqlType::Int8];
        let values = [Datum::Int(-3), Datum::Null, Datum::Int(1 << 40)];
        let there = read_params(&params(&values, &types), &types).expect("values");
        assert_eq!(format!("{there:?}"), format!("{values:?}"));
        assert!(read_params(b"\0\0\0\x09", &types).is_err());
        for each in [&[][..], &[0], &[1], &[0, 1, 0], &[1, 1]] {
            let there = read_formats(each);
            let all = (0..each.len()).map(|at| u8::from(there.is_binary(at)));
            assert_eq!(all.collect::<Vec<_>>(), each);
        }
    }
}
