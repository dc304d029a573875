//! Regular expressions with the syntax and semantics of PostgreSQL.
//!
//! An expression becomes a program, and a text is matched by following all its possible states at
//! once. So the test *whether* it matches costs at most the product of the lengths of the text and
//! the expression, for any expression:
//!
//! ```text
//!   a(b|c)*    0 a    1 either 2 or 6    2 either 3 or 4    3 b, go to 1
//!              4 c    5 go to 1          6 found
//!   "ab"       {0} ─a─▶ {1 2 3 4 6}: found
//! ```
//!
//! The second question is *where* it matches, and which parts its groups match. PostgreSQL does not
//! take the first successful alternative, as Perl does; it compares lengths:
//!
//! ```text
//!   'foobar'  ~  fo(o|ob)(b?ar)     the match can begin at the first character and include all
//!                                   group 1 is as long as the rest allows: "ob"; group 2 is "ar"
//! ```
//!
//! The match begins as far left as possible, and is the longest there. It is the shortest if the
//! first quantifier in the expression is non-greedy (`a*?`). Then its parts are cut from left to
//! right, each as long, or as short, as the parts behind it allow ([`parts`]). Whether they allow
//! it is the first question again, so there are no wasted attempts. Only back references (`(.)\1`),
//! which a program cannot represent, cause backtracking.
//!
//! | module | contents |
//! | --- | --- |
//! | [`read`] | the parser: from the text to nodes |
//! | [`classes`] | classes of characters |
//! | [`walk`] | nodes as a program, and its execution on a text |
//! | [`parts`] | the matches of the groups |
//!
//! Left out: basic and old extended expressions (`(?b)`, `(?e)`), and collating elements of several
//! characters.

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

/// Options for the interpretation of an expression.
#[derive(Clone, Copy, Default, Debug)]
pub struct Flags {
    /// Case is ignored.
    pub folds: bool,
    /// `.` and `[^..]` do not match line ends.
    pub stops_at_lines: bool,
    /// `^` and `$` also match at line ends.
    pub anchors_lines: bool,
    /// Blanks and comments are ignored.
    pub expanded: bool,
    /// The whole expression is a literal text.
    pub literal: bool,
}

impl Flags {
    /// Reads options as in arguments of functions; true if `g` is among them.
    ///
    /// # Errors
    /// 22023 for an unknown letter.
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

    /// Sets one option; false if it is unknown.
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

/// A parsed expression.
pub struct Regex {
    nodes: Vec<Node>,
    groups: usize,
    refers: bool,
}

/// A match, in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// All of it.
    pub whole: Range<usize>,
    /// The match of each group, if it took part.
    pub groups: Vec<Option<Range<usize>>>,
}

impl Regex {
    /// Parses an expression.
    ///
    /// # Errors
    /// 2201B if it is invalid, 54001 if it is too long; 0A000 for unsupported syntax.
    pub fn new(expression: &str, flags: Flags) -> Result<Regex, SqlError> {
        read::read(expression, flags)
    }

    /// How many groups it has.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Whether a part of a text matches.
    ///
    /// # Errors
    /// An error of the budget.
    pub fn is_in(&self, text: &str, budget: &Budget) -> Result<bool, SqlError> {
        let text = Text::new(text, budget)?;
        if self.refers {
            return Ok(self.next(&text, 0, false, budget)?.is_some());
        }
        let program = Program::new(&self.nodes)?;
        Ok(program.first_end(&text, 0, budget)?.is_some())
    }

    /// The first match in a text.
    ///
    /// # Errors
    /// An error of the budget.
    pub fn find(&self, text: &str, budget: &Budget) -> Result<Option<Found>, SqlError> {
        let mut first = None;
        self.each(text, budget, &mut |found| {
            first = Some(found);
            Ok(false)
        })?;
        Ok(first)
    }

    /// All matches, one after the other, until `take` returns false.
    ///
    /// # Errors
    /// An error of the budget or of `take`.
    pub fn each(
        &self,
        text: &str,
        budget: &Budget,
        take: &mut dyn FnMut(Found) -> Result<bool, SqlError>,
    ) -> Result<(), SqlError> {
        self.each_from(text, 0, budget, take)
    }

    /// As [`each`](Regex::each), from a position in characters on; the text before it is still
    /// visible to the expression.
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
            // An empty match is followed by one that begins at least one character later.
            from = if end > start { end } else { end + 1 };
            let bytes = |part: &Range<usize>| text.bytes(part);
            let groups = found.groups.iter().map(|group| group.as_ref().map(bytes)).collect();
            if !take(Found { whole: bytes(&found.whole), groups })? {
                break;
            }
        }
        Ok(())
    }

    /// The first match from a position on, and its groups if requested; all positions are in
    /// characters.
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
        // The match that ends first need not be the one that begins first, but the latter begins no
        // later than that end. This does not hold with back references, as the program does not
        // represent their text.
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

/// Whether a part of a text matches an expression.
///
/// # Errors
/// As [`Regex::new`]; an error of the budget.
pub fn matches(text: &str, regex: &str, folds: bool, budget: &Budget) -> Result<bool, SqlError> {
    Regex::new(regex, Flags { folds, ..Flags::default() })?.is_in(text, budget)
}

fn wrong(what: &str) -> SqlError {
    SqlError::new("2201B", format!("invalid regular expression: {what}"))
}

/// A pattern of SIMILAR TO as a regular expression. `_` stands for one character and `%` for any
/// number of them. `escape` before a double quote marks the start and the end of the part for
/// `substring`.
///
/// # Errors
/// 22025 for an escape that is not a single character, 2200C for more than two marks.
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
