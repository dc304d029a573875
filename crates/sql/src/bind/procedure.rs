//! CALL: its procedure, and the values of the arguments. Names of arguments in a body.
//!
//! ```text
//!   call pay(1, payee => '2')     the values 1 and 2, and the default of the third argument
//!
//!   in the body:  payer   pay.payer   $1      a parameter, where no column has this name
//! ```
//!
//! A procedure fits if each value has the type of its argument, converts to it implicitly, or is a
//! literal or a parameter without a type. Of several, the one with the most exact types is meant.

use super::convert::{are_times, bare};
use super::expr::Typed;
use super::{Binder, folded};
use crate::catalog::procedures::{candidates, is_function};
use crate::catalog::{Catalog, Named, Procedure};
use crate::error::{SqlError, code};
use crate::expr::Expr;
use crate::functions::number_rank;
use crate::parse::parse_expression;
use crate::rights::{Kind, Object, Rights};
use crate::types::{Family, SqlType};
use sqlparser::ast::{self, FunctionArg, FunctionArgExpr, FunctionArguments};
use std::sync::Arc;

/// A CALL with resolved names: the procedure, and an expression for each argument.
///
/// # Errors
/// 42883, 42725, 42809, 0A000; any error in the expressions.
pub(crate) fn called(
    binder: &mut Binder<'_>,
    function: &ast::Function,
) -> Result<(Arc<Procedure>, Vec<Expr>), SqlError> {
    let named = Named::of(&function.name)?;
    let (mut values, mut names) = (Vec::new(), Vec::new());
    for arg in written(function)? {
        let (name, expr) = match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => (None, expr),
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. }
            | FunctionArg::ExprNamed {
                name: ast::Expr::Identifier(name),
                arg: FunctionArgExpr::Expr(expr),
                ..
            } => (Some(folded(name)), expr),
            _ => return Err(SqlError::unsupported("an argument of this form in CALL")),
        };
        if name.is_none() && names.iter().any(Option::is_some) {
            let message = "positional argument cannot follow named argument";
            return Err(SqlError::new(code::SYNTAX, message));
        }
        let value = binder.constant(expr)?;
        if value.expr.has(&|part| matches!(part, Expr::Inner(_))) {
            let message = "cannot use subquery in CALL argument";
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
        }
        values.push(value);
        names.push(name);
    }
    let types: Vec<SqlType> = values.iter().map(|value| bare(value.ty)).collect();
    let procedure = meant(binder.catalog, &named, &types, &names)?;
    binder.need_schema(&named);
    binder.need(Object::Procedure(procedure.oid), Kind::Procedure, Rights::EXECUTE);
    let places = places(&procedure, &names).unwrap_or_default();
    let mut given: Vec<Option<Typed>> = procedure.arguments.iter().map(|_| None).collect();
    values.into_iter().zip(places).for_each(|(value, at)| given[at] = Some(value));
    let mut all = Vec::with_capacity(given.len());
    for (value, argument) in given.into_iter().zip(&procedure.arguments) {
        let value = match (value, &argument.default) {
            (Some(value), _) => value,
            (None, Some(default)) => {
                let default = parse_expression(default)?;
                binder.apart(|binder| binder.constant(&default))?
            }
            (None, None) => unreachable!("a procedure that fits has a value or a default"),
        };
        all.push(converted(binder, value, argument.ty)?);
    }
    Ok((procedure, all))
}

/// A default of an argument, converted to its type.
///
/// # Errors
/// Any error in the expression; 42804.
pub fn check_argument(
    default: &ast::Expr,
    ty: SqlType,
    catalog: &Catalog,
    budget: &crate::budget::Budget,
) -> Result<(), SqlError> {
    let mut binder = Binder::new(catalog, "", &[], budget);
    let value = binder.constant(default)?;
    if value.expr.has(&|part| matches!(part, Expr::Inner(_))) {
        let message = "cannot use subquery in DEFAULT expression";
        return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
    }
    if !binder.params.is_empty() {
        let message = "there is no parameter $1";
        return Err(SqlError::new(code::UNDEFINED_PARAMETER, message));
    }
    let from = bare(value.ty);
    let assigns = from.family() == Family::Number && ty.family() == Family::Number;
    if !becomes(from, ty) && !assigns {
        let (ty, from) = (catalog.type_shown(ty), catalog.type_shown(from));
        let message = format!("argument of DEFAULT must be type {ty}, not type {from}");
        return Err(SqlError::new(code::DATATYPE_MISMATCH, message));
    }
    converted(&mut binder, value, ty).map(drop)
}

fn converted(binder: &mut Binder<'_>, value: Typed, ty: SqlType) -> Result<Expr, SqlError> {
    let differs = value.ty != SqlType::Unknown && bare(value.ty) != ty;
    let coerced = binder.coerce(value, ty)?;
    Ok(if differs { Expr::Cast(Box::new(coerced), ty) } else { coerced })
}

/// The arguments of a CALL.
fn written(function: &ast::Function) -> Result<&[FunctionArg], SqlError> {
    let wrong = |what: &str| Err(SqlError::new(code::SYNTAX, format!("syntax error: {what}")));
    if function.over.is_some() || function.filter.is_some() || !function.within_group.is_empty() {
        return wrong("CALL takes a procedure and its arguments");
    }
    match &function.args {
        FunctionArguments::List(list) if list.clauses.is_empty() => Ok(&list.args),
        _ => wrong("CALL takes the arguments in parentheses"),
    }
}

/// The argument that each value is for; none if the procedure does not take them.
fn places(procedure: &Procedure, names: &[Option<String>]) -> Option<Vec<usize>> {
    let mut places: Vec<usize> = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let place = match name {
            None => at,
            Some(_) => procedure.arguments.iter().position(|argument| argument.name == *name)?,
        };
        if place >= procedure.arguments.len() || places.contains(&place) {
            return None;
        }
        places.push(place);
    }
    let mut all = procedure.arguments.iter().enumerate();
    let is_there = |(at, argument): (usize, &crate::catalog::Argument)| {
        argument.default.is_some() || places.contains(&at)
    };
    all.all(is_there).then_some(places)
}

/// How well a procedure fits: the number of exact types, the number of literals that become texts,
/// and a number that falls with each default.
type Rank = (usize, usize, usize);

/// The procedure that fits best.
fn meant(
    catalog: &Catalog,
    named: &Named,
    types: &[SqlType],
    names: &[Option<String>],
) -> Result<Arc<Procedure>, SqlError> {
    let mut best: Vec<(Rank, &Arc<Procedure>)> = Vec::new();
    for one in candidates(catalog, named) {
        let Some(places) = places(one, names) else { continue };
        let both: Vec<(SqlType, SqlType)> =
            types.iter().zip(&places).map(|(from, at)| (*from, one.arguments[*at].ty)).collect();
        if !both.iter().all(|(from, to)| becomes(*from, *to)) {
            continue;
        }
        let exact = both.iter().filter(|(from, to)| from == to).count();
        let is_text = |(from, to): &&(SqlType, SqlType)| {
            *from == SqlType::Unknown && to.family() == Family::Text
        };
        let texts = both.iter().filter(is_text).count();
        let given = usize::MAX - (one.arguments.len() - places.len());
        best.push(((exact, texts, given), one));
    }
    let most = best.iter().map(|(rank, _)| *rank).max();
    best.retain(|(rank, _)| Some(*rank) == most);
    // A function of the system comes first, unless the types are exactly those of the procedure.
    let is_exact = most.is_some_and(|(exact, ..)| exact == types.len() && exact > 0);
    if !is_exact && is_function(named, types) {
        let message = format!("{} is not a procedure", said(catalog, named, types, names));
        let hint = "To call a function, use SELECT.";
        return Err(SqlError::new(code::WRONG_OBJECT, message).hint(hint));
    }
    let said = said(catalog, named, types, names);
    let (message, code, hint) = match &best[..] {
        [(_, one)] => return Ok((*one).clone()),
        [] => (
            format!("procedure {said} does not exist"),
            code::UNDEFINED_FUNCTION,
            "No procedure matches the given name and argument types. You might need to add \
             explicit type casts.",
        ),
        _ => (
            format!("procedure {said} is not unique"),
            code::AMBIGUOUS_FUNCTION,
            "Could not choose a best candidate procedure. You might need to add explicit type \
             casts.",
        ),
    };
    Err(SqlError::new(code, message).hint(hint))
}

/// The call in messages.
fn said(catalog: &Catalog, named: &Named, types: &[SqlType], names: &[Option<String>]) -> String {
    let one = |(ty, name): (&SqlType, &Option<String>)| {
        let name = name.as_ref().map(|name| format!("{name} => ")).unwrap_or_default();
        format!("{name}{}", catalog.type_shown(*ty))
    };
    let all: Vec<String> = types.iter().zip(names).map(one).collect();
    format!("{named}({})", all.join(", "))
}

/// True if there is an implicit conversion from a type to the other.
fn becomes(from: SqlType, to: SqlType) -> bool {
    if from == to || from == SqlType::Unknown {
        return true;
    }
    match (from.family(), to.family()) {
        (Family::Number, Family::Number) => {
            let is_number = |ty: SqlType| matches!(ty, SqlType::Oid | SqlType::Reg(_));
            !is_number(from) && number_rank(from) <= number_rank(to)
        }
        (Family::Text, Family::Text) => true,
        (Family::Time, Family::Time) => {
            let rank = |ty: SqlType| match ty {
                SqlType::Date => 0,
                SqlType::Timestamp => 1,
                _ => 2,
            };
            rank(from) <= rank(to)
        }
        (Family::Clock | Family::Interval, Family::Clock | Family::Interval) => {
            from == SqlType::Time && are_times(from, to)
        }
        _ => false,
    }
}

/// The argument of the procedure whose body is bound, by its name.
pub(super) fn argument(
    binder: &mut Binder<'_>,
    alias: Option<&str>,
    name: &str,
) -> Option<Result<Typed, SqlError>> {
    let procedure = binder.procedure.clone()?;
    if alias.is_some_and(|alias| alias != procedure.name.name) {
        return None;
    }
    let mut arguments = procedure.arguments.iter();
    let at = arguments.position(|argument| argument.name.as_deref() == Some(name))?;
    let number = ast::Value::Placeholder(format!("${}", at + 1));
    Some(binder.literal(&number))
}

/// True if a procedure has this name and takes this number of values.
pub(super) fn is_procedure(binder: &Binder<'_>, name: &str, count: usize) -> bool {
    let unnamed = vec![None; count];
    let all = candidates(binder.catalog, &Named::plain(name));
    all.iter().any(|one| places(one, &unnamed).is_some())
}
