//! What ON CONFLICT names: columns, which are all that the grammar knows; expressions, and a condition.
//!
//! ```text
//!   on conflict (a, lower(b)) where c is null do ..
//!   on conflict (a, [lower(b)], [WHERE c is null]) do ..     what the grammar is given: names in other quotes
//! ```
//!
//! No statement has names in such quotes otherwise. One that is written from what was read has them as they are here,
//! and is read again.

use sqlparser::ast::Ident;
use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

const QUOTE: char = '[';
const WHERE: &str = "WHERE ";

/// What one of the names of ON CONFLICT is.
pub(crate) enum ConflictPart<'n> {
    /// A column.
    Column(String),
    /// What an index is of.
    Expression(&'n str),
    /// A condition that implies the predicate of an index.
    Condition(&'n str),
}

/// What one of the names of ON CONFLICT is.
pub(crate) fn conflict_part(name: &Ident) -> ConflictPart<'_> {
    match (name.quote_style, name.value.strip_prefix(WHERE)) {
        (Some(QUOTE), None) => ConflictPart::Expression(&name.value),
        (Some(QUOTE), Some(condition)) => ConflictPart::Condition(condition),
        _ => ConflictPart::Column(crate::bind::folded(name)),
    }
}

/// Writes the expressions and the condition of each ON CONFLICT as names.
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

/// Where the parenthesis of the next ON CONFLICT ( is.
fn target(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    let signs = signs(tokens, from);
    let found = signs.windows(3).find(|three| {
        is_word(&tokens[three[0]], "ON")
            && is_word(&tokens[three[1]], "CONFLICT")
            && tokens[three[2]].token == Token::LParen
    });
    found.map(|three| three[2])
}

/// The places of what is not blank.
fn signs(tokens: &[TokenWithSpan], from: usize) -> Vec<usize> {
    let is_sign = |at: &usize| !matches!(tokens[*at].token, Token::Whitespace(_));
    (from..tokens.len()).filter(is_sign).collect()
}

fn is_word(token: &TokenWithSpan, word: &str) -> bool {
    matches!(&token.token, Token::Word(found)
        if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
}

/// Where a parenthesis closes.
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

/// The condition behind the names: where it begins, and where its DO is.
fn condition(tokens: &[TokenWithSpan], close: usize) -> Option<(usize, usize)> {
    let next = *signs(tokens, close + 1).first()?;
    if !is_word(&tokens[next], "WHERE") {
        return None;
    }
    let end = (next..tokens.len()).find(|&at| is_word(&tokens[at], "DO"))?;
    Some((next + 1, end))
}

/// The parts between commas that are in no parentheses.
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

/// True for a name, and for what is not even an expression.
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
    // It was written so before.
    let inside = text.strip_prefix(QUOTE).and_then(|text| text.strip_suffix(']'));
    let text = format!("{begins}{}", inside.unwrap_or(text));
    let span = part.first().map_or_else(Span::empty, |first| first.span);
    TokenWithSpan { token: Token::make_word(&text, Some(QUOTE)), span }
}

/// A token as it is read again.
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
