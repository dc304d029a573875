//! Names: which place a name means, and the names of columns that a statement gives none.
//!
//! A name is looked for in the query itself, then in the queries around it, nearest first. One that two
//! sources have is ambiguous; one that nobody has comes back with a name that is like it.

use super::expr::{Typed, typed};
use super::{Binder, ScopeColumn, folded};
use crate::error::{SqlError, code, similar};
use crate::expr::Expr;
use crate::functions;
use crate::types::SqlType;
use sqlparser::ast;

/// The name of a column of a result without an alias.
pub(crate) fn column_name(ast: &ast::Expr) -> String {
    match ast {
        ast::Expr::Identifier(name) => folded(name),
        ast::Expr::CompoundIdentifier(names) => names.last().map(folded).unwrap_or_default(),
        ast::Expr::Function(function) => {
            let last = function.name.0.last().and_then(|part| part.as_ident());
            last.map(folded).unwrap_or_default()
        }
        ast::Expr::Nested(inner) | ast::Expr::Collate { expr: inner, .. } => column_name(inner),
        ast::Expr::Cast { expr, data_type, .. } => match column_name(expr).as_str() {
            "?column?" => match SqlType::parse(data_type) {
                Ok(SqlType::Int4) => "int4".to_owned(),
                Ok(SqlType::Int8) => "int8".to_owned(),
                Ok(SqlType::Varchar(_)) => "varchar".to_owned(),
                Ok(SqlType::Char(_)) => "bpchar".to_owned(),
                Ok(SqlType::Bool) => "bool".to_owned(),
                Ok(SqlType::Float8) => "float8".to_owned(),
                Ok(SqlType::Timestamp) => "timestamp".to_owned(),
                Ok(SqlType::Numeric(_)) => "numeric".to_owned(),
                Ok(ty) => ty.to_string(),
                Err(_) => "?column?".to_owned(),
            },
            name => name.to_owned(),
        },
        // Named after the last of what it can be, if that has a name.
        ast::Expr::Case { else_result: Some(otherwise), .. } if has_name(otherwise) => {
            column_name(otherwise)
        }
        ast::Expr::Case { .. } => "case".to_owned(),
        ast::Expr::Subquery(query) => match &*query.body {
            ast::SetExpr::Select(select) => match select.projection.first() {
                Some(ast::SelectItem::UnnamedExpr(expr)) => column_name(expr),
                Some(ast::SelectItem::ExprWithAlias { alias, .. }) => folded(alias),
                _ => "?column?".to_owned(),
            },
            _ => "?column?".to_owned(),
        },
        ast::Expr::Exists { .. } => "exists".to_owned(),
        ast::Expr::Extract { .. } => "extract".to_owned(),
        ast::Expr::Substring { .. } => "substring".to_owned(),
        ast::Expr::Trim { .. } => "btrim".to_owned(),
        ast::Expr::Position { .. } => "position".to_owned(),
        ast::Expr::Floor { .. } => "floor".to_owned(),
        ast::Expr::Ceil { .. } => "ceil".to_owned(),
        _ => "?column?".to_owned(),
    }
}

/// True if an expression gives a column its name, rather than leaving it to its kind.
fn has_name(ast: &ast::Expr) -> bool {
    match ast {
        ast::Expr::Identifier(_)
        | ast::Expr::CompoundIdentifier(_)
        | ast::Expr::Function(_)
        | ast::Expr::Subquery(_) => true,
        ast::Expr::Nested(inner) => has_name(inner),
        ast::Expr::Case { else_result: Some(otherwise), .. } => has_name(otherwise),
        _ => false,
    }
}

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
            let found: Vec<&ScopeColumn> = scope
                .columns
                .iter()
                .filter(fits)
                .filter(|column| alias.is_some() || column.shown)
                .collect();
            match found.as_slice() {
                [] => {}
                [column] => {
                    let (slot, ty) = (column.slot, column.ty);
                    self.scopes[at].used[slot] = true;
                    if levels == 0 {
                        return Ok(typed(Expr::Column(slot), ty));
                    }
                    self.scopes[at].seen_inside = true;
                    return Ok(typed(Expr::Outer(levels, slot), ty));
                }
                _ => {
                    let message = format!("column reference \"{wanted}\" is ambiguous");
                    return Err(self.at(SqlError::new(code::AMBIGUOUS_COLUMN, message), name));
                }
            }
        }
        // Without a column of this name, some words are functions.
        if alias.is_none() && name.quote_style.is_none() && is_bare_function(&wanted) {
            let (func, ty) = functions::find(&wanted, &[]).expect("it is one of these");
            return Ok(typed(Expr::Call(func, Vec::new()), ty));
        }
        Err(self.unknown_column(alias_name.as_deref(), name))
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
            | "current_date"
            | "current_user"
            | "session_user"
            | "user"
            | "current_catalog"
            | "current_schema"
            | "current_role"
    )
}
