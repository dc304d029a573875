//! Access paths as conditions: what an index or a key finds, and which conditions that covers.

use isomer_sql::catalog::{Part, Table};
use isomer_sql::datum::Datum;
use isomer_sql::expr::{Compare, Expr};
use isomer_sql::plan::{Access, SpanOf};
use isomer_sql::shown::{Names, comparison};

/// The spans that are shown.
const SPANS_MAX: usize = 100;

/// The parts of the key that an access path searches, over the row in which the table's slots begin
/// at `offset`.
pub(super) fn key_parts(table: &Table, access: &Access, offset: usize) -> Vec<Expr> {
    match &access.index {
        Some(index) => {
            let part = |part: &Part| match part {
                Part::Column(column) => Expr::Column(offset + column),
                Part::Computed(computed) => computed.value.moved(offset),
            };
            index.parts.iter().map(part).collect()
        }
        None => table.key_slots().into_iter().map(|slot| Expr::Column(offset + slot)).collect(),
    }
}

/// The condition that the spans of an access path stand for; `None` for all rows.
pub(super) fn index_condition(spans: &[SpanOf], key: &[Expr], names: &Names) -> Option<String> {
    let and = |parts: Vec<String>| match parts.as_slice() {
        [one] => one.clone(),
        _ => format!("({})", parts.join(" AND ")),
    };
    match spans {
        [] => None,
        [span] => {
            let parts = span_conditions(span, key, names);
            (!parts.is_empty()).then(|| and(parts))
        }
        [first, ..] => Some(match varying(spans) {
            Some(at) => {
                let list: Vec<Expr> = spans.iter().map(|span| span.prefix[at].clone()).collect();
                let mut parts = span_conditions(first, key, names);
                let (part, ty) = names.named(&key[at]);
                parts[at] = format!("({part} = ANY ({}))", names.array(&list, ty));
                and(parts)
            }
            None => {
                let shown = spans.iter().take(SPANS_MAX);
                let mut any: Vec<String> =
                    shown.map(|span| and(span_conditions(span, key, names))).collect();
                if let Some(more) = spans.len().checked_sub(SPANS_MAX).filter(|more| *more > 0) {
                    any.push(format!(".. {more} more"));
                }
                format!("({})", any.join(" OR "))
            }
        }),
    }
}

/// The only place at which several spans of equal values differ.
fn varying(spans: &[SpanOf]) -> Option<usize> {
    let first = &spans[0];
    let is_plain = |span: &SpanOf| {
        !span.is_bounded()
            && !span.known
            && span.each.is_none()
            && span.prefix.len() == first.prefix.len()
    };
    if !spans.iter().all(is_plain) {
        return None;
    }
    let differs = |at: &usize| spans.iter().any(|span| span.prefix[*at] != first.prefix[*at]);
    let mut places = (0..first.prefix.len()).filter(differs);
    places.next().filter(|_| places.next().is_none())
}

fn span_conditions(span: &SpanOf, key: &[Expr], names: &Names) -> Vec<String> {
    let equal = |(at, (part, value)): (usize, (&Expr, &Expr))| match span.each {
        Some((each, ty)) if each == at => {
            let array = match value {
                // The condition is the subquery's answer itself.
                Expr::Inner(_) => return names.text(value),
                Expr::Const(Datum::Text(text)) => format!("'{}'::{ty}[]", text.replace('\'', "''")),
                value => names.text(value),
            };
            format!("({} = ANY ({array}))", names.text(part))
        }
        _ => names.text(&comparison(part.clone(), Compare::Eq, value)),
    };
    let mut parts: Vec<String> =
        key.iter().zip(&span.prefix).enumerate().map(|(at, both)| equal((at, both))).collect();
    let Some(next) = key.get(span.prefix.len()) else { return parts };
    if let Some((value, is_inclusive)) = &span.lower {
        let compare = if *is_inclusive { Compare::Ge } else { Compare::Gt };
        parts.push(names.text(&comparison(next.clone(), compare, value)));
    }
    if let Some((value, is_inclusive)) = &span.upper {
        let compare = if *is_inclusive { Compare::Le } else { Compare::Lt };
        parts.push(names.text(&comparison(next.clone(), compare, value)));
    }
    if let Some((prefix, pattern)) = &span.starts {
        let beginning = match pattern {
            Expr::Const(Datum::Text(text)) => {
                names.text(&Expr::Const(Datum::Text(prefix.of(text))))
            }
            other => format!("fixed beginning of {}", names.text(other)),
        };
        parts.push(format!("({} ^@ {beginning})", names.text(next)));
    }
    if span.known {
        parts.push(format!("({} IS NOT NULL)", names.text(next)));
    }
    parts
}

/// True if every row that the spans find meets a condition, so that it need not be shown again.
pub(super) fn covers(spans: &[SpanOf], key: &[Expr], condition: &Expr) -> bool {
    if let (Expr::In(value, list, _), true) = (condition, spans.len() > SPANS_MAX) {
        // One pass: of long lists, only those with the order of the spans are recognised.
        let Some(at) = key.iter().position(|part| *part == **value) else { return false };
        let mut both = spans.iter().zip(list);
        return list.len() == spans.len()
            && both.all(|(span, one)| span.prefix.get(at) == Some(one));
    }
    !spans.is_empty() && spans.iter().all(|span| covered(span, key, condition))
}

fn covered(span: &SpanOf, key: &[Expr], condition: &Expr) -> bool {
    let place = |expr: &Expr| key.iter().position(|part| part == expr);
    let each = span.each.map(|(at, _)| at);
    let is_next = |at: usize| at == span.prefix.len();
    let is_bound = |bound: &Option<(Expr, bool)>, value: &Expr, inclusive: bool| {
        bound.as_ref().is_some_and(|(of, is)| of == value && *is == inclusive)
    };
    let compared = |op: Compare, part: &Expr, value: &Expr| {
        let Some(at) = place(part) else { return false };
        match op {
            Compare::Eq => each != Some(at) && span.prefix.get(at) == Some(value),
            Compare::Gt | Compare::Ge => {
                is_next(at) && is_bound(&span.lower, value, op == Compare::Ge)
            }
            Compare::Lt | Compare::Le => {
                is_next(at) && is_bound(&span.upper, value, op == Compare::Le)
            }
            Compare::Ne => false,
        }
    };
    match condition {
        Expr::Compare(op, both) => {
            compared(*op, &both[0], &both[1]) || compared(op.flipped(), &both[1], &both[0])
        }
        Expr::Elements { compare: Compare::Eq, all: false, both, .. } => place(&both[0])
            .is_some_and(|at| each == Some(at) && span.prefix.get(at) == Some(&both[1])),
        Expr::Inner(_) => each.is_some_and(|at| span.prefix.get(at) == Some(condition)),
        Expr::In(value, list, _) => place(value)
            .and_then(|at| span.prefix.get(at))
            .is_some_and(|found| list.contains(found)),
        Expr::Not(inner) => match &**inner {
            Expr::IsNull(value) => place(value).is_some_and(|at| {
                at < span.prefix.len() || (is_next(at) && (span.known || span.is_bounded()))
            }),
            _ => false,
        },
        _ => false,
    }
}
