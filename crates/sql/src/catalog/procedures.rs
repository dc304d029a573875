//! Procedures: named lists of statements, with arguments.
//!
//! ```text
//!   create procedure pay(payer integer, payee integer, sum integer) language sql as $$
//!       update accounts set balance = balance - sum where id = payer;
//!       update accounts set balance = balance + sum where id = payee $$
//!
//!   stored      the signature, and the text of the body
//!   call pay(1, 2, 10)
//!               resolves the signature; the statements of the body are compiled with three integer
//!               parameters, which they name payer or $1, and run one after the other
//! ```
//!
//! **A body is a text**, as in PostgreSQL: names in it are resolved by the search path of each
//! call. So a table can be dropped or altered under a procedure, and a call reports what is wrong.
//! The statements are also checked when the procedure is created.
//!
//! **Invariants.** Two procedures of a schema differ in their name or their argument types. An
//! argument with a default has no arguments without one behind it. The catalog stores procedures by
//! oid, so a new name or schema does not affect rights and comments.
//!
//! Left out: OUT and INOUT arguments, languages other than SQL, domains as argument types, and the
//! dependencies of a body in BEGIN ATOMIC, which PostgreSQL tracks.

use super::{Catalog, MadeType, Name, Named, PG_CATALOG, quoted};
use crate::enums::EnumType;
use crate::error::{SqlError, code};
use crate::types::SqlType;
use isomer_design::{ColumnType, SharedMap, Value};
use std::sync::Arc;

/// The most arguments of a procedure, as in PostgreSQL.
pub const ARGUMENTS_MAX: usize = 100;

/// All procedures, by oid.
pub type Procedures = SharedMap<u32, Arc<Procedure>>;

/// A procedure.
#[derive(Clone, Debug)]
pub struct Procedure {
    /// Its oid.
    pub oid: u32,
    /// Its name, with its schema.
    pub name: Name,
    /// Its arguments.
    pub arguments: Vec<Argument>,
    /// The text of its statements.
    pub body: String,
    /// True if the body was written in BEGIN ATOMIC .. END.
    pub is_atomic: bool,
}

/// An argument of a procedure.
#[derive(Clone, Debug)]
pub struct Argument {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its type, without a modifier.
    pub ty: SqlType,
    /// The default as an SQL expression.
    pub default: Option<String>,
}

/// Procedures are equal if their stored forms are: types are equal also under different names.
impl PartialEq for Procedure {
    fn eq(&self, other: &Procedure) -> bool {
        self.oid == other.oid && self.kept() == other.kept()
    }
}

const ATOMIC: &str = "atomic";
const TEXT: &str = "text";
const ARGUMENT: &str = "argument";
const AS: &str = "as";

impl Procedure {
    /// The types of its arguments.
    pub fn types(&self) -> Vec<SqlType> {
        self.arguments.iter().map(|argument| argument.ty).collect()
    }

    /// Its name and argument types, as in messages.
    pub fn said(&self, catalog: &Catalog) -> String {
        signature(catalog, &quoted(&self.name.name), &self.types())
    }

    /// Its name, with its schema if the search path does not find it: a `regproc`.
    pub fn shown(&self, catalog: &Catalog) -> String {
        let is_visible = candidates(catalog, &Named::plain(self.name.name.as_str()));
        match is_visible.iter().any(|one| one.oid == self.oid) {
            true => quoted(&self.name.name),
            false => self.name.written(),
        }
    }

    /// Its name and types: a `regprocedure`.
    pub fn signature(&self, catalog: &Catalog) -> String {
        signature(catalog, &self.shown(catalog), &self.types()).replace(", ", ",")
    }

    /// Its kind, name and types, as PostgreSQL describes an object that depends on others.
    pub fn described(&self, catalog: &Catalog) -> String {
        format!("function {}", self.signature(catalog))
    }

    /// The list of its arguments in SQL notation, with or without defaults.
    pub fn list(&self, catalog: &Catalog, with_defaults: bool) -> String {
        let one = |argument: &Argument| {
            let mut words = vec!["IN".to_owned()];
            words.extend(argument.name.as_deref().map(quoted));
            words.push(catalog.type_shown(argument.ty));
            if let Some(default) = argument.default.as_ref().filter(|_| with_defaults) {
                let default = crate::system::written_as(default, argument.ty);
                words.push(format!("DEFAULT {}", catalog.with_shown_types(&default)));
            }
            words.join(" ")
        };
        self.arguments.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// Its body in BEGIN ATOMIC .. END, if it was written so.
    pub fn atomic(&self) -> Option<String> {
        let body = self.body.trim_end();
        let end = if body.is_empty() || body.ends_with(';') { "" } else { ";" };
        self.is_atomic.then(|| format!("BEGIN ATOMIC\n {body}{end}\nEND"))
    }

    /// The CREATE PROCEDURE statement.
    pub fn definition(&self, catalog: &Catalog) -> String {
        let body = self.atomic().unwrap_or_else(|| {
            let mut tag = "procedure".to_owned();
            while self.body.contains(&format!("${tag}$")) {
                tag.push('x');
            }
            format!("AS ${tag}${}${tag}$", self.body)
        });
        let (name, list) = (self.name.written(), self.list(catalog, true));
        format!("CREATE OR REPLACE PROCEDURE {name}({list})\n LANGUAGE sql\n{body}\n")
    }

    /// The stored form without its oid, one item per line; the body is the rest.
    ///
    /// ```text
    ///   text <tab> 'public' <tab> 'pay'                or: atomic
    ///   argument <tab> integer <tab> 'payer' <tab> '1'   the name may be '', the default missing
    ///   as <tab> UPDATE ..
    /// ```
    pub fn kept(&self) -> String {
        let quoted = |text: &str| ColumnType::Text.format(&Value::from(text));
        let form = if self.is_atomic { ATOMIC } else { TEXT };
        let (schema, name) = (quoted(&self.name.schema), quoted(&self.name.name));
        let mut lines = vec![format!("{form}\t{schema}\t{name}")];
        for argument in &self.arguments {
            let name = quoted(argument.name.as_deref().unwrap_or_default());
            let mut line = format!("{ARGUMENT}\t{}\t{name}", argument.ty.kept());
            let default = argument.default.as_deref().map(|text| format!("\t{}", quoted(text)));
            line.push_str(&default.unwrap_or_default());
            lines.push(line);
        }
        lines.push(format!("{AS}\t{}", self.body));
        lines.join("\n")
    }

    /// Reads the [stored form](Procedure::kept).
    pub fn read(oid: u32, kept: &str, catalog: &Catalog) -> Option<Procedure> {
        let plain = |text: &str| match ColumnType::Text.parse(text)? {
            Value::Text(text) => Some(text),
            _ => None,
        };
        let (first, mut rest) = kept.split_once('\n')?;
        let (form, name) = first.split_once('\t')?;
        let is_atomic = match form {
            ATOMIC => true,
            TEXT => false,
            _ => return None,
        };
        let (schema, name) = name.split_once('\t')?;
        let name = Name { schema: plain(schema)?, name: plain(name)? };
        let mut arguments = Vec::new();
        loop {
            let (what, after) = rest.split_once('\t')?;
            if what == AS {
                let body = after.to_owned();
                return Some(Procedure { oid, name, arguments, body, is_atomic });
            }
            let (line, next) = after.split_once('\n')?;
            rest = next;
            let mut parts = line.split('\t');
            let ty = crate::view::type_named(parts.next()?, catalog)?;
            let name = Some(plain(parts.next()?)?).filter(|name| !name.is_empty());
            let default = match parts.next() {
                Some(default) => Some(plain(default)?),
                None => None,
            };
            arguments.push(Argument { name, ty, default });
        }
    }
}

/// A name with argument types, as in messages.
pub fn signature(catalog: &Catalog, name: &str, types: &[SqlType]) -> String {
    let types: Vec<String> = types.iter().map(|ty| catalog.type_shown(*ty)).collect();
    format!("{name}({})", types.join(", "))
}

/// The procedures that a name finds, those of the first schemas of the path first. One hides others
/// with the same argument types behind it.
pub fn candidates<'c>(catalog: &'c Catalog, named: &Named) -> Vec<&'c Arc<Procedure>> {
    let mut found: Vec<&Arc<Procedure>> = Vec::new();
    if catalog.procedures.is_empty() {
        return found;
    }
    for schema in catalog.looked_in(named) {
        let is_there =
            |one: &&Arc<Procedure>| one.name.schema == schema && one.name.name == named.name;
        for one in catalog.procedures.values().filter(is_there) {
            if found.iter().all(|other| other.types() != one.types()) {
                found.push(one);
            }
        }
    }
    found
}

/// The procedure with exactly this name and these argument types.
pub fn at<'c>(catalog: &'c Catalog, name: &Name, types: &[SqlType]) -> Option<&'c Arc<Procedure>> {
    let mut all = catalog.procedures.values();
    all.find(|one| one.name == *name && one.types() == types)
}

/// The procedure that a statement names, with or without its argument types.
///
/// # Errors
/// 42883 if there is none, 42725 if there are several, 42809 if it is a function of the system.
pub fn named(
    catalog: &Catalog,
    named: &Named,
    types: Option<&[SqlType]>,
) -> Result<Arc<Procedure>, SqlError> {
    let mut found = candidates(catalog, named);
    if let Some(types) = types {
        found.retain(|one| one.types() == types);
    }
    match (&found[..], types) {
        ([one], _) => Ok((*one).clone()),
        ([], Some(types)) => {
            let said = signature(catalog, &named.to_string(), types);
            if is_function(named, types) {
                let message = format!("{said} is not a procedure");
                return Err(SqlError::new(code::WRONG_OBJECT, message));
            }
            let message = format!("procedure {said} does not exist");
            Err(SqlError::new(code::UNDEFINED_FUNCTION, message))
        }
        ([], None) => {
            let message = format!("could not find a procedure named \"{named}\"");
            Err(SqlError::new(code::UNDEFINED_FUNCTION, message))
        }
        _ => {
            let message = format!("procedure name \"{named}\" is not unique");
            let hint = "Specify the argument list to select the procedure unambiguously.";
            Err(SqlError::new(code::AMBIGUOUS_FUNCTION, message).hint(hint))
        }
    }
}

/// True if a function of the system has this name and takes arguments of these types.
pub fn is_function(named: &Named, types: &[SqlType]) -> bool {
    let is_of_system = named.schema.as_deref().is_none_or(|schema| schema == PG_CATALOG);
    is_of_system && crate::functions::find(&named.name, types).is_some()
}

/// The procedures with an argument of an enum.
pub fn with_enum<'c>(
    catalog: &'c Catalog,
    labels: &'c EnumType,
) -> impl Iterator<Item = &'c Arc<Procedure>> {
    let has_it = |one: &&Arc<Procedure>| {
        one.arguments.iter().any(|argument| super::is_of(argument.ty, labels))
    };
    catalog.procedures.values().filter(has_it)
}

/// The procedures with this name in any of these schemas: for `regproc` and `regprocedure`, which
/// may have argument types.
///
/// # Errors
/// As [`named`].
pub fn read(catalog: &Catalog, text: &str) -> Result<Arc<Procedure>, SqlError> {
    let Some((name, rest)) = text.split_once('(') else {
        return named(catalog, &Named::read(text), None);
    };
    let list = rest.trim_end().trim_end_matches(')');
    let parts = list.split(',').map(str::trim).filter(|part| !part.is_empty());
    let types: Option<Vec<SqlType>> =
        parts.map(|part| crate::view::type_named(part, catalog)).collect();
    let types = types.ok_or_else(|| {
        SqlError::new(code::UNDEFINED_OBJECT, format!("a type of \"{text}\" does not exist"))
    })?;
    let types: Vec<SqlType> = types.iter().map(|ty| ty.without_modifier()).collect();
    named(catalog, &Named::read(name), Some(&types))
}

/// The type of an argument: a domain is refused, and a modifier is dropped, as in PostgreSQL.
///
/// # Errors
/// 42704, 0A000.
pub fn argument_type(
    catalog: &Catalog,
    ty: &sqlparser::ast::DataType,
) -> Result<SqlType, SqlError> {
    let found = catalog.named_type(ty)?;
    if let Some(domain) = &found.domain {
        let name = catalog.made_shown(MadeType::Domain(domain.clone()).name());
        let error = SqlError::unsupported(format!("an argument of domain {name}"));
        return Err(error.hint(format!("Its base type is {}.", found.ty)));
    }
    Ok(found.ty.plain().without_modifier())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_procedure_is_read_back() {
        let argument = |name: Option<&str>, ty, default: Option<&str>| Argument {
            name: name.map(str::to_owned),
            ty,
            default: default.map(str::to_owned),
        };
        let procedure = Procedure {
            oid: 7,
            name: Name { schema: "a\tb".to_owned(), name: "two\nlines".to_owned() },
            arguments: vec![
                argument(Some("x"), SqlType::Int4, None),
                argument(None, SqlType::Array(&SqlType::Text), Some("'{a\tb}'")),
                argument(Some("y\n"), SqlType::TimestampTz, Some("now()")),
            ],
            body: "SELECT 1,\n\t$1;\nas\tno".to_owned(),
            is_atomic: false,
        };
        let catalog = Catalog::default();
        for procedure in [
            Procedure { arguments: Vec::new(), body: String::new(), ..procedure.clone() },
            Procedure { is_atomic: true, ..procedure.clone() },
            procedure,
        ] {
            let again = Procedure::read(7, &procedure.kept(), &catalog);
            assert_eq!(again, Some(procedure));
        }
        for damaged in ["", "text", "text\t'a'\t'b'", "text\t'a'\t'b'\nargument\tx\nas\t"] {
            assert_eq!(Procedure::read(7, damaged, &catalog), None, "{damaged}");
        }
    }

    #[test]
    fn the_quotes_of_a_definition_are_not_in_the_body() {
        let procedure = Procedure {
            oid: 7,
            name: Name::public("p"),
            arguments: Vec::new(),
            body: "select '$procedure$'".to_owned(),
            is_atomic: false,
        };
        let definition = procedure.definition(&Catalog::default());
        assert!(definition.ends_with("AS $procedurex$select '$procedure$'$procedurex$\n"));
    }
}
