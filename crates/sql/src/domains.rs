//! Domains: types with a base type, a name, a default, and conditions.
//!
//! ```text
//!   create domain age as integer check (value >= 0)
//!   create domain adult as age not null check (value >= 18)
//!
//!   x::adult          x::integer, and the rules of adult: NOT NULL, the condition of age, its own
//!   a column of it    an integer for operators, indexes, clients and the store; the rules of adult
//!                     are checked whenever the column is written
//!   the protocol      integer, as in PostgreSQL
//! ```
//!
//! A domain is not a type of expressions. It is known in three places: in casts, where rows are
//! written, and in the catalog, where a column has it [beside its
//! type](crate::catalog::TableColumn).
//!
//! **Invariants.** The base type is never a domain: a domain over a domain has the same base type
//! and refers to that domain by oid. A value must fulfil the conditions of the whole chain, from
//! the base on. A column contains the current definition of its domain: a changed domain is
//! replaced in all tables ([`Catalog::put_domain`](crate::catalog::Catalog::put_domain)).
//!
//! Left out: arrays of domains, parameters declared as a domain, views and subqueries whose columns
//! keep the domain (they have the base type), domains in index expressions.

use crate::catalog::{Catalog, Check, Name, free_made_name};
use crate::error::{SqlError, code};
use crate::plan::RowCheck;
use crate::types::SqlType;
use isomer_design::{ColumnType, Value};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use std::sync::Arc;

/// A domain with all of its stored properties.
#[derive(Clone, PartialEq, Debug)]
pub struct Domain {
    /// Its oid.
    pub oid: u32,
    /// Its name, with its schema.
    pub name: Name,
    /// Its base type, with the modifier.
    pub ty: SqlType,
    /// The oid of the domain that it is over.
    pub over: Option<u32>,
    /// True if it has a NOT NULL constraint itself.
    pub not_null: bool,
    /// The default of columns without one.
    pub default: Option<String>,
    /// Its conditions on `VALUE`, in the order of their names.
    pub checks: Vec<Check>,
}

/// The checks of a domain for a value.
#[derive(Clone, PartialEq, Debug)]
pub struct DomainRule {
    /// Its oid.
    pub oid: u32,
    /// Its name.
    pub of: Name,
    /// Its name in errors.
    pub name: String,
    /// True if NULL is refused.
    pub not_null: bool,
    /// Conditions over a row that consists of the value.
    pub checks: Vec<RowCheck>,
}

impl DomainRule {
    /// 23502: the domain does not allow NULL.
    pub(crate) fn null(&self) -> SqlError {
        let message = format!("domain {} does not allow null values", self.name);
        let error = SqlError::new(code::NOT_NULL_VIOLATION, message);
        error.about_type(&self.of.schema, &self.of.name, "")
    }

    /// 23514: the value violates a check of the domain.
    pub(crate) fn broken(&self, check: &str) -> SqlError {
        let message =
            format!("value for domain {} violates check constraint \"{check}\"", self.name);
        let error = SqlError::new(code::CHECK_VIOLATION, message);
        error.about_type(&self.of.schema, &self.of.name, check)
    }
}

const KIND: &str = "domain";
const DEFAULT: &str = "default";
const CHECK: &str = "check";

impl Domain {
    /// The stored form, without its name and oid, one property per line.
    ///
    /// ```text
    ///   domain   0           true       character varying(8)   (over no other domain, NOT NULL)
    ///   default  ''x''
    ///   check    'd_check'   'VALUE <> ''y'''
    /// ```
    pub fn kept(&self) -> String {
        let quoted = |text: &str| ColumnType::Text.format(&Value::from(text));
        let (over, not_null) = (self.over.unwrap_or(0), self.not_null);
        let mut lines = vec![format!("{KIND}\t{over}\t{not_null}\t{}", self.ty.kept())];
        lines.extend(self.default.iter().map(|text| format!("{DEFAULT}\t{}", quoted(text))));
        let check = |check: &Check| {
            format!("{CHECK}\t{}\t{}", quoted(&check.name), quoted(&check.condition))
        };
        lines.extend(self.checks.iter().map(check));
        lines.join("\n")
    }

    /// True if the stored form of a type is that of a domain.
    pub fn is_kept(kept: &str) -> bool {
        kept.starts_with(KIND)
    }

    /// Parses the [stored](Domain::kept) form.
    pub fn read(name: Name, oid: u32, kept: &str, catalog: &Catalog) -> Option<Domain> {
        let plain = |text: &str| match ColumnType::Text.parse(text)? {
            Value::Text(text) => Some(text),
            _ => None,
        };
        let mut lines = kept.split('\n');
        let mut first = lines.next()?.strip_prefix(KIND)?.strip_prefix('\t')?.splitn(3, '\t');
        let over = Some(first.next()?.parse().ok()?).filter(|over| *over > 0);
        let not_null = first.next()?.parse().ok()?;
        let ty = crate::view::type_named(first.next()?, catalog)?;
        let (mut default, mut checks) = (None, Vec::new());
        for line in lines {
            match line.split_once('\t')? {
                (DEFAULT, text) => default = Some(plain(text)?),
                (CHECK, rest) => {
                    let (name, condition) = rest.split_once('\t')?;
                    checks.push(Check { name: plain(name)?, condition: plain(condition)? });
                }
                _ => return None,
            }
        }
        Some(Domain { oid, name, ty, over, not_null, default, checks })
    }

    /// The oid of a condition.
    pub(crate) fn check_oid(&self, number: usize) -> i64 {
        (i64::from(self.oid) * 1024 + number as i64) & i64::from(u32::MAX)
    }

    /// Its default, and its conditions.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.default.as_deref().into_iter().chain(self.checks.iter().map(|check| &*check.condition))
    }

    /// As [`Domain::texts`], to change them.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        self.default.iter_mut().chain(self.checks.iter_mut().map(|check| &mut check.condition))
    }

    /// Adds a condition; one without a name gets a free one.
    ///
    /// # Errors
    /// 42710 if the name is taken.
    pub fn add_check(&mut self, name: Option<String>, condition: String) -> Result<(), SqlError> {
        let is_taken = |name: &str| self.checks.iter().any(|check| check.name == name);
        let name = match name {
            Some(name) if is_taken(&name) => return Err(self.taken(&name)),
            Some(name) => name,
            None => free_made_name(&self.name.name, "", "check", is_taken),
        };
        self.checks.push(Check { name, condition });
        self.sort();
        Ok(())
    }

    /// Renames a condition.
    ///
    /// # Errors
    /// 42704 if there is no condition `from`, 42710 if there is one named `to`.
    pub fn rename_check(&mut self, from: &str, to: String) -> Result<(), SqlError> {
        if self.checks.iter().any(|check| check.name == to) {
            return Err(self.taken(&to));
        }
        let Some(check) = self.checks.iter_mut().find(|check| check.name == from) else {
            let message =
                format!("constraint \"{from}\" for domain {} does not exist", self.name.said());
            return Err(SqlError::new(code::UNDEFINED_OBJECT, message));
        };
        check.name = to;
        self.sort();
        Ok(())
    }

    fn sort(&mut self) {
        self.checks.sort_by(|a, b| a.name.cmp(&b.name));
    }

    fn taken(&self, check: &str) -> SqlError {
        let message =
            format!("constraint \"{check}\" for domain \"{}\" already exists", self.name.name);
        SqlError::new(code::DUPLICATE_OBJECT, message)
    }
}

/// A condition of a domain with `value` instead of the word VALUE.
pub fn with_value(condition: &str, value: &str) -> String {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, condition).tokenize_with_location();
    let is_blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let mut tokens = tokens.unwrap_or_default();
    tokens.retain(|token| !is_blank(token));
    let mut written = condition.to_owned();
    // From the last on, so that earlier positions stay valid.
    for at in (0..tokens.len()).rev() {
        let token = |at: Option<usize>| at.and_then(|at| tokens.get(at)).map(|token| &token.token);
        let is_other = matches!(token(at.checked_sub(1)), Some(Token::Period | Token::DoubleColon))
            || matches!(token(Some(at + 1)), Some(Token::Period | Token::LParen));
        let Token::Word(word) = &tokens[at].token else { continue };
        if is_other || !is_value(word.quote_style, &word.value) {
            continue;
        }
        let place = |location: Location| {
            let number = crate::parse::position(condition, location.line, location.column)?;
            let signs = &mut condition.char_indices();
            Some(signs.nth(number - 1).map_or(condition.len(), |(at, _)| at))
        };
        let span = tokens[at].span;
        if let (Some(from), Some(to)) = (place(span.start), place(span.end)) {
            written.replace_range(from..to, value);
        }
    }
    written
}

fn is_value(quote: Option<char>, word: &str) -> bool {
    if quote.is_some() { word == "value" } else { word.eq_ignore_ascii_case("value") }
}

impl Catalog {
    /// A domain and its base domains, the innermost first.
    pub fn domain_chain(&self, domain: &Domain) -> Vec<Arc<Domain>> {
        let mut chain = vec![Arc::new(domain.clone())];
        while let Some(below) = chain[0].over.and_then(|oid| self.domain_numbered(oid)) {
            chain.insert(0, below.clone());
        }
        chain
    }

    /// True if a domain has conditions or NOT NULL, by itself or its base domains.
    pub fn is_constrained(&self, domain: &Domain) -> bool {
        let chain = self.domain_chain(domain);
        chain.iter().any(|domain| domain.not_null || !domain.checks.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_domains_are_read_back() {
        let check = |name: &str, condition: &str| Check {
            name: name.to_owned(),
            condition: condition.to_owned(),
        };
        let made = Domain {
            oid: 7,
            name: Name::public("d"),
            ty: SqlType::Varchar(Some(8)),
            over: Some(6),
            not_null: true,
            default: Some("'a\tb\nc'".to_owned()),
            checks: vec![check("d check", "VALUE <> 'it''s'"), check("e", "VALUE > 'x'")],
        };
        let plain =
            Domain { over: None, not_null: false, default: None, checks: vec![], ..made.clone() };
        for domain in [made, plain] {
            let kept = domain.kept();
            assert!(Domain::is_kept(&kept));
            let again = Domain::read(Name::public("d"), 7, &kept, &Catalog::default());
            assert_eq!(again, Some(domain), "{kept}");
        }
        for damaged in [
            "",
            "domain",
            "domain\t0\ttrue",
            "domain\t0\tx\tinteger",
            "domain\t0\ttrue\tinteger\nx\t",
        ] {
            assert_eq!(
                Domain::read(Name::public("d"), 7, damaged, &Catalog::default()),
                None,
                "{damaged}"
            );
        }
    }

    #[test]
    fn the_word_value_is_recognized() {
        for (condition, wanted) in [
            ("value > 0", "a > 0"),
            (
                "VALUE ~ 'value' AND Value <> E'it\\'s value'",
                "a ~ 'value' AND a <> E'it\\'s value'",
            ),
            (
                "length(\"value\") > 1 AND value::text = 'x''value'",
                "length(a) > 1 AND a::text = 'x''value'",
            ),
            ("t.value > value(value)", "t.value > value(a)"),
            ("\"VALUE\" > values_of", "\"VALUE\" > values_of"),
        ] {
            assert_eq!(with_value(condition, "a"), wanted);
        }
    }
}
