//! `json_to_record(j) AS x (a int, b text)` and `json_populate_record(NULL::t, j)`, and both for
//! sets: the members of JSON objects as columns.
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

use crate::catalog::{Catalog, Named, TableColumn};
use crate::error::{SqlError, code};
use crate::parse::{Parsed, parse, parse_expression};
use crate::types::{Family, SqlType};
use sqlparser::ast::{self, ArrayElemTypeDef, DataType, SetExpr, Statement, TableFactor};

/// The source that a call stands for; `None` for another function.
///
/// # Errors
/// 42601 without a list of columns, 0A000 for a row to populate that is not NULL.
pub(super) fn as_query(
    catalog: &Catalog,
    name: &str,
    args: &[ast::FunctionArg],
    alias: Option<&ast::TableAlias>,
) -> Result<Option<TableFactor>, SqlError> {
    let (kind, what) = name.split_once('_').unwrap_or_default();
    let is_set = what.ends_with("_recordset");
    if !matches!(kind, "json" | "jsonb") {
        return Ok(None);
    }
    let (columns, json) = match what {
        "to_record" | "to_recordset" => {
            let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(json))] = args else {
                let message = format!("function {name} takes one argument");
                return Err(SqlError::new(code::UNDEFINED_FUNCTION, message));
            };
            (listed(alias)?, json)
        }
        "populate_record" | "populate_recordset" => {
            let [
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(base)),
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(json)),
            ] = args
            else {
                let message = format!("function {name} takes two arguments");
                return Err(SqlError::new(code::UNDEFINED_FUNCTION, message));
            };
            (columns_of(catalog, name, base)?, json)
        }
        _ => return Ok(None),
    };
    let columns_said = match (what.starts_with("populate"), alias) {
        (true, Some(alias)) => alias.columns.clone(),
        _ => Vec::new(),
    };
    let alias = match alias {
        Some(alias) => ast::TableAlias { columns: columns_said, ..alias.clone() },
        None => ast::TableAlias {
            explicit: false,
            name: ast::Ident::new(name),
            columns: Vec::new(),
            at: None,
        },
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
    let alias = Some(alias);
    Ok(Some(TableFactor::Derived { lateral: true, subquery: query, alias, sample: None }))
}

/// The columns of a definition list: `AS x (a int, b text)`.
fn listed(alias: Option<&ast::TableAlias>) -> Result<Vec<(ast::Ident, DataType)>, SqlError> {
    let typed =
        |column: &ast::TableAliasColumnDef| Some((column.name.clone(), column.data_type.clone()?));
    let columns =
        alias.and_then(|alias| alias.columns.iter().map(typed).collect::<Option<Vec<_>>>());
    columns.filter(|columns| !columns.is_empty()).ok_or_else(|| {
        let message = "a column definition list is required for functions returning \"record\"";
        SqlError::new(code::SYNTAX, message)
    })
}

/// The columns of `NULL::t`, a row of a table.
fn columns_of(
    catalog: &Catalog,
    name: &str,
    base: &ast::Expr,
) -> Result<Vec<(ast::Ident, DataType)>, SqlError> {
    let table = match base {
        ast::Expr::Cast { expr, data_type: DataType::Custom(table, modifiers), .. }
            if modifiers.is_empty()
                && matches!(&**expr, ast::Expr::Value(value) if value.value == ast::Value::Null) =>
        {
            table
        }
        _ => {
            let what = format!("{name} of a row other than NULL::table");
            return Err(SqlError::unsupported(what));
        }
    };
    let table = catalog.table(&Named::of(table)?)?;
    let column = |column: &TableColumn| {
        let typed = parse_expression(&format!("NULL::{}", column.kept_type()))?;
        let ast::Expr::Cast { data_type, .. } = typed else { unreachable!("it is a cast") };
        Ok((ast::Ident::with_quote('"', column.name.clone()), data_type))
    };
    table.columns.iter().map(column).collect()
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
