//! Queries of one shape each: a planner that recognises the shape reads few rows, or each row once.
//!
//! | table | rows | columns |
//! | --- | --- | --- |
//! | `wide` | `--rows` | `a` is unique, `b` has ten rows of each value, `c` 100 values, `g` 1,000; all have an index, `name` too |
//! | `small` | 1,000 | the rows that `wide.g` names; `kind` has ten values |
//! | `half` | half of `wide`'s | `v` without an index: numbers up to twice its rows |

use super::{Query, Rows, Set};
use isomer_workload::{Random, random};
use rand::RngExt;
use rand::seq::SliceRandom;

/// The tables and their indexes.
pub(super) const SCHEMA: &str = include_str!("shapes-schema.sql");

/// Rows of `small`.
const GROUPS: i32 = 1000;
/// Values of `c`.
const CLASSES: i32 = 100;
/// Point reads of a run.
const READS: usize = 1000;
const SYLLABLES: [&str; 16] = [
    "ba", "cor", "den", "fi", "gal", "hu", "jo", "ker", "lim", "mar", "no", "pel", "qui", "ros",
    "tu", "xa",
];

/// The rows of the tables.
pub(super) fn rows(rows: u32, seed: u64) -> Vec<Rows> {
    let (rows, mut rng) = (rows as i32, random(seed));
    let mut wide = Rows::of("wide");
    let mut a: Vec<i32> = (1..=rows).collect();
    a.shuffle(&mut rng);
    let mut b: Vec<i32> = (0..rows).map(|row| row / 10).collect();
    b.shuffle(&mut rng);
    for (id, (a, b)) in (1..).zip(a.into_iter().zip(b)) {
        let (c, g) = (rng.random_range(0..CLASSES), rng.random_range(1..=GROUPS));
        let (name, note) = (word(&mut rng, 4), word(&mut rng, 20));
        wide.row(format_args!("{id}\t{a}\t{b}\t{c}\t{g}\t{name}\t{note}"));
    }
    let mut small = Rows::of("small");
    for id in 1..=GROUPS {
        small.row(format_args!("{id}\tgroup {id}\t{}", id % 10));
    }
    let mut half = Rows::of("half");
    for id in 1..=rows / 2 {
        half.row(format_args!("{id}\t{}", rng.random_range(1..=rows)));
    }
    vec![wide, small, half]
}

/// The shapes, and the point reads.
pub(super) fn queries(rows: u32, seed: u64) -> Vec<Query> {
    let (rows, mut rng) = (rows as i32, random(seed ^ 0x5a_ab_e5));
    let mid = rows / 2;
    // 10,000 literals by default.
    let literals: Vec<String> =
        (0..rows / 10).map(|_| rng.random_range(1..=rows).to_string()).collect();
    let (list, values) = (literals.join(", "), literals.join("), ("));
    let (b_mid, b_some, array) = (mid / 10, mid / 30, literals.join(","));
    let shapes = [
        ("order_limit", format!("SELECT id, a FROM wide WHERE a >= {mid} ORDER BY a LIMIT 20")),
        (
            "order_limit_desc",
            format!("SELECT id, a FROM wide WHERE a <= {mid} ORDER BY a DESC LIMIT 20"),
        ),
        ("order_limit_all", "SELECT id, a FROM wide ORDER BY a LIMIT 20".to_owned()),
        ("order_limit_all_desc", "SELECT id, a FROM wide ORDER BY a DESC LIMIT 20".to_owned()),
        (
            "order_limit_filter",
            "SELECT id, a FROM wide WHERE c % 10 = 3 ORDER BY a LIMIT 20".to_owned(),
        ),
        ("or_two_indexes", format!("SELECT id, a, b FROM wide WHERE a = {mid} OR b = {b_some}")),
        ("like_prefix", "SELECT id, name FROM wide WHERE name LIKE 'xama%'".to_owned()),
        ("min_max", "SELECT min(a), max(a) FROM wide".to_owned()),
        ("distinct_index", "SELECT DISTINCT c FROM wide".to_owned()),
        ("any_array", format!("SELECT count(*) FROM half WHERE v = ANY ('{{{array}}}'::int[])")),
        ("in_list", format!("SELECT count(*) FROM half WHERE v IN ({list})")),
        ("in_values", format!("SELECT count(*) FROM half WHERE v IN (VALUES ({values}))")),
        ("in_list_key", format!("SELECT count(*) FROM half WHERE id IN ({list})")),
        (
            "join_large_first",
            "SELECT w.id, s.name FROM wide w JOIN small s ON s.id = w.g WHERE s.name = 'group 17'"
                .to_owned(),
        ),
        (
            "join_all",
            "SELECT s.kind, count(*), sum(w.a) FROM wide w JOIN small s ON s.id = w.g \
             GROUP BY s.kind"
                .to_owned(),
        ),
        (
            "keyset_or",
            format!(
                "SELECT id, b FROM wide WHERE b > {b_mid} OR (b = {b_mid} AND id > {mid}) \
                 ORDER BY b, id LIMIT 20"
            ),
        ),
        (
            "keyset_row",
            format!(
                "SELECT id, b FROM wide WHERE (b, id) > ({b_mid}, {mid}) ORDER BY b, id LIMIT 20"
            ),
        ),
        (
            "exists",
            "SELECT s.id FROM small s \
             WHERE EXISTS (SELECT 1 FROM wide w WHERE w.g = s.id AND w.c = 7)"
                .to_owned(),
        ),
        (
            "not_exists",
            "SELECT s.id FROM small s \
             WHERE NOT EXISTS (SELECT 1 FROM wide w WHERE w.g = s.id AND w.c = 7)"
                .to_owned(),
        ),
        (
            "exists_large_outer",
            "SELECT count(*) FROM wide w \
             WHERE EXISTS (SELECT 1 FROM small s WHERE s.id = w.g AND s.kind = 3)"
                .to_owned(),
        ),
        (
            "in_subquery",
            "SELECT count(*) FROM wide WHERE g IN (SELECT id FROM small WHERE kind = 3)".to_owned(),
        ),
        (
            "not_in_subquery",
            "SELECT count(*) FROM wide WHERE g NOT IN (SELECT id FROM small WHERE kind = 3)"
                .to_owned(),
        ),
        (
            "scalar_correlated",
            "SELECT s.id, (SELECT max(w.a) FROM wide w WHERE w.g = s.id) FROM small s \
             WHERE s.kind = 3"
                .to_owned(),
        ),
        (
            "scalar_correlated_where",
            "SELECT count(*) FROM wide w WHERE w.c = 7 \
             AND w.a > (SELECT avg(x.a) FROM wide x WHERE x.g = w.g)"
                .to_owned(),
        ),
        (
            "anti_join",
            "SELECT count(*) FROM wide w LEFT JOIN half h ON h.v = w.a WHERE h.id IS NULL"
                .to_owned(),
        ),
    ];
    let shapes = shapes.into_iter().map(|(name, text)| Query {
        name: format!("shape_{name}"),
        set: Set::Shapes,
        text,
        keys: Vec::new(),
    });
    let points = ["id", "a"].map(|column| Query {
        name: format!("point_by_{}", if column == "id" { "key" } else { "index" }),
        set: Set::Points,
        text: format!("SELECT note FROM wide WHERE {column} = $1"),
        keys: (0..READS).map(|_| rng.random_range(1..=rows)).collect(),
    });
    shapes.chain(points).collect()
}

fn word(rng: &mut Random, syllables: usize) -> String {
    (0..syllables).map(|_| SYLLABLES[rng.random_range(0..SYLLABLES.len())]).collect()
}
