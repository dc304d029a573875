//! The names of columns that a statement gives none.

use super::folded;
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
