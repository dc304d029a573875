//! Expressions of a plan as SQL text, for EXPLAIN.
//!
//! ```text
//!   slot 1 = '2020-01-08'        ─▶   (t.day = '2020-01-08'::date)
//! ```
//!
//! A bound expression has slots instead of names, and its constants have no types. [`Names`] has
//! both for each slot, so a constant is written in the type of the value next to it.

use crate::catalog::quoted;
use crate::datum::Datum;
use crate::expr::{Arith, Compare, Expr};
use crate::functions::{ArrayFunc, Func, JsonFunc, TextFunc, TimeFunc};
use crate::plan::{
    Aggregate, AggregateKind, Asks, Fit, Inner, Select, Source, Step, Way, Window, WindowFunc,
};
use crate::text;
use crate::types::{Family, SqlType};

/// The elements of a list after which the rest is counted.
const LIST_MAX: usize = 100;

/// The names and types of a row's slots, and of the correlated values.
#[derive(Clone, Default, Debug)]
pub struct Names {
    /// Of the slots.
    pub row: Vec<(String, SqlType)>,
    /// Of the correlated values.
    pub given: Vec<(String, SqlType)>,
    /// Of the slots, with the names of their sources: for queries inside. Empty: as in `row`.
    qualified: Vec<(String, SqlType)>,
}

impl Source {
    /// The names and types of its columns, as far as they have names.
    pub fn columns(&self) -> Vec<(String, SqlType)> {
        let output = |query: &Select| {
            query.output.iter().map(|column| (column.name.clone(), column.ty)).collect()
        };
        match self {
            Source::Table(table) => {
                table.columns.iter().map(|column| (column.name.clone(), column.ty)).collect()
            }
            Source::System(system) => {
                system.columns().iter().map(|(name, ty)| ((*name).to_owned(), *ty)).collect()
            }
            Source::Query(query) | Source::Lateral(_, query) => output(query),
            Source::Named(named) => output(&named.query),
            Source::Found(_, columns) => {
                columns.iter().map(|column| (column.name.clone(), column.ty)).collect()
            }
            Source::Values(rows) => {
                let width = rows.first().map_or(0, Vec::len);
                (1..=width).map(|at| (format!("column{at}"), SqlType::Unknown)).collect()
            }
            Source::Set(call) => call.columns.clone(),
        }
    }
}

impl Step {
    /// The name of its source, or what PostgreSQL calls one without a name.
    pub fn shown_alias(&self) -> &str {
        match (&*self.alias, &self.source) {
            ("", Source::Values(_)) => "*VALUES*",
            ("", _) => "*SELECT*",
            (alias, _) => alias,
        }
    }

    /// A column without a name of a query that became a source, as the expression inside.
    fn unnamed(&self, column: usize) -> Option<(String, SqlType)> {
        let Source::Query(query) = &self.source else { return None };
        if query.group.is_some() || !query.windows.is_empty() {
            return None;
        }
        let expr = query.project.get(column)?;
        Some(Names::of_steps(&query.steps, true, Vec::new()).named(expr))
    }
}

impl Names {
    /// The names of the slots of a query's sources, qualified where `is_qualified`.
    pub fn of_steps(steps: &[Step], is_qualified: bool, given: Vec<(String, SqlType)>) -> Names {
        let ends = steps.iter().map(|step| step.offset + step.width);
        let mut row = vec![("?".to_owned(), SqlType::Unknown); ends.max().unwrap_or(0)];
        let mut qualified = row.clone();
        for step in steps {
            let mut columns = step.source.columns().into_iter();
            let alias = quoted(step.shown_alias());
            for slot in step.offset..step.offset + step.width {
                let column = columns.next().filter(|(name, _)| !name.is_empty());
                if let (None, Some(known)) = (&column, step.unnamed(slot - step.offset)) {
                    qualified[slot] = known.clone();
                    row[slot] = known;
                    continue;
                }
                // The slots behind the columns are those of the system.
                let (name, ty) = column.unwrap_or(("row_id".to_owned(), SqlType::Int8));
                let name = quoted(&name);
                qualified[slot] = (format!("{alias}.{name}"), ty);
                row[slot] = (name, ty);
            }
        }
        let row = if is_qualified { qualified.clone() } else { row };
        Names { row, given, qualified }
    }

    /// These names and types, without others for queries inside.
    pub fn new(row: Vec<(String, SqlType)>, given: Vec<(String, SqlType)>) -> Names {
        Names { row, given, qualified: Vec::new() }
    }

    /// The text and the type of a correlated value, as a name for it in the query inside.
    pub fn outer(&self, expr: &Expr) -> (String, SqlType) {
        match self.qualified.is_empty() {
            true => self.named(expr),
            false => Names::new(self.qualified.clone(), self.given.clone()).named(expr),
        }
    }

    /// An expression as text.
    pub fn text(&self, expr: &Expr) -> String {
        let mut out = String::new();
        self.write(expr, SqlType::Unknown, &mut out);
        out
    }

    /// The text and the type of an expression, as a name for it.
    pub fn named(&self, expr: &Expr) -> (String, SqlType) {
        (self.text(expr), self.ty(expr))
    }

    /// All of several conditions as text; `None` without any.
    pub fn all<'x>(&self, conditions: impl Iterator<Item = &'x Expr>) -> Option<String> {
        let texts: Vec<String> = conditions.map(|one| self.text(one)).collect();
        match texts.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            _ => Some(format!("({})", texts.join(" AND "))),
        }
    }

    /// An aggregate as text.
    pub fn aggregate(&self, aggregate: &Aggregate) -> String {
        let of = |expr: &Expr| match expr {
            Expr::Call(Func::Pair | Func::Text(TextFunc::Beside), both) => self.list(both),
            one => self.text(one),
        };
        let mut args = aggregate.of.as_ref().map_or("*".to_owned(), of);
        let name = match &aggregate.kind {
            AggregateKind::First => return args,
            AggregateKind::Join(separator) => {
                args = format!("{args}, {}", literal(separator));
                "string_agg".to_owned()
            }
            AggregateKind::Json(brackets) if brackets[0].starts_with('{') => {
                "json_object_agg".to_owned()
            }
            kind => aggregate_name(kind),
        };
        let distinct = if aggregate.distinct { "DISTINCT " } else { "" };
        let keys = aggregate.order.iter().map(|(by, key)| {
            format!("{}{}", self.text(by), direction(key.descending, key.nulls_first))
        });
        let keys: Vec<String> = keys.collect();
        let order =
            if keys.is_empty() { String::new() } else { format!(" ORDER BY {}", keys.join(", ")) };
        let filter = aggregate.filter.as_ref().map(|filter| self.text(filter));
        let filter = filter.map_or(String::new(), |filter| format!(" FILTER (WHERE {filter})"));
        format!("{name}({distinct}{args}{order}){filter}")
    }

    /// A call of a window function as text, without its window.
    pub fn window_call(&self, window: &Window, at: usize) -> String {
        let call = &window.calls[at].1;
        match &call.func {
            WindowFunc::Aggregate(aggregate) => self.aggregate(aggregate),
            func => format!("{}({})", snake(&format!("{func:?}")), self.list(&call.args)),
        }
    }

    /// The order of a window as text.
    pub fn window_order(&self, window: &Window) -> Vec<String> {
        let keys = window.order.iter();
        keys.map(|(by, key)| {
            format!("{}{}", self.text(by), direction(key.descending, key.nulls_first))
        })
        .collect()
    }

    fn list(&self, exprs: &[Expr]) -> String {
        let texts: Vec<String> = exprs.iter().map(|expr| self.text(expr)).collect();
        texts.join(", ")
    }

    fn ty(&self, expr: &Expr) -> SqlType {
        let of = |names: &[(String, SqlType)], at: usize| {
            names.get(at).map_or(SqlType::Unknown, |(_, ty)| *ty)
        };
        match expr {
            Expr::Column(slot) => of(&self.row, *slot),
            Expr::Given(at) => of(&self.given, *at),
            Expr::Cast(_, ty) | Expr::Arith(_, ty, _) => *ty,
            _ => SqlType::Unknown,
        }
    }

    /// Writes an expression; a constant in the type `ty`, if that is known.
    fn write(&self, expr: &Expr, ty: SqlType, out: &mut String) {
        let name = |names: &[(String, SqlType)], at: usize| {
            names.get(at).map_or("?".to_owned(), |(name, _)| name.clone())
        };
        match expr {
            Expr::Const(value) => out.push_str(&constant(value, ty)),
            Expr::Param(number) => out.push_str(&format!("${}", number + 1)),
            Expr::Column(slot) => out.push_str(&name(&self.row, *slot)),
            Expr::Given(at) => out.push_str(&name(&self.given, *at)),
            // These do not occur in a plan.
            Expr::Outer(..) | Expr::Aggregate(_) | Expr::Window(_) | Expr::OuterAggregate(..) => {
                out.push('?');
            }
            Expr::Cast(inner, to) => {
                out.push('(');
                self.write(inner, SqlType::Unknown, out);
                out.push_str(&format!(")::{to}"));
            }
            Expr::Domain(inner, rule) => {
                out.push('(');
                self.write(inner, SqlType::Unknown, out);
                out.push_str(&format!(")::{}", rule.of.said()));
            }
            Expr::Arith(op, ty, both) => self.infix(arith(*op), both, *ty, out),
            Expr::Compare(op, both) => self.compared(op.sign(), both, out),
            Expr::Same(both) => self.compared("IS NOT DISTINCT FROM", both, out),
            Expr::Like { both, folds } => {
                self.infix(if *folds { "~~*" } else { "~~" }, both, SqlType::Text, out);
            }
            Expr::Matches { both, folds } => {
                self.infix(if *folds { "~*" } else { "~" }, both, SqlType::Text, out);
            }
            Expr::And(all) => self.joined(all, " AND ", out),
            Expr::Or(any) => self.joined(any, " OR ", out),
            Expr::InRows(inner, _) => self.write(inner, ty, out),
            Expr::Not(inner) => match &**inner {
                Expr::IsNull(value) => self.postfix(value, "IS NOT NULL", out),
                inner => {
                    out.push_str("(NOT ");
                    self.write(inner, SqlType::Bool, out);
                    out.push(')');
                }
            },
            Expr::IsNull(value) => self.postfix(value, "IS NULL", out),
            Expr::IsTruth(value, true) => self.postfix(value, "IS TRUE", out),
            Expr::IsTruth(value, false) => self.postfix(value, "IS FALSE", out),
            Expr::In(value, list, _) => {
                out.push('(');
                self.write(value, SqlType::Unknown, out);
                out.push_str(" = ANY (");
                out.push_str(&self.array(list, self.ty(value)));
                out.push_str("))");
            }
            Expr::Elements { compare, all, both, element, .. } => {
                out.push('(');
                self.write(&both[0], *element, out);
                let which = if *all { "ALL" } else { "ANY" };
                out.push_str(&format!(" {} {which} (", compare.sign()));
                self.write(&both[1], element.array().unwrap_or(SqlType::Unknown), out);
                out.push_str("))");
            }
            Expr::Case(whens, otherwise) => {
                out.push_str("CASE");
                for (when, then) in whens {
                    out.push_str(" WHEN ");
                    self.write(when, SqlType::Bool, out);
                    out.push_str(" THEN ");
                    self.write(then, ty, out);
                }
                out.push_str(" ELSE ");
                self.write(otherwise, ty, out);
                out.push_str(" END");
            }
            Expr::Call(func, args) => self.call(*func, args, ty, out),
            Expr::Inner(inner) => out.push_str(&self.subquery(inner)),
        }
    }

    /// An array of values as text.
    pub fn array(&self, list: &[Expr], ty: SqlType) -> String {
        let shown = list.iter().take(LIST_MAX).map(|one| {
            let mut text = String::new();
            self.write(one, ty, &mut text);
            text
        });
        let mut texts: Vec<String> = shown.collect();
        if let Some(more) = list.len().checked_sub(LIST_MAX).filter(|more| *more > 0) {
            texts.push(format!(".. {more} more"));
        }
        format!("ARRAY[{}]", texts.join(", "))
    }

    fn infix(&self, sign: &str, both: &[Expr; 2], ty: SqlType, out: &mut String) {
        out.push('(');
        self.write(&both[0], ty, out);
        out.push_str(&format!(" {sign} "));
        self.write(&both[1], ty, out);
        out.push(')');
    }

    fn compared(&self, sign: &str, both: &[Expr; 2], out: &mut String) {
        out.push('(');
        self.write(&both[0], self.ty(&both[1]), out);
        out.push_str(&format!(" {sign} "));
        self.write(&both[1], self.ty(&both[0]), out);
        out.push(')');
    }

    fn postfix(&self, value: &Expr, words: &str, out: &mut String) {
        out.push('(');
        self.write(value, SqlType::Unknown, out);
        out.push_str(&format!(" {words})"));
    }

    fn joined(&self, parts: &[Expr], word: &str, out: &mut String) {
        let texts: Vec<String> = parts.iter().take(LIST_MAX).map(|part| self.text(part)).collect();
        out.push('(');
        out.push_str(&texts.join(word));
        if let Some(more) = parts.len().checked_sub(LIST_MAX).filter(|more| *more > 0) {
            out.push_str(&format!("{word}.. {more} more"));
        }
        out.push(')');
    }

    fn call(&self, func: Func, args: &[Expr], ty: SqlType, out: &mut String) {
        if let ([a, b], Some(sign)) = (args, operator(func)) {
            out.push('(');
            self.write(a, SqlType::Unknown, out);
            out.push_str(&format!(" {sign} "));
            self.write(b, SqlType::Unknown, out);
            out.push(')');
            return;
        }
        if let ([value], Func::Neg | Func::Time(TimeFunc::Negated)) = (args, func) {
            out.push_str("(- ");
            self.write(value, ty, out);
            out.push(')');
            return;
        }
        let passes = matches!(func, Func::Coalesce | Func::Greatest | Func::Least | Func::NullIf);
        let ty = if passes { ty } else { SqlType::Unknown };
        out.push_str(&function(func));
        out.push('(');
        for (at, arg) in args.iter().enumerate() {
            out.push_str(if at > 0 { ", " } else { "" });
            self.write(arg, ty, out);
        }
        out.push(')');
    }

    fn subquery(&self, inner: &Inner) -> String {
        let name = inner.shown_name();
        match inner.asks {
            Asks::Value => format!("({name})"),
            Asks::Array => format!("ARRAY({name})"),
            Asks::Exists => format!("EXISTS({name})"),
            Asks::Any(compare) => {
                let value = match inner.value.as_slice() {
                    [value] => self.text(value),
                    row => format!("ROW({})", self.list(row)),
                };
                format!("({value} {} ANY ({name}))", compare.sign())
            }
        }
    }
}

impl Inner {
    /// True if it runs once, before the rows of the query that contains it.
    pub fn is_initial(&self) -> bool {
        let is_remembered = matches!(self.inside.way, Way::Remembered);
        is_remembered && self.args.is_empty() && !matches!(self.asks, Asks::Any(_))
    }

    /// Its name in EXPLAIN.
    pub fn shown_name(&self) -> String {
        format!("{} {}", if self.is_initial() { "InitPlan" } else { "SubPlan" }, self.number)
    }
}

/// The direction of a sort key, where it is not the default.
pub fn direction(descending: bool, nulls_first: bool) -> &'static str {
    match (descending, nulls_first) {
        (false, false) => "",
        (false, true) => " NULLS FIRST",
        (true, true) => " DESC",
        (true, false) => " DESC NULLS LAST",
    }
}

/// A text as an SQL literal.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn constant(value: &Datum, ty: SqlType) -> String {
    let is_number = |ty: SqlType| ty == SqlType::Unknown || ty.family() == Family::Number;
    let ty = match value {
        Datum::Null => return "NULL".to_owned(),
        Datum::Bool(value) => return value.to_string(),
        Datum::Int(_) | Datum::Float(_) | Datum::Numeric(_) if is_number(ty) => {
            return text::format(value, SqlType::Unknown).into_owned();
        }
        Datum::Text(_) if matches!(ty.family(), Family::Text) || ty == SqlType::Unknown => {
            SqlType::Text
        }
        Datum::Bytes(_) if !matches!(ty, SqlType::Enum(_)) => SqlType::Bytea,
        Datum::Json(_) => SqlType::Jsonb,
        Datum::Interval(_) => SqlType::Interval,
        Datum::TimeTz(..) => SqlType::TimeTz,
        Datum::Timestamp(_) if ty.plain() != SqlType::TimestampTz => SqlType::Timestamp,
        _ => ty.plain(),
    };
    format!("{}::{ty}", literal(&text::format(value, ty)))
}

fn arith(op: Arith) -> &'static str {
    match op {
        Arith::Add => "+",
        Arith::Sub => "-",
        Arith::Mul => "*",
        Arith::Div => "/",
        Arith::Rem => "%",
        Arith::Concat => "||",
        Arith::BitAnd => "&",
        Arith::BitOr => "|",
        Arith::BitXor => "#",
        Arith::ShiftLeft => "<<",
        Arith::ShiftRight => ">>",
    }
}

/// The operator that SQL writes for a function of two arguments.
fn operator(func: Func) -> Option<&'static str> {
    Some(match func {
        Func::Json(JsonFunc::Get) => "->",
        Func::Json(JsonFunc::GetText) => "->>",
        Func::Json(JsonFunc::Path) => "#>",
        Func::Json(JsonFunc::PathText) => "#>>",
        Func::Json(JsonFunc::Exists) => "?",
        Func::Json(JsonFunc::ExistsAny) => "?|",
        Func::Json(JsonFunc::ExistsAll) => "?&",
        Func::Json(JsonFunc::Contains) | Func::Array(ArrayFunc::Contains) => "@>",
        Func::Json(JsonFunc::Concat) => "||",
        Func::Json(JsonFunc::PathExists) => "@?",
        Func::Json(JsonFunc::PathMatch) => "@@",
        Func::Array(ArrayFunc::Overlap) => "&&",
        Func::Time(
            TimeFunc::Plus
            | TimeFunc::PlusMoment
            | TimeFunc::PlusClock
            | TimeFunc::Together
            | TimeFunc::Sum,
        ) => "+",
        Func::Time(TimeFunc::Between | TimeFunc::ClockBetween | TimeFunc::Difference) => "-",
        Func::Time(TimeFunc::Times) => "*",
        Func::Time(TimeFunc::Over) => "/",
        _ => return None,
    })
}

/// The name of a function: that of SQL for the common ones, and otherwise one like it.
fn function(func: Func) -> String {
    let known = match func {
        Func::Trim => "btrim",
        Func::LeftTrim => "ltrim",
        Func::RightTrim => "rtrim",
        Func::LPad => "lpad",
        Func::RPad => "rpad",
        Func::NullIf => "nullif",
        Func::NextVal | Func::NextOwn => "nextval",
        Func::CurrVal => "currval",
        Func::LastVal => "lastval",
        Func::SetVal => "setval",
        Func::ClockTime => "clock_timestamp",
        Func::LocalNow => "localtimestamp",
        Func::BackendPid => "pg_backend_pid",
        Func::Sleep => "pg_sleep",
        Func::RandomUuid => "gen_random_uuid",
        Func::Element => "array_element",
        Func::ArrayOf => "array",
        _ => "",
    };
    if !known.is_empty() {
        return known.to_owned();
    }
    let family = match func {
        Func::Json(_) => "jsonb_",
        Func::Regex(_) => "regexp_",
        Func::Array(_) => "array_",
        _ => "",
    };
    // The innermost variant: `Text(Format)` is format.
    let text = format!("{func:?}");
    let innermost = text.split(" {").next().unwrap_or_default();
    let innermost = innermost.trim_end_matches(')').rsplit('(').next().unwrap_or_default();
    format!("{family}{}", snake(innermost))
}

fn aggregate_name(kind: &AggregateKind) -> String {
    const FITS: [&str; 12] = [
        "corr",
        "covar_pop",
        "covar_samp",
        "regr_avgx",
        "regr_avgy",
        "regr_count",
        "regr_intercept",
        "regr_r2",
        "regr_slope",
        "regr_sxx",
        "regr_sxy",
        "regr_syy",
    ];
    match kind {
        AggregateKind::All => "bool_and".to_owned(),
        AggregateKind::Any => "bool_or".to_owned(),
        AggregateKind::Array | AggregateKind::Nest => "array_agg".to_owned(),
        AggregateKind::JoinEach => "string_agg".to_owned(),
        AggregateKind::Json(_) => "json_agg".to_owned(),
        AggregateKind::Spread(spread) => {
            let name = if spread.is_root { "stddev" } else { "var" };
            format!("{name}_{}", if spread.is_of_sample { "samp" } else { "pop" })
        }
        AggregateKind::Fit(fit) => {
            let name = FITS.into_iter().find(|name| Fit::named(name) == Some(*fit));
            name.unwrap_or_default().to_owned()
        }
        other => snake(&format!("{other:?}")),
    }
}

/// A name in camel case as SQL writes names.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake
}

/// A comparison of a slot with a value, as an index finds it.
pub fn comparison(slot: Expr, compare: Compare, value: &Expr) -> Expr {
    Expr::Compare(compare, Box::new([slot, value.clone()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_written_in_the_type_beside_them() {
        let day = ("t.day".to_owned(), SqlType::Date);
        let names = Names::new(vec![day, ("t.v".to_owned(), SqlType::Int4)], Vec::new());
        let is = |slot, value| comparison(Expr::Column(slot), Compare::Eq, &Expr::Const(value));
        assert_eq!(names.text(&is(0, Datum::Int(0))), "(t.day = '1970-01-01'::date)");
        assert_eq!(names.text(&is(1, Datum::Int(7))), "(t.v = 7)");
        let both =
            [is(0, Datum::Null), Expr::Not(Box::new(Expr::IsNull(Box::new(Expr::Column(1)))))];
        assert_eq!(names.all(both.iter()).unwrap(), "((t.day = NULL) AND (t.v IS NOT NULL))");
    }

    #[test]
    fn functions_have_the_names_of_sql() {
        let of = |func| function(func);
        assert_eq!(of(Func::Lower), "lower");
        assert_eq!(of(Func::Text(TextFunc::SplitPart)), "split_part");
        assert_eq!(of(Func::Json(JsonFunc::ArrayLength)), "jsonb_array_length");
        assert_eq!(of(Func::Advisory { shared: true, waits: true, for_session: true }), "advisory");
    }
}
