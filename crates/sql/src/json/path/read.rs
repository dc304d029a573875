//! The grammar of paths.
//!
//! ```text
//!   either     both || both
//!   both       test && test
//!   test       ! (..)    sum == sum    sum starts with ".."    sum like_regex ".."
//!   sum        product + product
//!   product    signed * signed
//!   signed     - signed
//!   accessed   $.a[0] ? (..)    "text"    (..)    exists (..)
//! ```
//!
//! Predicates and expressions begin alike, so one reader reads both, and says which one it found.

use super::tokens::{Token, Tokens, syntax};
use super::{Method, Path, Step, Steps};
use crate::budget::Budget;
use crate::error::{SqlError, code};
use crate::expr::{Arith, Compare};
use crate::numeric::{Decimal, overflow, read_bytes};
use crate::regex::{Flags, Regex};

/// How many operators a path may have: each nests the tree once more.
const OPERATORS_MAX: usize = 2_000;

/// Reads a path.
///
/// # Errors
/// 42601 if it is none, 22P02 if it is empty or has broken escapes, 2201B for a wrong regular
/// expression; 54001 if it is too long.
pub(crate) fn read(text: &str, budget: &Budget) -> Result<Path, SqlError> {
    budget.charge(text.len())?;
    let (tokens, token) = (Tokens::new(text), Token::End);
    let (filters, subscripts, operators, later) = (0, 0, 0, None);
    let mut reader = PathReader { tokens, token, budget, filters, subscripts, operators, later };
    reader.advance()?;
    if reader.token == Token::End {
        let message = format!("invalid input syntax for type jsonpath: \"{text}\"");
        return Err(SqlError::new(code::INVALID_TEXT, message));
    }
    let is_strict = reader.is_word("strict");
    if is_strict || reader.is_word("lax") {
        reader.advance()?;
    }
    let steps = reader.either()?.steps;
    if reader.token != Token::End {
        return Err(reader.wrong());
    }
    match reader.later {
        Some(error) => Err(error),
        None => Ok(Path { is_strict, steps }),
    }
}

struct PathReader<'t, 'b> {
    tokens: Tokens<'t>,
    token: Token,
    budget: &'b Budget,
    /// How many filters and how many subscripts the token is in.
    filters: usize,
    subscripts: usize,
    operators: usize,
    /// An error that counts if the grammar finds none.
    later: Option<SqlError>,
}

/// An expression, or a predicate.
struct Found {
    steps: Steps,
    is_predicate: bool,
}

fn predicate(step: Step) -> Found {
    Found { steps: vec![step], is_predicate: true }
}

fn expression(steps: Steps) -> Found {
    Found { steps, is_predicate: false }
}

impl PathReader<'_, '_> {
    fn advance(&mut self) -> Result<Token, SqlError> {
        self.budget.charge(2 * size_of::<Step>())?;
        let next = self.tokens.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    fn wrong(&self) -> SqlError {
        syntax("syntax error", self.tokens.near)
    }

    fn is(&self, sign: &str) -> bool {
        matches!(self.token, Token::Sign(found) if found == sign)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.token, Token::Word(_, found) if found == word)
    }

    fn takes(&mut self, sign: &str) -> Result<bool, SqlError> {
        let is_next = self.is(sign);
        if is_next {
            self.advance()?;
        }
        Ok(is_next)
    }

    fn expect(&mut self, sign: &str) -> Result<(), SqlError> {
        if self.takes(sign)? { Ok(()) } else { Err(self.wrong()) }
    }

    fn expect_word(&mut self, word: &str) -> Result<(), SqlError> {
        if !self.is_word(word) {
            return Err(self.wrong());
        }
        self.advance().map(drop)
    }

    /// The only step of a predicate.
    fn as_predicate(&self, found: Found) -> Result<Step, SqlError> {
        let mut steps = found.steps;
        match steps.pop() {
            Some(step) if found.is_predicate => Ok(step),
            _ => Err(self.wrong()),
        }
    }

    fn as_expression(&self, found: Found) -> Result<Steps, SqlError> {
        if found.is_predicate { Err(self.wrong()) } else { Ok(found.steps) }
    }

    fn count_operator(&mut self) -> Result<(), SqlError> {
        self.operators += 1;
        if self.operators > OPERATORS_MAX {
            let message = format!("a jsonpath has more than {OPERATORS_MAX} operators");
            return Err(SqlError::new(code::TOO_COMPLEX, message));
        }
        Ok(())
    }

    fn either(&mut self) -> Result<Found, SqlError> {
        self.budget.deeper()?;
        let mut left = self.both()?;
        while self.is("||") {
            let first = self.as_predicate(left)?;
            self.count_operator()?;
            self.advance()?;
            let second = self.both()?;
            left = predicate(Step::Or(Box::new([first, self.as_predicate(second)?])));
        }
        Ok(left)
    }

    fn both(&mut self) -> Result<Found, SqlError> {
        let mut left = self.test()?;
        while self.is("&&") {
            let first = self.as_predicate(left)?;
            self.count_operator()?;
            self.advance()?;
            let second = self.test()?;
            left = predicate(Step::And(Box::new([first, self.as_predicate(second)?])));
        }
        Ok(left)
    }

    fn test(&mut self) -> Result<Found, SqlError> {
        if self.takes("!")? {
            let inner = match self.is("(") {
                true => {
                    self.advance()?;
                    let inner = self.either()?;
                    let inner = self.as_predicate(inner)?;
                    self.expect(")")?;
                    inner
                }
                false if self.is_word("exists") => self.exists()?,
                false => return Err(self.wrong()),
            };
            return Ok(predicate(Step::Not(Box::new(inner))));
        }
        let left = self.sum()?;
        if left.is_predicate {
            return Ok(left);
        }
        let compare = match self.token {
            Token::Sign("==") => Compare::Eq,
            Token::Sign("!=" | "<>") => Compare::Ne,
            Token::Sign("<") => Compare::Lt,
            Token::Sign("<=") => Compare::Le,
            Token::Sign(">") => Compare::Gt,
            Token::Sign(">=") => Compare::Ge,
            Token::Word(_, "starts") => {
                self.advance()?;
                self.expect_word("with")?;
                let start = match self.advance()? {
                    Token::Text(text) => Step::Text(text),
                    Token::Variable(name) => Step::Variable(name),
                    other => return Err(self.wrong_before(other)),
                };
                return Ok(predicate(Step::StartsWith(Box::new([left.steps, vec![start]]))));
            }
            Token::Word(_, "like_regex") => return self.like(left.steps),
            _ => return Ok(left),
        };
        self.advance()?;
        let right = self.sum()?;
        let right = self.as_expression(right)?;
        Ok(predicate(Step::Compare(compare, Box::new([left.steps, right]))))
    }

    /// The error for a token that was passed over.
    fn wrong_before(&self, token: Token) -> SqlError {
        let near = match token {
            Token::Sign(sign) => sign.to_owned(),
            Token::Whole(digits) | Token::Number(digits) => digits,
            Token::Text(_) => "\"".to_owned(),
            Token::Variable(name) => format!("${name}"),
            Token::Word(..) | Token::End => String::new(),
        };
        syntax("syntax error", &near)
    }

    fn like(&mut self, value: Steps) -> Result<Found, SqlError> {
        self.advance()?;
        let pattern = match self.advance()? {
            Token::Text(pattern) => pattern,
            other => return Err(self.wrong_before(other)),
        };
        let mut options = String::new();
        if self.is_word("flag") {
            self.advance()?;
            options = match self.advance()? {
                Token::Text(options) => options,
                other => return Err(self.wrong_before(other)),
            };
        }
        if let Some(unknown) = options.chars().find(|option| !"ismxq".contains(*option)) {
            let detail =
                format!("Unrecognized flag character \"{unknown}\" in LIKE_REGEX predicate.");
            let message = "invalid input syntax for type jsonpath";
            return Err(SqlError::new(code::SYNTAX, message).detail(detail));
        }
        let has = |option| options.contains(option);
        let literal = has('q');
        if has('x') && !literal {
            let message = "XQuery \"x\" flag (expanded regular expressions) is not implemented";
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
        }
        let flags = Flags {
            folds: has('i'),
            stops_at_lines: !literal && !has('s'),
            anchors_lines: !literal && has('m'),
            expanded: false,
            literal,
        };
        self.budget.charge(64 * pattern.len())?;
        Ok(predicate(Step::Like(value, Regex::new(&pattern, flags)?)))
    }

    fn sum(&mut self) -> Result<Found, SqlError> {
        let mut left = self.product()?;
        loop {
            let op = match self.token {
                Token::Sign("+") => Arith::Add,
                Token::Sign("-") => Arith::Sub,
                _ => return Ok(left),
            };
            let first = self.as_expression(left)?;
            self.count_operator()?;
            self.advance()?;
            let second = self.product()?;
            let second = self.as_expression(second)?;
            left = expression(vec![Step::Arith(op, Box::new([first, second]))]);
        }
    }

    fn product(&mut self) -> Result<Found, SqlError> {
        let mut left = self.signed()?;
        loop {
            let op = match self.token {
                Token::Sign("*") => Arith::Mul,
                Token::Sign("/") => Arith::Div,
                Token::Sign("%") => Arith::Rem,
                _ => return Ok(left),
            };
            let first = self.as_expression(left)?;
            self.count_operator()?;
            self.advance()?;
            let second = self.signed()?;
            let second = self.as_expression(second)?;
            left = expression(vec![Step::Arith(op, Box::new([first, second]))]);
        }
    }

    fn signed(&mut self) -> Result<Found, SqlError> {
        let is_minus = match self.token {
            Token::Sign("-") => true,
            Token::Sign("+") => false,
            _ => return self.accessed(),
        };
        self.budget.deeper()?;
        self.advance()?;
        let value = self.signed()?;
        let value = self.as_expression(value)?;
        Ok(expression(match value.as_slice() {
            [Step::Number(number)] if is_minus => vec![Step::Number(number.negated())],
            [Step::Number(_)] => value,
            _ => vec![Step::Sign(is_minus, value)],
        }))
    }

    fn exists(&mut self) -> Result<Step, SqlError> {
        self.advance()?;
        self.expect("(")?;
        let value = self.either()?;
        let value = self.as_expression(value)?;
        self.expect(")")?;
        Ok(Step::Exists(value))
    }

    fn accessed(&mut self) -> Result<Found, SqlError> {
        if self.is_word("exists") {
            return self.exists().map(predicate);
        }
        let mut steps = match self.is("(") {
            true => {
                self.advance()?;
                let inner = self.either()?;
                self.expect(")")?;
                let is_accessed = self.is(".") || self.is("[") || self.is("?");
                if inner.is_predicate && self.is_word("is") {
                    self.advance()?;
                    self.expect_word("unknown")?;
                    let inner = self.as_predicate(inner)?;
                    return Ok(predicate(Step::IsUnknown(Box::new(inner))));
                }
                if !is_accessed {
                    return Ok(inner);
                }
                inner.steps
            }
            false => vec![self.primary()?],
        };
        loop {
            steps.push(match self.token {
                Token::Sign(".") => self.member()?,
                Token::Sign("[") => self.elements()?,
                Token::Sign("?") => self.filter()?,
                _ => return Ok(expression(steps)),
            });
        }
    }

    fn primary(&mut self) -> Result<Step, SqlError> {
        let step = match &self.token {
            Token::Sign("$") => Step::Root,
            Token::Sign("@") => {
                if self.filters == 0 {
                    self.later("@ is not allowed in root expressions");
                }
                Step::Current
            }
            Token::Word(_, "last") => {
                if self.subscripts == 0 {
                    self.later("LAST is allowed only in array subscripts");
                }
                Step::Last
            }
            Token::Word(_, "null") => Step::Null,
            Token::Word(_, "true") => Step::Bool(true),
            Token::Word(_, "false") => Step::Bool(false),
            Token::Text(text) => Step::Text(text.clone()),
            Token::Variable(name) => Step::Variable(name.clone()),
            Token::Whole(digits) | Token::Number(digits) => {
                self.budget.charge(read_bytes(digits))?;
                Step::Number(Decimal::parse(digits).ok_or_else(overflow)?)
            }
            _ => return Err(self.wrong()),
        };
        self.advance()?;
        Ok(step)
    }

    fn later(&mut self, message: &str) {
        let is_refusal =
            self.later.as_ref().is_none_or(|error| error.code == code::FEATURE_NOT_SUPPORTED);
        if is_refusal {
            self.later = Some(SqlError::new(code::SYNTAX, message));
        }
    }

    fn member(&mut self) -> Result<Step, SqlError> {
        self.advance()?;
        if self.takes("*")? {
            return Ok(Step::AnyKey);
        }
        if self.takes("**")? {
            return self.levels();
        }
        let (name, keyword) = match &self.token {
            Token::Text(name) => (name.clone(), ""),
            Token::Word(name, keyword) => (name.clone(), *keyword),
            _ => return Err(self.wrong()),
        };
        self.advance()?;
        let method = Method::named(keyword);
        let is_time = keyword == "datetime";
        if !self.is("(") || (method.is_none() && !is_time) {
            return Ok(Step::Key(name));
        }
        self.advance()?;
        if is_time {
            if matches!(self.token, Token::Text(_)) {
                self.advance()?;
            }
            let refusal = SqlError::unsupported("the method .datetime() of a path of SQL/JSON");
            self.later.get_or_insert(refusal);
        }
        self.expect(")")?;
        Ok(Step::Method(method.unwrap_or(Method::Type)))
    }

    fn levels(&mut self) -> Result<Step, SqlError> {
        if !self.takes("{")? {
            return Ok(Step::Descend(0, u32::MAX));
        }
        let first = self.level()?;
        let last = match self.is_word("to") {
            true => {
                self.advance()?;
                self.level()?
            }
            false => first,
        };
        self.expect("}")?;
        Ok(Step::Descend(first, last))
    }

    /// The number of a level; the largest one is `last`.
    fn level(&mut self) -> Result<u32, SqlError> {
        let level = match &self.token {
            Token::Word(_, "last") => u32::MAX,
            Token::Whole(digits) => {
                let number = digits.parse::<i32>().ok();
                let number = number.and_then(|number| u32::try_from(number).ok());
                number.ok_or_else(|| {
                    let message = format!("value \"{digits}\" is out of range for type integer");
                    SqlError::new(code::OUT_OF_RANGE, message)
                })?
            }
            _ => return Err(self.wrong()),
        };
        self.advance()?;
        Ok(level)
    }

    fn elements(&mut self) -> Result<Step, SqlError> {
        self.advance()?;
        if self.takes("*")? {
            self.expect("]")?;
            return Ok(Step::AnyElement);
        }
        self.subscripts += 1;
        let mut all = Vec::new();
        loop {
            let from = self.either()?;
            let from = self.as_expression(from)?;
            let to = match self.is_word("to") {
                true => {
                    self.advance()?;
                    let to = self.either()?;
                    Some(self.as_expression(to)?)
                }
                false => None,
            };
            all.push((from, to));
            if !self.takes(",")? {
                break;
            }
        }
        self.expect("]")?;
        self.subscripts -= 1;
        Ok(Step::Elements(all))
    }

    fn filter(&mut self) -> Result<Step, SqlError> {
        self.advance()?;
        self.expect("(")?;
        self.filters += 1;
        let wanted = self.either()?;
        let wanted = self.as_predicate(wanted)?;
        self.expect(")")?;
        self.filters -= 1;
        Ok(Step::Filter(Box::new(wanted)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_postgresql() {
        let budget = Budget::unlimited();
        for text in [
            "$",
            "lax $.a.b",
            "STRICT $[last]",
            "$a.b",
            "$.a.size",
            "1 .type()",
            "1..type()",
            "1.e1",
            ".1",
            "\"\\x41\\u0042\\u{43}\\q\"",
            "$.\\u0061b",
            "$.a /* c */ .b",
            "$.a == 1 && $.b == 2 || !($.c == 3)",
            "!exists($.a)",
            "($.a == 1) is unknown",
            "$.a starts with $x",
            "$.a like_regex \"x\" flag \"ixq\"",
            "$.**{1 to last}.a",
            "$[1,2 to 3]",
            "- -1",
            "($ == 1).type()",
            "$.strict.lax.true.null.last",
            "$\"x y\"",
            "$ <> 1",
            "$[$.a[last]]",
            "((($ == 1))) is unknown",
            "1 [0]",
            "$. type( )",
            "$. 12ab",
            "$.a/* x */b",
            "$[0 to 1 ? (@ > last)]",
            "exists ($.a) && ($ == 1)",
        ] {
            assert!(read(text, &budget).is_ok(), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused_as_by_postgresql() {
        let budget = Budget::unlimited();
        for (text, expected, message) in [
            ("", "22P02", "invalid input syntax for type jsonpath: \"\""),
            ("$.", "42601", "syntax error at end of jsonpath input"),
            ("@ + 1", "42601", "@ is not allowed in root expressions"),
            ("last", "42601", "LAST is allowed only in array subscripts"),
            ("$.a.foo()", "42601", "syntax error at or near \"(\" of jsonpath input"),
            (
                "1a",
                "42601",
                "trailing junk after numeric literal at or near \"1a\" of jsonpath input",
            ),
            ("1e+", "42601", "invalid numeric literal at or near \"1e+\" of jsonpath input"),
            ("0x1", "42601", "syntax error at end of jsonpath input"),
            ("\"abc", "42601", "unexpected end of quoted string at end of jsonpath input"),
            ("\"\\u0000\"", "22P05", "unsupported Unicode escape sequence"),
            ("\"\\ud83d\"", "22P02", "invalid input syntax for type jsonpath"),
            ("$ ? (@.a)", "42601", "syntax error at or near \")\" of jsonpath input"),
            ("$.a is unknown", "42601", "syntax error at or near \" \" of jsonpath input"),
            (
                "$.a like_regex \"(\"",
                "2201B",
                "invalid regular expression: parentheses () not balanced",
            ),
            ("$.a & 1", "42601", "syntax error at or near \"&\" of jsonpath input"),
            (
                "$.**{99999999999}",
                "22003",
                "value \"99999999999\" is out of range for type integer",
            ),
            ("1 + ($ == 1)", "42601", "syntax error at end of jsonpath input"),
            (
                "$.datetime()",
                "0A000",
                "the method .datetime() of a path of SQL/JSON is not supported",
            ),
        ] {
            let Err(error) = read(text, &budget) else { panic!("{text} is read") };
            assert_eq!((error.code, error.message.as_str()), (expected, message), "{text}");
        }
    }
}
