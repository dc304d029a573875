//! Views: named queries.
//!
//! ```text
//!   create view busy as
//!       select name, count(*) from staff join tasks on who = staff.id group by name
//!
//!   stored   the text of the query; its columns, name text and count bigint;
//!            the relations in the text: staff, with its columns then, and the used ones; ..
//!   used     the text is bound at each reference to the view, like a query in FROM
//! ```
//!
//! **Names keep their meaning.** The text has the names that relations and columns had when the
//! view was made. So the meaning of each name is stored with it ([`Used`]), and a view is bound
//! with those. A renamed table or column, or one more column in `*`, does not change it. A relation
//! or column that it uses cannot be dropped without the view, nor get another type.
//!
//! A view uses only relations that existed before it, and a replaced view must not come to use
//! itself: there are no circles.
//!
//! Texts that name relations, as in `nextval('ids')`, get their schemas (`relation_texts`).
//!
//! Left out: updatable views, WITH CHECK OPTION, materialized and recursive views; views over
//! sequences. Texts that name relations, and names of functions, are not updated.

use crate::bind::{Binder, changes, folded};
use crate::budget::Budget;
use crate::catalog::{Catalog, Name, Named, written_in_full};
use crate::error::{SqlError, code};
use crate::parse::{Parsed, parse};
use crate::relation_texts::with_schemas;
use crate::types::SqlType;
use isomer_design::{ColumnType, Value};
use sqlparser::ast::{CreateTableOptions, CreateView, Query, Statement};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    /// Its oid.
    pub oid: u32,
    /// The schema that it is in.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its columns, and their types.
    pub columns: Vec<(String, SqlType)>,
    /// Its query.
    pub query: String,
    /// The relations and types that its text names.
    pub uses: Vec<Used>,
}

/// A table or a view that a view names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Used {
    /// Its oid.
    pub oid: u32,
    /// The schema in the text, if there is one.
    pub schema: Option<String>,
    /// The name in the text.
    pub name: String,
    /// Its columns, with their names in the text; there may be more by now.
    pub columns: Vec<String>,
    /// The columns that are used.
    pub looked_at: BTreeSet<usize>,
}

impl View {
    /// The view that a statement defines, without its oid.
    ///
    /// # Errors
    /// Any error in the query; 42601, 42701, 42P02, 0A000.
    pub fn wanted(
        create: &CreateView,
        catalog: &Catalog,
        budget: &Budget,
    ) -> Result<View, SqlError> {
        check(create)?;
        let query = create.query.to_string();
        let query = with_schemas(&query, |name| written_in_full(catalog, name));
        let mut binder = Binder::new(catalog, "", &[], budget);
        binder.uses = Some(Vec::new());
        let bound = binder.query(&create.query)?;
        if !binder.params.is_empty() {
            return Err(SqlError::new(code::UNDEFINED_PARAMETER, "there is no parameter $1"));
        }
        let uses = binder.uses.take().unwrap_or_default();
        let is_temporary =
            create.temporary || uses.iter().any(|used| catalog.is_temporary(used.oid));
        let Name { schema, name } = catalog.made(&Named::of(&create.name)?, is_temporary)?;
        if create.columns.len() > bound.output.len() {
            let message = "CREATE VIEW specifies more column names than columns";
            return Err(SqlError::new(code::SYNTAX, message));
        }
        let mut columns: Vec<(String, SqlType)> = Vec::new();
        for (at, column) in bound.output.iter().enumerate() {
            let given = create.columns.get(at).map(|given| folded(&given.name));
            let name = given.unwrap_or_else(|| column.name.clone());
            if columns.iter().any(|(other, _)| *other == name) {
                let message = format!("column \"{name}\" specified more than once");
                return Err(SqlError::new(code::DUPLICATE_COLUMN, message));
            }
            columns.push((name, column.ty));
        }
        Ok(View { oid: 0, schema, name, columns, query, uses })
    }

    /// Checks that it may replace another view, whose columns must be its first ones.
    ///
    /// # Errors
    /// 42P16, 42P17.
    pub fn check_replaces(&self, old: &View, catalog: &Catalog) -> Result<(), SqlError> {
        let wrong = |message: String| Err(SqlError::new(code::INVALID_TABLE_DEFINITION, message));
        if self.columns.len() < old.columns.len() {
            return wrong("cannot drop columns from view".to_owned());
        }
        for ((before, old_type), (name, ty)) in old.columns.iter().zip(&self.columns) {
            if before != name {
                return wrong(format!(
                    "cannot change name of view column \"{before}\" to \"{name}\""
                ));
            }
            if old_type != ty {
                return wrong(format!(
                    "cannot change data type of view column \"{name}\" from {old_type} to {ty}"
                ));
            }
        }
        if catalog.uses_view(&self.uses, old.oid) {
            let message =
                format!("infinite recursion detected in rules for relation \"{}\"", old.name);
            return Err(SqlError::new(code::INVALID_OBJECT_DEFINITION, message));
        }
        Ok(())
    }

    /// Its query.
    ///
    /// # Errors
    /// XX000 if it cannot be parsed.
    pub fn parsed(&self) -> Result<Box<Query>, SqlError> {
        if let Some(Parsed::Sql(statement)) = parse(&self.query)?.pop()
            && let Statement::Query(query) = *statement
        {
            return Ok(query);
        }
        Err(SqlError::new(code::INTERNAL, format!("view \"{}\" has no query", self.name)))
    }

    /// Its name, with its schema.
    pub fn full_name(&self) -> Name {
        Name { schema: self.schema.clone(), name: self.name.clone() }
    }

    /// The candidates for a name in its text: relations or types.
    pub fn uses_of(&self, named: &Named) -> impl Iterator<Item = &Used> {
        self.uses.iter().filter(|used| used.schema == named.schema && used.name == named.name)
    }

    /// The object that a name in its text refers to, if it is found by `find`.
    pub fn used_of<T>(&self, named: &Named, find: impl Fn(u32) -> Option<T>) -> Option<T> {
        self.uses_of(named).find_map(|used| find(used.oid))
    }

    /// The stored form without its name and its oid, one item per line; the query is the rest.
    ///
    /// ```text
    ///   column <tab> integer <tab> 'id'
    ///   use <tab> 16384 <tab> 'staff'          and <tab> 'people', if the text has this schema
    ///   looked at <tab> 'id'                   a column that is used
    ///   column of it <tab> 'room'              a column that is not used
    ///   as <tab> SELECT ..
    /// ```
    pub fn kept(&self) -> String {
        let quoted = |name: &String| ColumnType::Text.format(&Value::from(name.as_str()));
        let mut lines: Vec<String> = Vec::new();
        for (name, ty) in &self.columns {
            lines.push(format!("{COLUMN}\t{}\t{}", ty.kept(), quoted(name)));
        }
        for used in &self.uses {
            let schema = used.schema.as_ref().map(|schema| format!("\t{}", quoted(schema)));
            let schema = schema.unwrap_or_default();
            lines.push(format!("{USE}\t{}\t{}{schema}", used.oid, quoted(&used.name)));
            for (at, name) in used.columns.iter().enumerate() {
                let what = if used.looked_at.contains(&at) { LOOKED_AT } else { OTHER };
                lines.push(format!("{what}\t{}", quoted(name)));
            }
        }
        lines.push(format!("{AS}\t{}", self.query));
        lines.join("\n")
    }

    /// Reads the [stored form](View::kept).
    pub fn read(name: &Name, oid: u32, kept: &str, catalog: &Catalog) -> Option<View> {
        let plain = |text: &str| match ColumnType::Text.parse(text)? {
            Value::Text(name) => Some(name),
            _ => None,
        };
        let (mut columns, mut uses, mut rest) = (Vec::new(), Vec::<Used>::new(), kept);
        loop {
            let (what, after) = rest.split_once('\t')?;
            if what == AS {
                let (Name { schema, name }, query) = (name.clone(), after.to_owned());
                return Some(View { oid, schema, name, columns, query, uses });
            }
            let (line, next) = after.split_once('\n')?;
            rest = next;
            match what {
                COLUMN => {
                    let (ty, name) = line.split_once('\t')?;
                    columns.push((plain(name)?, type_named(ty, catalog)?));
                }
                USE => {
                    let mut parts = line.split('\t');
                    let (oid, name) = (parts.next()?.parse().ok()?, plain(parts.next()?)?);
                    let schema = match parts.next() {
                        Some(schema) => Some(plain(schema)?),
                        None => None,
                    };
                    let (columns, looked_at) = (Vec::new(), BTreeSet::new());
                    uses.push(Used { oid, schema, name, columns, looked_at });
                }
                LOOKED_AT | OTHER => {
                    let used = uses.last_mut()?;
                    if what == LOOKED_AT {
                        used.looked_at.insert(used.columns.len());
                    }
                    used.columns.push(plain(line)?);
                }
                _ => return None,
            }
        }
    }
}

const COLUMN: &str = "column";
const USE: &str = "use";
const LOOKED_AT: &str = "looked at";
const OTHER: &str = "column of it";
const AS: &str = "as";

/// A type from its stored form.
pub(crate) fn type_named(name: &str, catalog: &Catalog) -> Option<SqlType> {
    let cast = crate::parse::parse_expression(&format!("NULL::{name}")).ok()?;
    let sqlparser::ast::Expr::Cast { data_type, .. } = cast else { return None };
    catalog.type_of(&data_type).ok()
}

/// Refuses unsupported clauses of a view.
fn check(create: &CreateView) -> Result<(), SqlError> {
    for (is_said, what) in [
        (create.materialized, "a materialized view"),
        (!matches!(create.options, CreateTableOptions::None), "an option of a view"),
    ] {
        if is_said {
            return Err(SqlError::unsupported(what));
        }
    }
    let names = create.query.with.iter().flat_map(|with| &with.cte_tables);
    if names.map(|name| &name.query).any(|query| changes(query).is_some()) {
        let message = "views must not contain data-modifying statements in WITH";
        return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
    }
    let is_foreign = create.or_alter
        || create.secure
        || create.if_not_exists
        || !create.cluster_by.is_empty()
        || create.comment.is_some()
        || create.with_no_schema_binding
        || create.copy_grants
        || create.to.is_some()
        || create.params.is_some();
    if is_foreign {
        let message = "syntax error at or near a clause of another database";
        return Err(SqlError::new(code::SYNTAX, message));
    }
    Ok(())
}

impl Catalog {
    /// The view with an oid.
    pub fn view_of(&self, oid: u32) -> Option<&Arc<View>> {
        self.views.numbered(oid)
    }

    /// The views that name a table or a view.
    pub fn users(&self, oid: u32) -> impl Iterator<Item = (&Arc<View>, &Used)> {
        self.views.values().filter_map(move |view| {
            view.uses.iter().find(|used| used.oid == oid).map(|used| (view, used))
        })
    }

    /// True if a view is among these, or among those that they use.
    fn uses_view(&self, uses: &[Used], view: u32) -> bool {
        uses.iter().any(|used| {
            let deeper = self.view_of(used.oid);
            used.oid == view || deeper.is_some_and(|deeper| self.uses_view(&deeper.uses, view))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_view_is_read_back() {
        let used = Used {
            oid: 16_384,
            schema: None,
            name: "two\nlines\tand 'more'".to_owned(),
            columns: vec!["a".to_owned(), "b\n".to_owned()],
            looked_at: BTreeSet::from([1]),
        };
        let view = View {
            oid: 7,
            schema: "public".to_owned(),
            name: "v".to_owned(),
            columns: vec![
                ("x\t".to_owned(), SqlType::Numeric(Some((5, 2)))),
                ("y".to_owned(), SqlType::TimestampTz),
            ],
            query: "SELECT 1 AS x,\n 2\tAS y".to_owned(),
            uses: vec![
                used.clone(),
                Used { oid: 1, schema: Some("a\tb".to_owned()), columns: Vec::new(), ..used },
            ],
        };
        let mut view = view;
        view.uses[1].looked_at.clear();
        let name = Name::public("v");
        assert_eq!(View::read(&name, 7, &view.kept(), &Catalog::default()), Some(view));
        for damaged in ["", "as", "column\tinteger", "use\tx\t'a'\nas\t", "looked at\t'a'\nas\t"] {
            assert_eq!(View::read(&name, 7, damaged, &Catalog::default()), None, "{damaged}");
        }
    }
}
