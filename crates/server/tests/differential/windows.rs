//! Random window functions: partitions, orders with and without ties, frames of every kind.

use super::expressions::Kind::{Int, Numeric, Text};
use super::expressions::Scope;
use super::statements::{D, E};

impl Scope<'_> {
    /// A query with window functions.
    pub(crate) fn windows(&mut self) -> String {
        let (table, key, columns) = self.chance.one(&[("d", "a, b", D), ("e", "id", E)]);
        self.tables = vec![("", columns)];
        let mut shown = vec![key.to_owned()];
        for _ in 0..1 + self.below(3) {
            let partition = match self.below(3) {
                0 => String::new(),
                1 => format!("partition by {} ", self.settled(Int, 1)),
                _ => format!("partition by {} ", self.settled(Text, 0)),
            };
            let call = match self.below(3) {
                0 => self.of_rows(&partition, key),
                1 => self.of_peers(&partition),
                _ => self.of_distances(&partition),
            };
            shown.push(call);
        }
        let condition = self.condition(1);
        // Array values cannot be sorted here.
        let is_array = shown.last().is_some_and(|last| last.starts_with("array_agg"));
        let order = match self.chance.once_in(4) && !is_array {
            true => format!("{}, ", shown.len() + key.matches(',').count()),
            false => String::new(),
        };
        let shown = shown.join(", ");
        match self.below(4) {
            0 => format!(
                "select * from (select {shown} from {table} where {condition}) as z order by {order}{key}"
            ),
            1 => format!(
                "select k, rank() over w, sum(count(*)) over w from e where {condition} group by k
                 window w as (order by count(*), k) order by 1",
                condition = self.condition_of_e()
            ),
            _ => format!("select {shown} from {table} where {condition} order by {order}{key}"),
        }
    }

    fn condition_of_e(&mut self) -> String {
        self.tables = vec![("", E)];
        self.condition(1)
    }

    /// Functions that depend on the order of ties, so the sort key is unique.
    fn of_rows(&mut self, partition: &str, key: &str) -> String {
        let value = self.settled(Int, 1);
        let (n, other) = (1 + self.below(3), self.below(5) as i64 - 1);
        let text = self.settled(Text, 0);
        let call = match self.below(9) {
            0 => "row_number()".to_owned(),
            1 => format!("ntile({n})"),
            2 => format!("lag({value}, {other})"),
            3 => format!("lead({text}, {n}, 'none')"),
            4 => format!("first_value(({text})::text)"),
            5 => format!("last_value({value})"),
            6 => format!("nth_value(({text})::text, {n})"),
            7 => format!("string_agg({text}, ',')"),
            _ => format!("array_agg({value})"),
        };
        let by = self.column(Int).expect("every table has one");
        let way = self.chance.one(&["", " desc", " nulls first"]);
        let frame = self.frame(&["rows", "groups"]);
        format!("{call} over ({partition}order by {by}{way}, {key}{frame})")
    }

    /// Functions that do not.
    fn of_peers(&mut self, partition: &str) -> String {
        let call = self.chance.one(&["rank()", "dense_rank()", "percent_rank()", "cume_dist()"]);
        let call = if self.chance.once_in(2) { call.to_owned() } else { self.of_many() };
        let kind = self.chance.one(&[Int, Text]);
        let by = self.settled(kind, 1);
        let way = self.chance.one(&["", " desc", " desc nulls last"]);
        let frame = if self.chance.once_in(2) { String::new() } else { self.frame(&["groups"]) };
        let order = if self.chance.once_in(6) && frame.is_empty() {
            String::new()
        } else {
            format!("order by {by}{way}{frame}")
        };
        format!("{call} over ({partition}{order})")
    }

    /// Frames by distance in the sort key.
    fn of_distances(&mut self, partition: &str) -> String {
        let call = self.of_many();
        let kind = self.chance.one(&[Int, Int, Numeric]);
        let by = self.column(kind).expect("every table has one");
        let way = self.chance.one(&["", " desc", " nulls first"]);
        let frame = self.frame(&["range"]);
        format!("{call} over ({partition}order by {by}{way}{frame})")
    }

    fn of_many(&mut self) -> String {
        let kind = self.chance.one(&[Int, Numeric]);
        let value = self.settled(kind, 1);
        let of = self.chance.one(&["sum", "avg", "min", "max", "count"]);
        let filter = match self.chance.once_in(4) {
            true => format!(" filter (where {})", self.condition(1)),
            false => String::new(),
        };
        if self.chance.once_in(8) {
            format!("count(*){filter}")
        } else {
            format!("{of}({value}){filter}")
        }
    }

    fn frame(&mut self, units: &[&str]) -> String {
        let units = self.chance.one(units);
        let (from, to) = (self.below(4), self.below(4));
        let bounds = self.chance.one(&[
            "unbounded preceding",
            "current row",
            "FROM preceding",
            "between unbounded preceding and unbounded following",
            "between current row and unbounded following",
            "between FROM preceding and TO following",
            "between FROM preceding and TO preceding",
            "between FROM following and TO following",
            "between unbounded preceding and TO preceding",
            "between FROM following and unbounded following",
            "between FROM preceding and current row",
        ]);
        let bounds = bounds.replace("FROM", &from.to_string()).replace("TO", &to.to_string());
        format!(" {units} {bounds}")
    }
}
