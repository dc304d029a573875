//! `EXCLUDE CURRENT ROW | GROUP | TIES | NO OTHERS` in the frame of a window, which the grammar
//! does not have.
//!
//! ```text
//!   (w order by a rows 1 preceding exclude ties)
//!   ("frame excludes ties w" order by a rows 1 preceding)
//! ```
//!
//! It is written as a prefix of the window's name, which comes first between the parentheses.

use sqlparser::ast::Ident;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The beginning of the name of a window whose frame has EXCLUDE.
const PREFIX: &str = "frame excludes ";

/// The words behind EXCLUDE, with the word that stands for them.
const EXCLUSIONS: [(&[&str], &str); 4] = [
    (&["no", "others"], "none"),
    (&["current", "row"], "row"),
    (&["group"], "group"),
    (&["ties"], "ties"),
];

/// The first words of a window's definition that are not its name.
const CLAUSES: [&str; 5] = ["partition", "order", "range", "rows", "groups"];

fn is_word(token: &TokenWithSpan, words: &[&str]) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none()
        && words.iter().any(|known| word.value.eq_ignore_ascii_case(known)))
}

/// Writes each EXCLUDE at the end of a window's definition as a part of its name.
pub(super) fn as_names(tokens: &mut Vec<TokenWithSpan>) {
    if !tokens.iter().any(|token| is_word(token, &["exclude"])) {
        return;
    }
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    let mut at = 0;
    while at < tokens.len() {
        if let Some((words, name, open)) = exclusion(tokens, at) {
            tokens.drain(at..=at + words);
            let place = tokens[open].span;
            let base = tokens.get(open + 1).filter(|token| !is_word(token, &CLAUSES));
            let base = base.and_then(|token| match &token.token {
                Token::Word(word) if word.quote_style.is_some() => Some(word.value.clone()),
                Token::Word(word) => Some(word.value.to_lowercase()),
                _ => None,
            });
            if base.is_some() {
                tokens.remove(open + 1);
            }
            let marked = format!("{PREFIX}{name} {}", base.unwrap_or_default());
            let token = Token::make_word(marked.trim_end(), Some('"'));
            tokens.insert(open + 1, TokenWithSpan { token, span: place });
        }
        at += 1;
    }
}

/// At an EXCLUDE: the number of words behind it, the word that stands for them, and the place of
/// the parenthesis that opens the definition.
fn exclusion(tokens: &[TokenWithSpan], at: usize) -> Option<(usize, &'static str, usize)> {
    if !is_word(&tokens[at], &["exclude"]) {
        return None;
    }
    let rest = &tokens[at + 1..];
    let fits = |words: &&(&[&str], &str)| {
        let (words, _) = words;
        let ends = rest.get(words.len()).is_some_and(|token| token.token == Token::RParen);
        ends && words.iter().zip(rest).all(|(word, token)| is_word(token, &[word]))
    };
    let (words, name) = EXCLUSIONS.iter().find(fits)?;
    let mut depth = 0;
    let open = tokens[..at].iter().rposition(|token| {
        match token.token {
            Token::RParen => depth += 1,
            Token::LParen => depth -= 1,
            _ => {}
        }
        depth < 0
    })?;
    Some((words.len(), name, open))
}

/// The word of the EXCLUDE in a window's name, if there is one, and the name without it.
pub(crate) fn parted(name: Option<&Ident>) -> (Option<&str>, Option<String>) {
    let Some(name) = name else { return (None, None) };
    let marked = name.quote_style.and_then(|_| name.value.strip_prefix(PREFIX));
    match marked {
        None => (None, Some(crate::bind::folded(name))),
        Some(rest) => match rest.split_once(' ') {
            Some((exclusion, base)) => (Some(exclusion), Some(base.to_owned())),
            None => (Some(rest), None),
        },
    }
}

/// The name of a window without a base whose frame has this EXCLUDE.
pub(crate) fn marked(exclusion: &str) -> Ident {
    Ident::with_quote('"', format!("{PREFIX}{exclusion}"))
}

/// The definition of a view as PostgreSQL has it: with EXCLUDE instead of the prefixes of names.
///
/// ```text
///   ("frame excludes ties w" ROWS 1 PRECEDING)     (w ROWS 1 PRECEDING EXCLUDE TIES)
/// ```
pub(crate) fn spelled_out(text: &str) -> String {
    let begin = format!("(\"{PREFIX}");
    let Some((before, rest)) = text.split_once(&begin) else { return text.to_owned() };
    let Some((name, rest)) = rest.split_once('"') else { return text.to_owned() };
    let (exclusion, base) = name.split_once(' ').unwrap_or((name, ""));
    let words = EXCLUSIONS.iter().find(|(_, known)| *known == exclusion).map(|(words, _)| words);
    let (Some(words), Some(end)) = (words, closing(rest)) else { return text.to_owned() };
    let base = if base.is_empty() { String::new() } else { crate::catalog::quoted(base) };
    let (inside, behind) = rest.split_at(end);
    let inside = if base.is_empty() { inside.trim_start() } else { inside };
    let words = words.join(" ").to_uppercase();
    format!("{before}({base}{} EXCLUDE {words}{}", spelled_out(inside), spelled_out(behind))
}

/// The place of the parenthesis that closes one before the text.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0_usize, None);
    for (at, sign) in text.char_indices() {
        match (quote, sign) {
            (Some(open), sign) if open == sign => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(sign),
            (None, '(') => depth += 1,
            (None, ')') if depth == 0 => return Some(at),
            (None, ')') => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_names_are_spelled_out() {
        for (text, expected) in [
            ("f(a)", "f(a)"),
            (
                "SELECT sum(a) OVER (\"frame excludes ties\" ORDER BY f(')') ROWS 1 PRECEDING), 1",
                "SELECT sum(a) OVER (ORDER BY f(')') ROWS 1 PRECEDING EXCLUDE TIES), 1",
            ),
            (
                "a (\"frame excludes row w\" ROWS 1 PRECEDING) b (\"frame excludes none\" ROWS 2 PRECEDING)",
                "a (w ROWS 1 PRECEDING EXCLUDE CURRENT ROW) b (ROWS 2 PRECEDING EXCLUDE NO OTHERS)",
            ),
        ] {
            assert_eq!(spelled_out(text), expected);
        }
    }
}
