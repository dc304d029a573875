//! Regular expressions, as PostgreSQL understands them.
//!
//! An expression becomes a program whose places a text walks through all at once, so that asking *whether* it fits costs
//! at most the text's length times the expression's, whatever the expression:
//!
//! ```text
//!   a(b|c)*    0 a    1 either 2 or 6    2 either 3 or 4    3 b, go to 1    4 c    5 go to 1    6 found
//!   "ab"       {0} ─a─▶ {1 2 3 4 6}: found
//! ```
//!
//! *Where* it fits, and what its groups hold, is a second question. PostgreSQL does not take the first way that leads to
//! a match, as Perl does; it looks at lengths:
//!
//! ```text
//!   'foobar'  ~  fo(o|ob)(b?ar)     all of it fits, from the first character on; so the whole is "foobar"
//!                                   group 1 is as long as the rest allows: "ob"; group 2 is what is left: "ar"
//! ```
//!
//! The match begins as far left as one can, and is the longest there, or the shortest if what is first repeated in the
//! expression is non-greedy (`a*?`). Then its parts are cut from left to right, each as long, or as short, as the parts
//! behind it allow ([`parts`]). Whether they allow it is the first question again, so nothing is tried in vain;
//! only references to groups (`(.)\1`), which no program knows, make it go back.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`read`] | from the text to nodes |
//! | [`classes`] | classes of characters |
//! | [`walk`] | nodes as a program, and a text's way through it |
//! | [`parts`] | what the groups hold |
//!
//! Left out: basic and extended expressions of old (`(?b)`, `(?e)`), and collating elements of several characters.

mod classes;
mod parts;
mod read;
mod walk;

use crate::budget::Budget;
use crate::error::{SqlError, code};
use parts::Parts;
use read::Node;
use std::ops::Range;
use walk::{Program, Text};

/// How an expression is meant, beside what it says.
#[derive(Clone, Copy, Default, Debug)]
pub struct Flags {
    /// Letters of both cases are the same.
    pub folds: bool,
    /// `.` and `[^..]` are no ends of lines.
    pub stops_at_lines: bool,
    /// `^` and `$` are the ends of lines as well.
    pub anchors_lines: bool,
    /// Blanks and comments mean nothing.
    pub expanded: bool,
    /// All of it is a text, as it is.
    pub literal: bool,
}

impl Flags {
    /// Reads options as functions take them; true beside them if `g` is among them.
    ///
    /// # Errors
    /// 22023 for a letter that is none.
    pub fn read(options: &str) -> Result<(Flags, bool), SqlError> {
        let (mut flags, mut all) = (Flags::default(), false);
        for option in options.chars() {
            match option {
                'g' => all = true,
                option if flags.set(option)? => {}
                option => {
                    let message = format!("invalid regular expression option: \"{option}\"");
                    return Err(SqlError::new(code::INVALID_PARAMETER, message));
                }
            }
        }
        Ok((flags, all))
    }

    /// Takes one option; false if it is none.
    fn set(&mut self, option: char) -> Result<bool, SqlError> {
        match option {
            'i' => self.folds = true,
            'c' => self.folds = false,
            'n' | 'm' => (self.stops_at_lines, self.anchors_lines) = (true, true),
            'p' => (self.stops_at_lines, self.anchors_lines) = (true, false),
            'w' => (self.stops_at_lines, self.anchors_lines) = (false, true),
            's' => (self.stops_at_lines, self.anchors_lines) = (false, false),
            'x' => self.expanded = true,
            't' => self.expanded = false,
            'q' => self.literal = true,
            'b' | 'e' => {
                let what = format!("the option {option} of regular expressions");
                return Err(SqlError::unsupported(what));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// An expression that was read.
pub struct Regex {
    nodes: Vec<Node>,
    groups: usize,
    refers: bool,
}

/// Where an expression fits, in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// All of it.
    pub whole: Range<usize>,
    /// What each group holds, if it took part.
    pub groups: Vec<Option<Range<usize>>>,
}

impl Regex {
    /// Reads an expression.
    ///
    /// # Errors
    /// 2201B if it is none, 54001 if it is too long; 0A000 for what is left out.
    pub fn new(expression: &str, flags: Flags) -> Result<Regex, SqlError> {
        read::read(expression, flags)
    }

    /// How many groups it has.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Whether a text has a part that it describes.
    ///
    /// # Errors
    /// What the budget has against it.
    pub fn is_in(&self, text: &str, budget: &Budget) -> Result<bool, SqlError> {
        let text = Text::new(text, budget)?;
        if self.refers {
            return Ok(self.next(&text, 0, false, budget)?.is_some());
        }
        let program = Program::new(&self.nodes)?;
        Ok(program.first_end(&text, 0, budget)?.is_some())
    }

    /// The first part of a text that it describes.
    ///
    /// # Errors
    /// What the budget has against it.
    pub fn find(&self, text: &str, budget: &Budget) -> Result<Option<Found>, SqlError> {
        let mut first = None;
        self.each(text, budget, &mut |found| {
            first = Some(found);
            Ok(false)
        })?;
        Ok(first)
    }

    /// Each part that it describes, one after the other, as long as `take` wants more.
    ///
    /// # Errors
    /// What the budget or `take` has against it.
    pub fn each(
        &self,
        text: &str,
        budget: &Budget,
        take: &mut dyn FnMut(Found) -> Result<bool, SqlError>,
    ) -> Result<(), SqlError> {
        self.each_from(text, 0, budget, take)
    }

    /// As [`each`](Regex::each), from a place on that is counted in characters; the text begins before it.
    ///
    /// # Errors
    /// As [`each`](Regex::each).
    pub fn each_from(
        &self,
        text: &str,
        from: usize,
        budget: &Budget,
        take: &mut dyn FnMut(Found) -> Result<bool, SqlError>,
    ) -> Result<(), SqlError> {
        let text = Text::new(text, budget)?;
        let mut from = from;
        while from <= text.len() {
            let Some(found) = self.next(&text, from, true, budget)? else { break };
            let Range { start, end } = found.whole;
            // An empty part is followed by one that begins further on.
            from = if end > start { end } else { end + 1 };
            let bytes = |part: &Range<usize>| text.bytes(part);
            let groups = found.groups.iter().map(|group| group.as_ref().map(bytes)).collect();
            if !take(Found { whole: bytes(&found.whole), groups })? {
                break;
            }
        }
        Ok(())
    }

    /// The first part from a place on, and its groups if they are wanted; all places are counted in characters.
    fn next(
        &self,
        text: &Text,
        from: usize,
        with_groups: bool,
        budget: &Budget,
    ) -> Result<Option<Found>, SqlError> {
        let program = Program::new(&self.nodes)?;
        let Some(first_end) = program.first_end(text, from, budget)? else { return Ok(None) };
        let non_greedy = read::non_greedy(&self.nodes);
        // The part that ends first may not be the one that begins first, but none begins behind its end. What a
        // reference stands for is not known to the program, so there it may.
        let last = if self.refers { text.len() } else { first_end };
        for start in from..=last {
            let mut ends = program.ends(text, start, text.len(), budget)?;
            if !non_greedy {
                ends.reverse();
            }
            for end in ends {
                let mut groups = vec![None; self.groups];
                let is_plain = !self.refers && (self.groups == 0 || !with_groups);
                if is_plain || Parts::new(text, self, &mut groups, budget).fit(start, end)? {
                    return Ok(Some(Found { whole: start..end, groups }));
                }
            }
        }
        Ok(None)
    }
}

/// Whether a text has a part that an expression describes.
///
/// # Errors
/// As [`Regex::new`]; what the budget has against it.
pub fn matches(text: &str, regex: &str, folds: bool, budget: &Budget) -> Result<bool, SqlError> {
    Regex::new(regex, Flags { folds, ..Flags::default() })?.is_in(text, budget)
}

fn wrong(what: &str) -> SqlError {
    SqlError::new("2201B", format!("invalid regular expression: {what}"))
}

/// A pattern of SIMILAR TO as a regular expression. `_` and `%` stand for one character and any; `escape` before a quote
/// marks where the part begins and ends that `substring` is asked for.
///
/// # Errors
/// 22025 for an escape that is no single character, 2200C for more than two marks.
pub fn similar(pattern: &str, escape: &str, budget: &Budget) -> Result<String, SqlError> {
    let mut chars = escape.chars();
    let (escape, rest) = (chars.next(), chars.next());
    if rest.is_some() {
        return Err(SqlError::new("22025", "invalid escape string")
            .hint("Escape string must be empty or one character."));
    }
    budget.charge(3 * pattern.len() + 64)?;
    let mut regex = "^(?:".to_owned();
    let (mut is_escaped, mut is_class, mut marks) = (false, false, 0);
    for ch in pattern.chars() {
        if std::mem::take(&mut is_escaped) {
            match (ch, marks) {
                ('"', 0) if !is_class => regex.push_str("){1,1}?("),
                ('"', 1) if !is_class => regex.push_str("){1,1}(?:"),
                ('"', _) if !is_class => {
                    let what = "SQL regular expression may not contain more than two \
                                escape-double-quote separators";
                    return Err(SqlError::new("2200C", what));
                }
                _ => regex.extend(['\\', ch]),
            }
            marks += i32::from(ch == '"' && !is_class);
        } else if Some(ch) == escape {
            is_escaped = true;
        } else if is_class {
            regex.push_str(if ch == '\\' { "\\\\" } else { "" });
            if ch != '\\' {
                regex.push(ch);
            }
            is_class = ch != ']';
        } else {
            is_class = ch == '[';
            match ch {
                '%' => regex.push_str(".*"),
                '_' => regex.push('.'),
                '(' => regex.push_str("(?:"),
                '\\' | '.' | '^' | '$' => regex.extend(['\\', ch]),
                other => regex.push(other),
            }
        }
    }
    regex.push_str(")$");
    Ok(regex)
}

#[cfg(test)]
mod tests;
