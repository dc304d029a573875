//! Classes of signs: those of brackets and of escapes.

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

    /// The class of an escape, and whether it is all that is not of the class.
    pub(super) fn escaped(sign: char) -> Option<(Class, bool)> {
        let class = match sign.to_ascii_lowercase() {
            'd' => Class::Digit,
            's' => Class::Space,
            'w' => Class::Word,
            _ => return None,
        };
        Some((class, sign.is_ascii_uppercase()))
    }

    fn has(self, sign: char) -> bool {
        match self {
            Class::Alnum => sign.is_alphanumeric(),
            Class::Alpha => sign.is_alphabetic(),
            Class::Blank => matches!(sign, ' ' | '\t'),
            Class::Cntrl => sign.is_control(),
            Class::Digit => sign.is_ascii_digit(),
            Class::Graph => !sign.is_control() && !sign.is_whitespace(),
            Class::Lower => sign.is_lowercase(),
            Class::Print => !sign.is_control(),
            Class::Punct if sign.is_ascii() => sign.is_ascii_punctuation(),
            Class::Punct => Class::Graph.has(sign) && !sign.is_alphanumeric(),
            Class::Space => sign.is_whitespace(),
            Class::Upper => sign.is_uppercase(),
            Class::Xdigit => sign.is_ascii_hexdigit(),
            Class::Word => is_of_word(sign),
        }
    }
}

/// True for what words are made of.
pub(super) fn is_of_word(sign: char) -> bool {
    sign.is_alphanumeric() || sign == '_'
}

/// Some signs of all.
#[derive(Clone, Default, Debug)]
pub(super) struct Signs {
    pub(super) ranges: Vec<(char, char)>,
    /// Each with whether all others are meant.
    pub(super) classes: Vec<(Class, bool)>,
    pub(super) negated: bool,
    /// Letters of both cases are the same.
    pub(super) folds: bool,
}

impl Signs {
    pub(super) fn one(sign: char, folds: bool) -> Signs {
        Signs { ranges: vec![(sign, sign)], folds, ..Signs::default() }
    }

    pub(super) fn class(class: (Class, bool)) -> Signs {
        Signs { classes: vec![class], ..Signs::default() }
    }

    /// All, or all but the end of a line.
    pub(super) fn any(but_lines: bool) -> Signs {
        let ranges = if but_lines { vec![('\n', '\n')] } else { Vec::new() };
        Signs { ranges, negated: true, ..Signs::default() }
    }

    pub(super) fn have(&self, sign: char) -> bool {
        let is_listed = match self.folds {
            true => cases(sign).any(|sign| self.lists(sign)),
            false => self.lists(sign),
        };
        is_listed != self.negated
    }

    fn lists(&self, sign: char) -> bool {
        self.ranges.iter().any(|(from, to)| (*from..=*to).contains(&sign))
            || self.classes.iter().any(|(class, others)| class.has(sign) != *others)
    }
}

/// A letter in all its cases.
fn cases(sign: char) -> impl Iterator<Item = char> {
    [sign].into_iter().chain(sign.to_lowercase()).chain(sign.to_uppercase())
}

/// True for the same letter, in whichever case.
pub(super) fn are_same(a: char, b: char, folds: bool) -> bool {
    a == b || (folds && cases(a).any(|a| cases(b).any(|b| a == b)))
}
