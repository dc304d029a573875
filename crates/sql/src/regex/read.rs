//! Parses an expression, in the syntax of PostgreSQL's advanced regular expressions.
//!
//! ```text
//!   ^a(b|[cd])*?
//!     At(TextStart)   Char(a)   Repeat(Group([[Char(b)], [Char(c-d)]], 1), 0.., non-greedy)
//! ```
//!
//! The size is bounded: in characters, in the depth of groups, and in the counts in braces.

use super::classes::{CharSet, Class};
use super::{Flags, Regex, wrong};
use crate::error::{SqlError, code};

/// The largest number of characters in an expression.
const CHARS_MAX: usize = 10_000;
/// The largest nesting depth of groups.
const DEPTH_MAX: usize = 50;
/// The largest count in braces.
const COUNT_MAX: u32 = 255;

/// A position between two characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    TextStart,
    TextEnd,
    LineStart,
    LineEnd,
    WordStart,
    WordEnd,
    WordEdge,
    NoWordEdge,
}

/// A quantifier: the number of repetitions, and whether it is non-greedy, if it specifies that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    pub(super) least: u32,
    pub(super) most: Option<u32>,
    pub(super) non_greedy: Option<bool>,
}

#[derive(Debug)]
pub(super) enum Node {
    Char(CharSet),
    At(Place),
    /// A lookahead or lookbehind, possibly negated.
    Look {
        inner: Vec<Node>,
        is_ahead: bool,
        negated: bool,
    },
    /// Alternatives, and the number of the group.
    Group(Vec<Vec<Node>>, Option<usize>),
    Repeat(Box<Node>, Count),
    /// A back reference.
    Back(usize, bool),
}

/// Whether consecutive nodes are non-greedy: the first quantifier determines it.
pub(super) fn wish(nodes: &[Node]) -> Option<bool> {
    nodes.iter().find_map(Node::wish)
}

/// As [`wish`]; greedy, if there is no quantifier.
pub(super) fn non_greedy(nodes: &[Node]) -> bool {
    wish(nodes) == Some(true)
}

impl Node {
    pub(super) fn wish(&self) -> Option<bool> {
        match self {
            Node::Repeat(inner, count) => count.non_greedy.or_else(|| inner.wish()),
            Node::Group(alternatives, _) if alternatives.len() > 1 => Some(false),
            Node::Group(alternatives, _) => alternatives.iter().find_map(|nodes| wish(nodes)),
            _ => None,
        }
    }

    /// True if it contains a back reference.
    pub(super) fn refers(&self) -> bool {
        match self {
            Node::Back(..) => true,
            Node::Group(alternatives, _) => alternatives.iter().flatten().any(Node::refers),
            Node::Repeat(inner, _) => inner.refers(),
            _ => false,
        }
    }

    /// True if only the start and end of its match matter. Then it has no group and no back
    /// reference, and all its quantifiers have the same preference.
    pub(super) fn is_plain(&self) -> bool {
        match self {
            Node::Group(_, Some(_)) | Node::Back(..) => false,
            Node::Group(alternatives, None) => alternatives.iter().all(|nodes| {
                nodes.iter().all(Node::is_plain)
                    && !(has_wish(nodes, true) && has_wish(nodes, false))
            }),
            Node::Repeat(inner, count) => {
                let differs = |wish: bool| inner.wish().is_some_and(|inner| inner != wish);
                inner.is_plain() && !count.non_greedy.is_some_and(differs)
            }
            _ => true,
        }
    }
}

fn has_wish(nodes: &[Node], wish: bool) -> bool {
    nodes.iter().any(|node| node.wish() == Some(wish))
}

/// Parses an expression.
pub(super) fn read(expression: &str, mut flags: Flags) -> Result<Regex, SqlError> {
    if expression.len() > CHARS_MAX {
        let message = format!("a regular expression has at most {CHARS_MAX} characters");
        return Err(SqlError::new(code::TOO_COMPLEX, message));
    }
    let mut rest = expression;
    if let Some(literal) = rest.strip_prefix("***=") {
        (rest, flags.literal) = (literal, true);
    }
    rest = rest.strip_prefix("***:").unwrap_or(rest);
    if rest.starts_with("***") {
        return Err(wrong("invalid argument to regex function"));
    }
    if !flags.literal {
        rest = options(rest, &mut flags)?;
    }
    if flags.literal {
        let ch = |ch: char| Node::Char(CharSet::one(ch, flags.folds));
        return Ok(Regex { nodes: rest.chars().map(ch).collect(), groups: 0, refers: false });
    }
    let chars: Vec<char> = rest.chars().collect();
    let (groups, refers) = (Vec::new(), false);
    let mut reader = Reader { chars: &chars, at: 0, flags, groups, refers, looks: false };
    let mut alternatives = reader.alternatives(0)?;
    if reader.at < chars.len() {
        return Err(wrong("parentheses () not balanced"));
    }
    let nodes = match alternatives.len() {
        1 => alternatives.remove(0),
        _ => vec![Node::Group(alternatives, None)],
    };
    Ok(Regex { nodes, groups: reader.groups.len(), refers: reader.refers })
}

/// Parses `(?options)` at the beginning.
fn options<'e>(expression: &'e str, flags: &mut Flags) -> Result<&'e str, SqlError> {
    let inside = expression.strip_prefix("(?").and_then(|rest| rest.split_once(')'));
    let Some((letters, rest)) = inside else { return Ok(expression) };
    if letters.is_empty() || !letters.chars().all(|ch| ch.is_ascii_alphabetic()) {
        return Ok(expression);
    }
    for option in letters.chars() {
        if !flags.set(option)? {
            return Err(wrong("invalid embedded option"));
        }
    }
    Ok(rest)
}

struct Reader<'e> {
    chars: &'e [char],
    at: usize,
    flags: Flags,
    /// Whether each group has ended.
    groups: Vec<bool>,
    refers: bool,
    /// Inside of lookaround, groups are not counted.
    looks: bool,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    /// Passes over these characters, if they come next.
    fn takes(&mut self, chars: &str) -> bool {
        let length = chars.chars().count();
        let found = self.chars[self.at..].iter().take(length).copied().eq(chars.chars());
        self.at += if found { length } else { 0 };
        found
    }

    /// Passes over blanks and comments, if they are ignored.
    fn skip(&mut self) {
        loop {
            if self.takes("(?#") {
                while self.peek().is_some_and(|ch| ch != ')') {
                    self.at += 1;
                }
                self.at += usize::from(self.peek().is_some());
            } else if self.flags.expanded && self.peek().is_some_and(char::is_whitespace) {
                self.at += 1;
            } else if self.flags.expanded && self.peek() == Some('#') {
                while self.peek().is_some_and(|ch| ch != '\n') {
                    self.at += 1;
                }
            } else {
                return;
            }
        }
    }

    fn alternatives(&mut self, depth: usize) -> Result<Vec<Vec<Node>>, SqlError> {
        if depth > DEPTH_MAX {
            return Err(wrong("regular expression is too complex"));
        }
        let mut all = vec![Vec::new()];
        loop {
            self.skip();
            match self.peek() {
                None => return Ok(all),
                Some(')') if depth > 0 => return Ok(all),
                Some(')') => return Err(wrong("parentheses () not balanced")),
                Some('|') => {
                    self.at += 1;
                    all.push(Vec::new());
                }
                Some(_) => {
                    let node = self.atom(depth)?;
                    let node = self.counted(node)?;
                    all.last_mut().expect("there is one at least").push(node);
                }
            }
        }
    }

    fn atom(&mut self, depth: usize) -> Result<Node, SqlError> {
        let ch = self.chars[self.at];
        self.at += 1;
        let lines = self.flags.anchors_lines;
        Ok(match ch {
            '(' => return self.group(depth),
            '[' if self.takes("[:<:]]") => Node::At(Place::WordStart),
            '[' if self.takes("[:>:]]") => Node::At(Place::WordEnd),
            '[' => Node::Char(self.brackets()?),
            '.' => Node::Char(CharSet::any(self.flags.stops_at_lines)),
            '^' => Node::At(if lines { Place::LineStart } else { Place::TextStart }),
            '$' => Node::At(if lines { Place::LineEnd } else { Place::TextEnd }),
            '\\' => return self.escape(),
            '*' | '+' | '?' => return Err(wrong("quantifier operand invalid")),
            '{' if self.peek().is_some_and(|next| next.is_ascii_digit()) => {
                return Err(wrong("quantifier operand invalid"));
            }
            other => self.ch(other),
        })
    }

    fn ch(&self, ch: char) -> Node {
        Node::Char(CharSet::one(ch, self.flags.folds))
    }

    fn group(&mut self, depth: usize) -> Result<Node, SqlError> {
        const LOOKS: [(&str, bool, bool); 4] =
            [("?=", true, false), ("?!", true, true), ("?<=", false, false), ("?<!", false, true)];
        for (mark, is_ahead, negated) in LOOKS {
            if self.takes(mark) {
                let looks = std::mem::replace(&mut self.looks, true);
                let inner = vec![Node::Group(self.inside(depth)?, None)];
                self.looks = looks;
                return Ok(Node::Look { inner, is_ahead, negated });
            }
        }
        if self.takes("?:") || self.looks {
            return Ok(Node::Group(self.inside(depth)?, None));
        }
        if self.peek() == Some('?') {
            return Err(wrong("quantifier operand invalid"));
        }
        let number = self.groups.len();
        self.groups.push(false);
        let inside = self.inside(depth)?;
        self.groups[number] = true;
        Ok(Node::Group(inside, Some(number)))
    }

    fn inside(&mut self, depth: usize) -> Result<Vec<Vec<Node>>, SqlError> {
        let inside = self.alternatives(depth + 1)?;
        if !self.takes(")") {
            return Err(wrong("parentheses () not balanced"));
        }
        Ok(inside)
    }

    /// A node with its quantifier, if there is one.
    fn counted(&mut self, node: Node) -> Result<Node, SqlError> {
        self.skip();
        let (least, most, is_exact) = match self.peek() {
            Some('*') => (0, None, false),
            Some('+') => (1, None, false),
            Some('?') => (0, Some(1), false),
            Some('{') if self.chars.get(self.at + 1).is_some_and(char::is_ascii_digit) => {
                self.at += 1;
                self.braces()?
            }
            _ => return Ok(node),
        };
        if matches!(node, Node::At(_) | Node::Look { .. }) {
            return Err(wrong("quantifier operand invalid"));
        }
        self.at += 1;
        let non_greedy = self.takes("?");
        let non_greedy = if is_exact { None } else { Some(non_greedy) };
        self.skip();
        let is_count = match self.peek() {
            Some('{') => self.chars.get(self.at + 1).is_some_and(char::is_ascii_digit),
            next => matches!(next, Some('*' | '+' | '?')),
        };
        if is_count {
            return Err(wrong("quantifier operand invalid"));
        }
        Ok(Node::Repeat(Box::new(node), Count { least, most, non_greedy }))
    }

    /// Parses `m}`, `m,}` or `m,n}`.
    fn braces(&mut self) -> Result<(u32, Option<u32>, bool), SqlError> {
        let least = self.number()?;
        let (most, is_exact) = match (self.takes(","), self.peek()) {
            (false, _) => (Some(least), true),
            (true, Some('}')) => (None, false),
            (true, _) => (Some(self.number()?), false),
        };
        match self.peek() {
            Some('}') => {}
            None => return Err(wrong("braces {} not balanced")),
            Some(_) => return Err(wrong("invalid repetition count(s)")),
        }
        if most.is_some_and(|most| most < least) {
            return Err(wrong("invalid repetition count(s)"));
        }
        Ok((least, most, is_exact))
    }

    fn number(&mut self) -> Result<u32, SqlError> {
        let (mut number, from) = (0, self.at);
        while let Some(digit) = self.peek().and_then(|ch| ch.to_digit(10)) {
            number = (number * 10 + digit).min(COUNT_MAX + 1);
            self.at += 1;
        }
        let is_none = self.at == from || number > COUNT_MAX;
        if is_none { Err(wrong("invalid repetition count(s)")) } else { Ok(number) }
    }

    /// Parses an escape, behind the backslash.
    fn escape(&mut self) -> Result<Node, SqlError> {
        let bad = || wrong("invalid escape \\ sequence");
        let ch = self.peek().ok_or_else(bad)?;
        if let Some(class) = Class::escaped(ch) {
            self.at += 1;
            return Ok(Node::Char(CharSet::class(class)));
        }
        let place = match ch {
            'A' => Some(Place::TextStart),
            'Z' => Some(Place::TextEnd),
            'm' => Some(Place::WordStart),
            'M' => Some(Place::WordEnd),
            'y' => Some(Place::WordEdge),
            'Y' => Some(Place::NoWordEdge),
            _ => None,
        };
        if let Some(place) = place {
            self.at += 1;
            return Ok(Node::At(place));
        }
        if let '1'..='9' = ch
            && let Some(group) = self.reference()?
        {
            self.refers = true;
            return Ok(Node::Back(group, self.flags.folds));
        }
        let ch = self.escaped_char()?;
        Ok(self.ch(ch))
    }

    /// The group that digits refer to; several digits are a reference only if that group exists,
    /// and an octal number otherwise.
    fn reference(&mut self) -> Result<Option<usize>, SqlError> {
        let digits = self.chars[self.at..].iter().take_while(|ch| ch.is_ascii_digit()).count();
        let text: String = self.chars[self.at..self.at + digits].iter().collect();
        let group = text.parse::<usize>().unwrap_or(usize::MAX);
        let has_ended = self.groups.get(group - 1) == Some(&true) && !self.looks;
        match (has_ended, digits) {
            (true, _) => {
                self.at += digits;
                Ok(Some(group - 1))
            }
            (false, 1) => Err(wrong("invalid backreference number")),
            (false, _) => Ok(None),
        }
    }

    /// An escape for a single character.
    fn escaped_char(&mut self) -> Result<char, SqlError> {
        let bad = || wrong("invalid escape \\ sequence");
        let ch = self.peek().ok_or_else(bad)?;
        self.at += 1;
        Ok(match ch {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'B' => '\\',
            'c' => {
                let control = self.peek().ok_or_else(bad)?;
                self.at += 1;
                char::from(control as u8 & 0x1f)
            }
            'e' => '\u{1b}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'u' => self.code(16, 4..=4)?,
            'U' => self.code(16, 8..=8)?,
            'x' => self.code(16, 1..=255)?,
            '0'..='7' => {
                self.at -= 1;
                self.code(8, 1..=3)?
            }
            ch if ch.is_ascii_alphanumeric() => return Err(bad()),
            ch => ch,
        })
    }

    /// The character with a code of this many digits.
    fn code(
        &mut self,
        base: u32,
        digits: std::ops::RangeInclusive<usize>,
    ) -> Result<char, SqlError> {
        let (mut number, mut count) = (0u32, 0);
        while count < *digits.end()
            && let Some(digit) = self.peek().and_then(|ch| ch.to_digit(base))
        {
            number = number.saturating_mul(base).saturating_add(digit);
            (self.at, count) = (self.at + 1, count + 1);
        }
        let ch = char::from_u32(number).filter(|_| digits.contains(&count));
        ch.ok_or_else(|| wrong("invalid escape \\ sequence"))
    }

    /// Parses a bracket expression.
    fn brackets(&mut self) -> Result<CharSet, SqlError> {
        let mut chars = CharSet { folds: self.flags.folds, ..CharSet::default() };
        chars.negated = self.takes("^");
        let first = self.at;
        loop {
            match self.peek() {
                None => return Err(wrong("brackets [] not balanced")),
                Some(']') if self.at > first => break,
                Some('\\')
                    if self
                        .chars
                        .get(self.at + 1)
                        .is_some_and(|s| Class::escaped(*s).is_some()) =>
                {
                    chars.classes.extend(Class::escaped(self.chars[self.at + 1]));
                    self.at += 2;
                    self.check_no_range()?;
                }
                Some('[') if self.chars.get(self.at + 1) == Some(&':') => {
                    let name = self.enclosed(':')?;
                    let class = Class::named(&name);
                    let class = class.ok_or_else(|| wrong("invalid character class"))?;
                    // If case is ignored, the classes `lower` and `upper` match both.
                    let is_case = matches!(class, Class::Lower | Class::Upper) && chars.folds;
                    chars.classes.push((if is_case { Class::Alpha } else { class }, false));
                    self.check_no_range()?;
                }
                Some(_) => {
                    let from = self.listed()?;
                    let is_range = self.peek() == Some('-')
                        && self.chars.get(self.at + 1).is_some_and(|next| *next != ']');
                    let mut to = from;
                    if is_range {
                        self.at += 1;
                        to = self.listed()?;
                    }
                    if to < from {
                        return Err(wrong("invalid character range"));
                    }
                    chars.ranges.push((from, to));
                }
            }
        }
        self.at += 1;
        if chars.negated && self.flags.stops_at_lines {
            chars.ranges.push(('\n', '\n'));
        }
        Ok(chars)
    }

    /// A class cannot be the end of a range.
    fn check_no_range(&self) -> Result<(), SqlError> {
        let is_range = self.peek() == Some('-')
            && self.chars.get(self.at + 1).is_some_and(|next| *next != ']');
        if is_range { Err(wrong("invalid character range")) } else { Ok(()) }
    }

    /// Parses one character in brackets.
    fn listed(&mut self) -> Result<char, SqlError> {
        let ch = self.peek().ok_or_else(|| wrong("brackets [] not balanced"))?;
        if ch == '[' {
            if let Some(kind @ ('.' | '=')) = self.chars.get(self.at + 1) {
                let name = self.enclosed(*kind)?;
                let mut chars = name.chars();
                return match (chars.next(), chars.next()) {
                    (Some(ch), None) => Ok(ch),
                    _ => Err(wrong("invalid collating element")),
                };
            }
            if self.chars.get(self.at + 1) == Some(&':') {
                return Err(wrong("invalid character range"));
            }
        }
        self.at += 1;
        if ch != '\\' {
            return Ok(ch);
        }
        if self.peek().and_then(Class::escaped).is_some() {
            return Err(wrong("invalid character range"));
        }
        self.escaped_char()
    }

    /// Parses the text between `[:` and `:]`, or a similar pair.
    fn enclosed(&mut self, mark: char) -> Result<String, SqlError> {
        self.at += 2;
        let from = self.at;
        while self.at + 1 < self.chars.len() {
            if self.chars[self.at] == mark && self.chars[self.at + 1] == ']' {
                self.at += 2;
                return Ok(self.chars[from..self.at - 2].iter().collect());
            }
            self.at += 1;
        }
        Err(wrong("brackets [] not balanced"))
    }
}
