//! Functions and aggregates.

use super::constant::constant_value;
use super::convert::{bare, of_any, rounded};
use super::expr::{EXPR_BYTES, typed};
use super::forms::ambiguous;
use super::group::grouping;
use super::json::{as_type, unknown_function};
use super::json_paths::{argument_of, in_order};
use super::operators::{beside, check_equality, check_order};
use super::ordered::{OrderedSaid, may_have_group, needs_group, ordered_parts};
use super::query::sort_key;
use super::rows::row_argument;
use super::sets::is_set_function;
use super::window::is_window_function;
use super::{Binder, Typed, folded};
use crate::catalog::Named;
use crate::datum::Datum;
use crate::error::{SqlError, clipped, code};
use crate::expr::{Arith, Compare, Expr};
use crate::functions::{self, ArrayFunc, DigestFunc, Func, JsonFunc, RegexFunc, TextFunc};
use crate::plan::{Aggregate, AggregateKind, Asks, Fit, SortKey, Spread};
use crate::refuse;
use crate::types::{Family, Reg, SqlType};
use sqlparser::ast::{self, FunctionArg, FunctionArgExpr, FunctionArguments};

impl Binder<'_> {
    pub(crate) fn named_call(
        &mut self,
        name: &str,
        args: &[&ast::Expr],
    ) -> Result<Typed, SqlError> {
        let args = args.iter().map(|arg| argument_of(self, name, arg));
        let args = args.collect::<Result<Vec<_>, _>>()?;
        if is_set_function(name) {
            return self.listed_set(name, args);
        }
        self.call(name, args)
    }

    pub(crate) fn function(&mut self, function: &ast::Function) -> Result<Typed, SqlError> {
        let last = function.name.0.last().and_then(|part| part.as_ident());
        let name = last.map(folded).unwrap_or_default();
        if let (FunctionArguments::Subquery(query), "array") = (&function.args, name.as_str()) {
            let (inner, ty) = self.inner(Asks::Array, query)?;
            let array = match ty {
                SqlType::Unknown => Some(SqlType::Array(&SqlType::Text)),
                ty => beside(ty).array(),
            };
            let what = || SqlError::unsupported(format!("an array of values of type {}", bare(ty)));
            return Ok(typed(Expr::Inner(Box::new(inner)), array.ok_or_else(what)?));
        }
        refuse::function(function)?;
        let mut order: &[ast::OrderByExpr] = &[];
        let rows: Vec<_> = match &function.args {
            FunctionArguments::List(list) => list.args.iter().map(row_argument).collect(),
            _ => Vec::new(),
        };
        let (args, distinct, star) = match &function.args {
            FunctionArguments::List(list) => {
                for clause in &list.clauses {
                    if let ast::FunctionArgumentClause::OrderBy(by) = clause {
                        order = by;
                    }
                }
                let distinct =
                    matches!(list.duplicate_treatment, Some(ast::DuplicateTreatment::Distinct));
                let mut args = Vec::new();
                let (mut star, mut named) = (false, Vec::new());
                for (arg, row) in list.args.iter().zip(&rows) {
                    match arg {
                        _ if let Some(row) = row => args.push(row),
                        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => args.push(expr),
                        FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => star = true,
                        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(arg), .. }
                        | FunctionArg::ExprNamed {
                            name: ast::Expr::Identifier(name),
                            arg: FunctionArgExpr::Expr(arg),
                            ..
                        } => named.push((folded(name), arg)),
                        _ => return Err(SqlError::unsupported("an argument with a name")),
                    }
                }
                if !named.is_empty() {
                    return self.named_arguments(&name, &args, &named);
                }
                (args, distinct, star)
            }
            FunctionArguments::None => (Vec::new(), false, false),
            FunctionArguments::Subquery(_) => {
                return Err(SqlError::unsupported("a query as an argument"));
            }
        };
        if let Some(array) = super::variadic::spread_argument(&args) {
            return super::variadic::spread(self, &name, &args, array);
        }
        if name == "grouping" && function.over.is_none() {
            return grouping(self, &args);
        }
        let is_ordered = !function.within_group.is_empty();
        if is_ordered || needs_group(&name) {
            let bare = !distinct && !star && order.is_empty();
            if let Some(value) = self.aggregate_of_nothing(&name) {
                return Ok(value);
            }
            check_within(&name, is_ordered, function.over.is_some(), bare)?;
            let (order, filter) = (function.within_group.as_slice(), function.filter.as_deref());
            let said = OrderedSaid { name: &name, args: &args, order, filter };
            return self.aggregate(&name, |binder| ordered_parts(binder, &said));
        }
        let said = Said { args: &args, distinct, star, order, filter: function.filter.as_deref() };
        if let Some(over) = &function.over {
            return self.over(&name, &said, over);
        }
        if is_aggregate(&name) {
            if let Some(value) = self.aggregate_of_nothing(&name) {
                return Ok(value);
            }
            return self.aggregate(&name, |binder| binder.aggregate_parts(&name, &said));
        }
        if is_window_function(&name) {
            let message = format!("window function {name} requires an OVER clause");
            return Err(SqlError::new(code::WRONG_OBJECT, message));
        }
        if !order.is_empty() {
            let message = format!("ORDER BY specified, but {name} is not an aggregate function");
            return Err(SqlError::new(code::WRONG_OBJECT, message));
        }
        if distinct || star || function.filter.is_some() {
            let message = format!("{name} is not an aggregate function");
            return Err(SqlError::new(code::UNDEFINED_FUNCTION, message));
        }
        self.named_call(&name, &args)
    }

    /// A function with named arguments: `make_interval(days => 10)`.
    fn named_arguments(
        &mut self,
        name: &str,
        args: &[&ast::Expr],
        named: &[(String, &ast::Expr)],
    ) -> Result<Typed, SqlError> {
        if let Some(all) = in_order(name, args, named) {
            return self.named_call(name, &all?.iter().collect::<Vec<_>>());
        }
        Err(SqlError::unsupported("an argument with a name"))
    }

    pub(super) fn call(&mut self, name: &str, args: Vec<Typed>) -> Result<Typed, SqlError> {
        let mut args = args;
        if let ("current_timestamp" | "current_time" | "localtimestamp" | "localtime", [digits]) =
            (name, args.as_slice())
        {
            let Expr::Const(Datum::Int(digits @ 0..)) = digits.expr else {
                return Err(SqlError::unsupported(format!("{name} with anything but a number")));
            };
            let now = self.call(name, Vec::new())?;
            let ty = now.ty.rounded(u8::try_from(digits).unwrap_or(u8::MAX)).unwrap_or(now.ty);
            return Ok(rounded(now, ty));
        }
        args = self.in_form(name, args)?;
        if let Some(found) = self.time_function(name, &args) {
            return found;
        }
        if let Some(found) = self.number_function(name, &args) {
            return found;
        }
        if let Some(found) = self.text_function(name, &args) {
            return found;
        }
        if let Some(found) = self.json_function(name, &args) {
            return found;
        }
        if let Some(found) = self.array_function(name, &args) {
            return found;
        }
        if let Some(found) = self.enum_function(name, &args) {
            return found;
        }
        if name == "substring" && is_by_pattern(&args) {
            return self.part_by_pattern(args);
        }
        if let "nextval" | "currval" | "setval" = name {
            self.name_sequence(args.first_mut())?;
        }
        let types: Vec<SqlType> = args.iter().map(|arg| arg.ty).collect();
        let found = functions::find(name, &types);
        let fits = |(func, _): &(Func, SqlType)| {
            types
                .iter()
                .enumerate()
                .all(|(at, ty)| ty.family() == Family::Unknown || takes(*func, at, *ty))
        };
        let Some((func, ty)) = found.filter(fits) else {
            let shown: Vec<String> = types.iter().map(|ty| bare(*ty).to_string()).collect();
            if super::procedure::is_procedure(self, name, types.len()) {
                let message = format!("{name}({}) is a procedure", shown.join(", "));
                let hint = "To call a procedure, use CALL.";
                return Err(SqlError::new(code::WRONG_OBJECT, message).hint(hint));
            }
            // The name of a type is also that of a conversion.
            if let (Some(ty), 1) = (SqlType::of_name(name), args.len())
                && ty.catalog_name() == name
            {
                return self.cast_to(args.remove(0), ty);
            }
            if let Some(lacking) = refuse::lacking_function(name) {
                return Err(lacking);
            }
            let message = format!("function {name}({}) does not exist", shown.join(", "));
            let error = SqlError::new(code::UNDEFINED_FUNCTION, message);
            let hint = "No function matches the given name and argument types; add a cast.";
            return Err(if found.is_some() { error.hint(hint) } else { error });
        };
        let func = match func {
            Func::NextVal if self.is_identity => Func::NextOwn,
            func => func,
        };
        if let Func::Json(json) = func {
            return self.json_call(name, (json, ty), args);
        }
        if func == Func::TypeOf {
            let domain = self.domain_of(&args[0].expr);
            let oid = Datum::Int(domain.unwrap_or_else(|| bare(types[0]).oid()).into());
            let ty = SqlType::Reg(Reg::Type);
            return Ok(typed(Expr::Call(func, vec![Expr::Const(oid)]), ty));
        }
        if func == Func::ViewDefinition
            && matches!(types[0].family(), Family::Text | Family::Unknown)
        {
            args[0] = self.cast_to(args[0].clone(), SqlType::Reg(Reg::Class))?;
        }
        if func == Func::Element {
            return self.element(args, false);
        }
        if func == Func::NullIf {
            return self.null_if(args);
        }
        if matches!(func, Func::Coalesce | Func::Greatest | Func::Least) {
            let (mut args, common) = self.together(args)?;
            let func = match (func, common.element()) {
                (Func::Greatest | Func::Least, Some(element)) => {
                    args.push(Expr::Const(Datum::Int(element.number())));
                    Func::Array(ArrayFunc::Extreme { is_least: func == Func::Least })
                }
                _ => func,
            };
            return Ok(typed(Expr::Call(func, args), common));
        }
        let mut exprs = Vec::with_capacity(args.len());
        for (at, arg) in args.into_iter().enumerate() {
            exprs.push(if matches!(func, Func::Concat | Func::ConcatWs) {
                let is_any = func == Func::Concat || at > 0;
                let arg = if is_any { of_any(self, arg) } else { arg };
                self.as_shown(arg)?
            } else if argument(func, at) == Argument::Text && arg.ty != SqlType::Bytea {
                self.as_text(arg)?
            } else if arg.ty == SqlType::Unknown {
                self.coerce(arg, unknown_argument(func, at))?
            } else {
                arg.expr
            });
        }
        let call = Expr::Call(func, exprs);
        // The least integer of a type has no negation within it.
        let is_ranged = func == Func::Abs && ty.is_integer();
        Ok(typed(if is_ranged { Expr::Cast(Box::new(call), ty) } else { call }, ty))
    }

    /// `nullif(a, b)`: the first value if it differs from the second, else NULL. They compare as by
    /// `=`.
    fn null_if(&mut self, args: Vec<Typed>) -> Result<Typed, SqlError> {
        let [a, b] = <[Typed; 2]>::try_from(args).expect("it has two arguments");
        self.budget.charge(EXPR_BYTES)?;
        let is_exact = |ty| matches!(ty, SqlType::Numeric(_));
        let ty = match (a.ty, b.ty) {
            (SqlType::Unknown, SqlType::Unknown) => SqlType::Text,
            (SqlType::Unknown, b) => beside(b),
            (a, SqlType::Unknown) => beside(a),
            (a, b) if !a.is_float() && b.is_float() => SqlType::Float8,
            (a, b) if a.is_integer() && is_exact(b) => b,
            (SqlType::Varchar(_), b @ SqlType::Char(_)) => b,
            (SqlType::Char(_) | SqlType::Varchar(_), b) if bare(a.ty) != bare(b) => SqlType::Text,
            (SqlType::Time, SqlType::TimeTz) => SqlType::TimeTz,
            (a, _) => beside(a),
        };
        let (ty, own) = (bare(ty), a.ty);
        // Times of two types are converted for the comparison only.
        let is_converted = matches!(own.family(), Family::Time | Family::Array);
        if is_converted && bare(own) != bare(b.ty) && b.ty != SqlType::Unknown {
            let same = self.compare(Compare::Eq, a.clone(), b)?;
            let whens = vec![(same.expr, Expr::Const(Datum::Null))];
            return Ok(typed(Expr::Case(whens, Box::new(a.expr)), ty));
        }
        let (a, b) = self.unify(a, b, "=")?;
        let a = self.coerce(typed(a, own), ty)?;
        Ok(typed(Expr::Call(Func::NullIf, vec![a, b]), ty))
    }

    /// `substring(text from pattern)`: the part that a regular expression describes; with an escape
    /// character, a pattern of SIMILAR TO.
    fn part_by_pattern(&mut self, args: Vec<Typed>) -> Result<Typed, SqlError> {
        let mut texts = Vec::with_capacity(3);
        for arg in args {
            texts.push(self.as_text(arg)?);
        }
        if texts.len() == 3 {
            let pattern = texts.split_off(1);
            texts.push(Expr::Call(Func::Regex(RegexFunc::Similar), pattern));
        }
        Ok(typed(Expr::Call(Func::Regex(RegexFunc::Substring), texts), SqlType::Text))
    }

    /// `enum_first`, `enum_last` and `enum_range` use the type of their arguments. Only the bounds
    /// of a range are used as values.
    fn enum_function(&mut self, name: &str, args: &[Typed]) -> Option<Result<Typed, SqlError>> {
        let wanted = match name {
            "enum_first" | "enum_last" => 1..=1,
            "enum_range" => 1..=2,
            _ => return None,
        };
        let labels = args.iter().find_map(|arg| match arg.ty {
            SqlType::Enum(labels) => Some(labels),
            _ => None,
        });
        let fits = |arg: &Typed| matches!(arg.ty, SqlType::Enum(_) | SqlType::Unknown);
        let (Some(labels), true, true) =
            (labels, wanted.contains(&args.len()), args.iter().all(fits))
        else {
            return Some(Err(unknown_function(name, args)));
        };
        let Some(labels) = labels.known() else {
            return Some(Err(unknown_function(name, args)));
        };
        let all = &labels.of.labels;
        let end = if name == "enum_first" { all.first() } else { all.last() };
        if name != "enum_range" {
            let none = || {
                let message = format!("enum {} contains no values", labels.of.name.name);
                SqlError::new(code::NOT_READY, message)
            };
            let value = end.map(|label| Expr::Const(Datum::Bytes(label.key.clone())));
            return Some(value.ok_or_else(none).map(|value| typed(value, labels.ty())));
        }
        let array = labels.array();
        let [from, to] = args else {
            let all = crate::array::format(labels.range(None, None).map(Some));
            return Some(Ok(typed(Expr::Const(Datum::Text(all)), array)));
        };
        let ends = [from, to].map(|end| self.coerce(end.clone(), labels.ty()));
        let [from, to] = match ends {
            [Ok(from), Ok(to)] => [from, to],
            [Err(error), _] | [_, Err(error)] => return Some(Err(error)),
        };
        let number = Expr::Const(Datum::Int(labels.ty().number()));
        Some(Ok(typed(Expr::Call(Func::EnumRange, vec![from, to, number]), array)))
    }

    /// A constant sequence argument is resolved by name, in whatever form it is written.
    fn name_sequence(&self, arg: Option<&mut Typed>) -> Result<(), SqlError> {
        let Some(arg) = arg else { return Ok(()) };
        if let Expr::Const(Datum::Text(name)) = &arg.expr
            && name.parse::<u32>().is_err()
        {
            return self.catalog.sequence(&Named::read(&clipped(name))).map(drop);
        }
        let Expr::Const(Datum::Int(oid)) = arg.expr else { return Ok(()) };
        self.budget.tick(self.catalog.sequences.len())?;
        let mut all = self.catalog.sequences.values();
        if let Some(found) = all.find(|sequence| i64::from(sequence.oid) == oid) {
            let name = Datum::Text(found.full_name().written());
            *arg = typed(Expr::Const(name), SqlType::Text);
        }
        Ok(())
    }

    /// An element of an array, by its number.
    pub(crate) fn element(
        &mut self,
        args: Vec<Typed>,
        is_subscript: bool,
    ) -> Result<Typed, SqlError> {
        let [array, number] = <[Typed; 2]>::try_from(args).map_err(|_| {
            SqlError::new(code::UNDEFINED_FUNCTION, "an element has an array and a number")
        })?;
        let Some(ty) = array.ty.element() else {
            let message = format!("cannot subscript type {} because it is no array", array.ty);
            return Err(SqlError::new(code::DATATYPE_MISMATCH, message));
        };
        let number = self.coerce(number, SqlType::Int4)?;
        let oid = Expr::Const(Datum::Int(ty.number()));
        let mut args = vec![array.expr, number, oid];
        args.extend(is_subscript.then_some(Expr::Const(Datum::Bool(true))));
        Ok(typed(Expr::Call(Func::Element, args), ty))
    }

    /// An aggregate, whose parts `bind` returns.
    fn aggregate(
        &mut self,
        name: &str,
        bind: impl FnOnce(&mut Self) -> Result<Aggregate, SqlError>,
    ) -> Result<Typed, SqlError> {
        let nests = std::mem::replace(&mut self.scope().in_aggregate, true);
        let bound = bind(self);
        self.scope().in_aggregate = nests;
        let mut aggregate = bound?;
        // The aggregate belongs to the nearest query of which it uses a row.
        let parts = || {
            let order = aggregate.order.iter().map(|(by, _)| by);
            aggregate.of.iter().chain(&aggregate.filter).chain(order)
        };
        let levels = parts().filter_map(Expr::nearest_level).min().unwrap_or(0);
        let is_aggregate =
            |part: &Expr| matches!(part, Expr::Aggregate(_) | Expr::OuterAggregate(..));
        if parts().any(|part| part.has(&is_aggregate)) {
            let message = "aggregate function calls cannot be nested";
            return Err(SqlError::new(code::GROUPING, message));
        }
        let order = aggregate.order.iter_mut().map(|(by, _)| by);
        let parts = aggregate.of.iter_mut().chain(&mut aggregate.filter).chain(order);
        parts.for_each(|part| part.out_of(levels));
        let at = self.scopes.len() - 1 - levels;
        if self.scopes[at].aggregates.is_none() || self.scopes[at].in_aggregate {
            let message = format!("aggregate function {name} is not allowed here");
            return Err(SqlError::new(code::GROUPING, message));
        }
        let ty = if name.starts_with("jsonb_") { SqlType::Jsonb } else { aggregate.ty };
        let found = self.scopes[at].aggregates.as_mut().expect("just looked");
        self.budget.tick(found.len())?;
        self.budget.charge(size_of::<Aggregate>())?;
        let known = found.iter().position(|other| *other == aggregate);
        let at = known.unwrap_or_else(|| {
            found.push(aggregate);
            found.len() - 1
        });
        let found = match levels {
            0 => Expr::Aggregate(at),
            levels => Expr::OuterAggregate(levels, at),
        };
        Ok(as_type(found, ty))
    }

    pub(super) fn aggregate_parts(
        &mut self,
        name: &str,
        said: &Said<'_>,
    ) -> Result<Aggregate, SqlError> {
        let args = said.args;
        let filter = said.filter.map(|filter| self.condition(filter)).transpose()?;
        let (distinct, mut order) = (said.distinct, self.aggregate_order(said.order)?);
        if said.star && name == "count" {
            let (kind, ty) = (AggregateKind::Count, SqlType::Int8);
            return Ok(Aggregate { kind, of: None, distinct, filter, order, ty });
        }
        let wrong = || {
            let message = format!("function {name} does not take these arguments");
            SqlError::new(code::UNDEFINED_FUNCTION, message)
        };
        let first = args.first().ok_or_else(wrong)?;
        let value = match first {
            // `count(distinct (x))` has a row of one column.
            ast::Expr::Tuple(one) if one.len() == 1 => self.expr(&one[0])?,
            other => self.expr(other)?,
        };
        let fit = Fit::named(name);
        let has_two = matches!(name, "string_agg" | "json_object_agg" | "jsonb_object_agg");
        let has_two = has_two || fit.is_some();
        if args.len() != 1 + usize::from(has_two) {
            return Err(wrong());
        }
        if let Some(fit) = fit {
            let second = self.expr(args[1])?;
            let of = Some(self.pair_of(name, value, second)?);
            let ty = if fit == Fit::Count { SqlType::Int8 } else { SqlType::Float8 };
            return Ok(Aggregate {
                kind: AggregateKind::Fit(fit),
                of,
                distinct,
                filter,
                order,
                ty,
            });
        }
        if name == "string_agg" {
            let (kind, ty) = (AggregateKind::JoinEach, SqlType::Text);
            let joined = Aggregate { kind, of: None, distinct, filter, order, ty };
            return string_agg(self, value, args[1], joined);
        }
        // Times of day are summed as intervals.
        let is_clock = value.ty == SqlType::Time && matches!(name, "sum" | "avg");
        let value = match is_clock {
            true => typed(self.coerce(value, SqlType::Interval)?, SqlType::Interval),
            false => value,
        };
        let ty = value.ty;
        if distinct && order.iter().any(|(by, _)| *by != value.expr) {
            let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in \
                           argument list";
            return Err(SqlError::new(code::INVALID_COLUMN_REFERENCE, message));
        }
        // If the order is visible, DISTINCT values are sorted.
        let is_seen = matches!(name, "array_agg" | "json_agg" | "jsonb_agg");
        if distinct && order.is_empty() && is_seen {
            check_order(ty)?;
            let by = SortKey { place: 0, descending: false, nulls_first: false };
            order.push((value.expr.clone(), by));
        }
        if let (Some(spread), true) =
            (Spread::named(name), ty.family() == Family::Number || ty == SqlType::Unknown)
        {
            let is_exact = ty.is_integer() || matches!(ty, SqlType::Numeric(_));
            let ty = if is_exact { SqlType::Numeric(None) } else { SqlType::Float8 };
            let of = if is_exact { value.expr } else { self.coerce(value, ty)? };
            let (kind, of) = (AggregateKind::Spread(spread), Some(of));
            return Ok(Aggregate { kind, of, distinct, filter, order, ty });
        }
        if let ("sum" | "avg" | "array_agg", SqlType::Unknown) = (name, ty) {
            return Err(ambiguous(name, &[ty]));
        }
        let value = if name == "count" { of_any(self, value) } else { value };
        let (number, is_span) = (ty.family() == Family::Number, ty == SqlType::Interval);
        let is_int = matches!(ty, SqlType::Int2 | SqlType::Int4 | SqlType::Int8);
        if let "min" | "max" = name {
            match ty.is_array() {
                true => check_equality(ty)?,
                false => check_order(ty)?,
            }
            if matches!(ty, SqlType::Bool | SqlType::Bytea | SqlType::Uuid | SqlType::Jsonb) {
                return Err(unknown_function(name, &[value]));
            }
        }
        if distinct {
            check_equality(ty)?;
        }
        let (kind, result) = match name {
            "count" => (AggregateKind::Count, SqlType::Int8),
            "sum" if number || is_span => (AggregateKind::Sum, sum_type(ty)),
            "avg" if is_span => (AggregateKind::Avg, SqlType::Interval),
            "avg" if number => {
                let float = ty.is_float();
                (AggregateKind::Avg, if float { SqlType::Float8 } else { SqlType::Numeric(None) })
            }
            "min" => (AggregateKind::Min, bare_text(ty)),
            "max" => (AggregateKind::Max, bare_text(ty)),
            "bool_and" | "every" if ty == SqlType::Bool => (AggregateKind::All, SqlType::Bool),
            "bool_or" if ty == SqlType::Bool => (AggregateKind::Any, SqlType::Bool),
            "bit_and" if is_int => (AggregateKind::Bits(Arith::BitAnd), bare(ty)),
            "bit_or" if is_int => (AggregateKind::Bits(Arith::BitOr), bare(ty)),
            "bit_xor" if is_int => (AggregateKind::Bits(Arith::BitXor), bare(ty)),
            "json_agg" | "jsonb_agg" => {
                let is_long = matches!(ty.family(), Family::Array | Family::Row);
                let between = if is_long { ", \n " } else { ", " };
                let kind = AggregateKind::Json(["[", between, "]"]);
                let of = Some(or_null(self.json_of(value)?));
                return Ok(Aggregate { kind, of, distinct, filter, order, ty: SqlType::Json });
            }
            "json_object_agg" | "jsonb_object_agg" => {
                let key = self.json_key(value)?;
                let value = self.expr(args[1])?;
                let member = vec![key, self.json_of(value)?];
                let kind = AggregateKind::Json(["{ ", ", ", " }"]);
                let of = Some(Expr::Call(Func::Json(JsonFunc::Member), member));
                return Ok(Aggregate { kind, of, distinct, filter, order, ty: SqlType::Json });
            }
            "array_agg" if ty.is_array() => {
                let (kind, of) = (AggregateKind::Nest, Some(value.expr));
                return Ok(Aggregate { kind, of, distinct, filter, order, ty: bare(ty) });
            }
            "array_agg" => {
                let array = match ty {
                    SqlType::Unknown => SqlType::Text.array(),
                    SqlType::Reg(_) => ty.array(),
                    ty => beside(ty).array(),
                };
                let ty =
                    array.ok_or_else(|| SqlError::unsupported(format!("array_agg of {ty}")))?;
                let of = Some(self.as_element(value)?);
                let kind = AggregateKind::Array;
                return Ok(Aggregate { kind, of, distinct, filter, order, ty });
            }
            _ => {
                let message = format!("function {name}({}) does not exist", bare(ty));
                return Err(SqlError::new(code::UNDEFINED_FUNCTION, message));
            }
        };
        let value =
            if ty == SqlType::Unknown { self.coerce(value, SqlType::Text)? } else { value.expr };
        Ok(Aggregate { kind, of: Some(value), distinct, filter, order, ty: result })
    }

    /// Combines two numbers into one value, for a two-argument aggregate.
    fn pair_of(&mut self, name: &str, first: Typed, second: Typed) -> Result<Expr, SqlError> {
        let both = [first, second];
        let is_number = |arg: &Typed| matches!(arg.ty.family(), Family::Number | Family::Unknown);
        if !both.iter().all(is_number) {
            return Err(unknown_function(name, &both));
        }
        let floats = both.map(|arg| self.coerce(arg, SqlType::Float8));
        let floats = floats.into_iter().collect::<Result<_, _>>()?;
        Ok(Expr::Call(Func::Pair, floats))
    }

    fn aggregate_order(
        &mut self,
        order: &[ast::OrderByExpr],
    ) -> Result<Vec<(Expr, SortKey)>, SqlError> {
        let mut bound = Vec::with_capacity(order.len());
        for (place, by) in order.iter().enumerate() {
            let value = self.expr(&by.expr)?;
            check_order(value.ty)?;
            bound.push((value.expr, sort_key(by, place)?));
        }
        Ok(bound)
    }
}

/// `string_agg` of texts or byte strings. A delimiter that is not constant is that of its row.
fn string_agg(
    binder: &mut Binder<'_>,
    value: Typed,
    between: &ast::Expr,
    aggregate: Aggregate,
) -> Result<Aggregate, SqlError> {
    let between = binder.expr(between)?;
    let is_of_bytes = [&value, &between].iter().any(|arg| arg.ty == SqlType::Bytea);
    let ty = if is_of_bytes { SqlType::Bytea } else { SqlType::Text };
    let fits = |arg: &Typed| [ty.family(), Family::Unknown].contains(&arg.ty.family());
    if !fits(&value) || !fits(&between) {
        return Err(unknown_function("string_agg", &[value, between]));
    }
    let mut parts = Vec::with_capacity(2);
    for part in [value, between] {
        parts.push(match is_of_bytes {
            true => binder.coerce(part, ty)?,
            false => binder.as_text(part)?,
        });
    }
    let mut aggregate = Aggregate { ty, ..aggregate };
    if aggregate.distinct {
        if aggregate.order.iter().any(|(by, _)| !parts.contains(by)) {
            let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in \
                           argument list";
            return Err(SqlError::new(code::INVALID_COLUMN_REFERENCE, message));
        }
        // The order is visible, so DISTINCT values are sorted by both.
        for part in &parts {
            let place = aggregate.order.len();
            let key = SortKey { place, descending: false, nulls_first: false };
            if !aggregate.order.iter().any(|(by, _)| by == part) {
                aggregate.order.push((part.clone(), key));
            }
        }
    }
    let constant = constant_value(&parts[1], binder.budget)?;
    if let (Some(between), false) = (constant, is_of_bytes) {
        aggregate.kind = AggregateKind::Join(between.as_text().unwrap_or_default().to_owned());
        aggregate.of = parts.into_iter().next();
        return Ok(aggregate);
    }
    aggregate.of = Some(Expr::Call(Func::Text(TextFunc::Beside), parts));
    Ok(aggregate)
}

/// Checks that an aggregate has WITHIN GROUP if it needs it, and no clause that excludes it.
fn check_within(
    name: &str,
    is_ordered: bool,
    has_over: bool,
    is_bare: bool,
) -> Result<(), SqlError> {
    if !is_ordered {
        let message = format!("WITHIN GROUP is required for ordered-set aggregate {name}");
        return Err(SqlError::new(code::UNDEFINED_FUNCTION, message));
    }
    if !may_have_group(name) {
        let message = match is_aggregate(name) {
            true => {
                format!("{name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP")
            }
            false => format!("WITHIN GROUP specified, but {name} is not an aggregate function"),
        };
        return Err(SqlError::new(code::UNDEFINED_FUNCTION, message));
    }
    if has_over {
        let message = format!("OVER is not supported for ordered-set aggregate {name}");
        return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
    }
    if !is_bare {
        let message = "cannot use DISTINCT, ORDER BY or * with WITHIN GROUP";
        return Err(SqlError::new(code::SYNTAX, message));
    }
    Ok(())
}

/// Turns a NULL value into a JSON null.
fn or_null(value: Expr) -> Expr {
    let written = Expr::Cast(Box::new(value), SqlType::Json);
    Expr::Call(Func::Coalesce, vec![written, Expr::Const(Datum::text("null"))])
}

/// The syntax of an aggregate call.
pub(super) struct Said<'s> {
    pub(super) args: &'s [&'s ast::Expr],
    pub(super) distinct: bool,
    pub(super) star: bool,
    pub(super) order: &'s [ast::OrderByExpr],
    pub(super) filter: Option<&'s ast::Expr>,
}

fn bare_text(ty: SqlType) -> SqlType {
    if matches!(ty, SqlType::Varchar(_) | SqlType::Unknown) { SqlType::Text } else { ty }
}

fn sum_type(ty: SqlType) -> SqlType {
    match ty {
        SqlType::Int2 | SqlType::Int4 => SqlType::Int8,
        SqlType::Float4 => SqlType::Float4,
        SqlType::Float8 => SqlType::Float8,
        SqlType::Interval => SqlType::Interval,
        _ => SqlType::Numeric(None),
    }
}

/// True if the arguments of `substring` are texts or can be: a literal beside a text is a text, not
/// a position.
fn is_by_pattern(args: &[Typed]) -> bool {
    let is_text = |arg: &Typed| matches!(arg.ty.family(), Family::Text | Family::Unknown);
    matches!(args.len(), 2 | 3) && args.iter().all(is_text)
}

/// The required type of a function's argument.
#[derive(Clone, Copy, PartialEq)]
enum Argument {
    Text,
    /// An integer of at most 32 bits.
    Whole,
    /// An integer of at most 64 bits.
    Long,
    Truth,
    Bytes,
    Any,
}

fn argument(func: Func, at: usize) -> Argument {
    use Func::*;
    match (func, at) {
        (
            Lower | Upper | QuoteIdent | Trim | LeftTrim | RightTrim | Replace | Position | Reverse
            | StartsWith,
            _,
        )
        | (
            Substring | Left | Right | Repeat | LPad | RPad | Length | NextVal | CurrVal | SetVal,
            0,
        )
        | (LPad | RPad, 2) => Argument::Text,
        (Regex(func), at) if functions::is_number(func, at) => Argument::Whole,
        (Regex(_), _) | (Digest(DigestFunc::Md5), _) => Argument::Text,
        (Digest(_), _) => Argument::Bytes,
        (Substring | Left | Right | Repeat | LPad | RPad, _) => Argument::Whole,
        (SetVal, 1) | (Advisory { .. } | AdvisoryUnlock { .. }, _) => Argument::Long,
        (SetVal, 2) => Argument::Truth,
        _ => Argument::Any,
    }
}

/// True if a function accepts a value of this type for one of its arguments without a cast.
fn takes(func: Func, at: usize, ty: SqlType) -> bool {
    match argument(func, at) {
        Argument::Text if func == Func::Length && ty == SqlType::Bytea => true,
        Argument::Text if func == Func::Digest(DigestFunc::Md5) && ty == SqlType::Bytea => true,
        Argument::Bytes => ty == SqlType::Bytea,
        Argument::Text if matches!(func, Func::NextVal | Func::CurrVal | Func::SetVal) => {
            ty.family() == Family::Text || matches!(ty, SqlType::Oid | SqlType::Reg(Reg::Class))
        }
        Argument::Text => ty.family() == Family::Text,
        Argument::Whole => matches!(ty, SqlType::Int2 | SqlType::Int4),
        Argument::Long => matches!(ty, SqlType::Int2 | SqlType::Int4 | SqlType::Int8),
        Argument::Truth => ty == SqlType::Bool,
        Argument::Any if func == Func::Cardinality => ty.family() == Family::Array,
        Argument::Any => true,
    }
}

fn unknown_argument(func: Func, at: usize) -> SqlType {
    match func {
        Func::Substring | Func::Left | Func::Right | Func::Repeat | Func::LPad | Func::RPad
            if at > 0 =>
        {
            SqlType::Int4
        }
        Func::Regex(func) if functions::is_number(func, at) => SqlType::Int4,
        Func::Digest(func) if func != DigestFunc::Md5 => SqlType::Bytea,
        Func::Sleep => SqlType::Float8,
        Func::CurrentSchemas => SqlType::Bool,
        Func::CurrentSetting if at == 1 => SqlType::Bool,
        Func::SetConfig if at == 2 => SqlType::Bool,
        Func::IndexDefinition if at == 2 => SqlType::Bool,
        Func::ConstraintDefinition | Func::ViewDefinition if at == 1 => SqlType::Bool,
        Func::FormatType | Func::IndexDefinition | Func::ColumnDescription if at == 1 => {
            SqlType::Int4
        }
        Func::EncodingName => SqlType::Int4,
        Func::DefaultAccess | Func::ShowDefault if at == 1 => SqlType::Oid,
        Func::FormatType
        | Func::IndexDefinition
        | Func::ConstraintDefinition
        | Func::ColumnDescription
        | Func::Description
        | Func::SharedDescription
        | Func::TableVisible
        | Func::TypeVisible
        | Func::UserById
            if at == 0 =>
        {
            SqlType::Oid
        }
        Func::Advisory { .. } | Func::AdvisoryUnlock { .. } => SqlType::Int8,
        Func::SetVal if at == 1 => SqlType::Int8,
        Func::SetVal if at == 2 => SqlType::Bool,
        _ => SqlType::Text,
    }
}

/// True if a function of the system has this name: it can be called with some number of arguments,
/// or converts values of a type from or to what clients see.
pub(super) fn is_function(binder: &mut Binder<'_>, name: &str) -> bool {
    const MOST_ARGUMENTS: usize = 7;
    let is_of_type = ["in", "out", "recv", "send"].iter().any(|end| {
        let ty = name.strip_suffix(end).map(|ty| ty.strip_suffix('_').unwrap_or(ty));
        ty.is_some_and(|ty| {
            matches!(ty, "array" | "enum" | "domain" | "record" | "range" | "unknown" | "void")
                || crate::system::known_number(binder.catalog, Reg::Type, ty).is_ok()
        })
    });
    let null = typed(Expr::Const(Datum::Null), SqlType::Unknown);
    let mut is_called = |count: usize| match binder.call(name, vec![null.clone(); count]) {
        Ok(_) => true,
        Err(error) => error.code != code::UNDEFINED_FUNCTION,
    };
    is_of_type
        || is_aggregate(name)
        || needs_group(name)
        || is_set_function(name)
        || is_window_function(name)
        || (0..=MOST_ARGUMENTS).any(&mut is_called)
}

pub(super) fn is_aggregate(name: &str) -> bool {
    Spread::named(name).is_some()
        || Fit::named(name).is_some()
        || matches!(
            name,
            "count"
                | "sum"
                | "avg"
                | "min"
                | "max"
                | "bool_and"
                | "bool_or"
                | "every"
                | "bit_and"
                | "bit_or"
                | "bit_xor"
                | "string_agg"
                | "array_agg"
                | "json_agg"
                | "jsonb_agg"
                | "json_object_agg"
                | "jsonb_object_agg"
        )
}
