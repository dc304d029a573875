//! `json_to_record(j) AS x (a int, b text)` and `json_to_recordset`: the members of JSON objects as
//! columns.
//!
//! ```text
//!   jsonb_to_recordset(j) as x (a int, b int[], c jsonb)
//!
//!   lateral (select (v ->> 'a')::int as a,
//!                   case when jsonb_typeof(v -> 'b') <> 'null' then
//!                     array (select e::int from jsonb_array_elements_text(v -> 'b') as e (e))
//!                   end as b,
//!                   case when jsonb_typeof(v -> 'c') <> 'null' then v -> 'c' end as c
//!            from jsonb_array_elements(j) as r (v)) as x
//! ```

use crate::error::{SqlError, code};
use crate::parse::{Parsed, parse};
use crate::types::{Family, SqlType};
use sqlparser::ast::{self, ArrayElemTypeDef, DataType, SetExpr, Statement, TableFactor};

/// The source that a call stands for; `None` for another function.
///
/// # Errors
/// 42601 without a list of columns.
pub(super) fn as_query(
    name: &str,
    args: &[ast::FunctionArg],
    alias: Option<&ast::TableAlias>,
) -> Result<Option<TableFactor>, SqlError> {
    let (kind, is_set) = match name {
        "json_to_record" => ("json", false),
        "jsonb_to_record" => ("jsonb", false),
        "json_to_recordset" => ("json", true),
        "jsonb_to_recordset" => ("jsonb", true),
        _ => return Ok(None),
    };
    let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(json))] = args else {
        let message = format!("function {name} takes one argument");
        return Err(SqlError::new(code::UNDEFINED_FUNCTION, message));
    };
    let typed =
        |column: &ast::TableAliasColumnDef| Some((column.name.clone(), column.data_type.clone()?));
    let columns =
        alias.and_then(|alias| alias.columns.iter().map(typed).collect::<Option<Vec<_>>>());
    let (Some(alias), Some(columns)) = (alias, columns.filter(|columns| !columns.is_empty()))
    else {
        let message = "a column definition list is required for functions returning \"record\"";
        return Err(SqlError::new(code::SYNTAX, message));
    };
    let shown = columns.iter().map(|(name, ty)| member(kind, name, ty));
    let rows = match is_set {
        true => format!("{kind}_array_elements(NULL)"),
        false => "(SELECT NULL)".to_owned(),
    };
    let shown = shown.collect::<Result<Vec<_>, _>>()?.join(", ");
    let text = format!("SELECT {shown} FROM {rows} AS r (v)");
    let Some(Parsed::Sql(statement)) = parse(&text)?.pop() else { unreachable!("it is SQL") };
    let Statement::Query(mut query) = *statement else { unreachable!("it is a query") };
    if let SetExpr::Select(select) = &mut *query.body {
        put_json(&mut select.from[0].relation, kind, json)?;
    }
    let columns = Vec::new();
    let alias = Some(ast::TableAlias { columns, ..alias.clone() });
    Ok(Some(TableFactor::Derived { lateral: true, subquery: query, alias, sample: None }))
}

/// Puts the JSON in its place: the argument of a function, or the value of a query.
fn put_json(factor: &mut TableFactor, kind: &str, json: &ast::Expr) -> Result<(), SqlError> {
    let ty = match kind {
        "json" => DataType::JSON,
        _ => DataType::JSONB,
    };
    let json = ast::Expr::Cast {
        kind: ast::CastKind::DoubleColon,
        expr: Box::new(ast::Expr::Nested(Box::new(json.clone()))),
        data_type: ty,
        format: None,
    };
    match factor {
        TableFactor::Table { args: Some(list), .. } => {
            list.args = vec![ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(json))];
        }
        TableFactor::Function { args, .. } => {
            *args = vec![ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(json))];
        }
        TableFactor::Derived { subquery, .. } => {
            if let SetExpr::Select(select) = &mut *subquery.body {
                select.projection = vec![ast::SelectItem::UnnamedExpr(json)];
            }
        }
        _ => return Err(SqlError::new(code::INTERNAL, "no source was written")),
    }
    Ok(())
}

/// The expression of a column.
fn member(kind: &str, name: &ast::Ident, ty: &DataType) -> Result<String, SqlError> {
    let key = match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_lowercase(),
    };
    let shown = key.replace('"', "\"\"");
    let key = key.replace('\'', "''");
    let given = format!("CASE WHEN {kind}_typeof(v -> '{key}') <> 'null' THEN ");
    Ok(match (SqlType::parse(ty).map(SqlType::family), ty) {
        (Ok(Family::Json), _) => format!("{given} (v -> '{key}')::{ty} END AS \"{shown}\""),
        (_, DataType::Array(ArrayElemTypeDef::SquareBracket(of, _))) => format!(
            "{given} ARRAY (SELECT e::{of} FROM {kind}_array_elements_text(v -> '{key}') AS e (e)) \
             END AS \"{shown}\""
        ),
        _ => format!("(v ->> '{key}')::{ty} AS \"{shown}\""),
    })
}
