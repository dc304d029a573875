//! Bounds of parsing: the memory for a text is reserved before it is parsed, and trees that are too
//! deep are refused.

use crate::error::{SqlError, code};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The largest number of operators in an expression, as its tree can be that deep.
const OPERATORS_MAX: usize = 2_000;

/// How many tokens a text has, and how many of them are words, numbers or texts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Counted {
    pub(super) tokens: usize,
    pub(super) words: usize,
}

/// An upper bound of the number of tokens of a text, computed without making them: the memory for
/// parsing is reserved before.
pub(super) fn count(text: &str) -> Counted {
    let bytes = text.as_bytes();
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    let find = |from: usize, wanted: &[u8]| {
        let rest = bytes.get(from..).unwrap_or_default();
        // Unclosed quotes and comments extend to the end of the text.
        let at = rest.windows(wanted.len().max(1)).position(|window| window == wanted);
        at.map_or(bytes.len(), |at| from + at + wanted.len())
    };
    let mut counted = Counted::default();
    let (mut at, mut is_escape) = (0, false);
    while let Some(&byte) = bytes.get(at) {
        counted.tokens += 1;
        let escapes = std::mem::take(&mut is_escape);
        at = match byte {
            b'\'' => {
                counted.words += 1;
                let mut end = at + 1;
                while let Some(&inside) = bytes.get(end) {
                    end += match inside {
                        b'\\' if escapes => 2,
                        b'\'' if bytes.get(end + 1) == Some(&b'\'') => 2,
                        b'\'' => break,
                        _ => 1,
                    };
                }
                end + 1
            }
            b'"' => {
                counted.words += 1;
                find(at + 1, b"\"")
            }
            b'-' if bytes.get(at + 1) == Some(&b'-') => find(at, b"\n"),
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                // Comments can be nested. The first end counts, so the rest of a nested one is
                // counted as text.
                find(at + 2, b"*/")
            }
            b'$' => {
                let name = bytes[at + 1..].iter().take_while(|byte| is_word(**byte)).count();
                let end = at + 1 + name;
                counted.words += 1;
                match bytes.get(end) {
                    Some(b'$') => find(end + 1, &bytes[at..=end]),
                    _ => end,
                }
            }
            byte if is_word(byte) => {
                counted.words += 1;
                let length = bytes[at..].iter().take_while(|byte| is_word(**byte)).count();
                is_escape = length == 1 && matches!(byte, b'e' | b'E');
                at + length
            }
            _ => at + 1,
        };
    }
    counted
}

/// A tree is as deep as its longest chain of operators, and is walked by recursion. A chain
/// continues behind parentheses. The depth of a list item is its own plus that of the chain before
/// the list:
///
/// ```text
///   1 + f(2 + 3, 4) + 5        1 +   at 1    f(2 + 3    at 2    , 4    at 1 again    ) + 5    at 3
/// ```
pub(super) fn check_size(tokens: &[TokenWithSpan]) -> Result<(), SqlError> {
    let mut operators = 0;
    // For each enclosing list: the operators before it, and the maximum over its items.
    let mut lists: Vec<(usize, usize)> = vec![(0, 0)];
    for token in tokens {
        match &token.token {
            Token::Comma => {
                let (before, most) = lists.last_mut().expect("there is one around all");
                *most = operators.max(*most);
                operators = *before;
                if lists.len() == 1 {
                    lists[0] = (0, 0);
                }
            }
            // Of the statements in a body.
            Token::SemiColon => (operators, lists) = (0, vec![(0, 0)]),
            Token::LParen | Token::LBracket => {
                operators += usize::from(token.token == Token::LBracket);
                lists.push((operators, operators));
            }
            Token::RParen | Token::RBracket => {
                if lists.len() > 1 {
                    operators = lists.pop().map_or(0, |(_, most)| operators.max(most));
                }
            }
            Token::Whitespace(_) | Token::Number(..) | Token::SingleQuotedString(_) => {}
            Token::Word(word) if !is_operator(word.keyword) => {}
            Token::Period | Token::Placeholder(_) => {}
            _ => operators += 1,
        }
        if operators > OPERATORS_MAX {
            let message = format!("an expression has more than {OPERATORS_MAX} operators");
            return Err(SqlError::new(code::TOO_COMPLEX, message).hint("Use a list: x IN (..)."));
        }
    }
    Ok(())
}

/// True for words that make a tree one level deeper each time they occur.
fn is_operator(word: Keyword) -> bool {
    use Keyword::{
        AND, AT, BETWEEN, COLLATE, DIV, EXCEPT, GLOB, ILIKE, IN, INTERSECT, IS, JOIN, LIKE, MATCH,
        MEMBER, NOT, NOTNULL, OPERATOR, OR, OVERLAPS, REGEXP, RLIKE, SIMILAR, UNION, XOR,
    };
    matches!(
        word,
        AND | OR
            | NOT
            | IS
            | IN
            | LIKE
            | ILIKE
            | SIMILAR
            | RLIKE
            | REGEXP
            | GLOB
            | MATCH
            | MEMBER
            | BETWEEN
            | COLLATE
            | AT
            | NOTNULL
            | OVERLAPS
            | OPERATOR
            | DIV
            | XOR
            | UNION
            | INTERSECT
            | EXCEPT
            | JOIN
    )
}
