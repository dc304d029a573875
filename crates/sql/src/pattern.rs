//! Patterns: LIKE, and enough of POSIX regular expressions for what clients ask of the catalog.
//!
//! A regular expression becomes a program whose places a text walks through all at once, so that a text costs
//! at most its length times the pattern's, whatever the pattern:
//!
//! ```text
//!   a(b|c)*    0 a    1 either 2 or 6    2 either 3 or 4    3 b, go to 1    4 c    5 go to 1    6 found
//!   "ab"       {0} ─a─▶ {1 2 3 4 6}: found
//! ```
//!
//! Understood are `^ $ . [..] ( | ) * + ?`, `\d \s \w` and their opposites, and `\` before a sign. What means something else
//! at PostgreSQL is refused by name: references to groups, other escapes, counts in braces, classes by name, `(?..)`.

use crate::budget::Budget;
use crate::error::{SqlError, clipped, code};
use crate::functions::lower;
use std::borrow::Cow;

/// A pattern has at most so many parts.
const PARTS_MAX: usize = 10_000;
/// Groups may be nested so deep.
const DEPTH_MAX: usize = 50;

/// Whether a text is like a pattern: `%` stands for any characters, `_` for one.
///
/// # Errors
/// What the budget has against it.
pub fn like(text: &str, pattern: &str, folds: bool, budget: &Budget) -> Result<bool, SqlError> {
    let (text, pattern) = (folded(text, folds, budget)?, folded(pattern, folds, budget)?);
    // What is left of both.
    let (mut text, mut pattern): (&str, &str) = (&text, &pattern);
    // Where to go on after the last `%`, if what follows it does not fit.
    let mut retry: Option<(&str, &str)> = None;
    loop {
        budget.tick(1)?;
        let (mut signs, mut wanted) = (text.chars(), pattern.chars());
        let Some(sign) = signs.next() else { break };
        let first = wanted.next();
        let next = if first == Some('\\') { wanted.clone().next() } else { None };
        let fits = match (first, next) {
            (Some('\\'), Some(escaped)) => {
                wanted.next();
                escaped == sign
            }
            (Some('%'), _) => {
                pattern = wanted.as_str();
                if pattern.is_empty() {
                    return Ok(true);
                }
                retry = Some((text, pattern));
                continue;
            }
            (Some('_'), _) => true,
            (plain, _) => plain == Some(sign),
        };
        if fits {
            (text, pattern) = (signs.as_str(), wanted.as_str());
        } else if let Some((from, after)) = retry {
            let from = &from[from.chars().next().map_or(0, char::len_utf8)..];
            retry = Some((from, after));
            (text, pattern) = (from, after);
        } else {
            return Ok(false);
        }
    }
    Ok(pattern.bytes().all(|sign| sign == b'%'))
}

/// A text as it is, or with small letters.
fn folded<'t>(text: &'t str, folds: bool, budget: &Budget) -> Result<Cow<'t, str>, SqlError> {
    Ok(if folds { Cow::Owned(lower(text, budget)?) } else { Cow::Borrowed(text) })
}

#[derive(Debug)]
enum Node {
    Char(char),
    Any,
    Set(Vec<(char, char)>, bool),
    Start,
    End,
    Group(Vec<Vec<Node>>),
    /// Not at all or once, at least once, or any number of times: whether it may be left out, and repeated.
    Repeat(Box<Node>, bool, bool),
}

/// A step of a program.
enum Op<'n> {
    /// A sign that this node describes.
    Sign(&'n Node),
    Start,
    End,
    /// On here or there.
    Either(usize, usize),
    Go(usize),
    Found,
}

/// Whether a text has a part that a regular expression describes.
///
/// # Errors
/// 2201B if the pattern is none, 54001 if it is too long; what the budget has against it.
pub fn regex(text: &str, pattern: &str, folds: bool, budget: &Budget) -> Result<bool, SqlError> {
    // In small letters, an escape would be its opposite.
    if folds && ["\\D", "\\W", "\\S"].iter().any(|escape| pattern.contains(escape)) {
        return Err(SqlError::unsupported(
            "\\D, \\W or \\S where letters of both cases are the same",
        ));
    }
    let (text, pattern) = (folded(text, folds, budget)?, folded(pattern, folds, budget)?);
    if pattern.len() > PARTS_MAX {
        let message = format!("a regular expression has at most {PARTS_MAX} signs");
        return Err(SqlError::new(code::TOO_COMPLEX, message));
    }
    let signs: Vec<char> = pattern.chars().collect();
    let mut at = 0;
    let alternatives = parse(&signs, &mut at, 0)?;
    if at < signs.len() {
        return Err(bad(&pattern));
    }
    let mut program = Vec::new();
    let group = Node::Group(alternatives);
    compile(&group, &mut program);
    program.push(Op::Found);
    Walk::new(&program).finds(&text, budget)
}

fn compile<'n>(node: &'n Node, program: &mut Vec<Op<'n>>) {
    match node {
        Node::Char(_) | Node::Any | Node::Set(..) => program.push(Op::Sign(node)),
        Node::Start => program.push(Op::Start),
        Node::End => program.push(Op::End),
        Node::Group(alternatives) => {
            let mut ends = Vec::new();
            for (number, nodes) in alternatives.iter().enumerate() {
                let either = program.len();
                let is_last = number + 1 == alternatives.len();
                if !is_last {
                    program.push(Op::Found);
                }
                nodes.iter().for_each(|node| compile(node, program));
                if !is_last {
                    ends.push(program.len());
                    program.push(Op::Found);
                    program[either] = Op::Either(either + 1, program.len());
                }
            }
            let end = program.len();
            ends.into_iter().for_each(|at| program[at] = Op::Go(end));
        }
        Node::Repeat(inner, may_lack, may_repeat) => {
            let begin = program.len();
            if *may_lack {
                program.push(Op::Found);
            }
            let first = program.len();
            compile(inner, program);
            if *may_repeat {
                let again = if *may_lack { begin } else { first };
                let end = program.len() + 1;
                program.push(if *may_lack { Op::Go(again) } else { Op::Either(again, end) });
            }
            if *may_lack {
                program[begin] = Op::Either(first, program.len());
            }
        }
    }
}

/// The places of a program where a text is.
struct Walk<'p> {
    program: &'p [Op<'p>],
    places: Vec<usize>,
    next: Vec<usize>,
    /// The sign before which a place was last reached, counted from 1.
    seen: Vec<usize>,
    todo: Vec<usize>,
}

impl Walk<'_> {
    fn new<'p>(program: &'p [Op<'p>]) -> Walk<'p> {
        let (places, next, todo) = (Vec::new(), Vec::new(), Vec::new());
        Walk { program, places, next, seen: vec![0; program.len()], todo }
    }

    fn finds(&mut self, text: &str, budget: &Budget) -> Result<bool, SqlError> {
        let mut signs = text.chars();
        let mut number = 1;
        loop {
            let is_end = signs.as_str().is_empty();
            // A part may begin anywhere.
            if self.reaches(0, number, is_end) {
                return Ok(true);
            }
            budget.tick(1 + self.places.len())?;
            let Some(sign) = signs.next() else { return Ok(false) };
            number += 1;
            let is_end = signs.as_str().is_empty();
            let mut places = std::mem::replace(&mut self.places, std::mem::take(&mut self.next));
            for place in places.drain(..) {
                let Op::Sign(node) = &self.program[place] else { continue };
                if is_sign(node, sign) && self.reaches(place + 1, number, is_end) {
                    return Ok(true);
                }
            }
            self.next = places;
        }
    }

    /// Goes to a place, and to all that can be reached from there without a sign; true if the end is among them.
    fn reaches(&mut self, place: usize, number: usize, is_end: bool) -> bool {
        self.todo.push(place);
        while let Some(place) = self.todo.pop() {
            if std::mem::replace(&mut self.seen[place], number) == number {
                continue;
            }
            match self.program[place] {
                Op::Sign(_) => self.places.push(place),
                Op::Start if number == 1 => self.todo.push(place + 1),
                Op::End if is_end => self.todo.push(place + 1),
                Op::Start | Op::End => {}
                Op::Either(one, other) => self.todo.extend([one, other]),
                Op::Go(to) => self.todo.push(to),
                Op::Found => {
                    self.todo.clear();
                    return true;
                }
            }
        }
        false
    }
}

fn is_sign(node: &Node, sign: char) -> bool {
    match node {
        Node::Char(wanted) => *wanted == sign,
        Node::Set(ranges, negated) => {
            ranges.iter().any(|(from, to)| (from..=to).contains(&&sign)) != *negated
        }
        _ => true,
    }
}

fn bad(pattern: &str) -> SqlError {
    SqlError::new("2201B", format!("invalid regular expression: {}", clipped(pattern)))
        .hint("Understood are ^ $ . [..] ( | ) * + ? and a backslash before a sign.")
}

fn parse(signs: &[char], at: &mut usize, depth: usize) -> Result<Vec<Vec<Node>>, SqlError> {
    let wrong = || bad(&signs.iter().collect::<String>());
    if depth > DEPTH_MAX {
        return Err(wrong());
    }
    let mut alternatives = vec![Vec::new()];
    while let Some(&sign) = signs.get(*at) {
        *at += 1;
        let node = match sign {
            '|' => {
                alternatives.push(Vec::new());
                continue;
            }
            ')' if depth > 0 => {
                *at -= 1;
                break;
            }
            '(' => {
                if signs[*at..].starts_with(&['?', ':']) {
                    *at += 2;
                }
                if signs.get(*at) == Some(&'?') {
                    return Err(SqlError::unsupported("(?..) in a regular expression"));
                }
                let group = Node::Group(parse(signs, at, depth + 1)?);
                if signs.get(*at) != Some(&')') {
                    return Err(wrong());
                }
                *at += 1;
                group
            }
            '[' => {
                let end = signs[*at..].iter().skip(1).position(|sign| *sign == ']');
                let inside: String =
                    signs[*at..].iter().take(end.map_or(0, |end| end + 1)).collect();
                let named = ["[:", "[.", "[="].iter().any(|class| inside.contains(class));
                if named || inside.contains('\\') {
                    let what =
                        "a class by its name, or an escape, in brackets of a regular expression";
                    return Err(SqlError::unsupported(what));
                }
                parse_set(signs, at).ok_or_else(wrong)?
            }
            '.' => Node::Any,
            '^' => Node::Start,
            '$' => Node::End,
            '\\' => {
                *at += 1;
                escaped(*signs.get(*at - 1).ok_or_else(wrong)?)?
            }
            '{' if signs.get(*at).is_some_and(char::is_ascii_digit) => {
                return Err(SqlError::unsupported("a count in braces in a regular expression"));
            }
            '*' | '+' | '?' => {
                let list = alternatives.last_mut().expect("there is one at least");
                let (may_lack, may_repeat) = (sign != '+', sign != '?');
                match list.pop().ok_or_else(wrong)? {
                    // One of one is one that may do what either may.
                    Node::Repeat(inner, lacks, repeats) => {
                        Node::Repeat(inner, lacks || may_lack, repeats || may_repeat)
                    }
                    node => Node::Repeat(Box::new(node), may_lack, may_repeat),
                }
            }
            other => Node::Char(other),
        };
        alternatives.last_mut().expect("there is one at least").push(node);
    }
    Ok(alternatives)
}

/// What stands behind a backslash.
fn escaped(sign: char) -> Result<Node, SqlError> {
    let digits = ('0', '9');
    let letters = [('a', 'z'), ('A', 'Z'), ('_', '_')];
    let blanks = [(' ', ' '), ('\t', '\r')];
    Ok(match sign {
        'd' | 'D' => Node::Set(vec![digits], sign == 'D'),
        's' | 'S' => Node::Set(blanks.to_vec(), sign == 'S'),
        'w' | 'W' => Node::Set([&letters[..], &[digits]].concat(), sign == 'W'),
        'n' => Node::Char('\n'),
        't' => Node::Char('\t'),
        'r' => Node::Char('\r'),
        sign if sign.is_ascii_alphanumeric() => {
            return Err(SqlError::unsupported(format!("\\{sign} in a regular expression")));
        }
        sign => Node::Char(sign),
    })
}

fn parse_set(signs: &[char], at: &mut usize) -> Option<Node> {
    let negated = signs.get(*at) == Some(&'^');
    *at += usize::from(negated);
    let mut ranges = Vec::new();
    loop {
        let from = *signs.get(*at)?;
        *at += 1;
        if from == ']' && !ranges.is_empty() {
            return Some(Node::Set(ranges, negated));
        }
        if signs.get(*at) == Some(&'-') && signs.get(*at + 1).is_some_and(|&c| c != ']') {
            ranges.push((from, signs[*at + 1]));
            *at += 2;
        } else {
            ranges.push((from, from));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_patterns() {
        let budget = Budget::unlimited();
        for (text, pattern, expected) in [
            ("abc", "a%", true),
            ("abc", "a_c", true),
            ("abc", "%b", false),
            ("a%c", "a\\%c", true),
            ("abc", "a\\%c", false),
            ("aXbXc", "a%X_", true),
            ("", "%", true),
            ("", "%%", true),
            ("ab", "%%b", true),
            ("a\\", "a\\", true),
            ("äöü", "ä_ü", true),
            ("aaaaab", "%a%b", true),
        ] {
            assert_eq!(like(text, pattern, false, &budget), Ok(expected), "{text} {pattern}");
        }
        assert_eq!(like("ABC", "abc", true, &budget), Ok(true));
    }

    #[test]
    fn regular_expressions() {
        let budget = Budget::unlimited();
        let regex = |text: &str, pattern: &str| regex(text, pattern, false, &budget);
        for (text, pattern, expected) in [
            ("accounts", "^(accounts)$", true),
            ("accounts2", "^(accounts)$", false),
            ("pg_toast_1", "^pg_toast", true),
            ("xaab", "a+b", true),
            ("abc", "^[a-c]*$", true),
            ("abd", "^[^d]*$", false),
            ("a.c", "a\\.c", true),
            ("foo", "^(bar|fo*)$", true),
            ("", "", true),
            ("", "^$", true),
            ("ab", "^(a|b|)*$", true),
            ("ac", "ab?c", true),
            ("abbc", "ab?c", false),
            ("b", "^a+", false),
            ("xay", "^(x|y)(a?)+(x|y)$", true),
        ] {
            assert_eq!(regex(text, pattern), Ok(expected), "{text} {pattern}");
        }
        assert!(regex("a", "(").is_err() && regex("a", "*").is_err());
        let long = "a".repeat(30_000);
        assert_eq!(regex(&long, "(a*)*(a*)*(a*)*b"), Ok(false));
        assert_eq!(regex("a", &"a".repeat(20_000)).unwrap_err().code, code::TOO_COMPLEX);
    }
}
