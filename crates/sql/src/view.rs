//! Views: queries with a name.
//!
//! ```text
//!   create view busy as select name, count(*) from staff join tasks on who = staff.id group by name
//!
//!   kept     the text of the query; its columns, name text and count bigint
//!            what its text names: staff, and its columns then, of which it looks at id, name; tasks ..
//!   used     the text is bound where the view is mentioned, as a query in FROM is
//! ```
//!
//! **Names mean what they meant.** The text names relations and columns as they were called when the view was made. So
//! what each name was is kept with it ([`Used`]), and a view is bound with those: a table that gets another name, a
//! column that does, or one more column beside `*`, are nothing to it. What it looks at cannot be dropped without it,
//! nor get another type.
//!
//! A view uses only what was there before it, and one that is replaced must not come to use itself: there are no
//! circles.
//!
//! Left out: views that can be written to, WITH CHECK OPTION, materialized and recursive ones; views over
//! sequences. What a sequence or a function is called in the text it is called there for ever.

use crate::bind::{Binder, folded};
use crate::budget::Budget;
use crate::catalog::{Catalog, Name, Named};
use crate::error::{SqlError, code};
use crate::parse::{Parsed, parse};
use crate::types::SqlType;
use isomer_design::{ColumnType, Value};
use sqlparser::ast::{CreateTableOptions, CreateView, Query, Statement};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    /// Its number for clients.
    pub oid: u32,
    /// The schema that it is in.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its columns, and their types.
    pub columns: Vec<(String, SqlType)>,
    /// Its query.
    pub query: String,
    /// What its text names.
    pub uses: Vec<Used>,
}

/// A table or a view that a view names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Used {
    /// Its number for clients.
    pub oid: u32,
    /// The schema that the text says, if it says one.
    pub schema: Option<String>,
    /// What the text calls it.
    pub name: String,
    /// Its columns, as the text calls them; it may have more by now.
    pub columns: Vec<String>,
    /// Which of them are looked at.
    pub looked_at: BTreeSet<usize>,
}

impl View {
    /// The view that a statement asks for, without its number.
    ///
    /// # Errors
    /// What is wrong with the query; 42601, 42701, 42P02, 0A000.
    pub fn wanted(
        create: &CreateView,
        catalog: &Catalog,
        budget: &Budget,
    ) -> Result<View, SqlError> {
        check(create)?;
        let query = create.query.to_string();
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

    /// Refuses to take the place of another view whose columns would not be the first of this one.
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
    /// XX000 if it is none.
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

    /// What a name in its text may mean: a relation, or a type.
    pub fn uses_of(&self, named: &Named) -> impl Iterator<Item = &Used> {
        self.uses.iter().filter(|used| used.schema == named.schema && used.name == named.name)
    }

    /// What a name in its text means, of a kind that is found by its number.
    pub fn used_of<T>(&self, named: &Named, find: impl Fn(u32) -> Option<T>) -> Option<T> {
        self.uses_of(named).find_map(|used| find(used.oid))
    }

    /// What is kept of it beside its name and its number, a line for each thing; the query is the rest.
    ///
    /// ```text
    ///   column <tab> integer <tab> 'id'
    ///   use <tab> 16384 <tab> 'staff'          and <tab> 'people', if the text says this schema
    ///   looked at <tab> 'id'                   a column of that
    ///   column of it <tab> 'room'              one that is not looked at
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

    /// Reads what was [kept](View::kept).
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

/// A type as the catalog keeps it.
pub(crate) fn type_named(name: &str, catalog: &Catalog) -> Option<SqlType> {
    let cast = crate::parse::parse_expression(&format!("NULL::{name}")).ok()?;
    let sqlparser::ast::Expr::Cast { data_type, .. } = cast else { return None };
    catalog.type_of(&data_type).ok()
}

/// Refuses what is said of a view and not kept.
fn check(create: &CreateView) -> Result<(), SqlError> {
    for (is_said, what) in [
        (create.materialized, "a materialized view"),
        (!matches!(create.options, CreateTableOptions::None), "an option of a view"),
    ] {
        if is_said {
            return Err(SqlError::unsupported(what));
        }
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
    /// The view with this number for clients.
    pub fn view_of(&self, oid: u32) -> Option<&Arc<View>> {
        self.views.numbered(oid)
    }

    /// The views that name a table or a view.
    pub fn users(&self, oid: u32) -> impl Iterator<Item = (&Arc<View>, &Used)> {
        self.views.values().filter_map(move |view| {
            view.uses.iter().find(|used| used.oid == oid).map(|used| (view, used))
        })
    }

    /// True if a view is among these, or among what these use.
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
    fn a_view_is_read_as_it_was_kept() {
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
