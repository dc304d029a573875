//! Types that were made, and where their names are looked for.
//!
//! ```text
//!   create type mood ..                     public.mood, or of the first schema on the path
//!   column m mood                           kept as "mood" (of public), "app"."mood"; a reference in memory
//!   default 'sad'::mood                     kept as 'sad'::public.mood, shown as the path of who looks needs it
//! ```
//!
//! Names of the system's types come before all others, as they do at PostgreSQL. A table has the definition of each
//! type as it was when the table was defined last; so one that changes is put into all tables that have it
//! ([`Catalog::put_type`]).

use super::{Catalog, Computed, Name, Named, PUBLIC, Table, quoted};
use crate::enums::EnumType;
use crate::error::{SqlError, code};
use crate::types::SqlType;
use sqlparser::ast::{ArrayElemTypeDef, DataType};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use std::sync::Arc;

/// The type of a name in a statement, where `find` knows those that were made.
///
/// # Errors
/// As [`SqlType::parse`]; 42601 for one that was made, with digits.
pub(crate) fn type_by(
    ty: &DataType,
    find: &mut dyn FnMut(&Named) -> Option<&'static EnumType>,
) -> Result<SqlType, SqlError> {
    match ty {
        DataType::Custom(name, digits) if SqlType::of_name(&name.to_string()).is_none() => {
            let Some(found) = find(&Named::of(name)?) else { return SqlType::parse(ty) };
            if digits.is_empty() {
                return Ok(*found.ty());
            }
            let message = format!("type modifier is not allowed for type \"{name}\"");
            Err(SqlError::new(code::SYNTAX, message))
        }
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => {
            match (&**element, type_by(element, find)?) {
                (DataType::Custom(..), SqlType::Enum(labels)) => Ok(SqlType::Array(labels.ty())),
                _ => SqlType::parse(ty),
            }
        }
        ty => SqlType::parse(ty),
    }
}

impl Catalog {
    /// The type of a name in a statement.
    ///
    /// # Errors
    /// 42704, 0A000.
    pub fn type_of(&self, ty: &DataType) -> Result<SqlType, SqlError> {
        type_by(ty, &mut |named| self.enum_named(named))
    }

    /// The enum that a statement names.
    pub fn enum_named(&self, named: &Named) -> Option<&'static EnumType> {
        self.looked_in(named).find_map(|schema| {
            let name = Name { schema: schema.to_owned(), name: named.name.clone() };
            self.types.get(&name).copied()
        })
    }

    /// The enum with this number for clients.
    pub fn enum_numbered(&self, oid: u32) -> Option<&'static EnumType> {
        self.types.values().find(|labels| labels.of.oid == oid).copied()
    }

    /// The type that clients know by a number.
    pub fn type_numbered(&self, oid: u32) -> Option<SqlType> {
        let made = || {
            let array = self.types.values().find(|labels| labels.of.array_oid == oid);
            let own = self.enum_numbered(oid).map(|labels| *labels.ty());
            own.or_else(|| array.map(|labels| SqlType::Array(labels.ty())))
        };
        SqlType::of_oid(oid).or_else(made)
    }

    /// A type as it is by now, if it was another one before.
    pub fn type_as_now(&self, ty: SqlType) -> SqlType {
        let now = ty.labels().and_then(|labels| self.enum_numbered(labels.of.oid));
        now.map_or(ty, |now| replaced(ty, now, now))
    }

    /// True if an enum is what its name alone means.
    pub fn is_visible_type(&self, labels: &EnumType) -> bool {
        let name = &labels.of.name.name;
        SqlType::of_name(name).is_none()
            && self.enum_named(&Named::plain(name.as_str())).is_some_and(|found| found == labels)
    }

    /// A type as it must be written to be found.
    pub fn type_shown(&self, ty: SqlType) -> String {
        match ty {
            SqlType::Enum(labels) if self.is_visible_type(labels) => quoted(&labels.of.name.name),
            SqlType::Enum(labels) => labels.of.name.written(),
            SqlType::Array(element) => format!("{}[]", self.type_shown(*element)),
            ty => ty.to_string(),
        }
    }

    /// An expression as it is kept: its types are those that the path means.
    pub fn with_kept_types(&self, text: &str) -> String {
        let written = |named: &Named| Some(self.enum_named(named)?.of.name.written());
        self.types_replaced(text, written)
    }

    /// A kept expression as a client is shown it.
    pub fn with_shown_types(&self, text: &str) -> String {
        let shown = |named: &Named| Some(self.type_shown(*self.enum_named(named)?.ty()));
        self.types_replaced(text, shown)
    }

    fn types_replaced(&self, text: &str, now: impl Fn(&Named) -> Option<String>) -> String {
        // Most databases have no such types, and most expressions do not name one.
        let is_named = |name: &Name| text.to_lowercase().contains(&name.name.to_lowercase());
        if !self.types.keys().any(is_named) {
            return text.to_owned();
        }
        with_types(text, now)
    }

    /// Puts an enum in the place of another one, in all tables and views; or adds a new one.
    pub fn put_type(&mut self, old: Option<&EnumType>, new: &'static EnumType) {
        if let Some(old) = old {
            self.types.remove(&old.of.name);
            self.types.insert(new.of.name.clone(), new);
            let users = self.tables.values().filter(|table| table.has_type(old));
            let retyped = users.map(|table| retyped(table, old, new)).collect::<Vec<_>>();
            for table in retyped {
                let table = Arc::new(with_computed_anew(table, self));
                self.tables.insert(table.full_name(), table);
            }
            for view in self.views.values_mut() {
                if view.columns.iter().any(|(_, ty)| is_of(*ty, old)) {
                    let columns = &mut Arc::make_mut(view).columns;
                    columns.iter_mut().for_each(|(_, ty)| *ty = replaced(*ty, old, new));
                }
            }
        }
        self.types.insert(new.of.name.clone(), new);
    }
}

impl Table {
    /// True if a column is of an enum, or of arrays of it; or an expression names it.
    pub fn has_type(&self, labels: &EnumType) -> bool {
        self.columns.iter().any(|column| is_of(column.ty, labels)) || self.names_type(labels)
    }

    /// True if a default, a condition, a generated column or an index names an enum.
    pub fn names_type(&self, labels: &EnumType) -> bool {
        let defaults = self.columns.iter().filter_map(|column| column.default.as_deref());
        defaults.chain(self.conditions()).any(|text| does_name(text, labels))
    }

    /// The conditions on its rows, and those of its indexes.
    fn conditions(&self) -> impl Iterator<Item = &str> {
        let checks = self.checks.iter().map(|check| check.condition.as_str());
        let computed = self.indexes.iter().flat_map(|index| index.computed());
        checks.chain(computed.map(|computed| computed.text.as_str()))
    }
}

impl Table {
    /// The table with another name of a label in defaults of columns of the enum that are this label; none if another
    /// expression mentions it, of which nobody knows what it would mean then.
    pub fn with_label(&self, labels: &EnumType, from: &str, to: &str) -> Option<Table> {
        let mut table = self.clone();
        for column in &mut table.columns {
            let Some(default) = column.default.as_ref().filter(|text| does_mention(text, from))
            else {
                continue;
            };
            let is_label = matches!(column.ty, SqlType::Enum(own) if own == labels);
            let rest = default.strip_prefix(&literal(from));
            let is_alone = |rest: &&str| rest.is_empty() || rest.starts_with("::");
            let rest = rest.filter(is_alone).filter(|_| is_label && !column.is_generated)?;
            column.default = Some(literal(to) + rest);
        }
        let is_free = !table.conditions().any(|text| does_mention(text, from));
        is_free.then_some(table)
    }
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// True if a text of SQL has a literal that is this text.
pub fn does_mention(text: &str, label: &str) -> bool {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize().unwrap_or_default();
    tokens.iter().any(|token| match token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => text == label,
        _ => false,
    })
}

/// True if a type is an enum, or that of its arrays.
pub fn is_of(ty: SqlType, labels: &EnumType) -> bool {
    ty.labels().is_some_and(|own| own == labels)
}

/// True if a kept expression names an enum.
pub fn does_name(text: &str, labels: &EnumType) -> bool {
    if !text.contains(&labels.of.name.name) {
        return false;
    }
    let is_named = std::cell::Cell::new(false);
    with_types(text, |named| {
        is_named.set(is_named.get() || named.kept() == labels.of.name);
        None
    });
    is_named.get()
}

fn replaced(ty: SqlType, old: &EnumType, new: &'static EnumType) -> SqlType {
    match ty {
        SqlType::Enum(own) if own == old => *new.ty(),
        SqlType::Array(SqlType::Enum(own)) if *own == old => SqlType::Array(new.ty()),
        other => other,
    }
}

fn retyped(table: &Table, old: &EnumType, new: &'static EnumType) -> Table {
    let (from, to) = (&old.of.name, &new.of.name);
    let renamed = |text: &str| match from == to {
        true => text.to_owned(),
        false => with_types(text, |named| (named.kept() == *from).then(|| to.written())),
    };
    let mut table = table.clone();
    for column in &mut table.columns {
        column.ty = replaced(column.ty, old, new);
        column.default = column.default.as_deref().map(renamed);
    }
    table.checks.iter_mut().for_each(|check| check.condition = renamed(&check.condition));
    for index in table.indexes.iter_mut().filter(|index| index.computed().next().is_some()) {
        let text =
            |one: &Computed| Ok(Arc::new(Computed { text: renamed(&one.text), ..one.clone() }));
        *index = Arc::new(index.with_computed(text).expect("texts are no errors"));
    }
    table
}

/// The table with what its indexes compute as it is bound now.
fn with_computed_anew(table: Table, catalog: &Catalog) -> Table {
    let mut changed = table.clone();
    let table = Arc::new(table);
    for index in changed.indexes.iter_mut().filter(|index| index.computed().next().is_some()) {
        // What has a label that is called otherwise by now is left to who renames labels, and refuses that.
        let anew = |one: &Computed| one.anew(one.text.clone(), &table, catalog);
        if let Ok(anew) = index.with_computed(anew) {
            *index = Arc::new(anew);
        }
    }
    changed
}

/// An expression in which types have other names: those behind `::`, and behind the AS of a CAST.
fn with_types(text: &str, now: impl Fn(&Named) -> Option<String>) -> String {
    let Ok(tokens) = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location() else {
        return text.to_owned();
    };
    let is_blank = |token: &&TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let tokens: Vec<&TokenWithSpan> = tokens.iter().filter(|token| !is_blank(token)).collect();
    let folded = |at: usize| match &tokens.get(at)?.token {
        Token::Word(word) if word.quote_style.is_some() => Some(word.value.clone()),
        Token::Word(word) => Some(word.value.to_lowercase()),
        _ => None,
    };
    let mut out = text.to_owned();
    // From the last on, so that places before stay where they are.
    for at in (1..tokens.len()).rev() {
        let is_type = match &tokens[at - 1].token {
            Token::DoubleColon => true,
            Token::Word(word) => word.keyword == Keyword::AS && word.quote_style.is_none(),
            _ => false,
        };
        let Some(first) = folded(at).filter(|_| is_type) else { continue };
        let is_qualified = tokens.get(at + 1).is_some_and(|next| next.token == Token::Period);
        let (named, last) = match folded(at + 2).filter(|_| is_qualified) {
            Some(name) => (Named { schema: Some(first), name }, at + 2),
            None => (Named::plain(first), at),
        };
        let place = |location: Location| {
            let number = crate::parse::position(text, location.line, location.column)?;
            Some(text.char_indices().nth(number - 1).map_or(text.len(), |(at, _)| at))
        };
        let places = (place(tokens[at].span.start), place(tokens[last].span.end));
        if let (Some(from), Some(to), Some(name)) = (places.0, places.1, now(&named)) {
            out.replace_range(from..to, &name);
        }
    }
    out
}

impl SqlType {
    /// As the catalog keeps it: what says no schema is the system's, or of public.
    pub fn kept(self) -> String {
        let always = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        match self {
            SqlType::Enum(labels) if labels.of.name.schema == PUBLIC => {
                always(&labels.of.name.name)
            }
            SqlType::Enum(labels) => {
                format!("{}.{}", always(&labels.of.name.schema), always(&labels.of.name.name))
            }
            SqlType::Array(element) => format!("{}[]", element.kept()),
            other => other.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_in_expressions() {
        let now = |named: &Named| match (named.schema.as_deref(), &*named.name) {
            (None, "mood") => Some("public.mood".to_owned()),
            (Some("app"), "Mood") => Some("app.happy".to_owned()),
            _ => None,
        };
        for (text, wanted) in [
            ("'mood'::mood", "'mood'::public.mood"),
            ("CAST('a' AS MOOD) = m", "CAST('a' AS public.mood) = m"),
            (
                "mood = '::mood' OR x :: mood[] IS NULL",
                "mood = '::mood' OR x :: public.mood[] IS NULL",
            ),
            ("x::app.\"Mood\"", "x::app.happy"),
            ("x::app.mood::text", "x::app.mood::text"),
            ("'it''s'::mood = \n'é'::mood", "'it''s'::public.mood = \n'é'::public.mood"),
            ("E'\\'::mood'::text", "E'\\'::mood'::text"),
        ] {
            assert_eq!(with_types(text, now), wanted);
        }
    }
}
