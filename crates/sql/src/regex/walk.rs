//! Expressions as programs, and their execution on texts.
//!
//! The execution tracks a set of program steps; each character advances all of them. No step is in
//! the set twice, so the cost per character is bounded by the length of the program. Every step is
//! charged to the statement's budget. A back reference matches any characters here:
//! [`super::parts`] checks it.

use super::classes::{CharSet, is_of_word};
use super::read::{Node, Place};
use super::wrong;
use crate::budget::Budget;
use crate::error::SqlError;
use std::ops::Range;

/// The largest number of steps of a program: counts in braces multiply their operand.
const STEPS_MAX: usize = 100_000;

/// A text, character by character.
pub(super) struct Text {
    chars: Vec<char>,
    /// The byte position of each character, and the end.
    places: Vec<usize>,
}

impl Text {
    pub(super) fn new(text: &str, budget: &Budget) -> Result<Text, SqlError> {
        budget.charge(text.len() * (size_of::<char>() + 3 * size_of::<usize>()))?;
        let mut places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        places.push(text.len());
        Ok(Text { chars: text.chars().collect(), places })
    }

    pub(super) fn len(&self) -> usize {
        self.chars.len()
    }

    pub(super) fn chars(&self, part: Range<usize>) -> &[char] {
        &self.chars[part]
    }

    /// The byte range of a character range.
    pub(super) fn bytes(&self, part: &Range<usize>) -> Range<usize> {
        self.places[part.start]..self.places[part.end]
    }

    fn is(&self, place: Place, at: usize) -> bool {
        let before = at.checked_sub(1).map(|at| self.chars[at]);
        let next = self.chars.get(at).copied();
        let (was_word, is_word) = (before.is_some_and(is_of_word), next.is_some_and(is_of_word));
        match place {
            Place::TextStart => before.is_none(),
            Place::TextEnd => next.is_none(),
            Place::LineStart => before.is_none_or(|ch| ch == '\n'),
            Place::LineEnd => next.is_none_or(|ch| ch == '\n'),
            Place::WordStart => !was_word && is_word,
            Place::WordEnd => was_word && !is_word,
            Place::WordEdge => was_word != is_word,
            Place::NoWordEdge => was_word == is_word,
        }
    }
}

/// A step of a program.
enum Op<'n> {
    /// A character of this set; any character for a back reference.
    Char(Option<&'n CharSet>),
    At(Place),
    Look(Program<'n>, bool, bool),
    /// Continue at either of two steps.
    Either(usize, usize),
    Go(usize),
    Found,
}

/// See the [module documentation](super).
pub(super) struct Program<'n> {
    steps: Vec<Op<'n>>,
}

impl<'n> Program<'n> {
    /// The program of consecutive nodes.
    pub(super) fn new(nodes: &'n [Node]) -> Result<Program<'n>, SqlError> {
        let mut program = Program { steps: Vec::new() };
        for node in nodes {
            program.add(node)?;
        }
        program.steps.push(Op::Found);
        Ok(program)
    }

    /// The program of a repeated node.
    pub(super) fn repeated(
        node: &'n Node,
        least: u32,
        most: Option<u32>,
    ) -> Result<Program<'n>, SqlError> {
        let mut program = Program { steps: Vec::new() };
        program.add_repeated(node, least, most)?;
        program.steps.push(Op::Found);
        Ok(program)
    }

    fn add(&mut self, node: &'n Node) -> Result<(), SqlError> {
        if self.steps.len() > STEPS_MAX {
            return Err(wrong("regular expression is too complex"));
        }
        match node {
            Node::Char(chars) => self.steps.push(Op::Char(Some(chars))),
            Node::At(place) => self.steps.push(Op::At(*place)),
            Node::Look { inner, is_ahead, negated } => {
                self.steps.push(Op::Look(Program::new(inner)?, *is_ahead, *negated));
            }
            Node::Group(alternatives, _) => self.add_alternatives(alternatives)?,
            Node::Repeat(inner, count) => self.add_repeated(inner, count.least, count.most)?,
            Node::Back(..) => {
                let begin = self.steps.len();
                let back = [Op::Either(begin + 1, begin + 3), Op::Char(None), Op::Go(begin)];
                self.steps.extend(back);
            }
        }
        Ok(())
    }

    fn add_alternatives(&mut self, alternatives: &'n [Vec<Node>]) -> Result<(), SqlError> {
        let mut ends = Vec::new();
        for (number, nodes) in alternatives.iter().enumerate() {
            let either = self.steps.len();
            let is_last = number + 1 == alternatives.len();
            if !is_last {
                self.steps.push(Op::Found);
            }
            for node in nodes {
                self.add(node)?;
            }
            if !is_last {
                ends.push(self.steps.len());
                self.steps.push(Op::Found);
                self.steps[either] = Op::Either(either + 1, self.steps.len());
            }
        }
        let end = self.steps.len();
        ends.into_iter().for_each(|at| self.steps[at] = Op::Go(end));
        Ok(())
    }

    fn add_repeated(
        &mut self,
        node: &'n Node,
        least: u32,
        most: Option<u32>,
    ) -> Result<(), SqlError> {
        for _ in 0..least {
            self.add(node)?;
        }
        let Some(most) = most else {
            let begin = self.steps.len();
            self.steps.push(Op::Found);
            self.add(node)?;
            self.steps.push(Op::Go(begin));
            self.steps[begin] = Op::Either(begin + 1, self.steps.len());
            return Ok(());
        };
        let mut skips = Vec::new();
        for _ in least..most {
            skips.push(self.steps.len());
            self.steps.push(Op::Found);
            self.add(node)?;
        }
        let end = self.steps.len();
        skips.into_iter().for_each(|at| self.steps[at] = Op::Either(at + 1, end));
        Ok(())
    }

    /// The earliest end of a match that begins at `from` or behind it.
    pub(super) fn first_end(
        &self,
        text: &Text,
        from: usize,
        budget: &Budget,
    ) -> Result<Option<usize>, SqlError> {
        let mut first = None;
        Walk::new(self, text, budget).run(from..text.len(), true, &mut |end| {
            first = Some(end);
            false
        })?;
        Ok(first)
    }

    /// The ends of all matches that begin at `from`, up to `to`.
    pub(super) fn ends(
        &self,
        text: &Text,
        from: usize,
        to: usize,
        budget: &Budget,
    ) -> Result<Vec<usize>, SqlError> {
        let mut ends = Vec::new();
        Walk::new(self, text, budget).run(from..to, false, &mut |end| {
            ends.push(end);
            true
        })?;
        Ok(ends)
    }

    /// Whether a part matches as a whole.
    pub(super) fn fits(
        &self,
        text: &Text,
        part: Range<usize>,
        budget: &Budget,
    ) -> Result<bool, SqlError> {
        let (mut fits, to) = (false, part.end);
        Walk::new(self, text, budget).run(part, false, &mut |end| {
            fits = end == to;
            true
        })?;
        Ok(fits)
    }
}

/// The set of current steps.
struct Walk<'w> {
    program: &'w Program<'w>,
    text: &'w Text,
    budget: &'w Budget,
    places: Vec<usize>,
    /// The text position, from 1, at which a step was last reached.
    seen: Vec<usize>,
    todo: Vec<usize>,
}

impl Walk<'_> {
    fn new<'w>(program: &'w Program<'w>, text: &'w Text, budget: &'w Budget) -> Walk<'w> {
        let (places, todo) = (Vec::new(), Vec::new());
        Walk { program, text, budget, places, seen: vec![0; program.steps.len()], todo }
    }

    /// Runs the program on a part of the text, and reports each position where it ends, until
    /// `found` returns false. With `anywhere`, it may begin at each position.
    fn run(
        &mut self,
        part: Range<usize>,
        anywhere: bool,
        found: &mut dyn FnMut(usize) -> bool,
    ) -> Result<(), SqlError> {
        let mut before = Vec::new();
        let mut at = part.start;
        let mut ends = self.reach(0, at)?;
        loop {
            self.budget.tick(1 + self.places.len())?;
            let is_over = at == part.end || (self.places.is_empty() && !anywhere);
            if (ends && !found(at)) || is_over {
                return Ok(());
            }
            let ch = self.text.chars[at];
            at += 1;
            ends = false;
            std::mem::swap(&mut before, &mut self.places);
            for place in before.drain(..) {
                let Op::Char(wanted) = &self.program.steps[place] else { continue };
                if wanted.is_none_or(|chars| chars.have(ch)) {
                    ends |= self.reach(place + 1, at)?;
                }
            }
            if anywhere {
                ends |= self.reach(0, at)?;
            }
        }
    }

    /// Adds a step, and all that can be reached from it without a character; true if the end is
    /// among them.
    fn reach(&mut self, step: usize, at: usize) -> Result<bool, SqlError> {
        let mut ends = false;
        self.todo.push(step);
        while let Some(step) = self.todo.pop() {
            if std::mem::replace(&mut self.seen[step], at + 1) == at + 1 {
                continue;
            }
            match &self.program.steps[step] {
                Op::Char(_) => self.places.push(step),
                Op::At(place) if self.text.is(*place, at) => self.todo.push(step + 1),
                Op::At(_) => {}
                Op::Look(inner, is_ahead, negated) => {
                    if self.sees(inner, *is_ahead, at)? != *negated {
                        self.todo.push(step + 1);
                    }
                }
                Op::Either(one, other) => self.todo.extend([*one, *other]),
                Op::Go(to) => self.todo.push(*to),
                Op::Found => ends = true,
            }
        }
        Ok(ends)
    }

    /// Whether a program matches the text ahead, or behind.
    fn sees(&self, program: &Program<'_>, is_ahead: bool, at: usize) -> Result<bool, SqlError> {
        let mut sees = false;
        let part = if is_ahead { at..self.text.len() } else { 0..at };
        Walk::new(program, self.text, self.budget).run(part, !is_ahead, &mut |end| {
            sees = is_ahead || end == at;
            !sees
        })?;
        Ok(sees)
    }
}
