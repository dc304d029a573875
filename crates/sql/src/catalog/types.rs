//! User-defined types, and the resolution of their names.
//!
//! ```text
//!   create type mood ..         public.mood, or in the first schema on the path
//!   column m mood               stored as "mood" (of public), "app"."mood"; a reference in memory
//!   default 'sad'::mood         stored as 'sad'::public.mood, shown as the path requires
//! ```
//!
//! A [domain](crate::domains) is named like an enum; in expressions it is its base type.
//!
//! Names of system types take precedence, as in PostgreSQL. A table contains the definition of each
//! type as of the table's last definition. So a changed type is replaced in all tables that use it
//! ([`Catalog::put_type`]).

use super::{Catalog, Computed, Name, Named, PUBLIC, Procedure, Table, TableColumn, quoted};
use crate::domains::Domain;
use crate::enums::EnumType;
use crate::error::{SqlError, code};
use crate::types::SqlType;
use crate::view::View;
use sqlparser::ast::{ArrayElemTypeDef, DataType};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use std::sync::Arc;

/// A user-defined type.
#[derive(Clone, Debug)]
pub enum MadeType {
    /// A list of labels.
    Enum(Arc<EnumType>),
    /// A base type with conditions.
    Domain(Arc<Domain>),
}

impl MadeType {
    /// Its name.
    pub fn name(&self) -> &Name {
        match self {
            MadeType::Enum(labels) => &labels.of.name,
            MadeType::Domain(domain) => &domain.name,
        }
    }

    /// Its oid.
    pub fn oid(&self) -> u32 {
        match self {
            MadeType::Enum(labels) => labels.of.oid,
            MadeType::Domain(domain) => domain.oid,
        }
    }
}

/// The resolution of a type name.
#[derive(Clone, Debug)]
pub struct NamedType {
    /// The type; for a domain, its base type.
    pub ty: SqlType,
    /// The domain, if it is one.
    pub domain: Option<Arc<Domain>>,
}

impl NamedType {
    /// The type, where domains are not allowed.
    ///
    /// # Errors
    /// 0A000 for a domain.
    pub fn plain(self) -> Result<SqlType, SqlError> {
        match self.domain {
            None => Ok(self.ty),
            Some(domain) => {
                let error = SqlError::unsupported(format!("domain {} here", domain.name.said()));
                Err(error.hint(format!("Its base type is {}.", self.ty)))
            }
        }
    }
}

/// The type of a name in a statement; `find` resolves user-defined types.
///
/// # Errors
/// As [`SqlType::parse`]; 42601 for a user-defined type with a modifier; 0A000 for arrays of
/// domains.
pub(crate) fn type_by(
    ty: &DataType,
    find: &mut dyn FnMut(&Named) -> Option<MadeType>,
) -> Result<NamedType, SqlError> {
    let plain = |ty| Ok(NamedType { ty, domain: None });
    match ty {
        DataType::Custom(name, digits) if SqlType::of_name(&name.to_string()).is_none() => {
            let Some(found) = find(&Named::of(name)?) else {
                return SqlType::parse(ty).and_then(plain);
            };
            if !digits.is_empty() {
                let message = format!("type modifier is not allowed for type \"{name}\"");
                return Err(SqlError::new(code::SYNTAX, message));
            }
            match found {
                MadeType::Enum(labels) => plain(labels.ty()),
                MadeType::Domain(domain) => Ok(NamedType { ty: domain.ty, domain: Some(domain) }),
            }
        }
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => {
            let of = type_by(element, find)?;
            if let Some(domain) = of.domain {
                let what = format!("an array of domain {}", domain.name.said());
                let hint = "A domain over an array, or an array of the base type, can be had.";
                return Err(SqlError::unsupported(what).hint(hint));
            }
            match (&**element, of.ty) {
                (DataType::Custom(..), SqlType::Enum(labels)) => plain(SqlType::EnumArray(labels)),
                _ => SqlType::parse(ty).and_then(plain),
            }
        }
        ty => SqlType::parse(ty).and_then(plain),
    }
}

impl Catalog {
    /// The type of a name in a statement.
    ///
    /// # Errors
    /// 42704, 0A000.
    pub fn named_type(&self, ty: &DataType) -> Result<NamedType, SqlError> {
        type_by(ty, &mut |named| self.made_named(named))
    }

    /// As [`Catalog::named_type`], where domains are not allowed.
    ///
    /// # Errors
    /// 42704, 0A000.
    pub fn type_of(&self, ty: &DataType) -> Result<SqlType, SqlError> {
        self.named_type(ty)?.plain()
    }

    /// The user-defined type that a statement names.
    pub fn made_named(&self, named: &Named) -> Option<MadeType> {
        self.looked_in(named).find_map(|schema| {
            self.made_at(&Name { schema: schema.to_owned(), name: named.name.clone() })
        })
    }

    /// The user-defined type with this full name.
    pub fn made_at(&self, name: &Name) -> Option<MadeType> {
        let labels = self.types.get(name).cloned().map(MadeType::Enum);
        labels.or_else(|| self.domains.get(name).cloned().map(MadeType::Domain))
    }

    /// The user-defined type with this oid.
    pub fn made_numbered(&self, oid: u32) -> Option<MadeType> {
        let labels = self.enum_numbered(oid).cloned().map(MadeType::Enum);
        labels.or_else(|| self.domain_numbered(oid).cloned().map(MadeType::Domain))
    }

    /// The domain with this oid.
    pub fn domain_numbered(&self, oid: u32) -> Option<&Arc<Domain>> {
        self.domains.values().find(|domain| domain.oid == oid)
    }

    /// The enum that a statement names.
    pub fn enum_named(&self, named: &Named) -> Option<Arc<EnumType>> {
        match self.made_named(named) {
            Some(MadeType::Enum(labels)) => Some(labels),
            _ => None,
        }
    }

    /// The enum with this oid.
    pub fn enum_numbered(&self, oid: u32) -> Option<&Arc<EnumType>> {
        self.types.values().find(|labels| labels.of.oid == oid)
    }

    /// The type with this oid.
    pub fn type_numbered(&self, oid: u32) -> Option<SqlType> {
        let made = || {
            let array = self.types.values().find(|labels| labels.of.array_oid == oid);
            let own = self.enum_numbered(oid).map(|labels| labels.ty());
            own.or_else(|| array.map(|labels| labels.array()))
        };
        SqlType::of_oid(oid).or_else(made)
    }

    /// The current version of a type.
    pub fn type_as_now(&self, ty: SqlType) -> SqlType {
        let now = ty.labels().and_then(|labels| self.enum_numbered(labels.oid()));
        now.map_or(ty, |now| replaced(ty, now))
    }

    /// True if the unqualified name finds a user-defined type.
    pub fn is_visible_type(&self, of: &Name) -> bool {
        SqlType::of_name(&of.name).is_none()
            && self.made_named(&Named::plain(&*of.name)).is_some_and(|found| found.name() == of)
    }

    /// The shortest SQL notation that finds a user-defined type.
    pub fn made_shown(&self, of: &Name) -> String {
        if self.is_visible_type(of) { quoted(&of.name) } else { of.written() }
    }

    /// The shortest SQL notation that finds a type.
    pub fn type_shown(&self, ty: SqlType) -> String {
        match ty {
            SqlType::Enum(labels) => self.made_shown(&labels.name()),
            SqlType::EnumArray(labels) => format!("{}[]", self.made_shown(&labels.name())),
            SqlType::Array(element) => format!("{}[]", self.type_shown(*element)),
            ty => ty.to_string(),
        }
    }

    /// The SQL notation of a column's type: that of its domain, if it has one.
    pub fn column_type_shown(&self, column: &TableColumn) -> String {
        match &column.domain {
            Some(domain) => self.made_shown(&domain.name),
            None => self.type_shown(column.ty),
        }
    }

    /// The name of the type with this oid and modifier.
    pub fn type_name(&self, oid: u32, modifier: Option<i32>) -> Option<String> {
        if let Some(domain) = self.domain_numbered(oid) {
            return Some(self.made_shown(&domain.name));
        }
        let ty = self.type_numbered(oid)?;
        Some(self.type_shown(modifier.map_or(ty, |modifier| ty.with_modifier(modifier))))
    }

    /// The stored form of an expression, with types resolved by the path.
    pub fn with_kept_types(&self, text: &str) -> String {
        let written = |named: &Named| Some(self.made_named(named)?.name().written());
        self.types_replaced(text, written)
    }

    /// A stored expression as it is shown to a client.
    pub fn with_shown_types(&self, text: &str) -> String {
        let shown = |named: &Named| Some(self.made_shown(self.made_named(named)?.name()));
        self.types_replaced(text, shown)
    }

    fn types_replaced(&self, text: &str, now: impl Fn(&Named) -> Option<String>) -> String {
        // Most databases have no such types, and most expressions name none.
        let is_named = |name: &Name| text.to_lowercase().contains(&name.name.to_lowercase());
        if !self.types.keys().chain(self.domains.keys()).any(is_named) {
            return text.to_owned();
        }
        with_types(text, now)
    }

    /// Replaces an enum in all tables, views and domains, or adds a new one.
    pub fn put_type(&mut self, old: Option<&EnumType>, new: Arc<EnumType>) {
        // Index expressions are bound again, and must find the new one.
        let types = Arc::make_mut(&mut self.types);
        old.into_iter().for_each(|old| drop(types.remove(&old.of.name)));
        types.insert(new.of.name.clone(), new.clone());
        if let Some(old) = old {
            self.rename_in_domains(&old.of.name, &new.of.name);
            for domain in self.domains.values_mut().filter(|domain| is_of(domain.ty, old)) {
                Arc::make_mut(domain).ty = replaced(domain.ty, &new);
            }
            let users = self.tables.values().filter(|table| table.has_type(old));
            let retyped = users.map(|table| {
                let mut table = with_renamed_type(table, &old.of.name, &new.of.name);
                for column in &mut table.columns {
                    column.ty = replaced(column.ty, &new);
                }
                table
            });
            self.put_retyped(retyped.collect());
            self.views.change(|view| {
                let is_user = view.columns.iter().any(|(_, ty)| is_of(*ty, old));
                let mut view = is_user.then(|| View::clone(view))?;
                view.columns.iter_mut().for_each(|(_, ty)| *ty = replaced(*ty, &new));
                Some(view)
            });
            self.procedures.change(|procedure| {
                let is_user = procedure.arguments.iter().any(|argument| {
                    let default = argument.default.as_deref();
                    is_of(argument.ty, old)
                        || default.is_some_and(|text| does_name(text, &old.of.name))
                });
                let mut changed = is_user.then(|| Procedure::clone(procedure))?;
                for argument in &mut changed.arguments {
                    argument.ty = replaced(argument.ty, &new);
                    let default = argument.default.as_mut();
                    default.into_iter().for_each(|text| {
                        *text = renamed(text, &old.of.name, &new.of.name);
                    });
                }
                Some(Arc::new(changed))
            });
        }
    }

    /// Replaces a domain in all tables and domains, or adds a new one.
    pub fn put_domain(&mut self, old: Option<&Domain>, new: Domain) {
        let users = old.map(|old| self.tables_of_domain(old)).unwrap_or_default();
        let new = Arc::new(new);
        if let Some(old) = old {
            self.domains.remove(&old.name);
            self.rename_in_domains(&old.name, &new.name);
        }
        self.domains.insert(new.name.clone(), new.clone());
        let from = old.map_or(&new.name, |old| &old.name);
        let retyped = users.iter().map(|table| with_renamed_type(table, from, &new.name));
        self.put_retyped(retyped.collect());
    }

    /// Replaces tables by versions with changed types.
    fn put_retyped(&mut self, tables: Vec<Table>) {
        for mut table in tables {
            for domain in table.columns.iter_mut().filter_map(|column| column.domain.as_mut()) {
                if let Some(now) = self.domain_numbered(domain.oid) {
                    domain.clone_from(now);
                }
            }
            let table = Arc::new(with_computed_anew(table, self));
            self.tables.insert(table);
        }
    }

    fn rename_in_domains(&mut self, from: &Name, to: &Name) {
        let names = |domain: &&mut Arc<Domain>| domain.texts().any(|text| does_name(text, from));
        for domain in self.domains.values_mut().filter(names) {
            Arc::make_mut(domain).texts_mut().for_each(|text| *text = renamed(text, from, to));
        }
    }

    /// A domain and those that depend on it: domains over it, or that name it in a condition or a
    /// default.
    fn domains_by(&self, domain: &Domain) -> Vec<Arc<Domain>> {
        let mut found = vec![Arc::new(domain.clone())];
        let mut at = 0;
        while let Some(below) = found.get(at).cloned() {
            at += 1;
            for other in self.domains.values() {
                let is_by = other.over == Some(below.oid)
                    || other.texts().any(|text| does_name(text, &below.name));
                if is_by && found.iter().all(|known| known.oid != other.oid) {
                    found.push(other.clone());
                }
            }
        }
        found
    }

    /// The tables that use or name a domain, directly or through another domain.
    pub fn tables_of_domain(&self, domain: &Domain) -> Vec<Arc<Table>> {
        let all = self.domains_by(domain);
        let is_user = |table: &&Arc<Table>| {
            all.iter().any(|domain| table.has_domain(domain.oid) || table.names_type(&domain.name))
        };
        self.tables.values().filter(is_user).cloned().collect()
    }

    /// The columns of a domain, or of one over it.
    pub fn columns_of_domain(&self, domain: &Domain) -> Vec<(Arc<Table>, usize)> {
        let mut found = Vec::new();
        for table in self.tables.values() {
            for (at, column) in table.columns.iter().enumerate() {
                let chain = column.domain.as_ref().map(|own| self.domain_chain(own));
                if chain.iter().flatten().any(|own| own.oid == domain.oid) {
                    found.push((table.clone(), at));
                }
            }
        }
        found
    }
}

impl Table {
    /// True if a column has the enum or an array of it as its type, or an expression names it.
    pub fn has_type(&self, labels: &EnumType) -> bool {
        let is_its = |column: &TableColumn| is_of(column.ty, labels);
        self.columns.iter().any(is_its) || self.names_type(&labels.of.name)
    }

    /// True if a column has this domain.
    pub fn has_domain(&self, oid: u32) -> bool {
        let is_its =
            |column: &TableColumn| column.domain.as_ref().is_some_and(|own| own.oid == oid);
        self.columns.iter().any(is_its)
    }

    /// True if a default, a check, a generated column or an index names a user-defined type.
    pub fn names_type(&self, name: &Name) -> bool {
        let defaults = self.columns.iter().filter_map(|column| column.default.as_deref());
        defaults.chain(self.conditions()).any(|text| does_name(text, name))
    }

    /// The check conditions of the table, and the predicates and expressions of its indexes.
    fn conditions(&self) -> impl Iterator<Item = &str> {
        let checks = self.checks.iter().map(|check| check.condition.as_str());
        let computed = self.indexes.iter().flat_map(|index| index.computed());
        checks.chain(computed.map(|computed| computed.text.as_str()))
    }
}

impl Table {
    /// The table with a renamed label in defaults that consist of the label. `None` if another
    /// expression mentions the label, because its meaning would be unknown.
    pub fn with_label(&self, labels: &EnumType, from: &str, to: &str) -> Option<Table> {
        let mut table = self.clone();
        for column in &mut table.columns {
            let Some(default) = column.default.as_ref().filter(|text| does_mention(text, from))
            else {
                continue;
            };
            let is_label = column.ty == labels.ty();
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

/// True if an SQL text contains a literal with this value.
pub fn does_mention(text: &str, label: &str) -> bool {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize().unwrap_or_default();
    tokens.iter().any(|token| match token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => text == label,
        _ => false,
    })
}

/// True if a type is the enum or its array type.
pub fn is_of(ty: SqlType, labels: &EnumType) -> bool {
    ty.labels() == Some(labels.id())
}

/// True if a stored expression names a user-defined type.
pub fn does_name(text: &str, name: &Name) -> bool {
    if !text.contains(&name.name) {
        return false;
    }
    let is_named = std::cell::Cell::new(false);
    with_types(text, |named| {
        is_named.set(is_named.get() || named.kept() == *name);
        None
    });
    is_named.get()
}

/// A type with an enum as it is now.
fn replaced(ty: SqlType, new: &EnumType) -> SqlType {
    match ty {
        SqlType::Enum(own) if own == new.id() => new.ty(),
        SqlType::EnumArray(own) if own == new.id() => new.array(),
        other => other,
    }
}

/// A stored expression with a renamed type.
fn renamed(text: &str, from: &Name, to: &Name) -> String {
    match from == to {
        true => text.to_owned(),
        false => with_types(text, |named| (named.kept() == *from).then(|| to.written())),
    }
}

/// The table with a renamed type in all stored texts.
fn with_renamed_type(table: &Table, from: &Name, to: &Name) -> Table {
    let mut table = table.clone();
    let renamed = |text: &str| renamed(text, from, to);
    for column in &mut table.columns {
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

/// The table with its index expressions bound again.
fn with_computed_anew(table: Table, catalog: &Catalog) -> Table {
    let mut changed = table.clone();
    let table = Arc::new(table);
    for index in changed.indexes.iter_mut().filter(|index| index.computed().next().is_some()) {
        // An expression with a renamed label is left to the renaming of labels, which refuses it.
        let anew = |one: &Computed| one.anew(one.text.clone(), &table, catalog);
        if let Ok(anew) = index.with_computed(anew) {
            *index = Arc::new(anew);
        }
    }
    changed
}

/// An expression with other names of types, after `::` and after AS in a CAST.
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
    // From the last on, so that earlier positions stay valid.
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
    /// The stored form: without a schema for system types and `public`.
    pub fn kept(self) -> String {
        match self {
            SqlType::Enum(labels) => kept_name(&labels.name()),
            SqlType::EnumArray(labels) => format!("{}[]", kept_name(&labels.name())),
            SqlType::Array(element) => format!("{}[]", element.kept()),
            other => other.to_string(),
        }
    }
}

impl TableColumn {
    /// The stored form of its type.
    pub fn kept_type(&self) -> String {
        self.domain.as_ref().map_or_else(|| self.ty.kept(), |domain| kept_name(&domain.name))
    }

    /// Its default value, or that of its domain.
    pub fn default_or_domain(&self) -> Option<&str> {
        let of_domain = || self.domain.as_ref()?.default.as_deref();
        self.default.as_deref().or_else(of_domain)
    }
}

/// The stored form of a user-defined type's name.
fn kept_name(name: &Name) -> String {
    let always = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    match name.schema == PUBLIC {
        true => always(&name.name),
        false => format!("{}.{}", always(&name.schema), always(&name.name)),
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
