//! The kinds of files, and the meaning of their columns.

use super::{Fault, KeyRef, Lines, RecordedKey, RecordingError, parse_key, parse_time};
use std::io::Read;
use std::str::FromStr;

/// A kind of file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Flights: carrier, plane, origin, destination.
    Flights,
    /// Ratings of movies by users.
    MovieTweetings,
    /// Events on repositories.
    Github,
    /// Posts and links of Stack Exchange.
    StackExchange,
    /// Packages and dependencies of Debian.
    Debian,
    /// Requests of several cached blocks each.
    KvCache,
    /// Requests of single cached objects.
    TwitterCache,
}

impl Kind {
    /// All kinds, with their names.
    pub const ALL: [(&'static str, Kind); 7] = [
        ("flights", Kind::Flights),
        ("movietweetings", Kind::MovieTweetings),
        ("github", Kind::Github),
        ("stackexchange", Kind::StackExchange),
        ("debian", Kind::Debian),
        ("kvcache", Kind::KvCache),
        ("twitter-cache", Kind::TwitterCache),
    ];
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Kind, String> {
        let found = Kind::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, kind)| *kind).ok_or_else(|| {
            let known: Vec<&str> = Kind::ALL.iter().map(|(name, _)| *name).collect();
            format!("\"{name}\" is no kind of file; known are {}", known.join(", "))
        })
    }
}

/// The content of one column.
#[derive(Clone, Copy)]
struct Column {
    at: usize,
    name: &'static str,
    table: &'static str,
    write: bool,
    role: Role,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A key; `NA` and an empty field mean none.
    Key,
    /// Keys separated by spaces.
    Keys,
    /// A key that is unique only together with the first key of the line.
    Within,
    /// A key that groups the adjacent lines with the same value into one transaction.
    Group,
}

/// The columns of a file.
pub(super) struct Columns {
    keys: Vec<Column>,
    /// The column of the time, and the number of microseconds of its unit.
    time: Option<(usize, i64)>,
    /// A line counts only if this column is 0: the first alternative of a dependency.
    only_first: Option<usize>,
}

type Layout = (
    /* time and its unit */ Option<(&'static str, i64)>,
    /* columns: name, table, written, role */
    &'static [(&'static str, &'static str, bool, Role)],
    /* only lines with 0 here */ Option<&'static str>,
);

const SECOND: i64 = 1_000_000;

const FLIGHTS: Layout = (
    Some(("sched_dep", 0)),
    &[
        ("tailnum", "planes", true, Role::Key),
        ("carrier", "carriers", true, Role::Key),
        ("origin", "airports", true, Role::Key),
        ("dest", "airports", true, Role::Key),
    ],
    None,
);
const RATINGS: Layout = (
    Some(("unix_time", SECOND)),
    &[("movie_id", "movies", true, Role::Key), ("user_id", "users", false, Role::Key)],
    None,
);
const EVENTS: Layout = (
    Some(("created_at", 0)),
    &[
        ("repo", "repos", true, Role::Key),
        ("actor", "actors", false, Role::Key),
        ("org", "orgs", false, Role::Key),
        ("issue_number", "issues", true, Role::Within),
    ],
    None,
);
const POSTS: Layout = (
    Some(("CreationDate", 0)),
    &[
        ("Id", "posts", true, Role::Key),
        ("OwnerUserId", "users", true, Role::Key),
        ("LastEditorUserId", "users", false, Role::Key),
    ],
    None,
);
const LINKS: Layout = (
    Some(("CreationDate", 0)),
    &[("PostId", "posts", true, Role::Key), ("RelatedPostId", "posts", false, Role::Key)],
    None,
);
const PACKAGES: Layout = (
    None,
    &[
        ("package_id", "packages", true, Role::Key),
        ("maintainer_id", "maintainers", false, Role::Key),
        ("source_id", "sources", false, Role::Key),
    ],
    None,
);
const DEPENDS: Layout = (
    None,
    &[("package_id", "packages", false, Role::Group), ("target_id", "packages", false, Role::Key)],
    Some("alternative"),
);
const BLOCKS: Layout = (Some(("time_ms", 1000)), &[("blocks", "blocks", false, Role::Keys)], None);
const OBJECTS: Layout = (Some(("time_s", SECOND)), &[("key", "objects", false, Role::Key)], None);

impl Kind {
    fn layouts(self) -> &'static [Layout] {
        match self {
            Kind::Flights => &[FLIGHTS],
            Kind::MovieTweetings => &[RATINGS],
            Kind::Github => &[EVENTS],
            Kind::StackExchange => &[POSTS, LINKS],
            Kind::Debian => &[DEPENDS, PACKAGES],
            Kind::KvCache => &[BLOCKS],
            Kind::TwitterCache => &[OBJECTS],
        }
    }

    /// Finds the columns by their names: the first layout whose columns all exist.
    pub(super) fn columns(self, names: &[&str]) -> Result<Columns, RecordingError> {
        let place = |name: &str| names.iter().position(|other| *other == name);
        for (time, columns, only_first) in self.layouts() {
            let find = |&(name, table, write, role): &(&'static str, &'static str, bool, Role)| {
                Some(Column { at: place(name)?, name, table, write, role })
            };
            let keys: Option<Vec<Column>> = columns.iter().map(find).collect();
            if let Some(keys) = keys {
                let time = time.and_then(|(name, unit)| Some((place(name)?, unit)));
                return Ok(Columns { keys, time, only_first: only_first.and_then(place) });
            }
        }
        let wanted =
            |layout: &Layout| layout.1.iter().map(|column| column.0).collect::<Vec<_>>().join(",");
        let expected: Vec<String> = self.layouts().iter().map(wanted).collect();
        let expected = format!("the columns {}", expected.join(" or "));
        Err(RecordingError::Header { found: names.join(","), expected })
    }
}

impl Columns {
    /// The key that groups lines into a transaction, for kinds that have one.
    pub(super) fn group<R: Read>(&self, lines: &Lines<R>) -> Option<RecordedKey> {
        let column = self.keys.first().filter(|column| column.role == Role::Group)?;
        Some(parse_key(lines.field(column.at)).into())
    }

    /// Adds the keys that a line touches; returns its time, if the kind has one.
    pub(super) fn touch<R: Read>(
        &self,
        lines: &Lines<R>,
        touched: &mut Vec<(&'static str, RecordedKey, bool)>,
    ) -> Result<Option<i64>, Fault> {
        let time = match self.time {
            None => None,
            Some((at, unit)) => Some(time(lines, at, unit)?),
        };
        if self.only_first.is_some_and(|at| lines.field(at) != "0") {
            return Ok(time);
        }
        for column in &self.keys {
            let text = lines.field(column.at);
            if text.is_empty() || text == "NA" {
                if column.at == self.keys[0].at && column.role != Role::Key {
                    let problem = "nothing here, a key is needed".to_owned();
                    return Err(lines.fault_in(column.at, column.name, problem));
                }
                continue;
            }
            column.touch(text, touched);
        }
        Ok(time)
    }
}

impl Column {
    fn touch(&self, text: &str, touched: &mut Vec<(&'static str, RecordedKey, bool)>) {
        if self.role == Role::Group && !touched.is_empty() {
            return;
        }
        let mut add = |key: RecordedKey| touched.push((self.table, key, self.write));
        match self.role {
            Role::Key | Role::Group => add(parse_key(text).into()),
            Role::Keys => text.split(' ').for_each(|key| add(parse_key(key).into())),
            Role::Within => {
                let outer = touched.first().map(|(_, key, _)| key.to_string()).unwrap_or_default();
                let key = format!("{outer}/{text}");
                touched.push((self.table, KeyRef::Text(&key).into(), self.write));
            }
        }
    }
}

/// The time in microseconds; a unit of 0 means a date.
fn time<R: Read>(lines: &Lines<R>, at: usize, unit: i64) -> Result<i64, Fault> {
    let text = lines.field(at);
    let time = match unit {
        0 => parse_time(text),
        _ => text.parse::<i64>().ok().and_then(|number| number.checked_mul(unit)),
    };
    time.ok_or_else(|| lines.fault_in(at, "time", format!("\"{text}\" is no time")))
}
