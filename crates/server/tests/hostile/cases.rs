//! The list of cases. A family is a statement with a size in it, written `N`, or with a part that
//! is repeated `N` times.

/// An action of a hostile client.
pub(crate) enum Act {
    Statement(String),
    /// A statement that follows another in a block.
    InBlock(&'static str, String),
    /// Messages of the extended protocol, before a Sync.
    Messages(Vec<(u8, Vec<u8>)>),
    /// Any bytes, which may cost the connection.
    Bytes(Vec<u8>),
    /// Announces long messages and sends a part of each.
    HalfSent {
        clients: usize,
        length: usize,
        sent: usize,
    },
    /// Lines for a COPY.
    CopyIn {
        statement: &'static str,
        line: Vec<u8>,
        times: usize,
    },
}

impl Act {
    /// The bytes to send.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Act::Statement(text) | Act::InBlock(_, text) => text.len(),
            Act::Messages(messages) => messages.iter().map(|(_, body)| body.len()).sum(),
            Act::Bytes(bytes) => bytes.len(),
            Act::HalfSent { .. } => 0,
            Act::CopyIn { line, .. } => line.len(),
        }
    }

    /// True if the server may end the session.
    pub(crate) fn may_end(&self) -> bool {
        matches!(self, Act::Bytes(_))
    }
}

pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) act: Act,
}

/// Functions over long texts, casts of them, patterns.
const TEXTS: &[&str] = &[
    "select length(replace(repeat('a', 100000), 'a', repeat('b', 1000000)))",
    "select length(replace(repeat('a', N), 'a', 'bb'))",
    "select length(replace(repeat('a', N), 'b', repeat('c', N)))",
    "select repeat('x', N)",
    "select repeat('x', 1000000000)",
    "select repeat('x', 2147483647)",
    "select repeat('x', -1)",
    "select nextval(repeat('x', N))",
    "select setval(repeat('\"', N), 5), currval(repeat('x', N))",
    "select quote_ident(repeat('\"', N))",
    "select quote_literal(repeat('\\', N))",
    "select repeat(repeat('x', 1000000), 1000000)",
    "select repeat('x', N) from generate_series(1, 1000)",
    "select length(repeat('x', N)) from generate_series(1, 1000)",
    "select repeat('x', N), repeat('y', N), repeat('z', N), repeat('x', N)",
    "select length(repeat('x', N) || repeat('y', N) || repeat('z', N) || repeat('x', N))",
    "select length(concat(repeat('x', N), repeat('y', N), repeat('z', N), repeat('x', N)))",
    "select length(concat_ws(repeat('-', N), 'a', 'b', 'c', 'd', 'e', 'f', 'g'))",
    "select length(concat_ws(',', repeat('x', N), repeat('y', N), repeat('z', N)))",
    "select length(lpad('x', N)), length(rpad('x', N))",
    "select length(lpad('x', 1000000000)), length(rpad('x', 2147483647))",
    "select length(lpad('x', N, 'ü')), length(rpad('x', N, repeat('ü', 100000)))",
    "select length(upper(repeat('ß', N)))",
    "select length(lower(repeat('İ', N)))",
    "select length(upper(repeat('ΐ', N)))",
    "select length(reverse(repeat('ab', N)))",
    "select length(substr(repeat('ä', N), 5)), length(substring(repeat('a', N), 1, 1000000000))",
    "select length(left(repeat('x', N), -1)), length(right(repeat('x', N), 1000000000))",
    "select length(left('x', -2147483648)), length(right('x', 2147483647))",
    "select length(btrim(repeat('x', N), repeat('yx', N)))",
    "select length(ltrim(repeat('x', N), repeat('y', N) || 'x'))",
    "select length(trim(repeat(' ', N)))",
    "select position(repeat('a', 10000) || 'b' in repeat('a', N))",
    "select strpos(repeat('ab', N), repeat('ba', N))",
    "select starts_with(repeat('a', N), repeat('a', N))",
    "select length(string_agg(repeat('x', 100000), ',')) from generate_series(1, N)",
    "select length(string_agg(n::text, ',')) from generate_series(1, 100000000) n",
    "select max(repeat('x', 100000) || n) from generate_series(1, N) n",
    "select min(repeat('x', N)), max(repeat('x', N)) from generate_series(1, 100)",
    "select count(distinct repeat('x', 10000) || n) from generate_series(1, N) n",
    "select length(array_to_string(array(select repeat('x', 1000) from generate_series(1, N)), ','))",
    "select array(select n from generate_series(1, 100000000) n)",
    "select array(select repeat('\"', 100000) from generate_series(1, N))",
    "select array_length(('{' || repeat('1,', N) || '1}')::int[], 1)",
    "select 7 = any (('{' || repeat('1,', N) || '1}')::int[])",
    "select id from t where id = any (('{' || repeat('1,', N) || '1}')::int[])",
    "select count(*) from unnest(('{' || repeat('1,', N) || '1}')::int[]) x",
    "select (('{' || repeat('1,', N) || '1}')::int[])[1]",
    "select ('{' || repeat('{', N) || '1}')::int[]",
    "select ('{' || repeat('\"', N) || '1}')::text[]",
    "select length(array_to_string(('{' || repeat('a,', N) || 'b}')::text[], repeat('-', 1000)))",
    "select length(repeat('ab', N)::bytea)",
    "select repeat('ab', N)::bytea",
    "select ('\\x' || repeat('ab', N))::bytea",
    "select length(('\\x' || repeat('ab', N))::bytea::text)",
    "select repeat('9', N)::int",
    "select repeat('9', N)::bigint",
    "select repeat('9', N)::numeric",
    "select ('0.' || repeat('0', N) || '1')::numeric",
    "select repeat('9', N)::float8",
    "select ('1e' || repeat('9', N))::float8",
    "select ('1e' || repeat('9', N))::numeric",
    "select repeat('a', N)::uuid",
    "select repeat('2', N)::date",
    "select ('2000-01-01 ' || repeat('1', N))::timestamp",
    "select ('2000-01-01 00:00:00.' || repeat('1', N))::timestamptz",
    "select repeat('t', N)::bool",
    "select length(repeat('x', N)::varchar(10)), length(repeat('x', N)::char(5))",
    "select 'x'::char(100000000)",
    "select length('x'::char(10000000)::text || 'y')",
    "select repeat('x', N)::regclass",
    "select to_regclass(repeat('x', N))",
    "select current_setting(repeat('x', N))",
    "select date_part(repeat('x', N), now())",
    "select pg_typeof(repeat('x', N))",
    "select coalesce(null, repeat('x', N)), nullif(repeat('x', N), 'y')",
    "select length(greatest(repeat('x', N), repeat('y', N), repeat('z', N)))",
    "select repeat('a', N) ~ '(a*)*b'",
    "select repeat('a', N) ~ '(a|a)*(a|a)*(a|a)*b'",
    "select repeat('a', N) ~ '^(a+)+$'",
    "select repeat('a', N) ~ '(.*)(.*)(.*)(.*)(.*)[^a]'",
    "select repeat('a', 1000) ~ repeat('a?', N)",
    "select repeat('a', 1000) ~ (repeat('(', 1000) || 'a' || repeat(')', 1000))",
    "select repeat('a', N) ~ repeat('a', 5000)",
    "select repeat('a', N) ~* ('(' || repeat('a|', 3000) || 'b)*c')",
    "select 'a' ~ repeat('[', N)",
    "select 'a' ~ repeat('a*', N)",
    "select 'a' ~ repeat('*', N)",
    "select 'a' ~ ('a' || repeat('*', 9000))",
    "select 'a' ~ repeat('a|', 4000)",
    "select repeat('a', N) like (repeat('%a', 5000) || 'b')",
    "select repeat('a', N) like ('%' || repeat('a', 100000) || 'b%')",
    "select repeat('a', N) like repeat('_', N)",
    "select repeat('a', N) like repeat('%', N)",
    "select repeat('ä', N) ilike (repeat('%Ä', 1000) || 'b')",
    "select repeat('\\', N) like repeat('\\\\', N)",
    "select count(*) from generate_series(1, 1000) where repeat('a', N) like '%b%'",
    "select length(repeat('x', N)) from t order by repeat(v, 10000)",
    "select v from t group by v having length(repeat('x', N)) > 0",
    "select case when length(repeat('x', N)) > 0 then repeat('y', N) end from t",
    "select (select repeat('x', N)) || (select repeat('y', N)) from t",
    "select repeat('x', N) = repeat('x', N) and repeat('y', N) < repeat('z', N)",
    "select repeat('x', N) in (repeat('y', N), repeat('z', N), repeat('x', N))",
    "select array(select repeat('x', 100000) from t a, t b)",
];

/// Numbers and dates: large ones, and the limits of their types.
const NUMBERS: &[&str] = &[
    "select 10 ^ 100000",
    "select power(10, 100000)",
    "select power(10::numeric, 64)",
    "select power(1.000000001::numeric, 64)",
    "select power(2::numeric, 2147483647)",
    "select exp(100000), exp(-100000)",
    "select ln(0)",
    "select sqrt(-1)",
    "select 1.0 / 3.0 / 7.0 / 11.0 / 13.0 / 17.0 / 19.0",
    "select 1 / 0",
    "select 1 % 0",
    "select 1.0 / 0.0",
    "select (-2147483648)::int / -1",
    "select abs((-2147483648)::int)",
    "select abs((-32768)::smallint)",
    "select abs((-9223372036854775808)::bigint)",
    "select -((-9223372036854775808)::bigint)",
    "select (-9223372036854775808)::bigint % -1",
    "select (-9223372036854775808)::bigint / -1",
    "select 9223372036854775807 + 1",
    "select 9223372036854775807 * 9223372036854775807",
    "select 99999999999999999999999999999999999999 + 1",
    "select 99999999999999999999999999999999999999 * 10.5",
    "select -99999999999999999999999999999999999999 - 99999999999999999999999999999999999999",
    "select 0.00000000000000000000000000000000000001 * 0.00000000000000000000000000000000000001",
    "select 0.00000000000000000000000000000000000001 / 99999999999999999999999999999999999999",
    "select 99999999999999999999999999999999999999 / 0.00000000000000000000000000000000000001",
    "select 99999999999999999999999999999999999999 % 0.00000000000000000000000000000000000001",
    "select floor(0.00000000000000000000000000000000000001), ceil(-0.99999999999999999999999999999999999999)",
    "select round(99999999999999999999999999999999999999.0, 38)",
    "select round(1.5, 2147483647), trunc(1.5, -2147483648)",
    "select (-170141183460469231731687303715884105728)::numeric",
    "select abs(-170141183460469231731687303715884105728)",
    "select 170141183460469231731687303715884105727 = 170141183460469231731687303715884105727.0",
    "select 1e400",
    "select 1e38::numeric, 1e39::numeric",
    "select 1e308::float8 * 10",
    "select 'NaN'::float8::int, 'inf'::float8::bigint",
    "select 1e300::float8::numeric",
    "select 1e10::float8::int",
    "select 'infinity'::float8 - 'infinity'::float8",
    "select date '9999-12-31' + 2147483647",
    "select date '0001-01-01' - 2147483647",
    "select (date '0001-01-01' - 2147483647)::text",
    "select (date '9999-12-31' + 2147483647)::timestamp",
    "select extract(year from date '9999-12-31' + 2147483647)",
    "select extract(epoch from (date '9999-12-31' + 2147483647)::timestamp)",
    "select sum(n::bigint * 4611686018427387904) from generate_series(1, 10) n",
    "select sum(n) from generate_series(9223372036854775000, 9223372036854775807) n",
    "select avg(n::numeric * 1e30) from generate_series(1, 1000000) n",
    "select count(*) from generate_series(1, 9223372036854775807)",
    "select count(*) from generate_series(-9223372036854775808, 9223372036854775807, 9223372036854775807)",
    "select * from generate_series(1, 10, 0)",
    "select count(*) from (select distinct n + 9000000000000000000 from generate_series(1, 200000) n) x",
    "select 1 limit -1",
    "select 1 limit 9223372036854775807 offset 9223372036854775807",
    "select 1 offset 99999999999999999999",
    "select 1 limit 1e30",
    "select id from t limit null offset null",
    "select (array[1,2,3])[2147483647], (array[1,2,3])[-2147483648]",
    "select pg_sleep(1e300)",
    "select pg_sleep(-1)",
    "select pg_sleep('NaN')",
    "select format_type(-1, -1), format_type(2147483647, 2147483647)",
    "select pg_get_indexdef(2147483647), pg_get_constraintdef(-1)",
    "select nextval('nothing'), nextval('')",
    "select 1::numeric(38, 38), 1::numeric(1, 0)",
    "select 1::numeric(1000, 1000)",
    "select 'x'::varchar(0), 'x'::char(2147483647)",
    "select timestamp '9999-12-31 23:59:59.999999'::date::timestamptz",
];

/// Rows: many, wide, sorted, joined, and scanned repeatedly.
const ROWS: &[&str] = &[
    "select count(*) from generate_series(1, N) a, generate_series(1, N) b",
    "select count(*) from generate_series(1, N) a, generate_series(1, N) b where a = b",
    "select count(*) from generate_series(1, N) a left join generate_series(1, N) b on a = b",
    "select count(*) from generate_series(1, N) a full join generate_series(1, N) b on a = b",
    "select count(*) from generate_series(1, N) a join generate_series(1, N) b on a < b",
    "select n from generate_series(1, N) n order by n desc",
    "select n::text from generate_series(1, N) n order by 1",
    "select a, b from generate_series(1, N) a, generate_series(1, 1000) b order by b, a desc",
    "select a from generate_series(1, N) a order by random()",
    "select a from generate_series(1, N) a order by a % 2, a limit 10000 offset 9000",
    "select n, count(*) from generate_series(1, N) n group by n",
    "select n % 10, count(distinct n) from generate_series(1, N) n group by 1",
    "select n, max(repeat('x', 100)) from generate_series(1, N) n group by n order by 2, 1",
    "select distinct n from generate_series(1, N) n",
    "select distinct on (n % 100000) n from generate_series(1, N) n",
    "select n from generate_series(1, N) n union select -n from generate_series(1, N) n",
    "select count(*) from (select n from generate_series(1, N) n union all select 1) x",
    "select (select count(*) from generate_series(1, N)) from generate_series(1, N)",
    "select (select max(b) from generate_series(1, 1000) b where b < a) from generate_series(1, N) a",
    "select (select b from generate_series(1, 1000) b order by b limit 1) from generate_series(1, N)",
    "select count(*) from generate_series(1, N) a where a in (select b from generate_series(1, N) b)",
    "select count(*) from generate_series(1, N) a where not exists (select 1 from generate_series(1, N) b where b = -a)",
    "select count(*) from generate_series(1, N) a where exists (select 1 from (select repeat('x', 1000) || n as x from generate_series(1, N) n) b where b.x = 'y' || a)",
    "select count(*) from generate_series(1, N) a where a::text in (select repeat('x', 1000) || n from generate_series(1, N) n)",
    "select (select count(*) from t where t.v < repeat('x', 1000) || a) from generate_series(1, N) a",
    "with x as (select repeat('x', 1000) || n as v from generate_series(1, N) n) select count(*) from x where v in (select v from x)",
    "select n from generate_series(1, N) n intersect select -n from generate_series(1, N) n",
    "select n from generate_series(1, N) n except all select -n from generate_series(1, N) n",
    "insert into t select id + N, repeat('x', 10000), n from t, generate_series(1, N)",
    "update t set v = repeat((select max(v) from t), 1000000)",
    "select count(*) from generate_series(1, N) a where a = any (array(select b from generate_series(1, N) b))",
    "select array(select b from generate_series(1, 1000) b) from generate_series(1, N)",
    "select * from t a, t b, t c, t d order by a.id, b.id, c.id, d.id",
    "select count(*) from t a, t b, t c, t d where a.v || b.v || c.v || d.v like '%z%'",
    "select a.v, sum(b.n) from t a, t b, t c group by a.v, b.v, c.v",
    "select count(*) from u a join u b on a.w = b.w join u c on b.w = c.w",
    "select max(a.w || b.w || c.w) from u a, u b, u c",
    "with x as (select n from generate_series(1, N) n) select count(*) from x a, x b, x c",
    "values (1), (2) union all select n from generate_series(1, N) n order by 1",
    "select count(*) from pg_attribute a, pg_attribute b, pg_attribute c, pg_attribute d",
    "select * from pg_catalog.pg_class a, pg_catalog.pg_class b, pg_get_keywords() c, pg_get_keywords() d",
    "select pg_get_indexdef(c.oid) from pg_class c, generate_series(1, N)",
    "select * from information_schema.columns a, information_schema.columns b, information_schema.columns c",
    "insert into w select n from generate_series(1, 100000000) n",
    "insert into u select n, repeat('x', 100000) from generate_series(1, N) n",
    "insert into t select n, 'x', n from generate_series(1, N) n on conflict (id) do update set v = excluded.v || t.v",
    "insert into t select 1, 'x', n from generate_series(1, N) n on conflict (id) do nothing",
    "insert into t select n + 5000, repeat('y', 100000), n from generate_series(1, N) n returning *",
    "update t set v = repeat('x', 1000000)",
    "update t set v = repeat(v, 100000) where id < 100",
    "update t set v = v || b.w from u b, u c where t.id = b.id",
    "update t set id = id + 1",
    "delete from t using t b, t c where t.id < b.id",
    "delete from t using generate_series(1, N) g where t.id = g",
    "select * from t order by v for update",
    "copy (select n from generate_series(1, 100000000) n) to stdout",
    "copy (select repeat('\\', N)) to stdout",
    "explain select count(*) from t a, t b, t c",
    "create table big (a text default repeat('x', N)); insert into big default values; drop table big",
];

/// Statements with a nested part: the beginning, the opening part, the middle, and the closing
/// part, which is repeated like the opening one.
const NESTED: &[(&str, &str, &str, &str)] = &[
    ("select ", "(", "1", ")"),
    ("select ", "((1) + ", "1", ")"),
    ("select ", "- ", "1", ""),
    ("select ", "not ", "true", ""),
    ("select ", "+", "1", ""),
    ("select ", "array[", "1", "]"),
    ("select ", "case when true then ", "1", " end"),
    ("select ", "case 1 when 1 then ", "1", " else 2 end"),
    ("select ", "coalesce(1, ", "1", ")"),
    ("select ", "abs(", "1", ")"),
    ("select ", "concat('a', ", "'b'", ")"),
    ("select ", "cast(", "1", " as int)"),
    ("select ", "(select ", "1", ")"),
    ("select 1 where ", "exists (select 1 where ", "true", ")"),
    ("select 1 where 1 in ", "(select 1 where 1 in ", "(1)", ")"),
    (
        "select 1 from t where ",
        "exists (select 1 from (select id as k from t) a where a.k = id and ",
        "true",
        ")",
    ),
    (
        "select 1 from t where n = ",
        "(select max(k) from (select id as k from t) a where a.k = n and k = ",
        "1",
        ")",
    ),
    ("select 1 from ", "(select 1 from ", "t", ") x"),
    ("", "(", "select 1", ")"),
    ("", "(select 1 union ", "select 1", ")"),
    ("", "explain ", "select 1", ""),
    ("", "with a as (", "select 1", ") select * from a"),
    ("", "prepare p as ", "select 1", ""),
    ("select * from ", "(", "t", ")"),
    ("select 1", " + 1", "", ""),
    ("select 1", " + mod(3, 2)", "", ""),
    ("select 'a'", " || 'b'", "", ""),
    ("select true", " and true", "", ""),
    ("select true", " or false", "", ""),
    ("select 1", "::int", "", ""),
    ("select 1", "::int::text", "", ""),
    ("select true", "::text::bool", "", ""),
    ("select 'a'", " collate \"C\"", "", ""),
    ("select now()", " at time zone 'UTC'", "", ""),
    ("select 1", " is null", "", ""),
    ("select true", " is true", "", ""),
    ("select 'a'", " like 'a'", "", ""),
    ("select 1", " operator(pg_catalog.+) 1", "", ""),
    ("select a", ".a", "", ""),
    ("select a", "[1]", "", ""),
    ("select 1::int", "[]", "", ""),
    ("select true", " between false and true", "", ""),
    ("select ", "(", "true", " between false and true)"),
    ("select ", "(", "1", " in (1, 2)) = true"),
    ("select ", "(", "true", ")::text::bool"),
    ("select 1", " union select 1", "", ""),
    ("select 1", " union all select 1", "", ""),
    ("select 1", " intersect select 1", "", ""),
    ("select 1", " except select 1", "", ""),
    ("select * from t", " natural join t", "", ""),
    ("select * from t", " left join u on true", "", ""),
    ("select 1 where true", " and exists (select 1 from t)", "", ""),
    ("select interval ", "interval ", "'1'", ""),
    ("select exists", "(select exists", "(select 1)", ")"),
    ("select max", "(max", "(1)", ")"),
    ("select f", "(f", "(1)", ")"),
    ("select row", "(row", "(1)", ")"),
    ("select ", "substring(", "'a'", " from 1)"),
    ("select ", "trim(", "'a'", ")"),
    ("select ", "position('a' in ", "'a'", "::text)::text"),
    ("select 1 = any ", "(array[1 = any ", "(array[1])", "])"),
    ("select ", "x'", "", ""),
    ("select ", "\"", "", ""),
    ("select ", "$", "", ""),
    ("select ", "/*", "", "*/"),
    ("select ", "{", "", "}"),
];

/// Statements with a long list: the beginning, the items (with `#` for their numbers), the
/// separator, and the end.
const LISTS: &[(&str, &str, &str, &str)] = &[
    ("select 1 in (", "#", ", ", ")"),
    ("select id from t where id in (", "#", ", ", ")"),
    ("select id from t where v in (", "'#'", ", ", ")"),
    ("select id from t where (id, n) in (", "(#, #)", ", ", ")"),
    ("select id from t where id = any (array[", "#", ", ", "])"),
    ("select id from t where ", "id = #", " or ", ""),
    ("select id from t where ", "(id = # or n = #)", " and ", ""),
    ("select id from t where ", "(id + 0 = # or n + 0 = # or v = '#')", " and ", ""),
    ("select id from t where ", "id <> #", " and ", ""),
    ("select id from t where ", "id in (1, 2, 3, 4, 5, 6, 7, #)", " and ", ""),
    ("values ", "(#)", ", ", ""),
    ("values ", "(#, 'a', null, # + 1)", ", ", ""),
    ("insert into w values ", "(-#)", ", ", ""),
    ("insert into t (id) values ", "(default)", ", ", ""),
    ("select ", "#", ", ", ""),
    ("select ", "v", ", ", " from t"),
    ("select ", "*", ", ", " from t"),
    ("select ", "repeat('x', #)", ", ", ""),
    ("select ", "sum(n + #)", ", ", " from t"),
    ("select ", "count(*) filter (where n = #)", ", ", " from t"),
    ("select ", "(select # from t limit 1)", ", ", ""),
    ("select ", "$#", ", ", ""),
    ("select count(*) from t group by ", "n + #", ", ", ""),
    ("select n from t order by ", "n + #", ", ", ""),
    ("select distinct on (", "n + #", ", ", ") n from t"),
    ("select count(*) from ", "generate_series(1, 2) s#", ", ", ""),
    ("select count(*) from ", "t t#", ", ", ""),
    ("select count(*) from t ", "join t t# on t#.id = t.id", " ", ""),
    ("select count(*) from t ", "left join t t# on t#.id = t.n", " ", ""),
    ("select count(*) from t ", "join u u# using (id)", " ", ""),
    ("select count(*) from t ", "cross join t t#", " ", ""),
    ("select 1 from ", "(select # as c#) x#", ", ", ""),
    ("select 1 from ", "(values (#)) x#", ", ", ""),
    ("with ", "c# as (select #)", ", ", " select 1"),
    ("with c0 as (select 1), ", "c# as (select * from c0 a, c0 b)", ", ", " select 1 from c1"),
    ("create table many (", "c# int", ", ", ")"),
    ("create table many (", "c# int unique", ", ", ")"),
    ("create table many (c int, ", "check (c > #)", ", ", ")"),
    ("create table many (c int, ", "unique (c)", ", ", ")"),
    ("create table many (c int, primary key (", "c#", ", ", "))"),
    ("create index on t (", "v", ", ", ")"),
    ("alter table w ", "add column c# int", ", ", ""),
    ("drop table if exists ", "nothing#", ", ", ""),
    ("update t set ", "v = '#'", ", ", ""),
    ("update t set v = case ", "when id = # then '#'", " ", " end"),
    ("select case n ", "when # then '#'", " ", " end from t"),
    ("select coalesce(", "null", ", ", ")"),
    ("select greatest(", "#", ", ", ")"),
    ("select concat(", "repeat('x', #)", ", ", ")"),
    ("select '", "quoted # ''", " ", "'"),
    ("select $$", "dollar '#", " ", "$$"),
    ("select /* ", "a comment of #", " ", " */ 1"),
    ("-- ", "a line of #", " ", "\nselect 1"),
    ("", "select #", "; ", ""),
    ("", "", "; ", ""),
    ("select 1", "", " ", ""),
    ("select 1", "", "\n", ""),
    ("select \"", "name#", "", "\""),
    ("select name", "name#", "", ""),
    ("create table ", "name#", "", " (a int)"),
    ("select 1 as ", "a#", "", ""),
    ("set x.y = '", "value#", "", "'"),
    ("set search_path = ", "a#", ", ", ""),
    ("execute p (", "#", ", ", ")"),
    ("savepoint ", "a#", "", ""),
    ("copy t (", "id", ", ", ") from stdin"),
    ("copy t from stdin (", "freeze on", ", ", ")"),
    ("truncate ", "w", ", ", ""),
];

/// Values that double in each step, so that a short text has a large result.
fn doubled(depth: usize) -> Vec<(&'static str, String)> {
    let fold = |first: &str, step: &dyn Fn(usize, String) -> String| {
        (0..depth).fold(first.to_owned(), |inner, at| step(at, inner))
    };
    let chained = |from: &dyn Fn(usize) -> String| {
        let names: Vec<String> = (1..=depth).map(|at| format!("c{at} as ({})", from(at))).collect();
        format!("with c0 as (select 1 as a), {} select count(*) from c{depth}", names.join(", "))
    };
    // An error undoes all of them.
    let views = |from: &dyn Fn(usize) -> String| {
        let more = |at| format!("create view d{at} as select x.a from {};", from(at));
        let all: Vec<String> = (1..=depth).map(more).collect();
        format!("create view d0 as select 1 as a; {} drop view d0 cascade", all.join(" "))
    };
    vec![
        ("views once", views(&|at| format!("d{} x", at - 1))),
        ("views twice", views(&|at| format!("d{0} x, d{0} y", at - 1))),
        ("names twice", chained(&|at| format!("select 1 from c{0} a, c{0} b", at - 1))),
        ("names once", chained(&|at| format!("select * from c{}", at - 1))),
        ("names wide", chained(&|at| format!("select a.*, b.* from c{0} a, c{0} b", at - 1))),
        (
            "names united",
            chained(&|at| format!("select * from c{0} union all select * from c{0}", at - 1)),
        ),
        ("itself", "with a as (select * from a) select * from a".to_owned()),
        (
            "each other",
            "with a as (select * from b), b as (select * from a) select * from a".to_owned(),
        ),
        (
            "between",
            format!(
                "select {}",
                fold("true", &|_, inner| format!("({inner} between false and true)"))
            ),
        ),
        (
            "a case of cases",
            format!(
                "select {}",
                fold("1", &|_, inner| {
                    format!("case {inner} when 1 then 1 when 2 then 2 else 3 end")
                })
            ),
        ),
        (
            "truths as texts",
            format!("select {}", fold("true", &|_, inner| format!("({inner}::text)::bool"))),
        ),
        (
            "texts",
            format!(
                "select length({})",
                fold("'ab'", &|_, inner| format!("replace({inner}, 'a', 'aa')"))
            ),
        ),
        (
            "texts in queries",
            format!(
                "select length(a) from {}",
                fold("(select 'ab'::text as a) x", &|_, inner| {
                    format!("(select a || a as a from {inner}) x")
                })
            ),
        ),
        (
            "rows",
            format!(
                "select count(*) from {}",
                fold("(select 1 as a) x", &|_, inner| {
                    format!("(select x.a from {inner}, generate_series(1, 2) y) x")
                })
            ),
        ),
        (
            "lists of lists",
            format!(
                "select id from t where {}",
                (0..depth).map(|_| "(id in (1,2) or n in (3,4))").collect::<Vec<_>>().join(" and ")
            ),
        ),
        (
            "each in the next",
            format!(
                "select {}",
                fold("1", &|_, inner| format!("(select max(id) + {inner} from t)"))
            ),
        ),
    ]
}

fn text(parts: &[&str]) -> Vec<u8> {
    parts.iter().flat_map(|part| [part.as_bytes(), b"\0"].concat()).collect()
}

fn parse(name: &str, statement: &str) -> (u8, Vec<u8>) {
    (b'P', [text(&[name, statement]), vec![0, 0]].concat())
}

/// A Bind with these values as texts, and with a declared number of formats and values.
fn bind(portal: &str, name: &str, count: u16, values: &[&[u8]]) -> (u8, Vec<u8>) {
    let mut body = text(&[portal, name]);
    body.extend([0, 0]);
    body.extend(count.to_be_bytes());
    for value in values {
        body.extend((value.len() as i32).to_be_bytes());
        body.extend(*value);
    }
    body.extend([0, 0]);
    (b'B', body)
}

fn execute(portal: &str, most: i32) -> (u8, Vec<u8>) {
    (b'E', [text(&[portal]), most.to_be_bytes().to_vec()].concat())
}

fn messages(is_all: bool) -> Vec<(&'static str, Act)> {
    let many = if is_all { 20_000 } else { 11_000 };
    let long = vec![b'x'; if is_all { 40 << 20 } else { 20 << 20 }];
    let digits = vec![b'9'; 10 << 20];
    let series = "select n, repeat('x', 100) from generate_series(1, 100000000) n";
    let quoted = format!("select '{}'", "x".repeat(200_000));
    let types = [text(&["", "select 1"]), 65_535u16.to_be_bytes().to_vec(), vec![0; 4 * 65_535]];
    let mut declared = Vec::new();
    for at in 0..many {
        declared.push(parse(&format!("s{at}"), "select 1"));
    }
    let mut portals = vec![parse("", "select $1::text")];
    for at in 0..many {
        portals.push(bind(&format!("p{at}"), "", 1, &[b"x"]));
    }
    let mut fetched = vec![parse("", series), bind("", "", 0, &[])];
    fetched.extend((0..100).map(|_| execute("", 1)));
    vec![
        (
            "a bind of too few",
            Act::Messages(vec![parse("", "select $1::int"), bind("", "", 0, &[])]),
        ),
        (
            "a bind of too many",
            Act::Messages(vec![parse("", "select 1"), bind("", "", 2, &[b"1", b"2"])]),
        ),
        (
            "a bind that lies",
            Act::Messages(vec![parse("", "select $1::int"), bind("", "", 65_535, &[b"1"])]),
        ),
        ("a bind of nothing", Act::Messages(vec![bind("", "none", 0, &[])])),
        (
            "a long parameter",
            Act::Messages(vec![
                parse("", "select $1::text"),
                bind("", "", 1, &[&long]),
                execute("", 0),
            ]),
        ),
        (
            "a long parameter, often",
            Act::Messages(vec![
                parse("", "select repeat($1::text, 100)"),
                bind("", "", 1, &[&long]),
                execute("", 0),
            ]),
        ),
        (
            "a long number",
            Act::Messages(vec![
                parse("", "select $1::numeric"),
                bind("", "", 1, &[&digits]),
                execute("", 0),
            ]),
        ),
        (
            "a long array",
            Act::Messages(vec![
                parse("", "select 1 = any ($1::int[])"),
                bind("", "", 1, &[format!("{{{}1}}", "1,".repeat(2_000_000)).as_bytes()]),
                execute("", 0),
            ]),
        ),
        (
            "a key of each element",
            Act::Messages(vec![
                parse("", "select v from t where id = any ($1::int[])"),
                bind("", "", 1, &[format!("{{{}1}}", "1,".repeat(1_000_000)).as_bytes()]),
                execute("", 0),
            ]),
        ),
        ("many types", Act::Messages(vec![(b'P', types.concat())])),
        (
            "types that are none",
            Act::Messages(vec![(
                b'P',
                [text(&["", "select 1"]), vec![0, 1, 255, 255, 255, 255]].concat(),
            )]),
        ),
        (
            "a portal without end",
            Act::Messages(vec![parse("", series), bind("", "", 0, &[]), execute("", 1)]),
        ),
        ("a portal without end, often", Act::Messages(fetched)),
        (
            "a portal of long rows",
            Act::Messages(vec![
                parse("", "select repeat('x', 10000000) from generate_series(1, 100)"),
                bind("", "", 0, &[]),
                execute("", 1),
            ]),
        ),
        (
            "a negative number of rows",
            Act::Messages(vec![parse("", "select 1"), bind("", "", 0, &[]), execute("", -1)]),
        ),
        ("a portal of nothing", Act::Messages(vec![execute("none", 0)])),
        ("many prepared", Act::Messages(declared)),
        (
            "prepared, and long",
            Act::Messages((0..500).map(|at| parse(&format!("l{at}"), &quoted)).collect()),
        ),
        ("forgotten again", Act::Statement("deallocate all".to_owned())),
        ("many portals", Act::Messages(portals)),
        (
            "long portals",
            Act::Messages(
                std::iter::once(parse("", "select $1::text"))
                    .chain((0..100).map(|at| bind(&format!("q{at}"), "", 1, &[&long[..1 << 20]])))
                    .collect(),
            ),
        ),
        ("a description of nothing", Act::Messages(vec![(b'D', text(&["Snone"]))])),
        ("a description of neither", Act::Messages(vec![(b'D', text(&["Xnone"]))])),
        ("an end of nothing", Act::Messages(vec![(b'C', text(&["Pnone"]))])),
        (
            "lines of no copy",
            Act::Messages(vec![(b'd', long[..1 << 20].to_vec()), (b'c', Vec::new())]),
        ),
        ("a length of nothing", Act::Bytes(b"Q\0\0\0\0".to_vec())),
        ("a negative length", Act::Bytes(b"Q\xff\xff\xff\xff".to_vec())),
        ("the longest length", Act::Bytes(b"Q\x7f\xff\xff\xff".to_vec())),
        ("no message", Act::Bytes(b"!\0\0\0\x04".to_vec())),
        ("a text without end", Act::Bytes(b"Q\0\0\0\x08xxxx".to_vec())),
        ("no text", Act::Bytes(b"Q\0\0\0\x08\xff\xfe\xfd\0".to_vec())),
        ("what is for others", Act::Bytes([b"p\0\0\0\x05x".as_slice(), b"F\0\0\0\x04"].concat())),
        ("half messages", Act::HalfSent { clients: 4, length: 250 << 20, sent: 30 << 20 }),
        ("many half messages", Act::HalfSent { clients: 40, length: 100 << 20, sent: 4 << 20 }),
        (
            "a line without end",
            Act::CopyIn {
                statement: "copy u from stdin",
                line: vec![b'x'; 64 << 10],
                times: if is_all { 4_000 } else { 1_200 },
            },
        ),
        (
            "a line in small pieces",
            Act::CopyIn { statement: "copy u from stdin", line: vec![b'x'; 100], times: 100_000 },
        ),
        (
            "empty lines",
            Act::CopyIn { statement: "copy u from stdin", line: b"\n".repeat(10_000), times: 10 },
        ),
        (
            "many lines",
            Act::CopyIn {
                statement: "copy u from stdin",
                line: b"1\tx\n".repeat(20_000),
                times: if is_all { 200 } else { 40 },
            },
        ),
        (
            "long lines",
            Act::CopyIn {
                statement: "copy u from stdin",
                line: [b"1\t".to_vec(), vec![b'x'; 1 << 20], b"\n".to_vec()].concat(),
                times: 80,
            },
        ),
        (
            "many columns",
            Act::CopyIn {
                statement: "copy u from stdin",
                line: [b"\t".repeat(1 << 20), b"\n".to_vec()].concat(),
                times: 1,
            },
        ),
        (
            "lines of a table that is none",
            Act::CopyIn { statement: "copy none from stdin", line: b"1\n".to_vec(), times: 1000 },
        ),
    ]
}

fn blocks() -> Vec<(&'static str, Act)> {
    let many =
        |part: &str| (0..2_000).map(|at| part.replace('#', &at.to_string())).collect::<String>();
    vec![
        (
            "arrays of arrays",
            Act::Statement(format!("select {}1{}", "array[".repeat(30), "]".repeat(30))),
        ),
        ("savepoints", Act::InBlock("begin", many("savepoint s#; "))),
        ("savepoints of one name", Act::InBlock("begin", many("savepoint s; rollback to s; "))),
        ("a savepoint behind a definition", Act::InBlock(
            "begin", "create table x1 (a int); savepoint s; drop table x1; rollback to s".to_owned())),
        ("a level behind a definition", Act::InBlock(
            "begin", "create table x2 (a int); set transaction isolation level repeatable read; drop table x2".to_owned())),
        ("a copy behind a definition", Act::InBlock(
            "begin", "create table x3 (a int); copy x3 to stdout; drop table x3".to_owned())),
        ("what is written, again and again", Act::InBlock(
            "begin", many("update t set v = repeat('#', 10000) where id = 1; "))),
        ("all that is locked", Act::InBlock("begin", "select * from t for update; select * from u".to_owned())),
        ("an error, and more", Act::InBlock("begin", "select 1 / 0".to_owned())),
        ("no end", Act::InBlock("begin", "begin; begin; commit; commit; rollback".to_owned())),
        ("beside, from within", Act::Statement(
            "select (select r from (select id as q) x, (select n as r) y) from t".to_owned())),
        ("beside, to the right", Act::Statement(
            "select * from t right join generate_series(1, t.id) g on true".to_owned())),
        ("beside, on both sides", Act::Statement(
            "select * from t full join unnest(array[1]) g on g = t.id".to_owned())),
        ("beside, by name", Act::Statement("select * from t right join lateral (select t.id) x on true".to_owned())),
        ("beside, in a function", Act::Statement(
            "select * from t, generate_series(1, (select max(u.id) from u where u.id = t.id)) g".to_owned())),
        ("from within an aggregate", Act::Statement("select max((select count(b.id + t.id) from t b)) from t".to_owned())),
        ("from within a group", Act::Statement(
            "select n, (select count(*) from u where u.id = t.id) from t group by n".to_owned())),
        ("in a limit", Act::Statement("select id from t limit (select max(n) from t)".to_owned())),
        ("in a limit, from within", Act::Statement(
            "select (select id from u limit t.id) from t".to_owned())),
        ("in a default", Act::Statement("create table x4 (a int default (select 1)); drop table x4".to_owned())),
        ("in a check", Act::Statement(
            "create table x5 (a int check (a > (select 1))); insert into x5 values (1); drop table x5".to_owned())),
        ("in a check of another", Act::Statement(
            "create table x6 (a int check (count(*) > 1)); insert into x6 values (1)".to_owned())),
        ("gone", Act::Statement("drop table if exists x6".to_owned())),
        ("in returning", Act::Statement("delete from t where id = -1 returning count(*), (select max(id) from u)".to_owned())),
        ("in order", Act::Statement("select id from t order by (select count(*) from u where u.id = t.id), 1".to_owned())),
        ("in on", Act::Statement(
            "select count(*) from t left join u on u.id = (select max(b.id) from t b where b.n = t.n)".to_owned())),
        ("in values", Act::Statement("select (values (1), (2)), (select * from (values (t.id)) x) from t".to_owned())),
        ("nothing of nothing", Act::Statement("select from t; select * from pg_trigger; select".to_owned())),
        ("a null for everything", Act::Statement(
            "create table x7 (a bytea, b uuid, c date); insert into x7 select null, null, null; drop table x7".to_owned())),
    ]
}

/// The list; with the larger sizes if `is_all`.
pub(crate) fn cases(is_all: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name: String, act: Act| cases.push(Case { name, act });
    let sizes =
        |small: &[usize], large: &[usize]| [small, if is_all { large } else { &[] }].concat();
    for statement in TEXTS {
        for size in sizes(&[20_000_000], &[1_000, 60_000_000]) {
            let statement = statement.replace('N', &size.to_string());
            add(statement.clone(), Act::Statement(statement));
        }
    }
    for statement in NUMBERS {
        add((*statement).to_owned(), Act::Statement((*statement).to_owned()));
    }
    for statement in ROWS {
        for size in sizes(&[3_000_000], &[1_000, 100_000]) {
            let statement = statement.replace('N', &size.to_string());
            // Its writes must not affect the next case.
            let before = if is_all || statement.starts_with("create") { "" } else { "begin" };
            add(statement.clone(), Act::InBlock(before, statement));
        }
    }
    for (begin, part, middle, end) in NESTED {
        for size in sizes(&[1_000, 20_000], &[30, 55, 200, 300_000]) {
            let text =
                [begin, part.repeat(size).as_str(), middle, end.repeat(size).as_str()].concat();
            add(format!("{begin}{part}{middle}{end} {size}"), Act::Statement(text));
        }
    }
    for (begin, part, between, end) in LISTS {
        for size in sizes(&[300, 20_000], &[1_500, 200_000]) {
            let parts: Vec<String> =
                (1..=size).map(|at| part.replace('#', &at.to_string())).collect();
            let text = [begin, parts.join(between).as_str(), end].concat();
            let before = if begin.starts_with("create") { "" } else { "begin" };
            add(format!("{begin}{part}{between}{end} {size}"), Act::InBlock(before, text));
        }
        if begin.starts_with("create table") {
            add("gone".to_owned(), Act::Statement("drop table if exists many".to_owned()));
        }
    }
    for depth in sizes(&[20, 50], &[10, 30, 300, 2_500]) {
        for (name, text) in doubled(depth) {
            add(format!("{name} {depth}"), Act::Statement(text));
        }
    }
    for (name, act) in messages(is_all).into_iter().chain(blocks()) {
        add(name.to_owned(), act);
    }
    cases
}
