//! Statements by shape, for `isomer.statements`: how often, how long, and where they commit.
//!
//! ```text
//!   update t set v = 7 where id = 'x'   ─▶   update t set v = ? where id = ?     calls, errors, times
//!   the commit of its transaction       ─▶                                       at one site, or over several
//! ```
//!
//! A shape is the text without comments and with literals as `?`, so it holds no value of a row and
//! no password. At most [`SHAPES_MAX`] shapes have a count each. When a new one comes, those that
//! took the least time lose theirs to one that is shared. A map from texts to shapes saves reading
//! a text again.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use isomer_design::Time;
use isomer_sql::datum::Datum;
use isomer_strategy::Place;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Shapes that are counted one by one.
pub(crate) const SHAPES_MAX: usize = 5000;
/// Texts that are remembered with their shapes, up to this length.
const TEXTS_MAX: usize = 8192;
const TEXT_BYTES_MAX: usize = 2048;
/// A shape is cut to this.
const SHAPE_BYTES_MAX: usize = 1000;
/// Rows of commits over several sites are noted once in this time, in microseconds.
const ACROSS_US: u64 = 1_000_000;
/// The shape of all that have lost their place.
const OTHERS: &str = "(other statements)";

/// The counts of one shape.
pub(crate) struct Shape {
    text: String,
    calls: AtomicU64,
    errors: AtomicU64,
    total_us: AtomicU64,
    max_us: AtomicU64,
    min_us: AtomicU64,
    rows: AtomicU64,
    commits: AtomicU64,
    local: AtomicU64,
    last_us: AtomicU64,
    /// Transactions that have ended, the sites that they have read from, and the rows that came
    /// from other processes.
    ended: AtomicU64,
    sites: AtomicU64,
    shipped: AtomicU64,
    /// The coordinator of the last commit, and whether it was over several sites.
    last_commit: Mutex<Option<Place>>,
    /// Rows of the last commit over several sites whose rows were noted, and when that was.
    across: Mutex<Option<String>>,
    across_us: AtomicU64,
    /// When the rows of a commit were looked at last.
    looked_us: AtomicU64,
}

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Shapes {
    texts: Mutex<HashMap<Box<str>, Arc<Shape>, FixedState>>,
    shapes: Mutex<BTreeMap<String, Arc<Shape>>>,
}

impl Shape {
    fn new(text: String) -> Arc<Shape> {
        let count = || AtomicU64::new(0);
        Arc::new(Shape {
            text,
            calls: count(),
            errors: count(),
            total_us: count(),
            max_us: count(),
            min_us: AtomicU64::new(u64::MAX),
            rows: count(),
            commits: count(),
            local: count(),
            last_us: count(),
            ended: count(),
            sites: count(),
            shipped: count(),
            last_commit: Mutex::default(),
            across: Mutex::default(),
            across_us: count(),
            looked_us: count(),
        })
    }

    /// Adds the counts of a shape that has lost its place.
    fn take(&self, other: &Shape) {
        let sums = |shape: &Shape| {
            [
                &shape.calls,
                &shape.errors,
                &shape.total_us,
                &shape.rows,
                &shape.commits,
                &shape.local,
                &shape.ended,
                &shape.sites,
                &shape.shipped,
            ]
            .map(|sum| sum.load(Relaxed))
        };
        let own = [
            &self.calls,
            &self.errors,
            &self.total_us,
            &self.rows,
            &self.commits,
            &self.local,
            &self.ended,
            &self.sites,
            &self.shipped,
        ];
        own.into_iter().zip(sums(other)).for_each(|(sum, more)| {
            sum.fetch_add(more, Relaxed);
        });
        self.max_us.fetch_max(other.max_us.load(Relaxed), Relaxed);
        self.min_us.fetch_min(other.min_us.load(Relaxed), Relaxed);
        self.last_us.fetch_max(other.last_us.load(Relaxed), Relaxed);
    }

    /// The text without values.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// A statement of the shape has failed.
    pub(crate) fn failed(&self) {
        self.errors.fetch_add(1, Relaxed);
    }

    /// A statement of the shape has ended. It has returned or changed this many rows.
    pub(crate) fn count(&self, took: Duration, rows: u64, now: Time) {
        let us = took.as_micros() as u64;
        self.calls.fetch_add(1, Relaxed);
        self.total_us.fetch_add(us, Relaxed);
        self.max_us.fetch_max(us, Relaxed);
        self.min_us.fetch_min(us, Relaxed);
        self.rows.fetch_add(rows, Relaxed);
        self.last_us.store(now.0 / 1000, Relaxed);
    }

    /// A transaction with a statement of the shape has committed writes.
    pub(crate) fn committed(&self, place: Place) {
        self.commits.fetch_add(1, Relaxed);
        self.local.fetch_add(u64::from(matches!(place, Place::At(_))), Relaxed);
        *self.last_commit.lock() = Some(place);
    }

    /// A transaction with a statement of the shape has ended. It has read from this many sites, and
    /// got this many rows from other processes.
    pub(crate) fn reached(&self, (sites, shipped): (u64, u64)) {
        self.ended.fetch_add(1, Relaxed);
        self.sites.fetch_add(sites, Relaxed);
        self.shipped.fetch_add(shipped, Relaxed);
    }

    /// True if its next commit should find out whether its rows are at several sites: once in
    /// [`ACROSS_US`]. A shape with such commits before asks until the rows of one are noted.
    pub(crate) fn wants_rows(&self, now: Time) -> bool {
        let is_spread = self.commits.load(Relaxed) > self.local.load(Relaxed);
        let last = if is_spread { &self.across_us } else { &self.looked_us };
        let wants = now.0 / 1000 >= last.load(Relaxed) + ACROSS_US;
        if wants {
            self.looked_us.store(now.0 / 1000, Relaxed);
        }
        wants
    }

    /// A transaction with a statement of the shape has committed over several sites, because of
    /// these rows.
    pub(crate) fn spread(&self, rows: &str, now: Time) {
        self.across_us.store(now.0 / 1000, Relaxed);
        *self.across.lock() = Some(rows.to_owned());
    }

    fn row(&self) -> Vec<Datum> {
        let get = |of: &AtomicU64| of.load(Relaxed);
        let (calls, commits) = (get(&self.calls), get(&self.commits));
        let total_ms = get(&self.total_us) as f64 / 1000.0;
        let local = (commits > 0).then(|| 100.0 * get(&self.local) as f64 / commits as f64);
        let last = self.last_commit.lock().map(place);
        let ended = get(&self.ended);
        let sites = (ended > 0).then(|| get(&self.sites) as f64 / ended as f64);
        vec![
            Datum::text(&*self.text),
            Datum::Int(calls as i64),
            Datum::Int(get(&self.errors) as i64),
            Datum::Float(total_ms),
            Datum::Float(total_ms / calls.max(1) as f64),
            Datum::Float(get(&self.max_us) as f64 / 1000.0),
            Datum::Int(commits as i64),
            local.map_or(Datum::Null, Datum::Float),
            last.map_or(Datum::Null, Datum::Text),
            Datum::Timestamp(get(&self.last_us) as i64),
            Datum::Float(get(&self.min_us) as f64 / 1000.0),
            Datum::Int(get(&self.rows) as i64),
            self.across.lock().as_deref().map_or(Datum::Null, Datum::text),
            Datum::Int(ended as i64),
            sites.map_or(Datum::Null, Datum::Float),
            Datum::Int(get(&self.shipped) as i64),
        ]
    }
}

impl Shapes {
    /// The shape of a text.
    pub(crate) fn of(&self, text: &str) -> Arc<Shape> {
        if let Some(known) = self.texts.lock().get(text) {
            return known.clone();
        }
        let shape = {
            let (name, mut shapes) = (shape_of(text), self.shapes.lock());
            if shapes.len() >= SHAPES_MAX && !shapes.contains_key(&name) {
                make_room(&mut shapes);
                self.texts.lock().clear();
            }
            shapes.entry(name.clone()).or_insert_with(|| Shape::new(name)).clone()
        };
        if text.len() <= TEXT_BYTES_MAX {
            let mut texts = self.texts.lock();
            if texts.len() >= TEXTS_MAX {
                texts.clear();
            }
            texts.insert(text.into(), shape.clone());
        }
        shape
    }

    /// All of them, those that took the most time first.
    pub(crate) fn rows(&self) -> Vec<Vec<Datum>> {
        let mut all: Vec<Arc<Shape>> = self.shapes.lock().values().cloned().collect();
        all.retain(|shape| shape.calls.load(Relaxed) > 0);
        all.sort_by_key(|shape| std::cmp::Reverse(shape.total_us.load(Relaxed)));
        all.iter().map(|shape| shape.row()).collect()
    }
}

/// Adds the shapes that took the least time, a twentieth of all, to the one of all others.
fn make_room(shapes: &mut BTreeMap<String, Arc<Shape>>) {
    let others = shapes.entry(OTHERS.to_owned()).or_insert_with(|| Shape::new(OTHERS.to_owned()));
    let others = others.clone();
    let mut all: Vec<(u64, String)> = shapes
        .iter()
        .filter(|(name, _)| *name != OTHERS)
        .map(|(name, shape)| (shape.total_us.load(Relaxed), name.clone()))
        .collect();
    all.sort_unstable();
    for (_, name) in all.into_iter().take(SHAPES_MAX / 20) {
        if let Some(shape) = shapes.remove(&name) {
            others.take(&shape);
        }
    }
}

/// The shapes of several gateways as one list: counts and times of the same text are added up.
pub(crate) fn joined(rows: impl Iterator<Item = Vec<Datum>>) -> Vec<Vec<Datum>> {
    let mut all: BTreeMap<String, Vec<Datum>> = BTreeMap::new();
    for row in rows {
        let text = row[0].as_text().unwrap_or_default().to_owned();
        match all.entry(text) {
            Entry::Vacant(place) => drop(place.insert(row)),
            Entry::Occupied(mut place) => add(place.get_mut(), &row),
        }
    }
    let mut all: Vec<Vec<Datum>> = all.into_values().collect();
    all.sort_by(|one, other| number(&other[TOTAL_MS]).total_cmp(&number(&one[TOTAL_MS])));
    all
}

/// The column indexes of [`Shape::row`].
const CALLS: usize = 1;
const ERRORS: usize = 2;
const TOTAL_MS: usize = 3;
const MEAN_MS: usize = 4;
const MAX_MS: usize = 5;
const COMMITS: usize = 6;
const LOCAL_PERCENT: usize = 7;
const LAST_COMMIT: usize = 8;
const LAST: usize = 9;
const MIN_MS: usize = 10;
const ROWS: usize = 11;
const ACROSS: usize = 12;
const ENDED: usize = 13;
const SITES: usize = 14;
const SHIPPED: usize = 15;

fn number(value: &Datum) -> f64 {
    match value {
        Datum::Int(value) | Datum::Timestamp(value) => *value as f64,
        Datum::Float(value) => *value,
        _ => 0.0,
    }
}

/// Adds the row of a shape at another gateway.
fn add(sum: &mut [Datum], more: &[Datum]) {
    let local = |row: &[Datum]| number(&row[LOCAL_PERCENT]) * number(&row[COMMITS]);
    let (local, is_later) = (local(sum) + local(more), number(&more[LAST]) > number(&sum[LAST]));
    let sites = |row: &[Datum]| number(&row[SITES]) * number(&row[ENDED]);
    let sites = sites(sum) + sites(more);
    for at in [CALLS, ERRORS, COMMITS, ROWS, ENDED, SHIPPED] {
        if let (Datum::Int(count), Datum::Int(more)) = (&mut sum[at], &more[at]) {
            *count += more;
        }
    }
    let total_ms = number(&sum[TOTAL_MS]) + number(&more[TOTAL_MS]);
    sum[TOTAL_MS] = Datum::Float(total_ms);
    sum[MEAN_MS] = Datum::Float(total_ms / number(&sum[CALLS]).max(1.0));
    sum[MAX_MS] = Datum::Float(number(&sum[MAX_MS]).max(number(&more[MAX_MS])));
    sum[MIN_MS] = Datum::Float(number(&sum[MIN_MS]).min(number(&more[MIN_MS])));
    let commits = number(&sum[COMMITS]);
    sum[LOCAL_PERCENT] = if commits > 0.0 { Datum::Float(local / commits) } else { Datum::Null };
    let ended = number(&sum[ENDED]);
    sum[SITES] = if ended > 0.0 { Datum::Float(sites / ended) } else { Datum::Null };
    if (is_later && !more[LAST_COMMIT].is_null()) || sum[LAST_COMMIT].is_null() {
        sum[LAST_COMMIT] = more[LAST_COMMIT].clone();
    }
    if (is_later && !more[ACROSS].is_null()) || sum[ACROSS].is_null() {
        sum[ACROSS] = more[ACROSS].clone();
    }
    if is_later {
        sum[LAST] = more[LAST].clone();
    }
}

/// A text with `?` for literals, and single blanks.
pub(crate) fn shape_of(text: &str) -> String {
    let mut shape = String::new();
    let mut rest = text.trim().trim_end_matches(';');
    while let Some(c) = rest.chars().next() {
        if shape.len() >= SHAPE_BYTES_MAX {
            shape.push('…');
            break;
        }
        let before = shape.chars().next_back();
        let is_in_word = before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '$'));
        let used = match c {
            '\'' => literal(rest, &mut shape),
            '$' if !is_in_word && dollar_quoted(rest).is_some() => {
                shape.push('?');
                dollar_quoted(rest).expect("it was just found")
            }
            '"' => {
                let end = rest[1..].find('"').map_or(rest.len(), |at| at + 2);
                shape += &rest[..end];
                end
            }
            c if c.is_ascii_digit() && !is_in_word => {
                shape.push('?');
                rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.')).unwrap_or(rest.len())
            }
            c if c.is_whitespace() || comment(rest).is_some() => {
                if !shape.ends_with(' ') {
                    shape.push(' ');
                }
                let blanks = rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len());
                comment(rest).unwrap_or(blanks)
            }
            c => {
                shape.push(c);
                c.len_utf8()
            }
        };
        rest = &rest[used..];
    }
    shape.trim().to_owned()
}

/// The length of a quoted literal, for which the shape gets a `?`. A letter before it belongs to
/// it.
fn literal(rest: &str, shape: &mut String) -> usize {
    let escapes = shape.ends_with(['e', 'E'])
        && !shape[..shape.len() - 1].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    if escapes {
        shape.pop();
    }
    shape.push('?');
    let bytes = rest.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if escapes => at += 2,
            b'\'' if bytes.get(at + 1) == Some(&b'\'') => at += 2,
            b'\'' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The length of a comment, which may have others inside.
fn comment(rest: &str) -> Option<usize> {
    if rest.starts_with("--") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if !rest.starts_with("/*") {
        return None;
    }
    let (bytes, mut depth, mut at) = (rest.as_bytes(), 0usize, 0);
    while at < bytes.len() {
        match bytes.get(at..at + 2) {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return Some(at);
        }
    }
    Some(rest.len())
}

/// The length of `$tag$ .. $tag$`.
fn dollar_quoted(rest: &str) -> Option<usize> {
    let tag = &rest[..=1 + rest[1..].find('$')?];
    let is_tag = tag[1..tag.len() - 1].chars().all(|c| c.is_alphanumeric() || c == '_')
        && !tag[1..].starts_with(|c: char| c.is_ascii_digit());
    is_tag.then(|| rest[tag.len()..].find(tag).map_or(rest.len(), |at| at + 2 * tag.len()))
}

/// The sites of a transaction, in words.
pub(crate) fn place(place: Place) -> String {
    match place {
        Place::At(site) => format!("at {site}"),
        Place::Distributed { coordinator } => {
            format!("over several sites, coordinated by {coordinator}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_design::SiteId;

    #[test]
    fn a_shape_has_no_values() {
        for (text, shape) in [
            ("update t1 set v=7  where id = 'o''x';", "update t1 set v=? where id = ?"),
            ("select $1, -1.5e3, \"a 1\" from t", "select $1, -?, \"a 1\" from t"),
            (r"select E'a\'b', 'c'", "select ?, ?"),
            ("create user x password 'secret", "create user x password ?"),
            ("select $tag$it's 1$tag$, 2", "select ?, ?"),
            ("é", "é"),
            ("/* 'a' /* b */ */ select --c\n 1 - -2 /* d", "select ? - -?"),
        ] {
            assert_eq!(shape_of(text), shape);
        }
    }

    #[test]
    fn shapes_of_several_gateways_are_added_up() {
        let gateway = |us: u64, place: Place| {
            let shapes = Shapes::default();
            let shape = shapes.of("select 1");
            shape.count(Duration::from_micros(us), 2, Time(us * 1000));
            shape.committed(place);
            shape.reached((us / 1000, 5 * (us / 3000)));
            if let Place::Distributed { .. } = place {
                assert!(shape.wants_rows(Time(ACROSS_US * 1000)));
                shape.spread("t[1] at s1, t[9] at s2", Time(ACROSS_US * 1000));
                assert!(!shape.wants_rows(Time(ACROSS_US * 1000 + 1)));
            }
            shapes.rows()
        };
        let one = gateway(1000, Place::At(SiteId(1)));
        let other = gateway(3000, Place::Distributed { coordinator: SiteId(2) });
        let sum = joined(one.into_iter().chain(other)).pop().expect("a shape");
        let shown: Vec<String> = sum[1..].iter().map(|value| format!("{value:?}")).collect();
        assert_eq!(
            shown,
            [
                "Int(2)",
                "Int(0)",
                "Float(4.0)",
                "Float(2.0)",
                "Float(3.0)",
                "Int(2)",
                "Float(50.0)",
                "Text(\"over several sites, coordinated by s2\")",
                "Timestamp(3000)",
                "Float(1.0)",
                "Int(4)",
                "Text(\"t[1] at s1, t[9] at s2\")",
                "Int(2)",
                "Float(2.0)",
                "Int(5)"
            ]
        );
    }

    #[test]
    fn what_has_no_place_is_counted_together() {
        let shapes = Shapes::default();
        for at in 0..SHAPES_MAX + 100 {
            let name: String =
                format!("{at:x}").chars().map(|c| char::from(b'g' + c as u8 % 16)).collect();
            let shape = shapes.of(&format!("select {name}x{}", "z".repeat(at % 90)));
            shape.count(Duration::from_micros(1), 1, Time(0));
            shape.committed(Place::At(SiteId(1)));
        }
        assert!(shapes.shapes.lock().len() <= SHAPES_MAX + 1);
        assert_eq!(shapes.rows().len(), shapes.shapes.lock().len());
    }
}
