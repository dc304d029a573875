//! Name resolution: the slots of columns, and default names of output columns.
//!
//! A name is searched in the query itself, then in the enclosing queries, innermost first. A name
//! with two candidates is ambiguous; an unknown name is reported with a similar one.

use super::expr::{Typed, typed};
use super::from::TABLE_OID;
use super::operators::is_named;
use super::rows::row_of_source;
use super::{Binder, ScopeColumn, folded};
use crate::datum::Datum;
use crate::error::{SqlError, code, similar};
use crate::expr::Expr;
use crate::functions;
use crate::types::SqlType;
use sqlparser::ast;

/// The name of an output column without an alias.
pub(crate) fn column_name(ast: &ast::Expr) -> String {
    given_name(ast).or_else(|| kind_name(ast)).unwrap_or_else(|| "?column?".to_owned())
}

/// The name that an expression gives its column, if it has one: that of a column or a function.
fn given_name(ast: &ast::Expr) -> Option<String> {
    let fixed = |name: &str| Some(name.to_owned());
    match ast {
        ast::Expr::Identifier(name) => Some(folded(name)),
        ast::Expr::CompoundIdentifier(names) => names.last().map(folded),
        ast::Expr::BinaryOp { op: ast::BinaryOperator::Overlaps, .. } => fixed("overlaps"),
        ast::Expr::Function(call) if is_named(call, "values") => fixed("column1"),
        ast::Expr::Function(function) => {
            function.name.0.last().and_then(|part| part.as_ident()).map(folded)
        }
        ast::Expr::Nested(inner)
        | ast::Expr::Collate { expr: inner, .. }
        | ast::Expr::Cast { expr: inner, .. } => given_name(inner),
        // Named by its last alternative.
        ast::Expr::Case { else_result, .. } => else_result.as_deref().and_then(given_name),
        ast::Expr::Subquery(query) => match &*query.body {
            ast::SetExpr::Select(select) => match select.projection.first() {
                Some(ast::SelectItem::UnnamedExpr(expr)) => Some(column_name(expr)),
                Some(ast::SelectItem::ExprWithAlias { alias, .. }) => Some(folded(alias)),
                _ => None,
            },
            _ => None,
        },
        ast::Expr::Exists { negated: false, .. } => fixed("exists"),
        ast::Expr::Array(_) => fixed("array"),
        ast::Expr::Tuple(_) => fixed("row"),
        ast::Expr::Overlay { .. } => fixed("overlay"),
        // A field has its own name, an element that of its array.
        ast::Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|step| match step {
                ast::AccessExpr::Dot(ast::Expr::Identifier(name)) => Some(folded(name)),
                _ => None,
            });
            field.or_else(|| given_name(root))
        }
        ast::Expr::Extract { .. } => fixed("extract"),
        ast::Expr::AtTimeZone { .. } => fixed("timezone"),
        ast::Expr::Substring { shorthand: true, .. } => fixed("substr"),
        ast::Expr::Substring { .. } => fixed("substring"),
        ast::Expr::Trim { trim_where: Some(ast::TrimWhereField::Leading), .. } => fixed("ltrim"),
        ast::Expr::Trim { trim_where: Some(ast::TrimWhereField::Trailing), .. } => fixed("rtrim"),
        ast::Expr::Trim { .. } => fixed("btrim"),
        ast::Expr::Position { .. } => fixed("position"),
        ast::Expr::Floor { .. } => fixed("floor"),
        ast::Expr::Ceil { .. } => fixed("ceil"),
        _ => None,
    }
}

/// The name for other kinds of expressions.
fn kind_name(ast: &ast::Expr) -> Option<String> {
    match ast {
        ast::Expr::Nested(inner) => kind_name(inner),
        ast::Expr::CompoundFieldAccess { root, .. } => kind_name(root),
        ast::Expr::Case { .. } => Some("case".to_owned()),
        ast::Expr::Cast { data_type, .. } => type_name(data_type),
        ast::Expr::TypedString(string) => type_name(&string.data_type),
        ast::Expr::Interval(_) => Some("interval".to_owned()),
        _ => None,
    }
}

/// The name of a type, without its schema.
fn type_name(ty: &ast::DataType) -> Option<String> {
    match (SqlType::parse(ty), ty) {
        // An array type has the name of its element type.
        (_, ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(element, _))) => {
            type_name(element)
        }
        (_, ast::DataType::Custom(name, _)) => {
            name.0.last().and_then(|part| part.as_ident()).map(folded)
        }
        (Ok(ty), _) => Some(ty.catalog_name()),
        _ => None,
    }
}

/// Columns of each table of PostgreSQL.
const SYSTEM_COLUMNS: [&str; 6] = ["tableoid", "ctid", "xmin", "xmax", "cmin", "cmax"];

impl Binder<'_> {
    pub(super) fn name(
        &mut self,
        alias: Option<&ast::Ident>,
        name: &ast::Ident,
    ) -> Result<Typed, SqlError> {
        let wanted = folded(name);
        let alias_name = alias.map(folded);
        for levels in 0..self.scopes.len() {
            let at = self.scopes.len() - 1 - levels;
            let fits = |column: &&ScopeColumn| {
                column.name == wanted && alias_name.as_ref().is_none_or(|a| *a == column.alias)
            };
            let scope = &self.scopes[at];
            self.budget.tick(scope.columns.len())?;
            let found: Vec<&ScopeColumn> = scope
                .columns
                .iter()
                .filter(fits)
                .filter(|column| alias.is_some() || column.shown || column.origin.1 < 0)
                .collect();
            match found.as_slice() {
                // Columns of an empty source have no values.
                [] if scope.of_nothing.is_some() => return Ok(super::select::unknown()),
                [] => {}
                [column] => {
                    let (slot, ty) = (column.slot, column.ty);
                    self.scopes[at].used[slot] = true;
                    if levels == 0 {
                        return Ok(typed(Expr::Column(slot), ty));
                    }
                    return Ok(typed(Expr::Outer(levels, slot), ty));
                }
                _ => {
                    let message = format!("column reference \"{wanted}\" is ambiguous");
                    return Err(self.at(SqlError::new(code::AMBIGUOUS_COLUMN, message), name));
                }
            }
        }
        let alias_name = alias_name.as_deref();
        if let Some(argument) = super::procedure::argument(self, alias_name, &wanted) {
            return argument;
        }
        if let Some(found) = self.system_column(alias_name, &wanted) {
            return found;
        }
        // If there is no column of this name, some words are functions.
        if alias.is_none() && name.quote_style.is_none() && is_bare_function(&wanted) {
            let (func, ty) = functions::find(&wanted, &[]).expect("it is one of these");
            return Ok(typed(Expr::Call(func, Vec::new()), ty));
        }
        if alias.is_none()
            && let Some(row) = row_of_source(self, &wanted)?
        {
            return Ok(row);
        }
        Err(self.unknown_column(alias_name, name))
    }

    /// A column that each table of PostgreSQL has; `None` for other names, and without a table. The
    /// oid of a table is a constant, except for its missing rows in an outer join. These are known
    /// by a column that is never null.
    fn system_column(
        &mut self,
        alias: Option<&str>,
        wanted: &str,
    ) -> Option<Result<Typed, SqlError>> {
        if !SYSTEM_COLUMNS.contains(&wanted) {
            return None;
        }
        for levels in 0..self.scopes.len() {
            let at = self.scopes.len() - 1 - levels;
            let is_own = |column: &&ScopeColumn| {
                let (oid, number) = column.origin;
                let is_stored = (oid > 0 && number > 0) || number == TABLE_OID;
                is_stored && alias.is_none_or(|alias| alias == column.alias)
            };
            let own = self.scopes[at].columns.iter().filter(is_own);
            let own: Vec<(u32, i16, usize, &str)> = own
                .map(|column| (column.origin.0, column.origin.1, column.slot, &*column.alias))
                .collect();
            let Some((oid, _, _, name)) = own.first().copied() else { continue };
            if own.iter().any(|(_, _, _, other)| *other != name) {
                let message = format!("column reference \"{wanted}\" is ambiguous");
                return Some(Err(SqlError::new(code::AMBIGUOUS_COLUMN, message)));
            }
            let table = self.catalog.tables.numbered(oid);
            let never_null = own.iter().find(|(_, number, _, _)| {
                let column = usize::try_from(*number - 1).ok();
                let column = column.and_then(|at| table?.columns.get(at));
                column.is_some_and(|column| column.not_null)
            });
            let never_null = never_null.map(|(_, _, slot, _)| *slot);
            return Some(match never_null {
                Some(slot) if wanted == "tableoid" => {
                    self.scopes[at].used[slot] = true;
                    let value = match levels {
                        0 => Expr::Column(slot),
                        levels => Expr::Outer(levels, slot),
                    };
                    let missing = Expr::IsNull(Box::new(value));
                    let whens = vec![(missing, Expr::Const(Datum::Null))];
                    let oid = Box::new(Expr::Const(Datum::Int(oid.into())));
                    Ok(typed(Expr::Case(whens, oid), SqlType::Oid))
                }
                _ => Err(SqlError::unsupported(format!("the system column {wanted}"))),
            });
        }
        None
    }

    fn unknown_column(&self, alias: Option<&str>, name: &ast::Ident) -> SqlError {
        let wanted = folded(name);
        let columns = || self.scopes.iter().flat_map(|scope| &scope.columns);
        if let Some(alias) = alias
            && !columns().any(|column| column.alias == alias)
        {
            let message = format!("missing FROM-clause entry for table \"{alias}\"");
            return self.at(SqlError::new(code::UNDEFINED_TABLE, message), name);
        }
        let shown = alias.map_or(wanted.clone(), |alias| format!("{alias}.{wanted}"));
        let message = format!("column \"{shown}\" does not exist");
        let error = self.at(SqlError::new(code::UNDEFINED_COLUMN, message), name);
        match similar(&wanted, columns().map(|column| column.name.as_str())) {
            Some(other) => error.hint(format!("Perhaps you meant the column \"{other}\".")),
            None => error,
        }
    }
}

fn is_bare_function(name: &str) -> bool {
    matches!(
        name,
        "current_timestamp"
            | "localtimestamp"
            | "current_time"
            | "localtime"
            | "current_date"
            | "current_user"
            | "session_user"
            | "user"
            | "current_catalog"
            | "current_schema"
            | "current_role"
    )
}
