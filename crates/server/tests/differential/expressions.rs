//! Random expressions over the columns of some tables, each of a given type.

use super::chance::Chance;

/// Kinds of types, as far as their combinations differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Int,
    Numeric,
    Float,
    Text,
    /// `char(n)`, only in comparisons, and cast to text elsewhere. The type that PostgreSQL gives
    /// it together with other texts in CASE and similar expressions cannot be known here.
    Char,
    Bool,
    Date,
    Time,
    /// `jsonb`.
    Json,
    /// `interval`.
    Span,
}

use Kind::{Bool, Char, Date, Float, Int, Json, Numeric, Span, Text, Time};

const ZONES: [&str; 5] = ["UTC", "Asia/Kathmandu", "Europe/Berlin", "America/New_York", "EST5EDT"];
const REGEXES: [&str; 8] = [
    "(x|xy)(.*)",
    "a*?b",
    "([a-y]+?)(.)",
    "(.)\\1",
    "^.|.\\Z",
    "(?i)([^A])",
    "\\w{2,3}(?=.)",
    "(y*)+z?",
];
const PATTERNS: [&str; 6] = [
    "YYYY-MM-DD HH24:MI:SS.US",
    "FMDay, FMDD. FMMonth YYYY, FMHH12 am",
    "Dy Mon MONTH Day \"of\" DDD D ID IDDD",
    "IYYY-IW WW W Q CC J Y,YYY YY MS",
    "HH:MI P.M. Y YYY IY IYY",
    "yyyymmdd, mon DY -- day",
];

const JSONS: [&str; 12] = [
    "{\"a\": 1, \"b\": [1.50, \"x\"]}",
    "{\"bb\":2, \"a\": {\"a\":null}, \"bb\":3}",
    "[1, 2.0, {\"a\": true}]",
    "[\"a\", [ ], {}]",
    "[]",
    "{}",
    "\"a\"",
    "1.0",
    "1",
    "-1e3",
    "true",
    "null",
];
const SPANS: [&str; 8] = [
    "1 month",
    "30 days",
    "-1 day 02:30",
    "1 year 2 months 3 days 04:05:06.7",
    "24 hours",
    "@ 90 minutes ago",
    "P1W",
    "0",
];
const KEYS: [&str; 5] = ["'a'", "'bb'", "0", "1", "-1"];
const PATHS: [&str; 5] = ["{a}", "{a,a}", "{b,-1}", "{0}", "{1,0}"];

pub(crate) const KINDS: [Kind; 10] =
    [Int, Numeric, Float, Text, Char, Bool, Date, Time, Json, Span];

/// The columns of a table.
pub(crate) type Columns = &'static [(&'static str, Kind)];

/// The material of an expression: columns of tables by alias, and parameters if allowed.
pub(crate) struct Scope<'c> {
    pub(crate) chance: &'c mut Chance,
    pub(crate) tables: Vec<(&'static str, Columns)>,
    /// The values of the parameters so far; `None` if constants are written out.
    pub(crate) params: Option<Vec<String>>,
}

impl Scope<'_> {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.chance.below(bound)
    }

    /// A column of this kind, if there is one.
    pub(crate) fn column(&mut self, kind: Kind) -> Option<String> {
        let fitting: Vec<(&str, &str)> = self
            .tables
            .iter()
            .flat_map(|(alias, columns)| columns.iter().map(move |column| (*alias, column)))
            .filter(|(_, (_, of))| *of == kind)
            .map(|(alias, (name, _))| (alias, *name))
            .collect();
        if fitting.is_empty() {
            return None;
        }
        let (alias, name) = self.chance.one(&fitting);
        Some(if alias.is_empty() { name.to_owned() } else { format!("{alias}.{name}") })
    }

    /// A value of this kind, as text without quotes.
    fn value(&mut self, kind: Kind) -> String {
        match kind {
            Int => (self.below(24) as i64 - 4).to_string(),
            Numeric => match self.below(16) {
                0 => "NaN".to_owned(),
                1 => format!("{}{}.5", 1 + self.below(9), "0123456789".repeat(4)),
                2 => format!("0.{}{}", "0".repeat(self.below(40) as usize), 1 + self.below(99)),
                _ => format!("{}.{:02}", self.below(20), self.below(100)),
            },
            Float => format!("{}.{}", self.below(9), self.chance.one(&["0", "25", "5"])),
            Text | Char => self.chance.one(&["x", "y", "xy", "xyz", "", "Y", "x ", "7"]).to_owned(),
            Bool => self.chance.one(&["true", "false"]).to_owned(),
            Date => format!("2024-0{}-{}", 1 + self.below(3), 27 + self.below(3)),
            Json => self.chance.one(&JSONS).to_owned(),
            Span => self.chance.one(&SPANS).to_owned(),
            // Clocks change on some of these days in the zone of the sessions.
            Time => format!(
                "2024-{} {:02}:30:0{}",
                self.chance.one(&["02-27", "02-28", "02-29", "03-10", "11-03"]),
                self.below(24),
                self.below(6)
            ),
        }
    }

    /// A constant, written out or as a parameter.
    pub(crate) fn constant(&mut self, kind: Kind) -> String {
        let value = self.value(kind);
        if self.chance.once_in(2)
            && let Some(params) = &mut self.params
        {
            params.push(value);
            return format!("${}", params.len());
        }
        match kind {
            Numeric if value == "NaN" => format!("'{value}'::numeric"),
            Int | Numeric | Bool => value,
            Float => format!("'{value}'::float8"),
            Text | Char => format!("'{value}'"),
            Json => format!("'{value}'::jsonb"),
            Span => format!("interval '{value}'"),
            Date => format!("date '{value}'"),
            Time => format!("timestamp '{value}'"),
        }
    }

    /// An integer for a key.
    pub(crate) fn key(&mut self) -> String {
        let key = self.below(12).to_string();
        if self.chance.once_in(2)
            && let Some(params) = &mut self.params
        {
            params.push(key);
            return format!("${}", params.len());
        }
        key
    }

    fn leaf(&mut self, kind: Kind) -> String {
        if self.chance.once_in(4) { None } else { self.column(kind) }
            .unwrap_or_else(|| self.typed_constant(kind))
    }

    /// A constant with an explicit type, if nothing else could determine it.
    fn typed_constant(&mut self, kind: Kind) -> String {
        let constant = self.constant(kind);
        if !constant.starts_with('$') {
            return constant;
        }
        let name = match kind {
            Int => "int",
            Numeric => "numeric",
            Float => "float8",
            Text => "text",
            Char => "char(6)",
            Bool => "bool",
            Date => "date",
            Time => "timestamp",
            Json => "jsonb",
            Span => "interval",
        };
        format!("{constant}::{name}")
    }

    /// An expression of this kind.
    pub(crate) fn expression(&mut self, kind: Kind, depth: u32) -> String {
        if depth == 0 || kind == Char {
            return self.leaf(kind);
        }
        if self.chance.once_in(4) {
            return self.of_any(kind, depth);
        }
        match kind {
            Int => self.int(depth),
            Numeric => self.numeric(depth),
            Float => self.float(depth),
            Text => self.text(depth),
            Char => unreachable!("it is a leaf"),
            Bool => self.condition(depth - 1),
            Date => self.date(depth),
            Json => self.json(depth),
            Span => self.span(depth),
            Time => match self.below(9) {
                5 => {
                    let sign = self.chance.one(&["+", "-"]);
                    format!("({} {sign} {})", self.expression(Time, depth - 1), self.leaf(Span))
                }
                6 => {
                    format!("(({}::timestamptz + {})::timestamp)", self.leaf(Time), self.leaf(Span))
                }
                1 => format!(
                    "date_trunc('{}', {})",
                    self.chance.one(&["hour", "day", "week", "month", "quarter", "century"]),
                    self.expression(Time, depth - 1)
                ),
                2 => format!(
                    "({} at time zone '{}' at time zone '{}')",
                    self.leaf(Time),
                    self.chance.one(&ZONES),
                    self.chance.one(&ZONES)
                ),
                3 => format!("({}::timestamptz::timestamp)", self.expression(Time, depth - 1)),
                4 => format!(
                    "(date_trunc('day', {}::timestamptz, '{}')::timestamp)",
                    self.leaf(Time),
                    self.chance.one(&ZONES)
                ),
                0 => format!("({}::timestamp)", self.expression(Date, depth - 1)),
                8 => {
                    let digits = self.below(4);
                    format!("({}::timestamp({digits}))", self.expression(Time, depth - 1))
                }
                _ => self.of_any(Time, depth),
            },
        }
    }

    /// An expression whose equal values have equal texts, unlike 1.0 and 1.00.
    pub(crate) fn settled(&mut self, kind: Kind, depth: u32) -> String {
        let value = self.expression(kind, depth);
        match kind {
            Numeric => format!("round({value}, 4)"),
            Json | Span => format!("({value}::text)"),
            _ => value,
        }
    }

    /// Expressions that exist for all types.
    fn of_any(&mut self, kind: Kind, depth: u32) -> String {
        let (a, b) = (self.expression(kind, depth - 1), self.expression(kind, depth - 1));
        match self.below(6) {
            0 => format!("coalesce({a}, {b})"),
            1 => format!("nullif({a}, {b})"),
            2 => format!("greatest({a}, {b})"),
            3 => format!("least({a}, {b})"),
            _ => format!("(case when {} then {a} else {b} end)", self.condition(depth - 1)),
        }
    }

    fn int(&mut self, depth: u32) -> String {
        let a = self.expression(Int, depth - 1);
        match self.below(11) {
            0 => format!("abs({a})"),
            // The order in which several conditions are evaluated is undefined, and so is an error
            // of one of them. Hence there is no division by zero.
            1 => format!("({a} / {})", 1 + self.below(9)),
            2 => format!("({a} % {})", 1 + self.below(9)),
            3 => format!("({a} * {})", self.below(9)),
            4 => format!("length({})", self.expression(Text, depth - 1)),
            5 => format!("position('y' in {})", self.expression(Text, depth - 1)),
            6 => format!("({} - {})", self.leaf(Date), self.leaf(Date)),
            7 => format!("(- {a})"),
            8 => format!(
                "extract({} from {})::int",
                self.chance.one(&[
                    "day", "month", "hour", "dow", "isodow", "doy", "week", "isoyear", "quarter",
                    "century"
                ]),
                self.leaf(Time)
            ),
            _ => format!(
                "({a} {} {})",
                self.chance.one(&["+", "-"]),
                self.expression(Int, depth - 1)
            ),
        }
    }

    fn numeric(&mut self, depth: u32) -> String {
        let a = self.expression(Numeric, depth - 1);
        match self.below(15) {
            9 => format!("sqrt(abs({a}))"),
            10 => format!("trim_scale({a})"),
            11 => format!("gcd({}, {})", self.leaf(Numeric), self.leaf(Numeric)),
            12 => format!("({} ^ {})", self.leaf(Numeric), self.below(4)),
            13 => format!("ln(abs({}) + 1)", self.leaf(Numeric)),
            14 => format!("div({}, {}.5)", self.leaf(Numeric), 1 + self.below(9)),
            // PostgreSQL refuses a constant that fits no column before it looks for rows.
            7 => format!(
                "(extract({} from {}{}) % 1000)",
                self.chance.one(&["epoch", "second", "milliseconds"]),
                self.leaf(Time),
                self.chance.one(&["", "::timestamptz"])
            ),
            0 => format!(
                "{}({a}, {})",
                self.chance.one(&["round", "trunc"]),
                self.below(5) as i64 - 2
            ),
            1 => format!("abs({a})"),
            2 => format!("({} / {}.0)", self.leaf(Numeric), 1 + self.below(9)),
            3 => format!("floor({a})"),
            4 => format!("({a} * {})", self.leaf(Int)),
            5 => format!("({}::numeric)", self.leaf(Int)),
            6 => format!("trunc({a})"),
            _ => format!(
                "({a} {} {})",
                self.chance.one(&["+", "-"]),
                self.expression(Numeric, depth - 1)
            ),
        }
    }

    fn float(&mut self, depth: u32) -> String {
        let a = self.expression(Float, depth - 1);
        match self.below(4) {
            0 => format!("({a} * 2)"),
            1 => format!("({}::float8)", self.leaf(Int)),
            2 => format!("abs({a})"),
            _ => format!("({a} + {})", self.leaf(Float)),
        }
    }

    fn text(&mut self, depth: u32) -> String {
        let a = self.expression(Text, depth - 1);
        match self.below(20) {
            17 => format!("substring({a} from '{}')", self.chance.one(&REGEXES)),
            18 => format!("regexp_replace({a}, '{}', '<\\1>', 'g')", self.chance.one(&REGEXES)),
            19 => format!("(regexp_match({a}, '{}')::text)", self.chance.one(&REGEXES)),
            13 => format!("({}::timestamptz::text)", self.expression(Time, depth - 1)),
            14 => format!(
                "to_char({}, '{}')",
                self.expression(Time, depth - 1),
                self.chance.one(&PATTERNS)
            ),
            11 => format!("concat({a}, {})", self.leaf(Char)),
            12 => format!("({} || {a})", self.leaf(Char)),
            0 => format!("({a} || {})", self.expression(Text, depth - 1)),
            1 => format!("upper({a})"),
            2 => format!("substr({a}, {}, {})", 1 + self.below(3), self.below(3)),
            3 => format!("replace({a}, 'x', 'zz')"),
            4 => format!("concat({a}, {})", self.leaf(Int)),
            5 => format!("trim({a})"),
            6 => format!("left({a}, {})", self.below(3)),
            7 => format!("lpad({a}, {}, 'ab')", self.below(5)),
            8 => format!("({}::text)", self.leaf(Int)),
            9 => format!("({}::text)", self.leaf(Numeric)),
            10 => {
                let kind = self.chance.one(&[Date, Bool, Float, Time, Char]);
                format!("({}::text)", self.leaf(kind))
            }
            15 => {
                let key = self.chance.one(&KEYS);
                format!("({} ->> {key})", self.expression(Json, depth - 1))
            }
            _ => format!("({a} || {})", self.leaf(Int)),
        }
    }

    fn json(&mut self, depth: u32) -> String {
        let a = self.expression(Json, depth - 1);
        let (key, path) = (self.chance.one(&KEYS), self.chance.one(&PATHS));
        let kind = self.chance.one(&[Int, Numeric, Text, Bool, Date, Time]);
        match self.below(12) {
            0 | 1 => format!("({a} -> {key})"),
            2 => format!("({a} #> '{path}')"),
            3 => format!("({a} || {})", self.leaf(Json)),
            4 => format!("jsonb_build_object('k', {a}, 'v', {})", self.leaf(kind)),
            5 => format!("jsonb_build_array({a}, {})", self.leaf(kind)),
            6 => format!("to_jsonb({})", self.leaf(kind)),
            7 => format!("jsonb_strip_nulls({a})"),
            // Other values than objects and arrays are refused.
            8 => format!("(jsonb_build_array({a}) #- '{path}')"),
            9 => {
                let flag = self.chance.one(&["true", "false"]);
                format!(
                    "jsonb_set(jsonb_build_array({a}), '{{-1,a}}', {}, {flag})",
                    self.leaf(Json)
                )
            }
            10 => format!("(jsonb_build_object('a', {a}) - '{}')", self.chance.one(&["a", "b"])),
            _ => self.of_any(Json, depth),
        }
    }

    fn span(&mut self, depth: u32) -> String {
        let a = self.expression(Span, depth - 1);
        match self.below(9) {
            0 => format!("({} - {})", self.leaf(Time), self.expression(Time, depth - 1)),
            1 => format!("age({}, {})", self.leaf(Time), self.leaf(Time)),
            2 => format!("({a} {} {})", self.chance.one(&["+", "-"]), self.leaf(Span)),
            3 => format!("({a} * {})", self.chance.one(&["2", "0.5", "-3"])),
            4 => format!("({a} / {})", 1 + self.below(7)),
            5 => {
                let what = self.chance.one(&["days", "hours", "interval"]);
                format!("justify_{what}({a})")
            }
            6 => format!("date_trunc('{}', {a})", self.chance.one(&["month", "day", "hour"])),
            7 => format!("(- {a})"),
            _ => self.of_any(Span, depth),
        }
    }

    fn date(&mut self, depth: u32) -> String {
        match self.below(3) {
            0 => format!("({} + {})", self.expression(Date, depth - 1), self.below(40)),
            1 => format!("({}::date)", self.leaf(Time)),
            _ => self.of_any(Date, depth),
        }
    }

    /// A Boolean expression, which may be NULL.
    pub(crate) fn condition(&mut self, depth: u32) -> String {
        if depth > 0 && self.chance.once_in(2) {
            let (left, right) = (self.condition(depth - 1), self.condition(depth - 1));
            let with = self.chance.one(&["and", "or", "and not"]);
            return format!("({left} {with} {right})");
        }
        let kind = self.chance.one(&KINDS);
        let a = self.leaf(kind);
        match self.below(12) {
            0 => format!("{a} is {} null", self.chance.one(&["not", ""])),
            1 => format!(
                "{a} is {} distinct from {}",
                self.chance.one(&["not", ""]),
                self.leaf(kind)
            ),
            2 => format!("{a} in ({}, {})", self.constant(kind), self.constant(kind)),
            3 => format!("{a} not in ({}, null)", self.constant(kind)),
            4 if kind != Bool => {
                format!("{a} between {} and {}", self.constant(kind), self.constant(kind))
            }
            5 => format!(
                "{} {} '{}'",
                match self.chance.one(&[Text, Text, Char]) {
                    Char => self.column(Char).unwrap_or_else(|| self.leaf(Text)),
                    kind => self.leaf(kind),
                },
                self.chance.one(&["like", "not like", "ilike"]),
                self.chance.one(&["x%", "%y", "_y%", "", "X_"])
            ),
            6 => {
                let mixed = self.chance.one(&[Int, Numeric, Float]);
                format!(
                    "{} {} {}",
                    self.leaf(Int),
                    self.chance.one(&["<", "=", ">="]),
                    self.leaf(mixed)
                )
            }
            10 => format!(
                "{} {} {}",
                self.leaf(Json),
                self.chance.one(&["@>", "<@"]),
                self.leaf(Json)
            ),
            11 => format!("{} ? 'a'", self.leaf(Json)),
            7 => self.column(Bool).map_or_else(
                || "true".to_owned(),
                |q| format!("{q} {}", self.chance.one(&["", "is true", "is not true", "is false"])),
            ),
            _ => {
                let than = self.chance.one(&["<", "<=", ">", ">=", "=", "<>"]);
                format!("{a} {than} {}", self.constant(kind))
            }
        }
    }
}
