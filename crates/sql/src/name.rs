//! Names of relations and other objects.
//!
//! ```text
//!   orders, app.orders        named: with or without a schema, as a statement says it
//!   app.orders                a full name: every object has a schema
//!   "Odd name"                quoted, since it would be read as another name
//!   orders_city_idx           made, for an index without a name; at most 63 bytes
//! ```

use crate::error::{SqlError, code};
use crate::parse::NAME_BYTES_MAX;
use sqlparser::ast::{Ident, ObjectName};
use std::fmt;

/// The initial schema of a database.
pub const PUBLIC: &str = "public";

/// The full name of a relation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Name {
    /// Its schema.
    pub schema: String,
    /// Its name within the schema.
    pub name: String,
}

/// A relation as named in a statement.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Named {
    /// The schema, if it is explicit.
    pub schema: Option<String>,
    /// The name.
    pub name: String,
}

impl Name {
    /// A relation in the schema `public`.
    pub fn public(name: impl Into<String>) -> Name {
        Name { schema: PUBLIC.to_owned(), name: name.into() }
    }

    /// In SQL notation, independent of the path.
    pub fn written(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.name))
    }

    /// The same as a node of the grammar.
    pub fn object_name(&self) -> ObjectName {
        let word = |name: &String| Ident::with_quote('"', name.clone());
        ObjectName::from(vec![word(&self.schema), word(&self.name)])
    }

    /// For people who know the path: without `public`.
    pub fn label(&self) -> String {
        match self.schema == PUBLIC {
            true => self.name.clone(),
            false => format!("{}.{}", self.schema, self.name),
        }
    }

    /// As [`Name::label`], quoted if necessary: a type in messages, a relation in plans.
    pub fn said(&self) -> String {
        if self.schema == PUBLIC { quoted(&self.name) } else { self.written() }
    }

    /// The catalog's key: without `public`, which is older than schemas.
    pub fn kept(&self) -> String {
        match self.schema == PUBLIC {
            true => self.name.clone(),
            false => format!("{}\0{}", self.schema, self.name),
        }
    }

    /// Parses a [stored](Name::kept) name.
    pub fn read(kept: &str) -> Name {
        match kept.split_once('\0') {
            Some((schema, name)) => Name { schema: schema.to_owned(), name: name.to_owned() },
            None => Name::public(kept),
        }
    }
}

impl From<&Name> for Named {
    fn from(name: &Name) -> Named {
        Named { schema: Some(name.schema.clone()), name: name.name.clone() }
    }
}

/// The notation of messages.
impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.schema {
            Some(schema) => write!(f, "{schema}.{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl Named {
    /// A name without a schema.
    pub fn plain(name: impl Into<String>) -> Named {
        Named { schema: None, name: name.into() }
    }

    /// The name of a relation in a statement.
    ///
    /// # Errors
    /// 0A000 for a database before the schema, 42601 for more parts.
    pub fn of(name: &ObjectName) -> Result<Named, SqlError> {
        let parts: Vec<&Ident> = name.0.iter().filter_map(|part| part.as_ident()).collect();
        let folded = crate::bind::folded;
        match parts.as_slice() {
            [name] => Ok(Named::plain(folded(name))),
            [schema, name] => Ok(Named { schema: Some(folded(schema)), name: folded(name) }),
            [_, _, _] => {
                let message = format!("cross-database references are not implemented: \"{name}\"");
                Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message))
            }
            _ => {
                let message = format!("improper qualified name (too many dotted names): {name}");
                Err(SqlError::new(code::SYNTAX, message))
            }
        }
    }

    /// Parses a text such as `public."Odd"`.
    pub fn read(text: &str) -> Named {
        let (mut parts, mut part, mut is_quoted) = (Vec::new(), String::new(), false);
        let mut chars = text.trim().chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '"' if is_quoted && chars.peek() == Some(&'"') => part.extend(chars.next()),
                '"' => is_quoted = !is_quoted,
                '.' if !is_quoted => parts.push(std::mem::take(&mut part)),
                c if is_quoted => part.push(c),
                c => part.extend(c.to_lowercase()),
            }
        }
        Named { schema: parts.pop(), name: part }
    }

    /// The relation in `public` that is meant where no path is known.
    pub fn kept(&self) -> Name {
        let schema = self.schema.clone().unwrap_or_else(|| PUBLIC.to_owned());
        Name { schema, name: self.name.clone() }
    }
}

/// The longest name of a table in the store.
const PLAIN_MAX: usize = 56;

/// A name that the store allows.
pub fn plain(name: &str) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    let mut plain: String = name.chars().map(word).take(PLAIN_MAX).collect();
    if plain.is_empty() || plain.starts_with(|c: char| c.is_ascii_digit()) {
        plain.insert(0, '_');
    }
    plain
}

/// Words that PostgreSQL's grammar does not accept everywhere as a name, sorted.
const KEYWORDS: &str = "\
    all analyse analyze and any array as asc asymmetric authorization between bigint binary bit \
    boolean both case cast char character check coalesce collate collation column concurrently \
    constraint create cross current_catalog current_date current_role current_schema \
    current_time current_timestamp current_user dec decimal default deferrable desc distinct do \
    else end except exists extract false fetch float for foreign freeze from full grant greatest \
    group grouping having ilike in initially inner inout int integer intersect interval into is \
    isnull join lateral leading least left like limit localtime localtimestamp national natural \
    nchar none normalize not notnull null nullif numeric offset on only or order out outer \
    overlaps overlay placing position precision primary real references returning right row \
    select session_user setof similar smallint some substring symmetric table tablesample then \
    time timestamp to trailing treat trim true union unique user using values varchar variadic \
    verbose when where window with xmlattributes xmlconcat xmlelement xmlexists xmlforest \
    xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable";

/// A name as of [`plain`] with a number at its end, distinct for each number.
pub fn numbered(name: &str, number: usize) -> String {
    let (stem, ending) = (plain(name), format!("_{number}"));
    let kept = stem.len().min(PLAIN_MAX.saturating_sub(ending.len()));
    format!("{}{ending}", &stem[..kept])
}

/// A name for a part of a table: `table_columns_ending`, at most [`NAME_BYTES_MAX`] long. The
/// longer of the first two is truncated first, and the ending stays. `columns` may be empty.
pub fn made_name(table: &str, columns: &str, ending: &str) -> String {
    let parts = 1 + usize::from(!columns.is_empty());
    let most = NAME_BYTES_MAX.saturating_sub(parts + ending.len());
    let (mut first, mut second) = (table.len(), columns.len());
    while first + second > most {
        *(if first > second { &mut first } else { &mut second }) -= 1;
    }
    let table = &table[..table.floor_char_boundary(first)];
    match &columns[..columns.floor_char_boundary(second)] {
        "" => format!("{table}_{ending}"),
        columns => format!("{table}_{columns}_{ending}"),
    }
}

/// As [`made_name`], with the smallest number after the ending that makes the name free, if
/// necessary.
pub fn free_made_name(
    table: &str,
    columns: &str,
    ending: &str,
    mut is_taken: impl FnMut(&str) -> bool,
) -> String {
    let endings = (1..).map(|number| format!("{ending}{number}"));
    let endings = std::iter::once(ending.to_owned()).chain(endings);
    let mut names = endings.map(|ending| made_name(table, columns, &ending));
    names.find(|name| !is_taken(name)).expect("there are more numbers than names")
}

/// A name as an SQL identifier, quoted if necessary.
pub fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && KEYWORDS.split(' ').all(|word| word != name);
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}
