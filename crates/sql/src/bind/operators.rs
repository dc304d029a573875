//! Operators: comparisons, arithmetic, IN, LIKE, and their effect on the types of their operands.
//!
//! ```text
//!   int4 + numeric     numeric          the wider of two numbers
//!   int4 / int4        int4             truncated
//!   date - date        int4             days
//!   $1 = int8          $1 is an int8    an undetermined type becomes the other's
//! ```

use super::convert::{again, bare};
use super::dimensions::{has_brackets, nested_literal, of_dimensions};
use super::each_pattern::{each_pattern, pattern_operator};
use super::expr::{EXPR_BYTES, Typed, boolean, typed};
use super::folded;
use super::json::TEXTS;
use super::row_assign::row_values;
use super::rows::{check_comparable, field};
use super::{Binder, DEPTH_MAX};
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::expr::{Arith, Compare, Expr, ListId};
use crate::functions::{self, ArrayFunc, EachPattern, Func, RegexFunc};
use crate::types::{Family, SqlType};
use sqlparser::ast::{self, BinaryOperator};

impl Binder<'_> {
    pub(crate) fn compare(
        &mut self,
        compare: Compare,
        a: Typed,
        b: Typed,
    ) -> Result<Typed, SqlError> {
        if a.ty.family() == Family::Array || b.ty.family() == Family::Array {
            return self.compare_arrays(compare, a, b);
        }
        check_comparable(&a, &b)?;
        let (a, b) = self.unify(a, b, compare.sign())?;
        Ok(boolean(Expr::Compare(compare, Box::new([a, b]))))
    }

    /// Converts two values to comparable types.
    pub(super) fn unify(
        &mut self,
        a: Typed,
        b: Typed,
        sign: &str,
    ) -> Result<(Expr, Expr), SqlError> {
        let (a_ty, b_ty) = match (a.ty, b.ty) {
            (SqlType::Json, _) | (_, SqlType::Json) => return Err(no_operator(sign, a.ty, b.ty)),
            (SqlType::Unknown, SqlType::Unknown) => (SqlType::Text, SqlType::Text),
            (SqlType::Unknown, b) => (beside(b), b),
            (a, SqlType::Unknown) => (a, beside(a)),
            (a, b) if a.family() == b.family() => match a.family() {
                Family::Number if a.is_float() != b.is_float() => {
                    (SqlType::Float8, SqlType::Float8)
                }
                Family::Clock if a != b => (SqlType::TimeTz, SqlType::TimeTz),
                Family::Array => {
                    check_equality(a)?;
                    (a, b)
                }
                Family::Time if a != b => {
                    let is_moment = a == SqlType::TimestampTz || b == SqlType::TimestampTz;
                    let ty = if is_moment { SqlType::TimestampTz } else { SqlType::Timestamp };
                    (ty, ty)
                }
                // Trailing blanks of a varchar are ignored in a comparison with a char(n); those of
                // a text are not.
                Family::Text if is_padded(a) && is_varying(b) => (a, SqlType::Char(None)),
                Family::Text if is_varying(a) && is_padded(b) => (SqlType::Char(None), b),
                _ => (a, b),
            },
            (a, b) => return Err(no_operator(sign, a, b)),
        };
        Ok((self.coerce(a, a_ty)?, self.coerce(b, b_ty)?))
    }

    pub(super) fn compare_rows(
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
            op => return self.order_rows(a, op, b),
        };
        let mut equal = Vec::with_capacity(a.len());
        for (a, b) in a.iter().zip(b) {
            let (a, b) = (self.expr(a)?, self.expr(b)?);
            equal.push(self.compare(Compare::Eq, a, b)?.expr);
        }
        Ok(negate(boolean(Expr::And(equal)), negated))
    }

    /// The order of two rows is that of their first differing values:
    ///
    /// ```text
    ///   (a, b) < (c, d)     a <= c  and  (a < c or (a = c and b < d))
    /// ```
    ///
    /// The first condition follows from the second, and can use an index.
    fn order_rows(
        &mut self,
        a: &[ast::Expr],
        op: &BinaryOperator,
        b: &[ast::Expr],
    ) -> Result<Typed, SqlError> {
        let (strict, weak) = match comparison(op) {
            Some(found @ (Compare::Lt | Compare::Le)) => ((Compare::Lt, found), Compare::Le),
            Some(found @ (Compare::Gt | Compare::Ge)) => ((Compare::Gt, found), Compare::Ge),
            _ => return Err(SqlError::unsupported(format!("{op} between rows"))),
        };
        let (mut found, mut first): (Option<Expr>, Option<Expr>) = (None, None);
        for (a, b) in a.iter().zip(b).rev() {
            let before = self.budget.mark();
            let (a, b) = (self.expr(a)?, self.expr(b)?);
            if a.expr.is_volatile() || b.expr.is_volatile() {
                let what = "a value that differs each time, in the order of rows";
                return Err(SqlError::unsupported(what));
            }
            // Both sides occur three times.
            self.budget.charge(2 * (self.budget.mark() - before))?;
            first = Some(self.compare(weak, a.clone(), b.clone())?.expr);
            let (a, b) = (again(self, a), again(self, b));
            found = Some(match found {
                None => self.compare(strict.1, a, b)?.expr,
                Some(rest) => {
                    let equal = self.compare(Compare::Eq, a.clone(), b.clone())?.expr;
                    any(self.compare(strict.0, a, b)?.expr, all(equal, rest))
                }
            });
        }
        Ok(boolean(Expr::And(first.into_iter().chain(found).collect())))
    }

    pub(super) fn in_list(
        &mut self,
        value: &ast::Expr,
        list: &[ast::Expr],
    ) -> Result<Typed, SqlError> {
        if let Some(columns) = row_values(value) {
            let mut rows = Vec::with_capacity(list.len());
            for row in list {
                let Some(values) = row_values(row) else {
                    let message = "a row can only be compared with rows";
                    return Err(SqlError::new(code::SYNTAX, message));
                };
                rows.push(self.compare_rows(&columns, &BinaryOperator::Eq, &values)?.expr);
            }
            return Ok(boolean(Expr::in_rows(rows)));
        }
        let before = self.budget.mark();
        let mut left = self.expr(value)?;
        let left_bytes = self.budget.mark() - before;
        let list = list.iter().map(|one| self.expr(one)).collect::<Result<Vec<Typed>, _>>()?;
        // A parameter takes the common type of all values, not that of the first.
        let types = [left.ty].into_iter().chain(list.iter().map(|one| one.ty));
        let types: Vec<SqlType> = types.collect();
        let common = functions::common(&types);
        let together = if list.len() > 1 { bare(common) } else { beside(common) };
        let is_constant = |one: &Typed| one.expr.nearest_level().is_none();
        let has_array = list.iter().filter(|one| is_constant(one)).count() > 1;
        let mut bound = Vec::with_capacity(list.len());
        // Timestamps with and without time zone compare as the former; each is converted once.
        let is_time = common.family() == Family::Time;
        let as_one = |binder: &mut Self, one: Typed| -> Result<Typed, SqlError> {
            match is_time && one.ty.family() == Family::Time {
                true => Ok(typed(binder.coerce(one, common)?, common)),
                false => Ok(one),
            }
        };
        left = as_one(self, left)?;
        for one in list {
            let mut one = as_one(self, one)?;
            // The value is copied for each comparison, and the copy is dropped again.
            self.budget.tick(left_bytes / 16)?;
            let is_named = matches!(together, SqlType::Reg(_));
            if one.ty == SqlType::Unknown && (is_named || matches!(one.expr, Expr::Param(_))) {
                one = typed(self.coerce(one, together)?, together);
            }
            // Among several constants, a text is one of char(n), as the value is.
            let is_text = one.ty.family() == Family::Text && !is_padded(one.ty);
            if is_text && has_array && is_padded(together) && is_constant(&one) {
                one = self.cast_to(one, SqlType::Char(None))?;
            }
            let (a, b) = self.unify(left.clone(), one.clone(), "=")?;
            if left.ty == SqlType::Unknown {
                let ty = if one.ty == SqlType::Unknown { SqlType::Text } else { one.ty };
                left = typed(a, ty);
            } else {
                left.expr = a;
                if is_varying(left.ty) && is_padded(one.ty) {
                    left.ty = SqlType::Char(None);
                }
            }
            bound.push(b);
        }
        let list = ListId::of(&bound);
        Ok(boolean(Expr::In(Box::new(left.expr), bound, list)))
    }

    /// `x < ANY (..)` and `x < ALL (..)` over a query, a list in an array, or an array.
    pub(super) fn any(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
        all: bool,
    ) -> Result<Typed, SqlError> {
        if let Some(each) = pattern_operator(op) {
            return each_pattern(self, left, right, EachPattern { all, ..each });
        }
        let compare = comparison(op)
            .ok_or_else(|| SqlError::unsupported(format!("the operator {op} with ANY or ALL")))?;
        let is_in = compare == Compare::Eq && !all;
        match right {
            ast::Expr::Nested(inner) => return self.any(left, op, inner, all),
            ast::Expr::Array(array) if is_in && !has_brackets(&array.elem) => {
                return self.in_list(left, &array.elem);
            }
            ast::Expr::Subquery(query) => {
                let compare = if all { compare.opposite() } else { compare };
                return Ok(negate(self.any_of(left, compare, query)?, all));
            }
            _ => {}
        }
        let (value, array) = (self.expr(left)?, self.expr(right)?);
        let element = match array.ty {
            SqlType::Unknown => beside(value.ty),
            ty => ty.element().ok_or_else(|| {
                let message = "op ANY/ALL (array) requires array on right side";
                SqlError::new("42809", message)
            })?,
        };
        let array = self.coerce(array, element.array().unwrap_or(SqlType::Text))?;
        let (value, _) =
            self.unify(value, typed(Expr::Const(Datum::Null), element), compare.sign())?;
        let both = Box::new([value, array]);
        let list = ListId::of(&both[1..]);
        Ok(boolean(Expr::Elements { compare, all, both, element, list }))
    }

    /// `ARRAY[..]` of literals.
    pub(super) fn array(&mut self, elements: &[ast::Expr]) -> Result<Typed, SqlError> {
        if let Some(found) = nested_literal(self, elements)? {
            return Ok(found);
        }
        let elements = elements.iter().map(|e| self.expr(e)).collect::<Result<Vec<_>, _>>()?;
        let (values, ty) = self.together(elements)?;
        if ty.is_array() {
            return Ok(typed(Expr::Call(Func::Array(ArrayFunc::Nest), values), ty));
        }
        let bytes = |value: &Expr| match value {
            Expr::Const(value) => 3 * crate::text::format_bytes(value),
            _ => 0,
        };
        self.budget.charge(values.iter().map(bytes).sum())?;
        let array = ty.array().ok_or_else(|| SqlError::unsupported(format!("an array of {ty}")))?;
        let texts = values.iter().map(|value| match value {
            Expr::Const(Datum::Null) => Some(None),
            Expr::Const(value) => Some(Some(crate::text::format(value, ty).into_owned())),
            _ => None,
        });
        if let Some(texts) = texts.collect::<Option<Vec<_>>>() {
            let text = crate::array::format(texts.iter().map(Option::as_deref));
            return Ok(typed(Expr::Const(Datum::Text(text)), array));
        }
        let shown = values.into_iter().map(|value| self.as_element(typed(value, ty)));
        let shown = shown.collect::<Result<_, _>>()?;
        Ok(typed(Expr::Call(Func::ArrayOf, shown), array))
    }

    /// An element of an array, or a field of the record that drivers make of one.
    pub(super) fn access(
        &mut self,
        root: &ast::Expr,
        chain: &[ast::AccessExpr],
    ) -> Result<Typed, SqlError> {
        use ast::AccessExpr;
        // `t.column[1]` is parsed as a part of a part of `t`.
        if let (
            ast::Expr::Identifier(table),
            [AccessExpr::Dot(ast::Expr::Identifier(name)), rest @ ..],
        ) = (root, chain)
        {
            let column = ast::Expr::CompoundIdentifier(vec![table.clone(), name.clone()]);
            return self.access(&column, rest);
        }
        if chain.len() > DEPTH_MAX {
            return Err(SqlError::new(code::TOO_COMPLEX, "the expression is too deeply nested"));
        }
        let mut value = self.expr(root)?;
        let mut chain = chain;
        let is_subscript = |step: &&AccessExpr| matches!(step, AccessExpr::Subscript(_));
        let subscripts = chain.iter().take_while(is_subscript).count();
        if value.ty.is_array() && subscripts > 1 {
            let (of_array, rest) = chain.split_at(subscripts);
            value = of_dimensions(self, value, of_array)?;
            chain = rest;
        }
        for step in chain {
            self.budget.charge(EXPR_BYTES)?;
            value = self.part(value, step)?;
        }
        Ok(value)
    }

    /// One step of a subscript or field access.
    fn part(&mut self, root: Typed, step: &ast::AccessExpr) -> Result<Typed, SqlError> {
        use ast::{AccessExpr, Subscript};
        match step {
            AccessExpr::Subscript(Subscript::Index { index }) if root.ty == SqlType::Jsonb => {
                // A subscript is a path of one step.
                let key = self.expr(index)?;
                let key = self.as_text(key)?;
                let path = typed(Expr::Call(Func::ArrayOf, vec![key]), TEXTS);
                self.json_operator(&BinaryOperator::HashArrow, root, path)
            }
            AccessExpr::Subscript(Subscript::Index { index }) => {
                let index = self.expr(index)?;
                if root.ty == SqlType::Name {
                    // A `name` is an array of characters too, counted from 0.
                    let one = typed(Expr::Const(Datum::Int(1)), SqlType::Int4);
                    let at = self.arith(Arith::Add, index, one.clone())?;
                    return self.call("substr", vec![root, at, one]);
                }
                self.element(vec![root, index], true)
            }
            AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride: None })
                if root.ty.is_array() =>
            {
                let ty = root.ty;
                let mut args = vec![root.expr];
                for bound in [lower_bound, upper_bound] {
                    args.push(match bound {
                        Some(bound) => {
                            let bound = self.expr(bound)?;
                            self.coerce(bound, SqlType::Int4)?
                        }
                        None => Expr::Const(Datum::Null),
                    });
                }
                Ok(typed(Expr::Call(Func::Array(ArrayFunc::Slice), args), ty))
            }
            AccessExpr::Dot(ast::Expr::Identifier(name)) if root.ty == SqlType::Record => {
                field(self, &root, name)
            }
            AccessExpr::Dot(ast::Expr::Identifier(field)) if folded(field) == "x" => Ok(root),
            _ => Err(SqlError::unsupported("a part of a value like this")),
        }
    }

    pub(super) fn arith(&mut self, op: Arith, a: Typed, b: Typed) -> Result<Typed, SqlError> {
        if let Some(found) = self.time_arith(op, &a, &b)? {
            return Ok(found);
        }
        let sign = match op {
            Arith::Add => "+",
            Arith::Sub => "-",
            Arith::Mul => "*",
            Arith::Div => "/",
            Arith::BitAnd => "&",
            Arith::BitOr => "|",
            Arith::BitXor => "#",
            Arith::ShiftLeft => "<<",
            Arith::ShiftRight => ">>",
            Arith::Rem | Arith::Concat => "%",
        };
        let shifts = matches!(op, Arith::ShiftLeft | Arith::ShiftRight);
        let (a_ty, b_ty) = match (a.ty, b.ty) {
            (SqlType::Unknown, SqlType::Unknown) => {
                return Err(not_unique(&format!("unknown {sign} unknown")));
            }
            (SqlType::Unknown, b) => (beside(b), b),
            (a, SqlType::Unknown) if shifts => (a, SqlType::Int4),
            (a, SqlType::Unknown) => (a, beside(a)),
            both => both,
        };
        let ty = match (a_ty.family(), b_ty.family()) {
            _ if op.is_of_bits() && !(a_ty.is_integer() && b_ty.is_integer()) => {
                return Err(no_operator(sign, a_ty, b_ty));
            }
            // The distance of a shift is an integer.
            _ if shifts && matches!(b_ty, SqlType::Int2 | SqlType::Int4) => a_ty,
            _ if shifts => return Err(no_operator(sign, a_ty, b_ty)),
            (Family::Number, Family::Number)
                if op == Arith::Rem && (a_ty.is_float() || b_ty.is_float()) =>
            {
                return Err(no_operator(sign, a_ty, b_ty));
            }
            (Family::Number, Family::Number) => arith_type(a_ty, b_ty),
            // A date and a number of days.
            (Family::Time, Family::Number)
                if a_ty == SqlType::Date
                    && matches!(op, Arith::Add | Arith::Sub)
                    && matches!(b_ty, SqlType::Int2 | SqlType::Int4) =>
            {
                SqlType::Date
            }
            (Family::Time, Family::Time)
                if a_ty == b_ty && a_ty == SqlType::Date && op == Arith::Sub =>
            {
                SqlType::Int4
            }
            _ => return Err(no_operator(sign, a_ty, b_ty)),
        };
        let both = [self.coerce(a, a_ty)?, self.coerce(b, b_ty)?];
        Ok(typed(Expr::Arith(op, ty, Box::new(both)), ty))
    }

    /// `||` of texts, one of which may have any other type; or of byte strings.
    pub(super) fn concat(&mut self, a: Typed, b: Typed) -> Result<Typed, SqlError> {
        let families = [a.ty.family(), b.ty.family()];
        let has = |family| families.contains(&family);
        if has(Family::Array) {
            return self.concat_arrays(a, b);
        }
        let ty = match (has(Family::Bytes), has(Family::Text) || has(Family::Unknown)) {
            (true, _)
                if !has(Family::Text) && (has(Family::Unknown) || families[0] == families[1]) =>
            {
                SqlType::Bytea
            }
            (_, true) => SqlType::Text,
            _ => return Err(no_operator("||", a.ty, b.ty)),
        };
        let mut side = |value: Typed| match ty {
            SqlType::Bytea => self.coerce(value, ty),
            _ => self.as_text(value),
        };
        let both = [side(a)?, side(b)?];
        Ok(typed(Expr::Arith(Arith::Concat, ty, Box::new(both)), ty))
    }

    /// `||` of two arrays of one type, where NULL yields the other; or of an array and an element.
    pub(super) fn concat_arrays(&mut self, a: Typed, b: Typed) -> Result<Typed, SqlError> {
        let ty = if a.ty.family() == Family::Array { a.ty } else { b.ty };
        let Some(element) = ty.element().filter(|_| ty.is_array()) else {
            return Err(no_operator("||", a.ty, b.ty));
        };
        // With two types that convert to each other, the array has the wider one.
        let together = |other: SqlType| match element.family() == other.family() {
            true => bare(functions::common(&[element, other])).array().unwrap_or(ty),
            false => ty,
        };
        let is_element = |side: &Typed| {
            side.ty.family() == element.family() && side.ty.family() != Family::Array
        };
        if is_element(&b) {
            return self.array_call(ArrayFunc::Append, together(b.ty), vec![a, b]);
        }
        if is_element(&a) {
            return self.array_call(ArrayFunc::Prepend, together(a.ty), vec![b, a]);
        }
        let elements = [&a, &b].map(|side| side.ty.plain().element());
        let ty = elements.into_iter().flatten().fold(ty, |_, other| together(other));
        let is_one = |side: &Typed| match side.ty.plain().element() {
            Some(of) => Some(of.family()) == ty.element().map(SqlType::family),
            None => side.ty == SqlType::Unknown,
        };
        if !is_one(&a) || !is_one(&b) {
            return Err(no_operator("||", a.ty, b.ty));
        }
        let [a, b] = [self.coerce(a, ty)?, self.coerce(b, ty)?];
        let missing = |side: &Expr| Expr::IsNull(Box::new(side.clone()));
        let whens = vec![(missing(&a), b.clone()), (missing(&b), a.clone())];
        let both = Expr::Arith(Arith::Concat, ty, Box::new([a, b]));
        Ok(typed(Expr::Case(whens, Box::new(both)), ty))
    }

    pub(super) fn is_truth(
        &mut self,
        inner: &ast::Expr,
        truth: bool,
        negated: bool,
    ) -> Result<Typed, SqlError> {
        let inner = Box::new(self.condition(inner)?);
        Ok(negate(boolean(Expr::IsTruth(inner, truth)), negated))
    }

    pub(super) fn same(&mut self, a: &ast::Expr, b: &ast::Expr) -> Result<Typed, SqlError> {
        let (a, b) = (self.expr(a)?, self.expr(b)?);
        let (a, b) = self.unify(a, b, "=")?;
        Ok(boolean(Expr::Same(Box::new([a, b]))))
    }

    /// LIKE with an optional escape character.
    pub(super) fn like(
        &mut self,
        value: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::Expr>,
        folds: bool,
    ) -> Result<Typed, SqlError> {
        let (value, pattern) = (self.expr(value)?, self.expr(pattern)?);
        check_texts(if folds { "~~*" } else { "~~" }, &value, &pattern)?;
        // Trailing blanks of a char(n) count in a pattern match.
        let (value, mut pattern) = (self.as_shown(value)?, self.as_text(pattern)?);
        if let Some(escape) = escape {
            let escape = self.expr(escape)?;
            pattern = Expr::Call(Func::LikeEscape, vec![pattern, self.as_text(escape)?]);
        }
        Ok(boolean(Expr::Like { both: Box::new([value, pattern]), folds }))
    }

    pub(super) fn similar(
        &mut self,
        value: Typed,
        pattern: Typed,
        escape: Option<&ast::Expr>,
    ) -> Result<Typed, SqlError> {
        check_texts("~", &value, &pattern)?;
        let mut pattern = vec![self.as_text(pattern)?];
        if let Some(escape) = escape {
            let escape = self.expr(escape)?;
            pattern.push(self.as_text(escape)?);
        }
        let regex = Expr::Call(Func::Regex(RegexFunc::Similar), pattern);
        self.matches(value, typed(regex, SqlType::Text), false, false)
    }

    pub(super) fn matches(
        &mut self,
        a: Typed,
        b: Typed,
        folds: bool,
        negated: bool,
    ) -> Result<Typed, SqlError> {
        check_texts(if folds { "~*" } else { "~" }, &a, &b)?;
        let both = Box::new([self.as_shown(a)?, self.as_text(b)?]);
        Ok(negate(boolean(Expr::Matches { both, folds }), negated))
    }
}

/// Arrays are texts here, which sort differently; a `json` has no order.
pub(super) fn check_order(ty: SqlType) -> Result<(), SqlError> {
    check_equality(ty)?;
    match ty.family() {
        Family::Array => Err(SqlError::unsupported("the order of arrays")),
        _ => Ok(()),
    }
}

/// Refuses a type without equality.
pub(super) fn check_equality(ty: SqlType) -> Result<(), SqlError> {
    if let Some(element) = ty.element() {
        // Equal values of these types may have different texts.
        let varies = element.is_float()
            || matches!(element, SqlType::Numeric(_) | SqlType::Jsonb | SqlType::Interval);
        if varies {
            return Err(SqlError::unsupported(format!("grouping and lists of type {}", bare(ty))));
        }
    }
    if ty != SqlType::Json {
        return Ok(());
    }
    let message = "could not identify an equality operator for type json";
    let error = SqlError::new(code::UNDEFINED_FUNCTION, message);
    Err(error.hint("Cast it to jsonb, which is compared by value."))
}

/// True for a call by this name, which is a word of the grammar: `row(..)`, `coalesce(..)`.
pub(super) fn is_named(call: &ast::Function, word: &str) -> bool {
    match call.name.0.as_slice() {
        [name] => name.as_ident().is_some_and(|name| {
            name.quote_style.is_none() && name.value.eq_ignore_ascii_case(word)
        }),
        _ => false,
    }
}

fn is_padded(ty: SqlType) -> bool {
    matches!(ty, SqlType::Char(_))
}

fn is_varying(ty: SqlType) -> bool {
    matches!(ty, SqlType::Varchar(_))
}

/// 42725: an operator whose operands do not determine a type.
pub(super) fn not_unique(sides: &str) -> SqlError {
    let message = format!("operator is not unique: {sides}");
    SqlError::new(code::AMBIGUOUS_FUNCTION, message).hint(
        "Could not choose a best candidate operator. You might need to add explicit type casts.",
    )
}

pub(super) fn no_operator(sign: &str, a: SqlType, b: SqlType) -> SqlError {
    let message = format!("operator does not exist: {} {sign} {}", bare(a), bare(b));
    let hint = "No operator matches the given types; add a cast.";
    SqlError::new(code::UNDEFINED_FUNCTION, message).hint(hint)
}

/// Patterns require texts: a number needs a cast.
fn check_texts(sign: &str, a: &Typed, b: &Typed) -> Result<(), SqlError> {
    let is_text = |value: &Typed| matches!(value.ty.family(), Family::Text | Family::Unknown);
    if is_text(a) && is_text(b) { Ok(()) } else { Err(no_operator(sign, a.ty, b.ty)) }
}

fn arith_type(a: SqlType, b: SqlType) -> SqlType {
    if (a.is_float() || b.is_float()) && a != b {
        return SqlType::Float8;
    }
    if functions::number_rank(a) >= functions::number_rank(b) { bare(a) } else { bare(b) }
}

pub(super) fn negate(value: Typed, negated: bool) -> Typed {
    if negated { boolean(Expr::Not(Box::new(value.expr))) } else { value }
}

pub(super) fn all(a: Expr, b: Expr) -> Expr {
    match (a, b) {
        (Expr::And(mut all), b) => {
            all.push(b);
            Expr::And(all)
        }
        (a, b) => Expr::And(vec![a, b]),
    }
}

pub(super) fn any(a: Expr, b: Expr) -> Expr {
    match (a, b) {
        (Expr::Or(mut all), b) => {
            all.push(b);
            Expr::Or(all)
        }
        (a, b) => Expr::Or(vec![a, b]),
    }
}

pub(super) fn comparison(op: &BinaryOperator) -> Option<Compare> {
    Some(match op {
        BinaryOperator::Eq => Compare::Eq,
        BinaryOperator::NotEq => Compare::Ne,
        BinaryOperator::Lt => Compare::Lt,
        BinaryOperator::LtEq => Compare::Le,
        BinaryOperator::Gt => Compare::Gt,
        BinaryOperator::GtEq => Compare::Ge,
        _ => return None,
    })
}

pub(super) fn named_operator(sign: &str) -> Result<BinaryOperator, SqlError> {
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

/// The type of a literal or parameter that is compared with a value: varchar compares as text.
pub(super) fn beside(ty: SqlType) -> SqlType {
    match ty {
        SqlType::Varchar(_) => SqlType::Text,
        // Numbers of objects are compared as such.
        SqlType::Reg(_) => SqlType::Oid,
        ty => bare(ty),
    }
}
