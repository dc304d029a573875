//! Literals, and implicit and explicit conversions.
//!
//! A quoted literal has an unknown type until its context determines one. Then it is converted
//! once, when the statement is bound, and its errors are those of the statement. Other values are
//! converted at run time.

use super::Binder;
use super::call::is_function;
use super::change::is_assignable;
use super::expr::{EXPR_BYTES, Typed, boolean, typed};
use crate::catalog::NamedType;
use crate::dates::{self, Moment};
use crate::datum::{Datum, convert};
use crate::error::{SqlError, clipped, code};
use crate::expr::Expr;
use crate::functions::{FloatFunc, Func, TimeFunc, common};
use crate::numeric::{Decimal, Unreadable, overflow};
use crate::types::{Family, Reg, SqlType};
use sqlparser::ast;

impl Binder<'_> {
    pub(super) fn literal(&mut self, value: &ast::Value) -> Result<Typed, SqlError> {
        use ast::Value;
        Ok(match value {
            Value::Null => typed(Expr::Const(Datum::Null), SqlType::Unknown),
            Value::Boolean(truth) => boolean(Expr::Const(Datum::Bool(*truth))),
            Value::Number(digits, _) => {
                self.budget.charge(crate::numeric::read_bytes(digits))?;
                number(digits)?
            }
            Value::Placeholder(name) => {
                let number = name.strip_prefix('$').and_then(|n| n.parse::<usize>().ok());
                let number = number.filter(|n| (1..=65_535).contains(n)).ok_or_else(|| {
                    let message =
                        format!("there is no parameter {name}: they are $1, $2 and so on");
                    SqlError::new(code::UNDEFINED_PARAMETER, message)
                })?;
                if self.params.len() < number {
                    self.budget.charge((number - self.params.len()) * size_of::<SqlType>())?;
                    self.params.resize(number, SqlType::Unknown);
                }
                let ty = self.params[number - 1];
                typed(of_sent(Expr::Param(number - 1), ty), ty)
            }
            Value::HexStringLiteral(_)
            | Value::SingleQuotedByteStringLiteral(_)
            | Value::DoubleQuotedByteStringLiteral(_) => {
                return Err(SqlError::unsupported("a bit string"));
            }
            other => match other.clone().into_string() {
                Some(text) => {
                    self.budget.charge(text.len())?;
                    typed(Expr::Const(Datum::Text(text)), SqlType::Unknown)
                }
                None => return Err(SqlError::unsupported(format!("the literal {other}"))),
            },
        })
    }

    pub(super) fn cast(
        &mut self,
        inner: &ast::Expr,
        ty: &ast::DataType,
    ) -> Result<Typed, SqlError> {
        let name = type_name(ty);
        let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
        let value = self.expr(inner)?;
        if let ("regproc", Expr::Const(Datum::Text(function)), true) =
            (name, &value.expr, value.ty == SqlType::Unknown)
            && function != "-"
            && function.parse::<u32>().is_err()
            && let Err(unknown) = crate::catalog::procedures::read(self.catalog, function)
        {
            // Functions of the system have no oids; the catalog uses their names.
            let function = function.strip_prefix("pg_catalog.").unwrap_or(function);
            return match is_function(self, function) {
                true => Ok(typed(Expr::Const(Datum::text(function)), SqlType::Text)),
                false => Err(unknown),
            };
        }
        let NamedType { ty, domain } = self.named_type(ty)?;
        let value = match (ty, value.ty, &value.expr) {
            // A parameter that is cast to a domain is one of the domain: the client's value is
            // read as one of the base type with its modifier, so a text that is too long is
            // refused.
            (_, SqlType::Unknown, Expr::Param(number)) if domain.is_some() => {
                typed(given(self, *number, ty)?, ty)
            }
            (SqlType::Spanned(..), SqlType::Unknown, Expr::Const(_)) => {
                typed(self.coerce(value, ty)?, SqlType::Interval)
            }
            _ => self.cast_to(value, ty.plain())?,
        };
        let value = rounded(value, ty);
        self.as_domain(value, domain.as_deref())
    }

    /// The number of the object that a literal names.
    fn object(&self, literal: Datum, reg: Reg) -> Result<Expr, SqlError> {
        let Datum::Text(name) = &literal else { return Ok(Expr::Const(literal)) };
        Ok(match crate::system::known_number(self.catalog, reg, name)? {
            Some(number) => Expr::Const(Datum::Int(number)),
            None => Expr::Call(Func::NumberOf(reg), vec![Expr::Const(literal)]),
        })
    }

    pub(super) fn cast_to(&mut self, value: Typed, ty: SqlType) -> Result<Typed, SqlError> {
        if value.ty == ty {
            return Ok(value);
        }
        if !can_cast(value.ty, ty) {
            let message = format!("cannot cast type {} to {}", bare(value.ty), bare(ty));
            return Err(SqlError::new(code::CANNOT_COERCE, message));
        }
        self.budget.charge(EXPR_BYTES)?;
        if let SqlType::Reg(reg) = ty
            && value.ty.family() == Family::Text
        {
            return Ok(typed(Expr::Call(Func::NumberOf(reg), vec![value.expr]), ty));
        }
        if ty.family() == Family::Text && value.ty.family() != Family::Unknown {
            let text = self.as_text(value)?;
            let is_same = matches!(ty, SqlType::Text | SqlType::Varchar(None));
            return Ok(typed(if is_same { text } else { Expr::Cast(Box::new(text), ty) }, ty));
        }
        if let Some((from, to)) = elements(value.ty, ty) {
            return Ok(typed(elements_as(value.expr, from, to, true), ty));
        }
        // The blanks of a char(n) are among the bytes.
        if matches!((value.ty, ty), (SqlType::Char(_), SqlType::Bytea)) {
            let shown = self.as_shown(value)?;
            return Ok(typed(Expr::Cast(Box::new(shown), ty), ty));
        }
        if value.ty == SqlType::Unknown {
            if let Expr::Const(datum) = value.expr {
                let value = match ty {
                    SqlType::Reg(reg) => self.object(datum, reg)?,
                    ty => constant(datum, ty, true)?,
                };
                return Ok(typed(value, ty));
            }
            // A parameter has the type without modifier, and is truncated and rounded here.
            let plain = self.coerce(value, bare(ty))?;
            return Ok(typed(
                if bare(ty) == ty { plain } else { retyped(plain, bare(ty), ty) },
                ty,
            ));
        }
        Ok(typed(retyped(value.expr, value.ty, ty), ty))
    }

    /// Converts values to a common type.
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
            let is_other_json = ty.family() == Family::Json && value.ty != ty;
            let is_other = is_other_json || value.ty.family() != ty.family();
            if value.ty != SqlType::Unknown && is_other {
                let message =
                    format!("types {} and {} cannot be matched", bare(ty), bare(value.ty));
                return Err(SqlError::new(code::DATATYPE_MISMATCH, message));
            }
            check_elements(value.ty, ty)?;
            let is_array = element(value.ty).is_some();
            let differs = bare(value.ty) != bare(ty) && value.ty != SqlType::Unknown && !is_array;
            let coerced = self.coerce(value, ty)?;
            exprs.push(if differs { Expr::Cast(Box::new(coerced), ty) } else { coerced });
        }
        Ok((exprs, ty))
    }

    pub(crate) fn as_text(&mut self, value: Typed) -> Result<Expr, SqlError> {
        match value.ty {
            SqlType::Text
            | SqlType::Varchar(_)
            | SqlType::Name
            | SqlType::Char(_)
            | SqlType::Letter => Ok(value.expr),
            SqlType::Unknown => self.coerce(value, SqlType::Text),
            SqlType::Bool => Ok(Expr::Call(Func::TruthName, vec![value.expr])),
            _ => Ok(show(value)),
        }
    }

    /// A value as an element of an array: of a catalog object, its number.
    pub(super) fn as_element(&mut self, value: Typed) -> Result<Expr, SqlError> {
        let ty = if let SqlType::Reg(_) = value.ty { SqlType::Oid } else { value.ty };
        self.as_shown(typed(value.expr, ty))
    }

    /// A value as a client sees it: `char(n)` with its blanks, unlike in a conversion to text.
    pub(crate) fn as_shown(&mut self, value: Typed) -> Result<Expr, SqlError> {
        match value.ty {
            SqlType::Char(_) | SqlType::Bool => Ok(show(value)),
            _ => self.as_text(value),
        }
    }

    /// Gives a value of unknown type a type, or converts a value to a comparable type.
    pub(crate) fn coerce(&mut self, value: Typed, ty: SqlType) -> Result<Expr, SqlError> {
        // The fields of an interval say what a number without a unit is, in literals only.
        if let (SqlType::Spanned(..), SqlType::Unknown, Expr::Const(datum)) =
            (ty, value.ty, &value.expr)
        {
            return constant(datum.clone(), ty, false);
        }
        // Rounding happens when the value is stored.
        let ty = ty.plain();
        match (value.expr, value.ty) {
            (Expr::Const(datum), SqlType::Unknown) => match ty {
                SqlType::Reg(reg) => self.object(datum, reg),
                ty => constant(datum, ty, false),
            },
            (Expr::Param(number), SqlType::Unknown) => given(self, number, bare(ty)),
            (expr, from) if from.is_float() != ty.is_float() && ty.is_float() => {
                Ok(Expr::Cast(Box::new(expr), ty))
            }
            (expr, from) if from.is_integer() && matches!(ty, SqlType::Numeric(_)) => {
                Ok(exact(expr))
            }
            (expr, SqlType::Varchar(_)) if matches!(ty, SqlType::Char(_)) => {
                Ok(Expr::Cast(Box::new(expr), SqlType::Char(None)))
            }
            (expr, from) if from != ty && are_times(from, ty) => Ok(retyped(expr, from, ty)),
            (expr, SqlType::Float4) if matches!(ty, SqlType::Numeric(_)) => {
                Ok(retyped(expr, SqlType::Float4, ty))
            }
            (expr, from) => Ok(match elements(from, ty) {
                Some((from, to)) if is_assignable(from, to) => elements_as(expr, from, to, false),
                _ => expr,
            }),
        }
    }
}

/// A parameter that was read before its type was known, as one of this type.
///
/// # Errors
/// 42P08 if it has another type by now.
fn given(binder: &mut Binder<'_>, number: usize, ty: SqlType) -> Result<Expr, SqlError> {
    let known = binder.params[number];
    if known == SqlType::Unknown {
        binder.params[number] = ty;
    } else if bare(known) != bare(ty) {
        let message = format!("inconsistent types deduced for parameter ${}", number + 1);
        return Err(SqlError::new(code::AMBIGUOUS_PARAMETER, message).detail(format!(
            "{} versus {}",
            bare(known),
            bare(ty)
        )));
    }
    Ok(of_sent(Expr::Param(number), binder.params[number]))
}

/// A value that is used once more: a parameter has the type of its first use.
pub(super) fn again(binder: &Binder<'_>, value: Typed) -> Typed {
    match (value.expr, value.ty) {
        (Expr::Param(number), SqlType::Unknown) => {
            let ty = binder.params[number].plain();
            typed(of_sent(Expr::Param(number), ty), ty)
        }
        (expr, ty) => typed(expr, ty),
    }
}

/// An argument of a function that takes values of any type. It gives a parameter no type, so the
/// statement is refused, and a NULL stands for the parameter until then.
pub(super) fn of_any(binder: &mut Binder<'_>, value: Typed) -> Typed {
    match (value.expr, value.ty) {
        (Expr::Param(number), SqlType::Unknown) => {
            binder.untyped.push(number);
            typed(Expr::Const(Datum::Null), SqlType::Unknown)
        }
        (expr, ty) => typed(expr, ty),
    }
}

/// An integer as a numeric, where the context requires it.
fn exact(expr: Expr) -> Expr {
    match expr {
        Expr::Const(value @ Datum::Int(_)) => Expr::Const(Datum::Numeric(value.to_decimal())),
        expr => Expr::Cast(Box::new(expr), SqlType::Numeric(None)),
    }
}

/// A literal of a type. A timestamp with time zone without an explicit zone uses the zone of the
/// session that runs the statement.
pub(super) fn constant(literal: Datum, ty: SqlType, explicit: bool) -> Result<Expr, SqlError> {
    match literal {
        Datum::Text(text) if matches!(ty.family(), Family::Time | Family::Clock) => {
            time_constant(text, ty)
        }
        literal => convert(literal, ty, explicit).map(Expr::Const),
    }
}

/// A literal of a time. It is converted now, unless its meaning depends on the session or on the
/// current time; then it is parsed at run time.
fn time_constant(text: String, ty: SqlType) -> Result<Expr, SqlError> {
    let is_known = match ty {
        _ if dates::is_of_now(&text) => false,
        SqlType::Time => true,
        SqlType::TimeTz => !matches!(dates::time_of_day(&text), Ok((_, None, _))),
        _ => match dates::plain_moment(&text) {
            Some(Ok(Moment::At(_, _, None))) if ty == SqlType::TimestampTz => {
                let wall = crate::text::parse(&text, SqlType::Timestamp)?;
                return Ok(Expr::Call(Func::Instant, vec![Expr::Const(wall)]));
            }
            plain => plain.is_some(),
        },
    };
    if is_known {
        return crate::text::parse(&text, ty).map(Expr::Const);
    }
    let oid = Expr::Const(Datum::Int(ty.number()));
    Ok(Expr::Call(Func::Time(TimeFunc::Read), vec![Expr::Const(Datum::Text(text)), oid]))
}

/// True for types of times with an implicit conversion from the first to the second.
pub(super) fn are_times(from: SqlType, to: SqlType) -> bool {
    use Family::{Clock, Interval, Time};
    match (from.family(), to.family()) {
        (Time, Time) | (Clock, Clock) => true,
        (Time, Clock) => {
            from == SqlType::TimestampTz || (from, to) == (SqlType::Timestamp, SqlType::Time)
        }
        (Clock, Interval) => from == SqlType::Time,
        (Interval, Clock) => to == SqlType::Time,
        _ => false,
    }
}

/// The type of an array's elements; `None` for other types, and for vectors of the catalog.
fn element(ty: SqlType) -> Option<SqlType> {
    ty.plain().element().filter(|_| ty.plain().is_array())
}

/// Refuses two arrays without a common type.
///
/// # Errors
/// 42846.
pub(super) fn check_elements(from: SqlType, to: SqlType) -> Result<(), SqlError> {
    match elements(from, to) {
        Some((of, other)) if of.family() != other.family() => {
            let message = format!("could not convert type {} to {}", bare(from), bare(to));
            Err(SqlError::new(code::CANNOT_COERCE, message))
        }
        _ => Ok(()),
    }
}

/// The element types of two arrays whose elements differ in more than a modifier. Catalog objects
/// are left out: they are stored as numbers, and read by their names.
fn elements(from: SqlType, to: SqlType) -> Option<(SqlType, SqlType)> {
    let both = (bare(element(from)?), bare(element(to)?));
    let has_names = |ty: SqlType| matches!(ty, SqlType::Reg(_));
    Some(both).filter(|(from, to)| from != to && !has_names(*from) && !has_names(*to))
}

/// An array whose elements are cast from one type to another.
fn elements_as(array: Expr, from: SqlType, to: SqlType, explicit: bool) -> Expr {
    let [from, to] = [from, to].map(|ty| Expr::Const(Datum::Int(ty.number())));
    Expr::Call(Func::ElementsAs { explicit }, vec![array, from, to])
}

/// Converts a value between types; between timestamps with and without time zone by the session's
/// zone.
pub(crate) fn retyped(expr: Expr, from: SqlType, to: SqlType) -> Expr {
    if let Some((from, to)) = elements(from, to) {
        return elements_as(expr, from, to, true);
    }
    let (from, to) = (from.plain(), to.plain());
    use SqlType::{Date, Timestamp, TimestampTz};
    let cast = |expr, ty| Expr::Cast(Box::new(expr), ty);
    match (from, to) {
        (TimestampTz, Timestamp) => Expr::Call(Func::LocalTime, vec![expr]),
        (TimestampTz, Date) => cast(Expr::Call(Func::LocalTime, vec![expr]), Date),
        (Timestamp, TimestampTz) => Expr::Call(Func::Instant, vec![expr]),
        (TimestampTz, SqlType::Time) => cast(Expr::Call(Func::LocalTime, vec![expr]), to),
        (TimestampTz | SqlType::Time, SqlType::TimeTz) => {
            Expr::Call(Func::Time(TimeFunc::ZonedClock), vec![expr])
        }
        (Date, TimestampTz) => Expr::Call(Func::Instant, vec![cast(expr, Timestamp)]),
        (SqlType::Float4, SqlType::Numeric(_)) => {
            cast(Expr::Call(Func::Float(FloatFunc::SixDigits), vec![expr]), to)
        }
        _ => cast(expr, to),
    }
}

/// Rounds a time to the precision of its type; rounds the elements of an array.
pub(super) fn rounded(value: Typed, ty: SqlType) -> Typed {
    match ty {
        SqlType::Rounded(..) | SqlType::Spanned(..) | SqlType::Limited(..) => {
            typed(Expr::Cast(Box::new(value.expr), ty), ty)
        }
        _ => value,
    }
}

/// A parameter's value: of a type of catalog objects, a client sends a name or a number.
fn of_sent(param: Expr, ty: SqlType) -> Expr {
    match ty {
        SqlType::Reg(reg) => Expr::Call(Func::NumberOf(reg), vec![param]),
        _ => param,
    }
}

/// A value in the text form of its type; a date is a number otherwise.
fn show(value: Typed) -> Expr {
    let number = |number: i64| Expr::Const(Datum::Int(number));
    let (oid, modifier) = (number(value.ty.number()), number(value.ty.modifier().into()));
    Expr::Call(Func::Show, vec![value.expr, oid, modifier])
}

/// True if an explicit cast exists between two types.
fn can_cast(from: SqlType, to: SqlType) -> bool {
    let (a, b) = (from.family(), to.family());
    match (element(from), element(to)) {
        (Some(from), Some(to)) => return can_cast(from, to),
        (Some(_), None) => return b == Family::Text,
        (None, Some(_)) => {
            return matches!(a, Family::Text | Family::Unknown) || from == SqlType::Int2Vector;
        }
        (None, None) => {}
    }
    match (a, b) {
        (Family::Unknown | Family::Text | Family::Array, _) | (_, Family::Text | Family::Array) => {
            true
        }
        // Only integers are numbers of objects.
        (Family::Number, Family::Number)
            if matches!(from, SqlType::Reg(_)) || matches!(to, SqlType::Reg(_)) =>
        {
            let is_whole = |ty: SqlType| ty.is_integer() || matches!(ty, SqlType::Reg(_));
            is_whole(from) && is_whole(to)
        }
        (Family::Bool, Family::Number) => to == SqlType::Int4,
        (Family::Number, Family::Bool) => from == SqlType::Int4,
        (Family::Json, Family::Number | Family::Bool) => from == SqlType::Jsonb,
        _ => a == b || are_times(from, to),
    }
}

pub(super) fn number(digits: &str) -> Result<Typed, SqlError> {
    let whole = digits.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    if let (true, Ok(value)) = (whole, digits.parse::<i64>()) {
        let ty = if i32::try_from(value).is_ok() { SqlType::Int4 } else { SqlType::Int8 };
        return Ok(typed(Expr::Const(Datum::Int(value)), ty));
    }
    match Decimal::read(digits) {
        Ok(value) => Ok(typed(Expr::Const(Datum::Numeric(value)), SqlType::Numeric(None))),
        Err(Unreadable::Overflow) => Err(overflow()),
        Err(Unreadable::Syntax) => {
            let message = format!("invalid input syntax for type numeric: \"{}\"", clipped(digits));
            Err(SqlError::new(code::INVALID_TEXT, message))
        }
    }
}

/// The negation of a numeric literal, or `None` for other texts.
pub(crate) fn negative(digits: &str) -> Option<(Datum, SqlType)> {
    let is_number = digits.starts_with(|sign: char| sign.is_ascii_digit() || sign == '.')
        && digits.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    let found = is_number.then(|| number(&format!("-{digits}")).ok()).flatten()?;
    let Expr::Const(value) = found.expr else { return None };
    Some((value, found.ty))
}

/// A type's name in lower case, as it was written.
fn type_name(ty: &ast::DataType) -> String {
    ty.to_string().to_lowercase().trim_matches('"').to_owned()
}

/// A type without its modifier.
pub(crate) fn bare(ty: SqlType) -> SqlType {
    ty.without_modifier()
}
