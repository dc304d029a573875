//! Binding of expressions. [`super::operators`], [`super::convert`] and [`super::name`] have parts
//! of it.
//!
//! ```text
//!   w.tax + $1 > '0.5'
//!   name      w.tax     the slot of a column, numeric
//!   parameter $1        its type is not known yet: numeric, from the other side
//!   literal   '0.5'     of unknown type: numeric, for the same reason; converted once, here
//!   result    bool
//! ```
//!
//! Types are determined from the leaves up. A quoted literal and a parameter take the type of their
//! context; numbers of different types are converted to the wider one. Every conversion becomes
//! part of the expression, so execution decides nothing about types. Nesting is bounded, because
//! the binder recurses.

use super::convert::{again, constant, number, of_any, rounded};
use super::json::is_json_operator;
use super::json_paths::path_side;
use super::operators::comparison;
use super::operators::{all, any, is_named, named_operator, negate, not_unique};
use super::row_assign::row_values;
use super::row_query::row_with_query;
use super::rows::{row_of_source, row_of_values};
use super::sets::without_sets;
use super::times::overlaps;
use super::{Binder, DEPTH_MAX, bare, folded};
use crate::catalog::NamedType;
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::expr::{Arith, Compare, Expr};
use crate::functions::{Func, TimeFunc};
use crate::parse::SYMMETRIC;
use crate::plan::Asks;
use crate::refuse;
use crate::types::{Family, SqlType};
use sqlparser::ast::{self, BinaryOperator, UnaryOperator};

/// The memory of an expression, including its parent during binding.
pub(super) const EXPR_BYTES: usize = 2 * size_of::<Expr>();

/// An expression and its type.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Typed {
    pub(crate) expr: Expr,
    pub(crate) ty: SqlType,
}

pub(crate) fn typed(expr: Expr, ty: SqlType) -> Typed {
    Typed { expr, ty }
}

pub(super) fn boolean(expr: Expr) -> Typed {
    typed(expr, SqlType::Bool)
}

/// `x BETWEEN SYMMETRIC a AND b` as two of BETWEEN, with the bounds in both orders.
fn symmetric(value: &ast::Expr, low: &ast::Expr, high: &ast::Expr) -> Option<ast::Expr> {
    let ast::Expr::Function(call) = low else { return None };
    let ast::FunctionArguments::List(list) = &call.args else { return None };
    let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(low))] = &*list.args else {
        return None;
    };
    let between = |low: &ast::Expr, high: &ast::Expr| {
        let [expr, low, high] = [value, low, high].map(|one| Box::new(one.clone()));
        Box::new(ast::Expr::Between { expr, negated: false, low, high })
    };
    let is_it = |name: &ast::ObjectNamePart| {
        name.as_ident().is_some_and(|name| name.value == SYMMETRIC && name.quote_style.is_some())
    };
    call.name.0.last().is_some_and(is_it).then(|| ast::Expr::BinaryOp {
        left: between(low, high),
        op: BinaryOperator::Or,
        right: between(high, low),
    })
}

impl Binder<'_> {
    /// Binds an expression.
    pub(crate) fn expr(&mut self, ast: &ast::Expr) -> Result<Typed, SqlError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(SqlError::new(code::TOO_COMPLEX, "the expression is too deeply nested"));
        }
        self.budget.deeper()?;
        self.budget.charge(EXPR_BYTES)?;
        let result = self.expr_inner(ast);
        self.depth -= 1;
        // Computed times have full precision.
        result.map(|value| typed(value.expr, value.ty.plain()))
    }

    fn expr_inner(&mut self, ast: &ast::Expr) -> Result<Typed, SqlError> {
        match ast {
            ast::Expr::Nested(inner) => self.expr(inner),
            ast::Expr::Value(value) => self.literal(&value.value),
            ast::Expr::Identifier(name) => self.name(None, name),
            ast::Expr::CompoundIdentifier(names) => match names.as_slice() {
                [alias, name] => self.name(Some(alias), name),
                [_, alias, name] => self.name(Some(alias), name),
                _ => Err(SqlError::unsupported("a name of this many parts")),
            },
            ast::Expr::BinaryOp { left, op, right } => self.binary(left, op, right),
            ast::Expr::UnaryOp { op, expr } => self.unary(op, expr),
            ast::Expr::IsNull(inner) => self.is_null(inner, false),
            ast::Expr::IsNotNull(inner) => self.is_null(inner, true),
            ast::Expr::IsTrue(inner) => self.is_truth(inner, true, false),
            ast::Expr::IsNotTrue(inner) => self.is_truth(inner, true, true),
            ast::Expr::IsFalse(inner) => self.is_truth(inner, false, false),
            ast::Expr::IsNotFalse(inner) => self.is_truth(inner, false, true),
            // IS NULL of a Boolean.
            ast::Expr::IsUnknown(inner) => {
                Ok(boolean(Expr::IsNull(Box::new(self.condition(inner)?))))
            }
            ast::Expr::IsNotUnknown(inner) => {
                let is_unknown = Expr::IsNull(Box::new(self.condition(inner)?));
                Ok(negate(boolean(is_unknown), true))
            }
            ast::Expr::IsNotDistinctFrom(a, b) => self.same(a, b),
            ast::Expr::IsDistinctFrom(a, b) => Ok(negate(self.same(a, b)?, true)),
            ast::Expr::Between { expr, negated, low, high }
                if let Some(either) = symmetric(expr, low, high) =>
            {
                Ok(negate(self.expr(&either)?, *negated))
            }
            ast::Expr::Between { expr, negated, low, high } => {
                let value = self.copied(1, |binder| binder.expr(expr))?;
                let low = self.expr(low)?;
                let low = self.compare(Compare::Ge, value.clone(), low)?;
                let (value, high) = (again(self, value), self.expr(high)?);
                let high = self.compare(Compare::Le, value, high)?;
                Ok(negate(boolean(Expr::And(vec![low.expr, high.expr])), *negated))
            }
            ast::Expr::InList { expr, list, negated } => {
                Ok(negate(self.in_list(expr, list)?, *negated))
            }
            ast::Expr::InSubquery { expr, subquery, negated } => {
                Ok(negate(self.any_of(expr, Compare::Eq, subquery)?, *negated))
            }
            ast::Expr::Exists { subquery, negated } => {
                let (inner, ty) = self.inner(Asks::Exists, subquery)?;
                Ok(negate(typed(Expr::Inner(Box::new(inner)), ty), *negated))
            }
            ast::Expr::Subquery(query) => {
                let (inner, ty) = self.inner(Asks::Value, query)?;
                Ok(typed(Expr::Inner(Box::new(inner)), ty))
            }
            ast::Expr::Like { negated, expr, pattern, escape_char, any: false } => {
                let found = self.like(expr, pattern, escape_char.as_deref(), false)?;
                Ok(negate(found, *negated))
            }
            ast::Expr::ILike { negated, expr, pattern, escape_char, any: false } => {
                let found = self.like(expr, pattern, escape_char.as_deref(), true)?;
                Ok(negate(found, *negated))
            }
            ast::Expr::SimilarTo { negated, expr, pattern, escape_char } => {
                let (value, pattern) = (self.expr(expr)?, self.expr(pattern)?);
                let found = self.similar(value, pattern, escape_char.as_deref())?;
                Ok(negate(found, *negated))
            }
            ast::Expr::Cast { expr, data_type, .. } => self.cast(expr, data_type),
            ast::Expr::TypedString(string) => {
                let NamedType { ty, domain } = self.named_type(&string.data_type)?;
                let text = string.value.value.clone().into_string().unwrap_or_default();
                let value = typed(constant(Datum::Text(text), ty.plain(), true)?, ty.plain());
                self.as_domain(rounded(value, ty), domain.as_deref())
            }
            ast::Expr::Interval(interval) => self.interval(interval),
            ast::Expr::Case { operand, conditions, else_result, .. } => {
                without_sets(self, |binder| {
                    binder.case(operand.as_deref(), conditions, else_result.as_deref())
                })
            }
            ast::Expr::Collate { expr, collation } => {
                let value = self.expr(expr)?;
                refuse::collation(collation)?;
                if !matches!(value.ty.family(), Family::Text | Family::Unknown) {
                    let ty = bare(value.ty);
                    let message = format!("collations are not supported by type {ty}");
                    return Err(SqlError::new(code::DATATYPE_MISMATCH, message));
                }
                Ok(value)
            }
            ast::Expr::Function(call) if is_named(call, "row") => {
                row_of_values(self, &row_values(ast).unwrap_or_default())
            }
            ast::Expr::Function(call) if let Some(query) = super::variadic::values_query(call) => {
                self.expr(&query?)
            }
            ast::Expr::Function(call) if is_named(call, "coalesce") => {
                without_sets(self, |binder| binder.function(call))
            }
            ast::Expr::Function(function) => self.function(function),
            ast::Expr::Extract { field, expr, .. } => {
                let value = self.expr(expr)?;
                self.extract(&field.to_string(), value)
            }
            ast::Expr::AtTimeZone { timestamp, time_zone } => {
                let (value, zone) = (self.expr(timestamp)?, self.expr(time_zone)?);
                self.at_zone(value, zone)
            }
            ast::Expr::Floor { expr, .. } => self.named_call("floor", &[expr]),
            ast::Expr::Ceil { expr, .. } => self.named_call("ceil", &[expr]),
            ast::Expr::Substring { expr, substring_from, substring_for, shorthand, .. } => {
                let name = if *shorthand { "substr" } else { "substring" };
                let one = ast::Expr::value(ast::Value::Number("1".to_owned(), false));
                let from = substring_from.as_deref().unwrap_or(&one);
                match substring_for.as_deref() {
                    Some(length) => self.named_call(name, &[expr, from, length]),
                    None => self.named_call(name, &[expr, from]),
                }
            }
            ast::Expr::Position { expr, r#in } => self.named_call("position", &[r#in, expr]),
            ast::Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                match overlay_for.as_deref() {
                    Some(count) => {
                        self.named_call("overlay", &[expr, overlay_what, overlay_from, count])
                    }
                    None => self.named_call("overlay", &[expr, overlay_what, overlay_from]),
                }
            }
            ast::Expr::Trim { expr, trim_where, trim_what, .. } => {
                let name = match trim_where {
                    Some(ast::TrimWhereField::Leading) => "ltrim",
                    Some(ast::TrimWhereField::Trailing) => "rtrim",
                    _ => "btrim",
                };
                match trim_what.as_deref() {
                    Some(what) => self.named_call(name, &[expr, what]),
                    None => self.named_call(name, &[expr]),
                }
            }
            ast::Expr::AnyOp { left, compare_op, right, .. } => {
                self.any(left, compare_op, right, false)
            }
            ast::Expr::AllOp { left, compare_op, right } => self.any(left, compare_op, right, true),
            ast::Expr::Array(array) => self.array(&array.elem),
            ast::Expr::CompoundFieldAccess { root, access_chain } => {
                self.access(root, access_chain)
            }
            ast::Expr::Tuple(values) => row_of_values(self, values),
            ast::Expr::QualifiedWildcard(name, _) => {
                let alias = name.0.last().and_then(|part| part.as_ident()).map(folded);
                let alias = alias.unwrap_or_default();
                let message = || format!("missing FROM-clause entry for table \"{alias}\"");
                let missing = || SqlError::new(code::UNDEFINED_TABLE, message());
                row_of_source(self, &alias)?.ok_or_else(missing)
            }
            other => Err(SqlError::unsupported(format!("the expression {other}"))),
        }
    }

    fn is_null(&mut self, inner: &ast::Expr, is_negated: bool) -> Result<Typed, SqlError> {
        let value = self.expr(inner)?;
        let value = of_any(self, value);
        if value.ty == SqlType::Record {
            return Ok(boolean(super::rows::is_null(value, is_negated)));
        }
        Ok(negate(boolean(Expr::IsNull(Box::new(value.expr))), is_negated))
    }

    fn binary(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
    ) -> Result<Typed, SqlError> {
        use BinaryOperator as Op;
        if let (Some(a), Some(b)) = (row_values(left), row_values(right)) {
            if *op == Op::Overlaps {
                return overlaps(self, &a, &b);
            }
            return self.compare_rows(&a, op, &b);
        }
        if let (Some(_), ast::Expr::Subquery(query), Some(_)) =
            (row_values(left), right, comparison(op))
        {
            return row_with_query(self, left, op, query);
        }
        if let ast::Expr::BinaryOp { op: before, .. } = left
            && comparison(before).is_some()
            && comparison(op).is_some()
        {
            let message = format!("syntax error at or near \"{op}\"");
            return Err(SqlError::new(code::SYNTAX, message));
        }
        if matches!(op, Op::Plus | Op::Minus)
            && let Some(regrouped) = under_prefix(left, op, right)
        {
            return self.expr(&regrouped);
        }
        match op {
            Op::And | Op::Or => {
                let (a, b) = (self.condition(left)?, self.condition(right)?);
                return Ok(boolean(if *op == Op::And { all(a, b) } else { any(a, b) }));
            }
            _ => {}
        }
        if let Some((folds, negated)) = like_operator(op) {
            return Ok(negate(self.like(left, right, None, folds)?, negated));
        }
        let (a, b) = (self.expr(left)?, path_side(self, op, right)?);
        let custom;
        let op = match op {
            // The form `OPERATOR(pg_catalog.~)`.
            Op::PGCustomBinaryOperator(parts) => {
                custom = named_operator(parts.last().map_or("", String::as_str))?;
                &custom
            }
            op => op,
        };
        if let Some(compare) = comparison(op) {
            return self.compare(compare, a, b);
        }
        let has_array = a.ty.family() == Family::Array || b.ty.family() == Family::Array;
        if has_array && matches!(op, Op::AtArrow | Op::ArrowAt | Op::PGOverlap) {
            return self.array_operator(op, a, b);
        }
        if is_json_operator(op, a.ty, b.ty) {
            return self.json_operator(op, a, b);
        }
        match op {
            Op::Plus => self.arith(Arith::Add, a, b),
            Op::Minus => self.arith(Arith::Sub, a, b),
            Op::Multiply => self.arith(Arith::Mul, a, b),
            Op::Divide => self.arith(Arith::Div, a, b),
            Op::Modulo => self.arith(Arith::Rem, a, b),
            Op::BitwiseAnd => self.arith(Arith::BitAnd, a, b),
            Op::BitwiseOr => self.arith(Arith::BitOr, a, b),
            Op::BitwiseXor | Op::PGBitwiseXor => self.arith(Arith::BitXor, a, b),
            Op::PGBitwiseShiftLeft => self.arith(Arith::ShiftLeft, a, b),
            Op::PGBitwiseShiftRight => self.arith(Arith::ShiftRight, a, b),
            Op::StringConcat => self.concat(a, b),
            Op::PGExp => self.call("power", vec![a, b]),
            Op::PGStartsWith => self.call("starts_with", vec![a, b]),
            Op::PGRegexMatch => self.matches(a, b, false, false),
            Op::PGRegexIMatch => self.matches(a, b, true, false),
            Op::PGRegexNotMatch => self.matches(a, b, false, true),
            Op::PGRegexNotIMatch => self.matches(a, b, true, true),
            other => Err(SqlError::unsupported(format!("the operator {other}"))),
        }
    }

    fn unary(&mut self, op: &UnaryOperator, inner: &ast::Expr) -> Result<Typed, SqlError> {
        match op {
            UnaryOperator::Not => Ok(boolean(Expr::Not(Box::new(self.condition(inner)?)))),
            UnaryOperator::Plus => {
                let value = self.expr(inner)?;
                match value.ty.family() {
                    Family::Number if value.ty != SqlType::Oid => Ok(value),
                    Family::Unknown => {
                        Ok(typed(self.coerce(value, SqlType::Float8)?, SqlType::Float8))
                    }
                    _ => Err(no_prefix("+", value.ty)),
                }
            }
            UnaryOperator::Minus => {
                // Makes the least integer of a type writable.
                if let ast::Expr::Value(value) = inner
                    && let ast::Value::Number(digits, _) = &value.value
                {
                    return number(&format!("-{digits}"));
                }
                // The sign binds more tightly than a power.
                if let ast::Expr::BinaryOp { left, op: BinaryOperator::PGExp, right } = inner {
                    let base = ast::Expr::UnaryOp { op: *op, expr: left.clone() };
                    return self.binary(&base, &BinaryOperator::PGExp, right);
                }
                let value = self.expr(inner)?;
                match value.ty.family() {
                    Family::Interval => {
                        let negated = Expr::Call(Func::Time(TimeFunc::Negated), vec![value.expr]);
                        Ok(typed(negated, SqlType::Interval))
                    }
                    Family::Number if value.ty != SqlType::Oid => {
                        let ty = bare(value.ty);
                        let negated = Expr::Call(Func::Neg, vec![value.expr]);
                        // The least integer of a type has no negation within it.
                        let is_ranged = ty.is_integer();
                        let cast = |expr| Expr::Cast(Box::new(expr), ty);
                        Ok(typed(if is_ranged { cast(negated) } else { negated }, ty))
                    }
                    Family::Unknown => Err(not_unique("- unknown")),
                    _ => Err(no_prefix("-", value.ty)),
                }
            }
            UnaryOperator::PGAbs => {
                let value = self.expr(inner)?;
                self.call("abs", vec![value])
            }
            UnaryOperator::PGSquareRoot | UnaryOperator::PGCubeRoot => {
                let value = self.expr(inner)?;
                let value = typed(self.coerce(value, SqlType::Float8)?, SqlType::Float8);
                self.call(
                    if *op == UnaryOperator::PGSquareRoot { "sqrt" } else { "cbrt" },
                    vec![value],
                )
            }
            UnaryOperator::BitwiseNot => {
                let value = self.expr(inner)?;
                if !value.ty.is_integer() || value.ty == SqlType::Oid {
                    return Err(no_prefix("~", value.ty));
                }
                // All bits of the complement differ from those of the value.
                let ty = bare(value.ty);
                let ones = Expr::Const(Datum::Int(-1));
                let both = Box::new([value.expr, ones]);
                Ok(typed(Expr::Arith(Arith::BitXor, ty, both), ty))
            }
            UnaryOperator::PGPostfixFactorial => {
                Err(SqlError::new(code::SYNTAX, "syntax error at or near \"!\""))
            }
            other => Err(SqlError::unsupported(format!("the operator {other}"))),
        }
    }

    /// A Boolean expression.
    pub(crate) fn condition(&mut self, ast: &ast::Expr) -> Result<Expr, SqlError> {
        let value = self.expr(ast)?;
        if !matches!(value.ty, SqlType::Bool | SqlType::Unknown) {
            let message = format!("a condition must be of type boolean, not of type {}", value.ty);
            return Err(SqlError::new(code::DATATYPE_MISMATCH, message));
        }
        self.coerce(value, SqlType::Bool)
    }

    fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        whens: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
    ) -> Result<Typed, SqlError> {
        let bind = |operand| self.copied(whens.len(), |binder| binder.expr(operand));
        let mut operand = operand.map(bind).transpose()?;
        // A literal or a parameter behind CASE is a text, also beside a number.
        if let Some(unknown) = operand.take_if(|operand| operand.ty == SqlType::Unknown) {
            operand = Some(typed(self.coerce(unknown, SqlType::Text)?, SqlType::Text));
        }
        let (mut conditions, mut results) = (Vec::new(), Vec::new());
        for when in whens {
            conditions.push(match &operand {
                Some(operand) => {
                    let value = self.expr(&when.condition)?;
                    self.compare(Compare::Eq, operand.clone(), value)?.expr
                }
                None => self.condition(&when.condition)?,
            });
            results.push(self.expr(&when.result)?);
        }
        // ELSE comes first in the determination of the type.
        results.insert(
            0,
            match otherwise {
                Some(otherwise) => self.expr(otherwise)?,
                None => typed(Expr::Const(Datum::Null), SqlType::Unknown),
            },
        );
        let (mut results, ty) = self.together(results)?;
        let otherwise = Box::new(results.remove(0));
        Ok(typed(Expr::Case(conditions.into_iter().zip(results).collect(), otherwise), ty))
    }
}

/// 42883: no operator before a value of this type.
fn no_prefix(sign: &str, ty: SqlType) -> SqlError {
    let message = format!("operator does not exist: {sign} {}", bare(ty));
    SqlError::new(code::UNDEFINED_FUNCTION, message).hint(
        "No operator matches the given name and argument type. You might need to add an explicit \
         type cast.",
    )
}

/// Rewrites `@ a + b` and `1 * @ a + b` such that the sum is the operand of the prefix operator,
/// which binds less tightly. The parser has it the other way round.
fn under_prefix(left: &ast::Expr, op: &BinaryOperator, right: &ast::Expr) -> Option<ast::Expr> {
    use UnaryOperator::{PGAbs, PGCubeRoot, PGSquareRoot};
    match left {
        ast::Expr::UnaryOp { op: prefix @ (PGAbs | PGSquareRoot | PGCubeRoot), expr } => {
            let (left, right) = (expr.clone(), Box::new(right.clone()));
            let sum = ast::Expr::BinaryOp { left, op: op.clone(), right };
            Some(ast::Expr::UnaryOp { op: *prefix, expr: Box::new(sum) })
        }
        ast::Expr::BinaryOp { left, op: first, right: last } => {
            let last = Box::new(under_prefix(last, op, right)?);
            Some(ast::Expr::BinaryOp { left: left.clone(), op: first.clone(), right: last })
        }
        _ => None,
    }
}

/// LIKE in the notation of PostgreSQL's definitions: (is ILIKE, is NOT).
fn like_operator(op: &BinaryOperator) -> Option<(bool, bool)> {
    match op {
        BinaryOperator::PGLikeMatch => Some((false, false)),
        BinaryOperator::PGILikeMatch => Some((true, false)),
        BinaryOperator::PGNotLikeMatch => Some((false, true)),
        BinaryOperator::PGNotILikeMatch => Some((true, true)),
        _ => None,
    }
}
