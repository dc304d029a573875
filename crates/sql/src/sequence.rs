//! Sequences: their definitions, and their use in defaults.
//!
//! ```text
//!   CREATE SEQUENCE s INCREMENT 2 MAXVALUE 9    1 3 5 7 9, then an error, or 1 again with CYCLE
//!   t (id serial)                               a sequence t_id_seq owned by t.id, and a default
//!   t (id int GENERATED ALWAYS AS IDENTITY)     likewise, but the default cannot be changed
//! ```
//!
//! A sequence in the catalog is an immutable value like a table. Its numbers are stored elsewhere,
//! under its [state number](Sequence::state), and are not part of a transaction: a number is issued
//! once, and is never returned. RESTART begins another state, so that it is undone with its
//! transaction.

use crate::catalog::{Catalog, Name, Named, PUBLIC, quoted, written_in_full};
use crate::error::{SqlError, code};
use crate::relation_texts::with_schemas;
use crate::types::{Reg, SqlType};
use std::fmt;

/// A sequence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sequence {
    /// Its oid.
    pub oid: u32,
    /// The schema that it is in.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// The number of its stored state. No other sequence has, or had, the same.
    pub state: u32,
    /// The type of its numbers, an integer type.
    pub ty: SqlType,
    /// The step between numbers; not 0.
    pub increment: i64,
    /// The least.
    pub min: i64,
    /// The greatest.
    pub max: i64,
    /// The first.
    pub start: i64,
    /// The number of values that a session caches, as clients see it: here the process caches them
    /// for all sessions.
    pub cache: i64,
    /// True if it starts over after its last number.
    pub cycle: bool,
    /// The column that owns it.
    pub owner: Option<Owner>,
}

/// The column that owns a sequence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The oid of its table.
    pub table: u32,
    /// Its name.
    pub column: String,
    /// True if it is an identity column.
    pub is_identity: bool,
}

/// The options of a sequence in a statement; `None` if an option is missing.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[allow(missing_docs, reason = "they are the words of the statement")]
pub struct SequenceOptions {
    pub ty: Option<SqlType>,
    pub increment: Option<i64>,
    /// `Some(None)`: NO MINVALUE.
    pub min: Option<Option<i64>>,
    pub max: Option<Option<i64>>,
    pub start: Option<i64>,
    /// `Some(None)`: at its start value.
    pub restart: Option<Option<i64>>,
    pub cache: Option<i64>,
    pub cycle: Option<bool>,
    /// `Some(None)`: NONE.
    pub owned_by: Option<Option<(Named, String)>>,
    /// The name of an identity's sequence.
    pub name: Option<Named>,
}

fn wrong(message: String) -> SqlError {
    SqlError::new(code::INVALID_PARAMETER, message)
}

fn range(ty: SqlType) -> (i64, i64) {
    match ty {
        SqlType::Int2 => (i16::MIN.into(), i16::MAX.into()),
        SqlType::Int4 => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    }
}

impl Sequence {
    /// A new sequence. `ty` is the type of its numbers, if the options have none.
    ///
    /// # Errors
    /// 22023.
    pub fn new(
        name: Name,
        (oid, state): (u32, u32),
        ty: SqlType,
        options: &SequenceOptions,
    ) -> Result<Sequence, SqlError> {
        let blank = Sequence {
            oid,
            schema: name.schema,
            name: name.name,
            state,
            ty,
            increment: 1,
            min: 1,
            max: i64::MAX,
            start: 1,
            cache: 1,
            cycle: false,
            owner: None,
        };
        let unsaid =
            SequenceOptions { min: Some(None), max: Some(None), ..SequenceOptions::default() };
        let options = SequenceOptions {
            min: options.min.or(unsaid.min),
            max: options.max.or(unsaid.max),
            ..options.clone()
        };
        let mut new = blank.with(&options)?;
        new.start = options.start.unwrap_or(if new.increment > 0 { new.min } else { new.max });
        new.check_within("START", new.start)?;
        Ok(new)
    }

    /// The sequence changed by a statement, except for its owner and its state.
    ///
    /// # Errors
    /// 22023.
    pub fn altered(&self, options: &SequenceOptions) -> Result<Sequence, SqlError> {
        let new = self.with(options)?;
        new.check_within("START", new.start)?;
        if let Some(restart) = options.restart {
            new.check_within("RESTART", restart.unwrap_or(new.start))?;
        }
        Ok(new)
    }

    fn with(&self, options: &SequenceOptions) -> Result<Sequence, SqlError> {
        let mut new = self.clone();
        if let Some(ty) = options.ty {
            if !matches!(ty, SqlType::Int2 | SqlType::Int4 | SqlType::Int8) {
                let message = "sequence type must be smallint, integer, or bigint";
                return Err(wrong(message.to_owned()));
            }
            // A bound that is the limit of the old type becomes that of the new one.
            let (old, now) = (range(self.ty), range(ty));
            new.max = if self.max == old.1 { now.1 } else { new.max };
            new.min = if self.min == old.0 { now.0 } else { new.min };
            new.ty = ty;
        }
        new.increment = options.increment.unwrap_or(new.increment);
        if new.increment == 0 {
            return Err(wrong("INCREMENT must not be zero".to_owned()));
        }
        let (least, most) = range(new.ty);
        let (min, max) = if new.increment > 0 { (1, most) } else { (least, -1) };
        new.min = options.min.map_or(new.min, |given| given.unwrap_or(min));
        new.max = options.max.map_or(new.max, |given| given.unwrap_or(max));
        for (what, bound) in [("MAXVALUE", new.max), ("MINVALUE", new.min)] {
            if bound < least || bound > most {
                let message =
                    format!("{what} ({bound}) is out of range for sequence data type {}", new.ty);
                return Err(wrong(message));
            }
        }
        if new.min >= new.max {
            let message =
                format!("MINVALUE ({}) must be less than MAXVALUE ({})", new.min, new.max);
            return Err(wrong(message));
        }
        new.start = options.start.unwrap_or(new.start);
        new.cycle = options.cycle.unwrap_or(new.cycle);
        new.cache = options.cache.unwrap_or(new.cache);
        if new.cache < 1 {
            return Err(wrong(format!("CACHE ({}) must be greater than zero", new.cache)));
        }
        Ok(new)
    }

    fn check_within(&self, what: &str, value: i64) -> Result<(), SqlError> {
        if value < self.min {
            let message =
                format!("{what} value ({value}) cannot be less than MINVALUE ({})", self.min);
            return Err(wrong(message));
        }
        if value > self.max {
            let message =
                format!("{what} value ({value}) cannot be greater than MAXVALUE ({})", self.max);
            return Err(wrong(message));
        }
        Ok(())
    }

    /// The number after one that was issued.
    ///
    /// # Errors
    /// 2200H if there are no more.
    pub fn after(&self, given: i64) -> Result<i64, SqlError> {
        let next = given.checked_add(self.increment);
        if let Some(next) = next.filter(|next| (self.min..=self.max).contains(next)) {
            return Ok(next);
        }
        let (what, bound, first) = match self.increment > 0 {
            true => ("maximum", self.max, self.min),
            false => ("minimum", self.min, self.max),
        };
        if self.cycle {
            return Ok(first);
        }
        let message =
            format!("nextval: reached {what} value of sequence \"{}\" ({bound})", self.name);
        Err(SqlError::new("2200H", message))
    }

    /// Checks that setval may set the last number to this value.
    ///
    /// # Errors
    /// 22003.
    pub fn check_value(&self, value: i64) -> Result<(), SqlError> {
        if (self.min..=self.max).contains(&value) {
            return Ok(());
        }
        let message = format!(
            "setval: value {value} is out of bounds for sequence \"{}\" ({}..{})",
            self.name, self.min, self.max
        );
        Err(SqlError::new(code::OUT_OF_RANGE, message))
    }

    /// Its name, with its schema.
    pub fn full_name(&self) -> Name {
        Name { schema: self.schema.clone(), name: self.name.clone() }
    }

    /// The default of a column that uses it.
    pub fn default(&self) -> String {
        format!("nextval('{}'::regclass)", in_default(&self.full_name()).replace('\'', "''"))
    }
}

/// The name of a sequence in a stored default: without the schema if that is `public`.
fn in_default(name: &Name) -> String {
    match name.schema == PUBLIC {
        true => quoted(&name.name),
        false => name.written(),
    }
}

/// A default with other names for the sequences that it uses.
fn with_names(default: &str, name: impl Fn(Named) -> Option<String>) -> String {
    let mut text = default.to_owned();
    for at in written(default).into_iter().rev() {
        if let Some(name) = name(Named::read(&default[at.clone()].replace("''", "'"))) {
            text.replace_range(at, &name.replace('\'', "''"));
        }
    }
    text
}

/// The stored form of a default of a column of this type: relations and types are resolved by the
/// search path.
pub fn kept(default: &str, ty: SqlType, catalog: &Catalog) -> String {
    let is_text = default.starts_with('\'') && default.ends_with('\'');
    let named = match ty {
        SqlType::Reg(Reg::Class) if is_text => format!("{default}::regclass"),
        _ => normal(default),
    };
    let default =
        with_names(&with_schemas(&named, |name| written_in_full(catalog, name)), |named| {
            let found = catalog.sequence(&named).ok()?;
            Some(in_default(&found.full_name()))
        });
    catalog.with_kept_types(&default)
}

/// A stored default in a form that does not depend on the search path.
pub fn bound(default: &str) -> String {
    with_names(default, |named| Some(named.kept().written()))
}

/// A stored default as clients see it.
pub fn shown(default: &str, catalog: &Catalog) -> String {
    catalog.with_shown_types(&with_names(default, |named| Some(catalog.shown(&named.kept()))))
}

/// The sequences that a stored default uses.
pub fn taken_from(default: &str) -> Vec<Name> {
    let named = |at: std::ops::Range<usize>| Named::read(&default[at].replace("''", "'")).kept();
    written(default).into_iter().map(named).collect()
}

/// The names of sequences in a default, as positions in its text.
fn written(default: &str) -> Vec<std::ops::Range<usize>> {
    const CALLS: [&str; 2] = ["nextval('", "currval('"];
    let (mut found, mut from) = (Vec::new(), 0);
    let next = |from: usize| {
        let rest = default[from..].to_ascii_lowercase();
        let ends = CALLS.iter().filter_map(|call| Some(from + rest.find(call)? + call.len()));
        ends.min()
    };
    while let Some(begin) = next(from) {
        let mut end = begin;
        while let Some(quote) = default[end..].find('\'') {
            end += quote;
            if !default[end + 1..].starts_with('\'') {
                break;
            }
            end += 2;
        }
        found.push(begin..end);
        from = end;
    }
    found
}

/// The stored form of a default: sequence names are written as PostgreSQL shows them.
pub fn normal(default: &str) -> String {
    let mut text = default.to_owned();
    for at in written(default).into_iter().rev() {
        let cast = "'::regclass";
        let rest = &text[at.end..];
        if rest.get(..cast.len()).is_some_and(|cast| cast.eq_ignore_ascii_case("'::regclass")) {
            text.replace_range(at.end..at.end + cast.len(), cast);
        } else if rest.starts_with("')") {
            text.replace_range(at.end..=at.end, cast);
        }
    }
    text
}

/// True if a stored default uses this sequence.
pub fn takes_from(default: &str, sequence: &Name) -> bool {
    taken_from(default).contains(sequence)
}

/// A stored default, with another name for a sequence.
#[must_use]
pub fn renamed(default: &str, from: &Name, to: &Name) -> String {
    with_names(default, |named| (named.kept() == *from).then(|| in_default(to)))
}

/// The options that define it, in SQL.
impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sequence { ty, start, increment, min, max, cache, .. } = self;
        write!(
            f,
            "AS {ty} START WITH {start} INCREMENT BY {increment} MINVALUE {min} MAXVALUE {max}"
        )?;
        write!(f, " CACHE {cache}{}", if self.cycle { " CYCLE" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(options: &SequenceOptions) -> Result<Sequence, SqlError> {
        Sequence::new(Name::public("s"), (1, 1), SqlType::Int8, options)
    }

    #[test]
    fn numbers_follow_each_other_within_bounds() {
        let down = SequenceOptions {
            increment: Some(-4),
            min: Some(Some(-9)),
            cycle: Some(true),
            ..SequenceOptions::default()
        };
        let down = of(&down).expect("a sequence");
        assert_eq!((down.start, down.max), (-1, -1));
        assert_eq!(down.after(-1).unwrap(), -5);
        assert_eq!(down.after(-9).unwrap(), -1);
        let small = SequenceOptions { ty: Some(SqlType::Int2), ..SequenceOptions::default() };
        let small = of(&small).expect("a sequence");
        assert_eq!(small.after(32766).unwrap(), 32767);
        assert_eq!(small.after(32767).unwrap_err().code, "2200H");
        let large = of(&SequenceOptions::default()).expect("a sequence");
        assert_eq!(large.after(i64::MAX).unwrap_err().code, "2200H");
        let wide = SequenceOptions { ty: Some(SqlType::Int8), ..SequenceOptions::default() };
        assert_eq!(small.altered(&wide).expect("a wider one").max, i64::MAX);
        let zero = SequenceOptions { increment: Some(0), ..SequenceOptions::default() };
        assert_eq!(of(&zero).unwrap_err().message, "INCREMENT must not be zero");
    }

    #[test]
    fn names_are_found_in_defaults() {
        let other = Name::public("other");
        for name in ["plain", "Odd", "it's", "a\"b"] {
            for schema in ["public", "A.b"] {
                let name = Name { schema: schema.to_owned(), name: name.to_owned() };
                let sequence = Sequence {
                    schema: name.schema.clone(),
                    name: name.name.clone(),
                    ..of(&SequenceOptions::default()).expect("a sequence")
                };
                let default = format!("1 + {}", sequence.default());
                assert!(takes_from(&default, &name), "{default}");
                assert!(takes_from(&bound(&default), &name), "{default}");
                assert!(!takes_from(&default, &other));
                let new = renamed(&default, &name, &Name::public("New one"));
                assert_eq!(new, "1 + nextval('\"New one\"'::regclass)");
            }
        }
        assert!(takes_from("NEXTVAL('public.s') + 1", &Name::public("s")));
        assert_eq!(bound("nextval('s'::regclass)"), "nextval('public.s'::regclass)");
        assert_eq!(normal("nextval('s'::REGCLASS) + 1"), "nextval('s'::regclass) + 1");
        assert_eq!(normal("nextval('it''s')"), "nextval('it''s'::regclass)");
        assert_eq!(normal("'::REGCLASS'"), "'::REGCLASS'");
    }
}
