//! The target of ON CONFLICT. The grammar accepts columns only; here expressions and a condition
//! are added.
//!
//! ```text
//!   on conflict (a, lower(b)) where c is null do ..
//!   on conflict (a, [lower(b)], [WHERE c is null]) do ..   in the grammar: names in other quotes
//! ```
//!
//! Such quotes do not occur in other names. A statement that is printed from a parsed one has the
//! names in this form, and can be parsed again.

use sqlparser::ast::Ident;
use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

const QUOTE: char = '[';
const WHERE: &str = "WHERE ";

/// The meaning of one of the names in ON CONFLICT.
pub(crate) enum ConflictPart<'n> {
    /// A column.
    Column(String),
    /// An index expression.
    Expression(&'n str),
    /// A condition that implies the predicate of an index.
    Condition(&'n str),
}

/// Decodes one of the names in ON CONFLICT.
pub(crate) fn conflict_part(name: &Ident) -> ConflictPart<'_> {
    match (name.quote_style, name.value.strip_prefix(WHERE)) {
        (Some(QUOTE), None) => ConflictPart::Expression(&name.value),
        (Some(QUOTE), Some(condition)) => ConflictPart::Condition(condition),
        _ => ConflictPart::Column(crate::bind::folded(name)),
    }
}

/// Replaces the expressions and the condition of each ON CONFLICT by names.
pub(super) fn as_names(tokens: &mut Vec<TokenWithSpan>) {
    let mut from = 0;
    while let Some(open) = target(tokens, from) {
        from = open + 1;
        let Some(close) = closing(tokens, open) else { return };
        let condition = condition(tokens, close);
        let mut written = Vec::new();
        let parts = split(&tokens[open + 1..close]);
        if condition.is_none() && parts.iter().all(|part| is_plain(part)) {
            continue;
        }
        for part in parts {
            match is_plain(part) {
                true => written.extend(part.iter().cloned()),
                false => written.push(name(part, "")),
            }
            written.push(TokenWithSpan::wrap(Token::Comma));
        }
        let mut end = close;
        match condition {
            Some((first, last)) => {
                written.push(name(&tokens[first..last], WHERE));
                end = last - 1;
            }
            None => drop(written.pop()),
        }
        written.push(TokenWithSpan::wrap(Token::RParen));
        tokens.splice(open + 1..=end, written);
    }
}

/// The position of the next parenthesis that follows ON CONFLICT.
fn target(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    let signs = signs(tokens, from);
    let found = signs.windows(3).find(|three| {
        is_word(&tokens[three[0]], "ON")
            && is_word(&tokens[three[1]], "CONFLICT")
            && tokens[three[2]].token == Token::LParen
    });
    found.map(|three| three[2])
}

/// The positions of the tokens that are not blanks.
fn signs(tokens: &[TokenWithSpan], from: usize) -> Vec<usize> {
    let is_sign = |at: &usize| !matches!(tokens[*at].token, Token::Whitespace(_));
    (from..tokens.len()).filter(is_sign).collect()
}

fn is_word(token: &TokenWithSpan, word: &str) -> bool {
    matches!(&token.token, Token::Word(found)
        if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
}

/// The position of the closing parenthesis.
fn closing(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    (open..tokens.len()).find(|&at| {
        match tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

/// The condition behind the names: the positions of its start and of the DO.
fn condition(tokens: &[TokenWithSpan], close: usize) -> Option<(usize, usize)> {
    let next = *signs(tokens, close + 1).first()?;
    if !is_word(&tokens[next], "WHERE") {
        return None;
    }
    let end = (next..tokens.len()).find(|&at| is_word(&tokens[at], "DO"))?;
    Some((next + 1, end))
}

/// The parts between the commas that are not inside parentheses.
fn split(tokens: &[TokenWithSpan]) -> Vec<&[TokenWithSpan]> {
    let (mut depth, mut parts, mut from) = (0_i32, Vec::new(), 0);
    for (at, token) in tokens.iter().enumerate() {
        match token.token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth -= 1,
            Token::Comma if depth == 0 => {
                parts.push(&tokens[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&tokens[from..]);
    parts
}

/// True for a name, and for tokens that cannot be an expression.
fn is_plain(part: &[TokenWithSpan]) -> bool {
    let mut signs = part.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    match (signs.next(), signs.next()) {
        (Some(word), None) => matches!(word.token, Token::Word(_)),
        (first, _) => first.is_none(),
    }
}

/// A part as a name.
fn name(part: &[TokenWithSpan], begins: &str) -> TokenWithSpan {
    let text: String = part.iter().map(|token| written(&token.token)).collect();
    let text = text.trim();
    // It was in this form already.
    let inside = text.strip_prefix(QUOTE).and_then(|text| text.strip_suffix(']'));
    let text = format!("{begins}{}", inside.unwrap_or(text));
    let span = part.first().map_or_else(Span::empty, |first| first.span);
    TokenWithSpan { token: Token::make_word(&text, Some(QUOTE)), span }
}

/// A token in a form that can be parsed again.
fn written(token: &Token) -> String {
    match token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => {
            format!("'{}'", text.replace('\'', "''"))
        }
        Token::Word(word) if word.quote_style.is_some() => {
            format!("\"{}\"", word.value.replace('"', "\"\""))
        }
        token => token.to_string(),
    }
}
