//! Expressions: names, types, conversions, functions, aggregates.
//!
//! ```text
//!   w.tax + $1 > '0.5'
//!   name      w.tax     the place of a column, numeric
//!   parameter $1        its type is not known yet: numeric, from the other side
//!   literal   '0.5'     of unknown type: numeric, for the same reason; converted once, here
//!   result    bool
//! ```
//!
//! Types are settled from the leaves up. A literal in quotes and a parameter take the type of what they
//! meet; numbers of different types meet at the wider one, and every conversion is written into the
//! expression. So running it decides nothing about types. Nesting is bounded, as the binder recurses.

use super::{Binder, DEPTH_MAX, ScopeColumn, folded};
use crate::datum::{Datum, convert};
use crate::error::{SqlError, code, similar};
use crate::expr::{Arith, Compare, Expr};
use crate::functions::{self, Func, common};
use crate::numeric::Decimal;
use crate::types::{Family, SqlType};
use sqlparser::ast::{self, BinaryOperator, UnaryOperator};

/// An expression and its type.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Typed {
    pub(crate) expr: Expr,
    pub(crate) ty: SqlType,
}

pub(crate) fn typed(expr: Expr, ty: SqlType) -> Typed {
    Typed { expr, ty }
}

fn boolean(expr: Expr) -> Typed {
    typed(expr, SqlType::Bool)
}

impl Binder<'_> {
    /// Binds an expression.
    pub(crate) fn expr(&mut self, ast: &ast::Expr) -> Result<Typed, SqlError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(SqlError::new(code::TOO_COMPLEX, "the expression is too deeply nested"));
        }
        let result = self.expr_inner(ast);
        self.depth -= 1;
        result
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
            ast::Expr::IsNull(inner) => Ok(boolean(Expr::IsNull(Box::new(self.expr(inner)?.expr)))),
            ast::Expr::IsNotNull(inner) => {
                let is_null = Expr::IsNull(Box::new(self.expr(inner)?.expr));
                Ok(boolean(Expr::Not(Box::new(is_null))))
            }
            ast::Expr::IsTrue(inner) => self.is_truth(inner, true, false),
            ast::Expr::IsNotTrue(inner) => self.is_truth(inner, true, true),
            ast::Expr::IsFalse(inner) => self.is_truth(inner, false, false),
            ast::Expr::IsNotFalse(inner) => self.is_truth(inner, false, true),
            ast::Expr::IsNotDistinctFrom(a, b) => self.same(a, b),
            ast::Expr::IsDistinctFrom(a, b) => Ok(negate(self.same(a, b)?, true)),
            ast::Expr::Between { expr, negated, low, high } => {
                let value = self.expr(expr)?;
                let (low, high) = (self.expr(low)?, self.expr(high)?);
                let low = self.compare(Compare::Ge, value.clone(), low)?;
                let high = self.compare(Compare::Le, value, high)?;
                Ok(negate(boolean(Expr::And(vec![low.expr, high.expr])), *negated))
            }
            ast::Expr::InList { expr, list, negated } => {
                Ok(negate(self.in_list(expr, list)?, *negated))
            }
            ast::Expr::InSubquery { expr, subquery, negated } => {
                let value = self.expr(expr)?;
                let query = self.inner_query(subquery)?;
                if query.output.len() != 1 {
                    let message = "subquery must return only one column";
                    return Err(SqlError::new(code::SYNTAX, message));
                }
                let value = self.coerce(value, query.output[0].ty)?;
                let found = Expr::InSelect(Box::new(value), Box::new(query));
                Ok(negate(boolean(found), *negated))
            }
            ast::Expr::Exists { subquery, negated } => {
                let query = self.inner_query(subquery)?;
                Ok(negate(boolean(Expr::Exists(Box::new(query))), *negated))
            }
            ast::Expr::Subquery(query) => {
                let query = self.inner_query(query)?;
                if query.output.len() != 1 {
                    let message = "subquery must return only one column";
                    return Err(SqlError::new(code::SYNTAX, message));
                }
                let ty = query.output[0].ty;
                Ok(typed(Expr::Scalar(Box::new(query)), ty))
            }
            ast::Expr::Like { negated, expr, pattern, escape_char: None, any: false } => {
                self.like(expr, pattern, false, *negated)
            }
            ast::Expr::ILike { negated, expr, pattern, escape_char: None, any: false } => {
                self.like(expr, pattern, true, *negated)
            }
            ast::Expr::Cast { expr, data_type, .. } => self.cast(expr, data_type),
            ast::Expr::TypedString(string) => {
                let ty = SqlType::parse(&string.data_type)?;
                let text = string.value.value.clone().into_string().unwrap_or_default();
                Ok(typed(Expr::Const(crate::text::parse(&text, ty)?), ty))
            }
            ast::Expr::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref())
            }
            ast::Expr::Collate { expr, .. } => self.expr(expr),
            ast::Expr::Function(function) => self.function(function),
            ast::Expr::Extract { field, expr, .. } => {
                let value = self.expr(expr)?;
                let value = self.coerce(value, SqlType::Timestamp)?;
                let field = Expr::Const(Datum::text(field.to_string().to_lowercase()));
                Ok(typed(Expr::Call(Func::Extract, vec![field, value]), SqlType::Numeric(None)))
            }
            ast::Expr::Floor { expr, .. } => self.named_call("floor", &[expr]),
            ast::Expr::Ceil { expr, .. } => self.named_call("ceil", &[expr]),
            ast::Expr::Substring { expr, substring_from, substring_for, .. } => {
                let one = ast::Expr::value(ast::Value::Number("1".to_owned(), false));
                let from = substring_from.as_deref().unwrap_or(&one);
                match substring_for.as_deref() {
                    Some(length) => self.named_call("substring", &[expr, from, length]),
                    None => self.named_call("substring", &[expr, from]),
                }
            }
            ast::Expr::Position { expr, r#in } => self.named_call("position", &[r#in, expr]),
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
            ast::Expr::AnyOp { left, compare_op, right, .. } => self.any(left, compare_op, right),
            ast::Expr::Tuple(_) => Err(SqlError::unsupported("a row as a value")),
            other => Err(SqlError::unsupported(format!("the expression {other}"))),
        }
    }

    fn literal(&mut self, value: &ast::Value) -> Result<Typed, SqlError> {
        use ast::Value;
        Ok(match value {
            Value::Null => typed(Expr::Const(Datum::Null), SqlType::Unknown),
            Value::Boolean(truth) => boolean(Expr::Const(Datum::Bool(*truth))),
            Value::Number(digits, _) => number(digits)?,
            Value::Placeholder(name) => {
                let number = name.strip_prefix('$').and_then(|n| n.parse::<usize>().ok());
                let number = number.filter(|n| (1..=65_535).contains(n)).ok_or_else(|| {
                    let message =
                        format!("there is no parameter {name}: they are $1, $2 and so on");
                    SqlError::new(code::UNDEFINED_PARAMETER, message)
                })?;
                if self.params.len() < number {
                    self.params.resize(number, SqlType::Unknown);
                }
                typed(Expr::Param(number - 1), self.params[number - 1])
            }
            Value::HexStringLiteral(_) => return Err(SqlError::unsupported("a bit string")),
            other => match other.clone().into_string() {
                Some(text) => typed(Expr::Const(Datum::Text(text)), SqlType::Unknown),
                None => return Err(SqlError::unsupported(format!("the literal {other}"))),
            },
        })
    }

    fn name(&mut self, alias: Option<&ast::Ident>, name: &ast::Ident) -> Result<Typed, SqlError> {
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

    fn binary(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
    ) -> Result<Typed, SqlError> {
        use BinaryOperator as Op;
        if let (ast::Expr::Tuple(a), ast::Expr::Tuple(b)) = (left, right) {
            return self.compare_rows(a, op, b);
        }
        match op {
            Op::And | Op::Or => {
                let (a, b) = (self.condition(left)?, self.condition(right)?);
                return Ok(boolean(if *op == Op::And { all(a, b) } else { any(a, b) }));
            }
            _ => {}
        }
        let (a, b) = (self.expr(left)?, self.expr(right)?);
        let custom;
        let op = match op {
            // OPERATOR(pg_catalog.~)
            Op::PGCustomBinaryOperator(parts) => {
                custom = named_operator(parts.last().map_or("", String::as_str))?;
                &custom
            }
            op => op,
        };
        match op {
            Op::Eq => self.compare(Compare::Eq, a, b),
            Op::NotEq => self.compare(Compare::Ne, a, b),
            Op::Lt => self.compare(Compare::Lt, a, b),
            Op::LtEq => self.compare(Compare::Le, a, b),
            Op::Gt => self.compare(Compare::Gt, a, b),
            Op::GtEq => self.compare(Compare::Ge, a, b),
            Op::Plus => self.arith(Arith::Add, a, b),
            Op::Minus => self.arith(Arith::Sub, a, b),
            Op::Multiply => self.arith(Arith::Mul, a, b),
            Op::Divide => self.arith(Arith::Div, a, b),
            Op::Modulo => self.arith(Arith::Rem, a, b),
            Op::BitwiseAnd => self.arith(Arith::BitAnd, a, b),
            Op::BitwiseOr => self.arith(Arith::BitOr, a, b),
            Op::StringConcat => {
                let both = [self.as_text(a)?, self.as_text(b)?];
                Ok(typed(Expr::Arith(Arith::Concat, SqlType::Text, Box::new(both)), SqlType::Text))
            }
            Op::PGExp => {
                let ty = functions::find("power", &[a.ty, b.ty]).map_or(SqlType::Float8, |f| f.1);
                Ok(typed(Expr::Call(Func::Power, vec![a.expr, b.expr]), ty))
            }
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
            UnaryOperator::Plus => self.expr(inner),
            UnaryOperator::Minus => {
                // So that the least number of a type can be written.
                if let ast::Expr::Value(value) = inner
                    && let ast::Value::Number(digits, _) = &value.value
                {
                    return number(&format!("-{digits}"));
                }
                let value = self.expr(inner)?;
                let zero = typed(Expr::Const(Datum::Int(0)), SqlType::Int4);
                self.arith(Arith::Sub, zero, value)
            }
            other => Err(SqlError::unsupported(format!("the operator {other}"))),
        }
    }

    /// A condition: an expression that is true, false or not known.
    pub(crate) fn condition(&mut self, ast: &ast::Expr) -> Result<Expr, SqlError> {
        let value = self.expr(ast)?;
        if !matches!(value.ty, SqlType::Bool | SqlType::Unknown) {
            let message = format!("a condition must be of type boolean, not of type {}", value.ty);
            return Err(SqlError::new(code::DATATYPE_MISMATCH, message));
        }
        self.coerce(value, SqlType::Bool)
    }

    pub(crate) fn compare(
        &mut self,
        compare: Compare,
        a: Typed,
        b: Typed,
    ) -> Result<Typed, SqlError> {
        let (a, b) = self.unify(a, b, compare.sign())?;
        Ok(boolean(Expr::Compare(compare, Box::new([a, b]))))
    }

    /// Brings two values to types that compare.
    fn unify(&mut self, a: Typed, b: Typed, sign: &str) -> Result<(Expr, Expr), SqlError> {
        let (a_ty, b_ty) = match (a.ty, b.ty) {
            (SqlType::Unknown, SqlType::Unknown) => (SqlType::Text, SqlType::Text),
            (SqlType::Unknown, b) => (bare(b), b),
            (a, SqlType::Unknown) => (a, bare(a)),
            (a, b) if a.family() == b.family() => match a.family() {
                Family::Number if a.is_float() != b.is_float() => {
                    (SqlType::Float8, SqlType::Float8)
                }
                Family::Time if (a == SqlType::Date) != (b == SqlType::Date) => {
                    (SqlType::Timestamp, SqlType::Timestamp)
                }
                _ => (a, b),
            },
            (a, b) => {
                let message = format!("operator does not exist: {} {sign} {}", bare(a), bare(b));
                let hint = "No operator matches the given types; add a cast.";
                return Err(SqlError::new(code::UNDEFINED_FUNCTION, message).hint(hint));
            }
        };
        Ok((self.coerce(a, a_ty)?, self.coerce(b, b_ty)?))
    }

    fn compare_rows(
        &mut self,
        a: &[ast::Expr],
        op: &BinaryOperator,
        b: &[ast::Expr],
    ) -> Result<Typed, SqlError> {
        if a.len() != b.len() {
            let message = "unequal number of entries in row expressions";
            return Err(SqlError::new(code::SYNTAX, message));
        }
        let negated = match op {
            BinaryOperator::Eq => false,
            BinaryOperator::NotEq => true,
            other => return Err(SqlError::unsupported(format!("{other} between rows"))),
        };
        let mut equal = Vec::with_capacity(a.len());
        for (a, b) in a.iter().zip(b) {
            let (a, b) = (self.expr(a)?, self.expr(b)?);
            equal.push(self.compare(Compare::Eq, a, b)?.expr);
        }
        Ok(negate(boolean(Expr::And(equal)), negated))
    }

    fn in_list(&mut self, value: &ast::Expr, list: &[ast::Expr]) -> Result<Typed, SqlError> {
        if let ast::Expr::Tuple(columns) = value {
            let mut rows = Vec::with_capacity(list.len());
            for row in list {
                let ast::Expr::Tuple(values) = row else {
                    let message = "a row can only be compared with rows";
                    return Err(SqlError::new(code::SYNTAX, message));
                };
                rows.push(self.compare_rows(columns, &BinaryOperator::Eq, values)?.expr);
            }
            return Ok(boolean(Expr::Or(rows)));
        }
        let value = self.expr(value)?;
        let mut bound = Vec::with_capacity(list.len());
        let mut left = value.clone();
        for one in list {
            let one = self.expr(one)?;
            let (a, b) = self.unify(left.clone(), one.clone(), "=")?;
            if left.ty == SqlType::Unknown {
                let ty = if one.ty == SqlType::Unknown { SqlType::Text } else { one.ty };
                left = typed(a, ty);
            } else {
                left.expr = a;
            }
            bound.push(b);
        }
        Ok(boolean(Expr::In(Box::new(left.expr), bound)))
    }

    /// `x = ANY (..)` over a query or a list in an array.
    fn any(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
    ) -> Result<Typed, SqlError> {
        match (op, right) {
            (BinaryOperator::Eq, ast::Expr::Array(array)) => self.in_list(left, &array.elem),
            (BinaryOperator::Eq, ast::Expr::Nested(inner)) => self.any(left, op, inner),
            (BinaryOperator::Eq, ast::Expr::Subquery(query)) => self.expr(&ast::Expr::InSubquery {
                expr: Box::new(left.clone()),
                subquery: query.clone(),
                negated: false,
            }),
            _ => Err(SqlError::unsupported("ANY over this")),
        }
    }

    fn arith(&mut self, op: Arith, a: Typed, b: Typed) -> Result<Typed, SqlError> {
        let (a_ty, b_ty) = match (a.ty, b.ty) {
            (SqlType::Unknown, SqlType::Unknown) => (SqlType::Float8, SqlType::Float8),
            (SqlType::Unknown, b) => (bare(b), b),
            (a, SqlType::Unknown) => (a, bare(a)),
            both => both,
        };
        let ty = match (a_ty.family(), b_ty.family()) {
            (Family::Number, Family::Number) => arith_type(a_ty, b_ty),
            (Family::Time, Family::Number) if a_ty == SqlType::Date => SqlType::Date,
            (Family::Time, Family::Time) if a_ty == b_ty && a_ty == SqlType::Date => SqlType::Int4,
            _ => {
                let sign = match op {
                    Arith::Add => "+",
                    Arith::Sub => "-",
                    Arith::Mul => "*",
                    Arith::Div => "/",
                    _ => "%",
                };
                let message =
                    format!("operator does not exist: {} {sign} {}", bare(a_ty), bare(b_ty));
                let hint = "No operator matches the given types; add a cast.";
                return Err(SqlError::new(code::UNDEFINED_FUNCTION, message).hint(hint));
            }
        };
        let both = [self.coerce(a, a_ty)?, self.coerce(b, b_ty)?];
        Ok(typed(Expr::Arith(op, ty, Box::new(both)), ty))
    }

    fn is_truth(
        &mut self,
        inner: &ast::Expr,
        truth: bool,
        negated: bool,
    ) -> Result<Typed, SqlError> {
        let inner = Box::new(self.condition(inner)?);
        Ok(negate(boolean(Expr::IsTruth(inner, truth)), negated))
    }

    fn same(&mut self, a: &ast::Expr, b: &ast::Expr) -> Result<Typed, SqlError> {
        let (a, b) = (self.expr(a)?, self.expr(b)?);
        let (a, b) = self.unify(a, b, "=")?;
        Ok(boolean(Expr::Same(Box::new([a, b]))))
    }

    fn like(
        &mut self,
        value: &ast::Expr,
        pattern: &ast::Expr,
        folds: bool,
        negated: bool,
    ) -> Result<Typed, SqlError> {
        let (value, pattern) = (self.expr(value)?, self.expr(pattern)?);
        let both = Box::new([self.as_text(value)?, self.as_text(pattern)?]);
        Ok(negate(boolean(Expr::Like { both, folds }), negated))
    }

    fn matches(
        &mut self,
        a: Typed,
        b: Typed,
        folds: bool,
        negated: bool,
    ) -> Result<Typed, SqlError> {
        let both = Box::new([self.as_text(a)?, self.as_text(b)?]);
        Ok(negate(boolean(Expr::Matches { both, folds }), negated))
    }

    fn cast(&mut self, inner: &ast::Expr, ty: &ast::DataType) -> Result<Typed, SqlError> {
        let value = self.expr(inner)?;
        let name = ty.to_string().to_lowercase();
        let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
        // Names of objects as numbers, and numbers as names.
        if matches!(name, "regclass") {
            if value.ty.family() == Family::Text || value.ty == SqlType::Unknown {
                if matches!(value.expr, Expr::Param(_)) || value.expr == Expr::Const(Datum::Null) {
                    return Ok(typed(self.coerce(value, SqlType::Oid)?, SqlType::Oid));
                }
                if let Expr::Const(Datum::Text(text)) = &value.expr {
                    let oid = match text.parse::<i64>() {
                        Ok(oid) => oid,
                        Err(_) => crate::system::regclass(self.catalog, text).ok_or_else(|| {
                            let message = format!("relation \"{text}\" does not exist");
                            SqlError::new(code::UNDEFINED_TABLE, message)
                        })?,
                    };
                    return Ok(typed(Expr::Const(Datum::Int(oid)), SqlType::Oid));
                }
                return Ok(typed(Expr::Call(Func::ToRegclass, vec![value.expr]), SqlType::Oid));
            }
            return Ok(typed(Expr::Call(Func::RegclassName, vec![value.expr]), SqlType::Text));
        }
        if name == "regtype" && value.ty.family() == Family::Number {
            return Ok(typed(Expr::Call(Func::RegtypeName, vec![value.expr]), SqlType::Text));
        }
        if name.ends_with("[]") {
            return Ok(typed(Expr::Cast(Box::new(value.expr), SqlType::Text), SqlType::Text));
        }
        let ty = SqlType::parse(ty)?;
        if value.ty == SqlType::Unknown {
            if let Expr::Const(datum) = value.expr {
                return Ok(typed(Expr::Const(convert(datum, ty, true)?), ty));
            }
            return Ok(typed(self.coerce(value, ty)?, ty));
        }
        Ok(typed(Expr::Cast(Box::new(value.expr), ty), ty))
    }

    fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        whens: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
    ) -> Result<Typed, SqlError> {
        let operand = operand.map(|operand| self.expr(operand)).transpose()?;
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
        results.push(match otherwise {
            Some(otherwise) => self.expr(otherwise)?,
            None => typed(Expr::Const(Datum::Null), SqlType::Unknown),
        });
        let (mut results, ty) = self.together(results)?;
        let otherwise = Box::new(results.pop().expect("it was just put there"));
        Ok(typed(Expr::Case(conditions.into_iter().zip(results).collect(), otherwise), ty))
    }

    /// Brings values to one type.
    pub(crate) fn together(
        &mut self,
        values: Vec<Typed>,
    ) -> Result<(Vec<Expr>, SqlType), SqlError> {
        let types: Vec<SqlType> = values.iter().map(|value| value.ty).collect();
        let mut ty = common(&types);
        if ty == SqlType::Unknown {
            ty = SqlType::Text;
        }
        let mut exprs = Vec::with_capacity(values.len());
        for value in values {
            if value.ty != SqlType::Unknown && value.ty.family() != ty.family() {
                let message =
                    format!("types {} and {} cannot be matched", bare(ty), bare(value.ty));
                return Err(SqlError::new(code::DATATYPE_MISMATCH, message));
            }
            let differs = bare(value.ty) != bare(ty) && value.ty != SqlType::Unknown;
            let coerced = self.coerce(value, ty)?;
            exprs.push(if differs { Expr::Cast(Box::new(coerced), ty) } else { coerced });
        }
        Ok((exprs, ty))
    }

    pub(crate) fn as_text(&mut self, value: Typed) -> Result<Expr, SqlError> {
        match value.ty {
            SqlType::Text | SqlType::Varchar(_) | SqlType::Name | SqlType::Char(_) => {
                Ok(value.expr)
            }
            SqlType::Unknown => self.coerce(value, SqlType::Text),
            _ => Ok(Expr::Cast(Box::new(value.expr), SqlType::Text)),
        }
    }

    /// Gives a value of an unknown type a type, or converts a value to a type that compares with it.
    pub(crate) fn coerce(&mut self, value: Typed, ty: SqlType) -> Result<Expr, SqlError> {
        match (value.expr, value.ty) {
            (Expr::Const(datum), SqlType::Unknown) => Ok(Expr::Const(convert(datum, ty, false)?)),
            (Expr::Param(number), SqlType::Unknown) => {
                if self.params[number] == SqlType::Unknown {
                    self.params[number] = bare(ty);
                }
                Ok(Expr::Param(number))
            }
            (expr, from) if from.is_float() != ty.is_float() && ty.is_float() => {
                Ok(Expr::Cast(Box::new(expr), ty))
            }
            (expr, SqlType::Date) if matches!(ty, SqlType::Timestamp | SqlType::TimestampTz) => {
                Ok(Expr::Cast(Box::new(expr), ty))
            }
            (expr, _) => Ok(expr),
        }
    }
}

/// A type without its modifier.
pub(crate) fn bare(ty: SqlType) -> SqlType {
    match ty {
        SqlType::Varchar(_) => SqlType::Varchar(None),
        SqlType::Char(_) => SqlType::Char(None),
        SqlType::Numeric(_) => SqlType::Numeric(None),
        other => other,
    }
}

fn arith_type(a: SqlType, b: SqlType) -> SqlType {
    if (a.is_float() || b.is_float()) && a != b {
        return SqlType::Float8;
    }
    if functions::number_rank(a) >= functions::number_rank(b) { bare(a) } else { bare(b) }
}

fn number(digits: &str) -> Result<Typed, SqlError> {
    let whole = digits.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    if let (true, Ok(value)) = (whole, digits.parse::<i64>()) {
        let ty = if i32::try_from(value).is_ok() { SqlType::Int4 } else { SqlType::Int8 };
        return Ok(typed(Expr::Const(Datum::Int(value)), ty));
    }
    match Decimal::parse(digits) {
        Some(value) => Ok(typed(Expr::Const(Datum::Numeric(value)), SqlType::Numeric(None))),
        None => {
            let message = format!("the number {digits} has more than 38 digits");
            Err(SqlError::new(code::OUT_OF_RANGE, message))
        }
    }
}

fn negate(value: Typed, negated: bool) -> Typed {
    if negated { boolean(Expr::Not(Box::new(value.expr))) } else { value }
}

fn all(a: Expr, b: Expr) -> Expr {
    match (a, b) {
        (Expr::And(mut all), b) => {
            all.push(b);
            Expr::And(all)
        }
        (a, b) => Expr::And(vec![a, b]),
    }
}

fn any(a: Expr, b: Expr) -> Expr {
    match (a, b) {
        (Expr::Or(mut all), b) => {
            all.push(b);
            Expr::Or(all)
        }
        (a, b) => Expr::Or(vec![a, b]),
    }
}

fn named_operator(sign: &str) -> Result<BinaryOperator, SqlError> {
    Ok(match sign {
        "=" => BinaryOperator::Eq,
        "<>" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        ">" => BinaryOperator::Gt,
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "||" => BinaryOperator::StringConcat,
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        other => return Err(SqlError::unsupported(format!("OPERATOR({other})"))),
    })
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
