//! Classes of characters: those of brackets and of escapes.

/// A class by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    Alnum,
    Alpha,
    Blank,
    Cntrl,
    Digit,
    Graph,
    Lower,
    Print,
    Punct,
    Space,
    Upper,
    Xdigit,
    Word,
}

impl Class {
    pub(super) fn named(name: &str) -> Option<Class> {
        Some(match name {
            "alnum" => Class::Alnum,
            "alpha" => Class::Alpha,
            "blank" => Class::Blank,
            "cntrl" => Class::Cntrl,
            "digit" => Class::Digit,
            "graph" => Class::Graph,
            "lower" => Class::Lower,
            "print" => Class::Print,
            "punct" => Class::Punct,
            "space" => Class::Space,
            "upper" => Class::Upper,
            "xdigit" => Class::Xdigit,
            "word" => Class::Word,
            _ => return None,
        })
    }

    /// The class of an escape, and whether it is negated.
    pub(super) fn escaped(ch: char) -> Option<(Class, bool)> {
        let class = match ch.to_ascii_lowercase() {
            'd' => Class::Digit,
            's' => Class::Space,
            'w' => Class::Word,
            _ => return None,
        };
        Some((class, ch.is_ascii_uppercase()))
    }

    fn has(self, ch: char) -> bool {
        match self {
            Class::Alnum => ch.is_alphanumeric(),
            Class::Alpha => ch.is_alphabetic(),
            Class::Blank => matches!(ch, ' ' | '\t'),
            Class::Cntrl => ch.is_control(),
            Class::Digit => ch.is_ascii_digit(),
            Class::Graph => !ch.is_control() && !ch.is_whitespace(),
            Class::Lower => ch.is_lowercase(),
            Class::Print => !ch.is_control(),
            Class::Punct if ch.is_ascii() => ch.is_ascii_punctuation(),
            Class::Punct => Class::Graph.has(ch) && !ch.is_alphanumeric(),
            Class::Space => ch.is_whitespace(),
            Class::Upper => ch.is_uppercase(),
            Class::Xdigit => ch.is_ascii_hexdigit(),
            Class::Word => is_of_word(ch),
        }
    }
}

/// True for word characters.
pub(super) fn is_of_word(ch: char) -> bool {
    ch.is_alphanumeric() || ch == '_'
}

/// A set of characters.
#[derive(Clone, Default, Debug)]
pub(super) struct CharSet {
    pub(super) ranges: Vec<(char, char)>,
    /// Classes, each with whether it is negated.
    pub(super) classes: Vec<(Class, bool)>,
    pub(super) negated: bool,
    /// Case is ignored.
    pub(super) folds: bool,
}

impl CharSet {
    pub(super) fn one(ch: char, folds: bool) -> CharSet {
        CharSet { ranges: vec![(ch, ch)], folds, ..CharSet::default() }
    }

    pub(super) fn class(class: (Class, bool)) -> CharSet {
        CharSet { classes: vec![class], ..CharSet::default() }
    }

    /// All characters, or all but line ends.
    pub(super) fn any(but_lines: bool) -> CharSet {
        let ranges = if but_lines { vec![('\n', '\n')] } else { Vec::new() };
        CharSet { ranges, negated: true, ..CharSet::default() }
    }

    pub(super) fn have(&self, ch: char) -> bool {
        let is_listed = match self.folds {
            true => cases(ch).any(|ch| self.lists(ch)),
            false => self.lists(ch),
        };
        is_listed != self.negated
    }

    fn lists(&self, ch: char) -> bool {
        self.ranges.iter().any(|(from, to)| (*from..=*to).contains(&ch))
            || self.classes.iter().any(|(class, others)| class.has(ch) != *others)
    }
}

/// A letter in both cases.
fn cases(ch: char) -> impl Iterator<Item = char> {
    [ch].into_iter().chain(ch.to_lowercase()).chain(ch.to_uppercase())
}

/// True for the same character; if `folds`, case is ignored.
pub(super) fn are_same(a: char, b: char, folds: bool) -> bool {
    a == b || (folds && cases(a).any(|a| cases(b).any(|b| a == b)))
}
