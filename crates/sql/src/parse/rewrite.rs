//! Syntax that is not in the grammar, or only in some positions: it is found among the tokens, and
//! removed or rewritten.

use super::{Overriding, syntax};
use crate::error::SqlError;
use sqlparser::ast::{Ident, ObjectName};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Whitespace, Word};

/// Replaces `ISNULL` behind an operand by `IS NULL`, which the parser knows. It would take the word
/// for an alias.
pub(super) fn spell_out_isnull(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut spelled: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let is_it = matches!(&token.token, Token::Word(word)
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("isnull"));
        let mut before = spelled.iter().rev().map(|it| &it.token);
        let before = before.find(|it| !matches!(it, Token::Whitespace(_)));
        // Such a word is a name, or nothing that the grammar knows.
        let is_name = match before {
            Some(Token::Word(word)) => word.keyword == Keyword::AS,
            None | Some(Token::Period | Token::Comma | Token::LParen) => true,
            Some(_) => false,
        };
        let is_called = tokens.peek().is_some_and(|next| next.token == Token::LParen);
        if !is_it || is_name || is_called {
            spelled.push(token);
            continue;
        }
        let words = [Token::make_keyword("IS"), Token::Whitespace(Whitespace::Space)];
        let words = words.into_iter().chain([Token::make_keyword("NULL")]);
        spelled.extend(words.map(|word| TokenWithSpan { token: word, span: token.span }));
    }
    spelled
}

/// The words that PostgreSQL accepts as the name of a column behind AS only, and the parser
/// without it as well.
const ONLY_BEHIND_AS: [&str; 18] = [
    "array",
    "char",
    "character",
    "create",
    "day",
    "filter",
    "grant",
    "hour",
    "minute",
    "month",
    "over",
    "precision",
    "second",
    "to",
    "varying",
    "within",
    "without",
    "year",
];

/// True for a name of a column that needs AS, and has none: [`quote_names`] has quoted the others.
pub(crate) fn needs_as(alias: &Ident) -> bool {
    let is_it = |word: &&str| alias.value.eq_ignore_ascii_case(word);
    alias.quote_style.is_none() && ONLY_BEHIND_AS.iter().any(is_it)
}

/// Quotes the names behind AS that are only accepted there.
pub(super) fn quote_names(tokens: &mut [TokenWithSpan]) {
    // A type follows AS in a CAST and in CREATE DOMAIN.
    if !tokens.iter().any(|token| is_word(token, &["select", "returning"])) {
        return;
    }
    let mut before = [false; 2];
    // For each open parenthesis, whether it belongs to a CAST.
    let mut casts: Vec<bool> = Vec::new();
    for token in tokens {
        let [is_behind_as, is_behind_cast] = before;
        let is_name = is_behind_as && is_word(token, &ONLY_BEHIND_AS);
        match &mut token.token {
            Token::Whitespace(_) => continue,
            Token::LParen => casts.push(is_behind_cast),
            Token::RParen => drop(casts.pop()),
            Token::Word(word) if is_name && casts.last() != Some(&true) => {
                *word = Word {
                    value: word.value.to_lowercase(),
                    quote_style: Some('"'),
                    keyword: Keyword::NoKeyword,
                };
            }
            _ => {}
        }
        before = [is_word(token, &["as"]), is_word(token, &["cast"])];
    }
}

/// Joins literals that continue on the next line: `'foo'`, a line end, `'bar'` is `'foobar'`.
///
/// # Errors
/// 42601 for two literals on one line, and for a letter right behind a number.
pub(super) fn join_literals(
    tokens: Vec<TokenWithSpan>,
    text: &str,
) -> Result<Vec<TokenWithSpan>, SqlError> {
    let mut joined: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // The position of the last literal while only blanks follow it, and whether a line ended there;
    // `None` behind a comment that may have several lines.
    let mut open: Option<(usize, Option<bool>)> = None;
    for token in tokens {
        let refused = |message: &str, at: &TokenWithSpan| {
            Err(syntax(message, Some((at.span.start.line, at.span.start.column)), text))
        };
        match (&token.token, &mut open, joined.last()) {
            (Token::Whitespace(blank), Some((_, ends_line)), _) => match blank {
                Whitespace::Newline | Whitespace::SingleLineComment { .. } => {
                    *ends_line = ends_line.map(|_| true);
                }
                Whitespace::MultiLineComment(_) => *ends_line = None,
                Whitespace::Space | Whitespace::Tab => {}
            },
            (Token::SingleQuotedString(more), Some((at, Some(true))), _) => {
                append(&mut joined[*at].token, more);
                joined[*at].span.end = token.span.end;
                joined.truncate(*at + 1);
                open = Some((joined.len() - 1, Some(false)));
                continue;
            }
            (Token::SingleQuotedString(more), Some(_), _) => {
                return refused(&format!("syntax error at or near \"'{more}'\""), &token);
            }
            (Token::Word(word), _, Some(number))
                if word.quote_style.is_none() && matches!(number.token, Token::Number(..)) =>
            {
                let message = format!(
                    "trailing junk after numeric literal at or near \"{}{}\"",
                    number.token, word.value
                );
                return refused(&message, number);
            }
            (Token::HexStringLiteral(digits), ..) if is_digit(text, &token) => {
                let message = "trailing junk after numeric literal at or near";
                return refused(&format!("{message} \"0x{digits}\""), &token);
            }
            (Token::Number(digits, is_long), ..) if *is_long || digits.contains('_') => {
                let message =
                    format!("trailing junk after numeric literal at or near \"{}\"", token.token);
                return refused(&message, &token);
            }
            (
                Token::SingleQuotedString(_)
                | Token::EscapedStringLiteral(_)
                | Token::UnicodeStringLiteral(_)
                | Token::NationalStringLiteral(_),
                ..,
            ) => open = Some((joined.len(), Some(false))),
            _ => open = None,
        }
        joined.push(token);
    }
    Ok(joined)
}

/// True if a token begins with a digit in the text: `0x1F`, not `x'1F'`.
fn is_digit(text: &str, token: &TokenWithSpan) -> bool {
    let (line, column) = (token.span.start.line as usize, token.span.start.column as usize);
    let line = text.lines().nth(line.saturating_sub(1));
    let first = line.and_then(|line| line.chars().nth(column.saturating_sub(1)));
    first.is_some_and(|first| first.is_ascii_digit())
}

/// Appends the continuation of a literal; with escapes, if the literal has them.
fn append(literal: &mut Token, more: &str) {
    let read_as = |prefix: &str| {
        let again = format!("{prefix}'{}'", more.replace('\'', "''"));
        Tokenizer::new(&PostgreSqlDialect {}, &again).tokenize().unwrap_or_default()
    };
    match literal {
        Token::EscapedStringLiteral(text) => match read_as("E").as_slice() {
            [Token::EscapedStringLiteral(more)] => text.push_str(more),
            _ => text.push_str(more),
        },
        Token::UnicodeStringLiteral(text) => match read_as("U&").as_slice() {
            [Token::UnicodeStringLiteral(more)] => text.push_str(more),
            _ => text.push_str(more),
        },
        Token::SingleQuotedString(text) | Token::NationalStringLiteral(text) => text.push_str(more),
        _ => {}
    }
}

/// Removes COLLATE behind the type of a cast, where the parser does not expect it.
///
/// # Errors
/// 42704 unless the collation orders by bytes, as all texts are ordered.
pub(super) fn drop_collations(tokens: &mut Vec<TokenWithSpan>) -> Result<(), SqlError> {
    let mut signs: Vec<usize> =
        (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_))).collect();
    let (mut is_type, mut at) = (false, 0);
    while at < signs.len() {
        let place = signs[at];
        is_type = match &tokens[place].token {
            Token::DoubleColon => true,
            // Parts of a type, with its modifiers.
            Token::Word(_) | Token::Number(..) | Token::Period | Token::Comma => is_type,
            Token::LParen | Token::RParen | Token::LBracket | Token::RBracket => is_type,
            _ => false,
        };
        if !is_type || !is_word(&tokens[place], &["collate"]) {
            at += 1;
            continue;
        }
        let word = |at: usize| match signs.get(at).map(|place| &tokens[*place].token) {
            Some(Token::Word(word)) => Some(word.to_ident(tokens[signs[at]].span)),
            _ => None,
        };
        let has_schema = signs.get(at + 2).is_some_and(|it| tokens[*it].token == Token::Period);
        let last = if has_schema { at + 3 } else { at + 1 };
        let names: Vec<Ident> = (at + 1..=last).step_by(2).filter_map(word).collect();
        let Some(end) = signs.get(last).copied().filter(|_| !names.is_empty()) else { break };
        crate::refuse::collation(&ObjectName::from(names))?;
        tokens.drain(place..=end);
        let removed = end + 1 - place;
        signs.drain(at..=last);
        signs[at..].iter_mut().for_each(|place| *place -= removed);
        is_type = false;
    }
    Ok(())
}

/// Removes [NOT] DEFERRABLE from the modes of a transaction, as it is not in the grammar. It
/// requests a snapshot in which nothing can fail, and every snapshot of a read-only transaction is
/// one.
pub(super) fn drop_deferrable(tokens: &mut Vec<TokenWithSpan>) {
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    let is_word = |token: Option<&TokenWithSpan>, word: &str| {
        token.is_some_and(|token| token.token.to_string().eq_ignore_ascii_case(word))
    };
    let is_comma = |token: Option<&TokenWithSpan>| token.is_some_and(|t| t.token == Token::Comma);
    while let Some(at) = tokens.iter().position(|token| is_word(Some(token), "DEFERRABLE")) {
        let (mut from, mut to) = (at, at + 1);
        from -= usize::from(from > 0 && is_word(tokens.get(from - 1), "NOT"));
        if from > 0 && is_comma(tokens.get(from - 1)) {
            from -= 1;
        } else if is_comma(tokens.get(to)) {
            to += 1;
        }
        tokens.drain(from..to);
    }
}

/// True if the statement is an ALTER TABLE with one action, about statistics, pages or the order of
/// rows in them. There are no pages, and ANALYZE takes samples of one size.
pub(super) fn is_about_pages(tokens: &[TokenWithSpan]) -> bool {
    const ACTIONS: [&[&str]; 5] = [
        &["SET", "STATISTICS"],
        &["SET", "STORAGE"],
        &["SET", "COMPRESSION"],
        &["SET", "WITHOUT", "CLUSTER"],
        &["CLUSTER", "ON"],
    ];
    let signs = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let signs: Vec<&TokenWithSpan> = signs.collect();
    let estimates = ["n_distinct", "n_distinct_inherited"];
    let is_estimate = signs.windows(3).any(|three| {
        is_word(three[0], &["set", "reset"])
            && three[1].token == Token::LParen
            && is_word(three[2], &estimates)
    });
    let is_one = !signs.iter().any(|token| token.token == Token::Comma);
    is_one && (is_estimate || ACTIONS.iter().any(|words| has_words(tokens, words)))
}

/// Turns `ALTER SEQUENCE` or `ALTER VIEW` into `ALTER TABLE`.
pub(super) fn as_table(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut words = tokens.iter_mut().filter(|t| !matches!(t.token, Token::Whitespace(_)));
    if let Some(kind) = words.nth(1) {
        kind.token = Token::make_keyword("TABLE");
    }
    tokens
}

/// Removes OVERRIDING .. VALUE from an INSERT, as it is not in the grammar.
pub(super) fn overriding(tokens: &mut Vec<TokenWithSpan>) -> Option<Overriding> {
    let words = |at: usize| -> Vec<(usize, String)> {
        let tokens = tokens[at..].iter().enumerate();
        let signs = tokens.filter(|(_, token)| !matches!(token.token, Token::Whitespace(_)));
        let words = signs.map(|(from, token)| (at + from, token.token.to_string().to_uppercase()));
        words.take(3).collect()
    };
    let starts = |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if word.value.eq_ignore_ascii_case("OVERRIDING"));
    let at = tokens.iter().position(starts)?;
    let found = words(at);
    let [_, (_, which), (end, value)] = found.as_slice() else { return None };
    let overriding = match (which.as_str(), value.as_str()) {
        ("SYSTEM", "VALUE") => Overriding::System,
        ("USER", "VALUE") => Overriding::User,
        _ => return None,
    };
    tokens.drain(at..=*end);
    Some(overriding)
}

/// The name of the function that [`as_calls`] writes for an argument with VARIADIC.
pub(crate) const VARIADIC: &str = "variadic argument";
/// The name of the function that [`as_calls`] writes for ROWS FROM.
pub(crate) const ROWS_FROM: &str = "rows from";

/// Writes `VARIADIC array` as a call, and `ROWS FROM` as the name of a function, for the grammar,
/// which has neither.
pub(super) fn as_calls(tokens: &mut Vec<TokenWithSpan>) {
    if !tokens.iter().any(|token| is_word(token, &["variadic", "rows"])) {
        return;
    }
    let signs = std::mem::take(tokens).into_iter();
    let signs: Vec<_> = signs.filter(|t| !matches!(t.token, Token::Whitespace(_))).collect();
    // For each open parenthesis, whether VARIADIC is in it.
    let mut open = Vec::new();
    let mut at = 0;
    while at < signs.len() {
        let sign = &signs[at];
        let put = |token: Token| TokenWithSpan { token, span: sign.span };
        let follows =
            |by: usize, token: &Token| signs.get(at + by).is_some_and(|t| t.token == *token);
        let is_from = signs.get(at + 1).is_some_and(|next| is_word(next, &["from"]));
        if is_word(sign, &["variadic"]) && !open.is_empty() && !follows(1, &Token::RParen) {
            tokens.push(put(Token::make_word(VARIADIC, Some('"'))));
            tokens.push(put(Token::LParen));
            if let Some(is_variadic) = open.last_mut() {
                *is_variadic = true;
            }
        } else if is_word(sign, &["rows"]) && is_from && follows(2, &Token::LParen) {
            tokens.push(put(Token::make_word(ROWS_FROM, Some('"'))));
            at += 1;
        } else {
            match sign.token {
                Token::LParen => open.push(false),
                Token::RParen if open.pop() == Some(true) => tokens.push(put(Token::RParen)),
                _ => {}
            }
            tokens.push(sign.clone());
        }
        at += 1;
    }
}

/// The name of the function that [`symmetric_bounds`] writes around a bound.
pub(crate) const SYMMETRIC: &str = "between symmetric";

/// Writes the first bound of BETWEEN SYMMETRIC as a call, for the grammar, which has no such word,
/// and leaves out ASYMMETRIC, which is the default.
pub(super) fn symmetric_bounds(tokens: &mut Vec<TokenWithSpan>) {
    if !tokens.iter().any(|token| is_word(token, &["symmetric", "asymmetric"])) {
        return;
    }
    let signs = std::mem::take(tokens).into_iter();
    let signs = signs.filter(|token| !matches!(token.token, Token::Whitespace(_)));
    // The depth of parentheses, and that of each bound that is open.
    let (mut depth, mut bounds) = (0_usize, Vec::new());
    for sign in signs {
        let put = |token: Token| TokenWithSpan { token, span: sign.span };
        if tokens.last().is_some_and(|last| is_word(last, &["between"])) {
            if is_word(&sign, &["asymmetric"]) {
                continue;
            }
            if is_word(&sign, &["symmetric"]) {
                tokens.push(put(Token::make_word(SYMMETRIC, Some('"'))));
                tokens.push(put(Token::LParen));
                bounds.push(depth);
                continue;
            }
        }
        match sign.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ if is_word(&sign, &["and"]) && bounds.last() == Some(&depth) => {
                bounds.pop();
                tokens.push(put(Token::RParen));
            }
            _ => {}
        }
        tokens.push(sign);
    }
}

/// Writes `(t).*` in a list as `t.*`, for the grammar, which has the second form only.
pub(super) fn rows_without_parentheses(tokens: &mut Vec<TokenWithSpan>) {
    let signs: Vec<usize> =
        (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_))).collect();
    let mut dropped = Vec::new();
    for places in signs.windows(6) {
        let begins_item = tokens[places[0]].token == Token::Comma
            || is_word(&tokens[places[0]], &["select", "distinct", "all", "returning"]);
        let row: [&Token; 5] = std::array::from_fn(|at| &tokens[places[at + 1]].token);
        let is_row = matches!(
            row,
            [Token::LParen, Token::Word(_), Token::RParen, Token::Period, Token::Mul]
        );
        if begins_item && is_row {
            dropped.extend([places[1], places[3]]);
        }
    }
    let mut at = 0;
    tokens.retain(|_| {
        at += 1;
        !dropped.contains(&(at - 1))
    });
}

/// Writes LIKE before ANY and ALL as its operator, for the grammar, which has no queries behind
/// `LIKE ANY`, and no `LIKE ALL`.
pub(super) fn like_each(tokens: &mut Vec<TokenWithSpan>) {
    if !tokens.iter().any(|token| is_word(token, &["like", "ilike"])) {
        return;
    }
    let mut written: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut rest = std::mem::take(tokens).into_iter();
    let mut rest = rest.by_ref().filter(|t| !matches!(t.token, Token::Whitespace(_))).peekable();
    while let Some(token) = rest.next() {
        let is_each = rest.peek().is_some_and(|next| is_word(next, &["any", "all", "some"]));
        if !is_each || !is_word(&token, &["like", "ilike"]) {
            written.push(token);
            continue;
        }
        let negated = written.last().is_some_and(|before| is_word(before, &["not"]));
        if negated {
            written.pop();
        }
        let sign = match (negated, is_word(&token, &["ilike"])) {
            (false, false) => Token::DoubleTilde,
            (false, true) => Token::DoubleTildeAsterisk,
            (true, false) => Token::ExclamationMarkDoubleTilde,
            (true, true) => Token::ExclamationMarkDoubleTildeAsterisk,
        };
        written.push(TokenWithSpan { token: sign, span: token.span });
    }
    *tokens = written;
}

/// Writes `CREATE RECURSIVE VIEW v (columns) AS query` as the view over WITH RECURSIVE that it
/// stands for. False if there are no columns.
pub(super) fn recursive_view(tokens: &mut Vec<TokenWithSpan>) -> bool {
    let mut signs: Vec<TokenWithSpan> = std::mem::take(tokens);
    signs.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    let Some(word) = signs.iter().position(|token| is_word(token, &["recursive"])) else {
        return false;
    };
    let open = signs.iter().position(|token| token.token == Token::LParen);
    let close = signs.iter().position(|token| token.token == Token::RParen);
    let (Some(open), Some(close)) = (open, close) else { return false };
    let span = signs[word].span;
    let put = |token: Token| TokenWithSpan { token, span };
    let key = |word: &str| put(Token::make_keyword(word));
    let begins_query = signs.get(close + 1).is_some_and(|token| is_word(token, &["as"]));
    if word + 2 >= open || !begins_query {
        return false;
    }
    let (name, columns) = (signs[word + 2..open].to_vec(), signs[open + 1..close].to_vec());
    // The query of WITH has the name without its schema.
    let last = name.last().cloned().into_iter().collect::<Vec<_>>();
    let mut query: Vec<TokenWithSpan> = signs[close + 2..].to_vec();
    while query.last().is_some_and(|t| matches!(t.token, Token::EOF | Token::SemiColon)) {
        query.pop();
    }
    let parts = [
        signs[..word].to_vec(),
        vec![key("VIEW")],
        name,
        vec![key("AS"), key("WITH"), key("RECURSIVE")],
        last.clone(),
        vec![put(Token::LParen)],
        columns.clone(),
        vec![put(Token::RParen), key("AS"), put(Token::LParen)],
        query,
        vec![put(Token::RParen), key("SELECT")],
        columns,
        vec![key("FROM")],
        last,
    ];
    *tokens = parts.concat();
    true
}

/// The positions of the signs outside of parentheses, without blanks.
fn outside(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let mut depth = 0usize;
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.token {
            Token::Whitespace(_) => continue,
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ if depth == 0 => found.push(at),
            _ => {}
        }
    }
    found
}

/// Writes `CREATE TABLE .. AS query WITH NO DATA` as a table of a query without rows.
pub(super) fn without_data(tokens: &mut Vec<TokenWithSpan>) {
    let signs = outside(tokens);
    let begins = signs.iter().copied().find(|at| is_word(&tokens[*at], &["as"]));
    let ends = signs.windows(3).rev().find_map(|at| {
        let words = ["WITH", "NO", "DATA"];
        let fits = at.iter().zip(words).all(|(at, word)| is_word(&tokens[*at], &[word]));
        fits.then_some((at[0], at[2]))
    });
    let (Some(begins), Some((from, to))) = (begins, ends) else { return };
    let span = tokens[from].span;
    let put = |token: Token| TokenWithSpan { token, span };
    let limit = [Token::RParen, Token::make_keyword("LIMIT"), Token::Number("0".to_owned(), false)];
    tokens.splice(from..=to, limit.map(put));
    tokens.insert(begins + 1, put(Token::LParen));
}

/// Writes `SELECT .. INTO t ..` as `CREATE TABLE t AS SELECT .. ..`; `None` without INTO.
pub(super) fn select_into(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let signs = outside(tokens);
    let place = signs.iter().position(|at| is_word(&tokens[*at], &["into"]))?;
    let is_of_change = |at: &usize| is_word(&tokens[*at], &["insert", "merge"]);
    if place == 0 || is_of_change(&signs[place - 1]) {
        return None;
    }
    let mut next = place + 1;
    let word =
        |at: usize, words: &[&str]| signs.get(at).is_some_and(|at| is_word(&tokens[*at], words));
    let is_temporary = word(next, &["temp", "temporary"]);
    next += usize::from(is_temporary || word(next, &["unlogged"]));
    next += usize::from(word(next, &["table"]));
    let first = next;
    let is_dot = |at: usize| signs.get(at).is_some_and(|at| tokens[*at].token == Token::Period);
    next += 1;
    while is_dot(next) {
        next += 2;
    }
    let (from, to) = (*signs.get(first)?, *signs.get(next - 1)?);
    let span = tokens[signs[place]].span;
    let key = |word: &str| TokenWithSpan { token: Token::make_keyword(word), span };
    let mut written = vec![key("CREATE")];
    written.extend(is_temporary.then(|| key("TEMPORARY")));
    written.push(key("TABLE"));
    written.extend_from_slice(&tokens[from..=to]);
    written.push(key("AS"));
    written.extend_from_slice(&tokens[..signs[place]]);
    written.extend_from_slice(&tokens[to + 1..]);
    Some(written)
}

/// Replaces `INSERT DEFAULT VALUES` in a MERGE, which is not in the grammar, by `INSERT VALUES
/// (DEFAULT)`: a column without a value has its default as well.
pub(super) fn merge_defaults(tokens: &mut Vec<TokenWithSpan>) {
    let is_blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let signs: Vec<usize> = (0..tokens.len()).filter(|at| !is_blank(&tokens[*at])).collect();
    let found = signs.windows(4).filter(|at| {
        let words = ["THEN", "INSERT", "DEFAULT", "VALUES"];
        at.iter().zip(words).all(|(at, word)| is_word(&tokens[*at], &[word]))
    });
    let found: Vec<(usize, usize)> = found.map(|at| (at[2], at[3])).collect();
    for (default, values) in found.into_iter().rev() {
        let word = tokens[default].clone();
        let sign = |token: Token| TokenWithSpan { token, span: word.span };
        tokens.splice(
            values + 1..values + 1,
            [sign(Token::LParen), word.clone(), sign(Token::RParen)],
        );
        tokens.remove(default);
    }
}

/// Removes ONLY before the name of a table: no table inherits from another, so it changes nothing.
pub(super) fn without_only(tokens: &mut Vec<TokenWithSpan>) {
    const BEFORE: [Keyword; 5] =
        [Keyword::FROM, Keyword::JOIN, Keyword::UPDATE, Keyword::USING, Keyword::TABLE];
    let mut may_follow = false;
    tokens.retain(|token| {
        let word = match &token.token {
            Token::Whitespace(_) => return true,
            Token::Word(word) if word.quote_style.is_none() => word.keyword,
            _ => Keyword::NoKeyword,
        };
        let is_left_out = may_follow && word == Keyword::ONLY;
        may_follow = BEFORE.contains(&word) || token.token == Token::Comma;
        !is_left_out
    });
}

/// Replaces `TABLE t` as a query, which the grammar accepts in some positions only.
pub(super) fn whole_tables(tokens: &mut Vec<TokenWithSpan>) {
    const BEFORE: [Keyword; 5] =
        [Keyword::UNION, Keyword::INTERSECT, Keyword::EXCEPT, Keyword::ALL, Keyword::DISTINCT];
    let mut begins = true;
    let mut written = Vec::with_capacity(tokens.len());
    for token in tokens.drain(..) {
        let word = match &token.token {
            Token::Word(word) if word.quote_style.is_none() => word.keyword,
            _ => Keyword::NoKeyword,
        };
        if begins && word == Keyword::TABLE {
            let words = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
            written.extend(words.map(|word| TokenWithSpan { token: word, span: token.span }));
            begins = false;
            continue;
        }
        if !matches!(token.token, Token::Whitespace(_)) {
            begins = token.token == Token::LParen || BEFORE.contains(&word);
        }
        written.push(token);
    }
    *tokens = written;
}

/// A name that [`lock_clauses`] puts before the table in FOR UPDATE, or instead of it: the lock
/// allows references to the key. PostgreSQL does not accept a qualified name there.
const KEEPS_KEYS: &str = "no key";

/// True if FOR UPDATE is FOR NO KEY UPDATE, and FOR SHARE FOR KEY SHARE, as [`lock_clauses`] writes
/// these.
pub(crate) fn keeps_keys(of: &ObjectName) -> bool {
    let first = of.0.first().and_then(|part| part.as_ident());
    first.is_some_and(|first| first.value == KEEPS_KEYS && first.quote_style.is_some())
}

/// Rewrites locking clauses for the grammar, which has two of the four strengths and one table per
/// clause.
///
/// ```text
///   for update of a, b nowait       for update of a nowait for update of b nowait
///   for no key update               for update of "no key"
///   for key share of a              for share of "no key".a
/// ```
pub(super) fn lock_clauses(tokens: &mut Vec<TokenWithSpan>) {
    let is_lock = |of: &[&str]| has_words(tokens, of);
    let any = [&["FOR", "UPDATE"][..], &["FOR", "NO", "KEY"], &["FOR", "SHARE"], &["FOR", "KEY"]];
    if !any.into_iter().any(is_lock) {
        return;
    }
    let signs: Vec<TokenWithSpan> =
        tokens.iter().filter(|t| !matches!(t.token, Token::Whitespace(_))).cloned().collect();
    let mut written: Vec<TokenWithSpan> = Vec::with_capacity(signs.len());
    let mut at = 0;
    while at < signs.len() {
        let head = &signs[at..];
        let word = |at: usize, word: &str| head.get(at).is_some_and(|sign| is_word(sign, &[word]));
        let (strength, keeps_keys) = match word(0, "for") {
            true if word(1, "update") || word(1, "share") => (1, false),
            true if word(1, "key") && word(2, "share") => (2, true),
            true if word(1, "no") && word(2, "key") && word(3, "update") => (3, true),
            _ => {
                written.push(signs[at].clone());
                at += 1;
                continue;
            }
        };
        let has_names = word(strength + 1, "of");
        let rest = &head[strength + 1 + usize::from(has_names)..];
        let is_name = |token: &&TokenWithSpan| {
            let ends = ["nowait", "skip", "for", "limit", "offset", "fetch"];
            matches!(token.token, Token::Word(_) | Token::Comma | Token::Period)
                && !is_word(token, &ends)
        };
        let count = if has_names { rest.iter().take_while(is_name).count() } else { 0 };
        let (names, rest) = rest.split_at(count);
        let wait = match rest {
            [first, ..] if is_word(first, &["nowait"]) => 1,
            [first, second, ..] if is_word(first, &["skip"]) && is_word(second, &["locked"]) => 2,
            _ => 0,
        };
        let span = head[strength].span;
        let put = |token: Token| TokenWithSpan { token, span };
        for name in names.split(|token| token.token == Token::Comma) {
            written.extend([head[0].clone(), head[strength].clone()]);
            if has_names || keeps_keys {
                written.push(put(Token::make_keyword("OF")));
            }
            if keeps_keys {
                written.push(put(Token::make_word(KEEPS_KEYS, Some('"'))));
                written.extend((!name.is_empty()).then(|| put(Token::Period)));
            }
            written.extend(name.iter().chain(&rest[..wait]).cloned());
        }
        at += strength + 1 + usize::from(has_names) + count + wait;
    }
    *tokens = written;
}

/// Replaces `text ARRAY` by `text[]` among the columns of a table.
pub(super) fn plain_arrays(tokens: &mut Vec<TokenWithSpan>) {
    let mut written: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut rest = std::mem::take(tokens).into_iter().peekable();
    let mut before = Token::EOF;
    while let Some(token) = rest.next() {
        let is_array = matches!(&token.token, Token::Word(word)
            if word.quote_style.is_none() && word.keyword == Keyword::ARRAY);
        let opens =
            rest.peek().is_some_and(|next| matches!(next.token, Token::LBracket | Token::LParen));
        if is_array && !opens && matches!(before, Token::Word(_) | Token::RParen) {
            let brackets = [Token::LBracket, Token::RBracket];
            written.extend(brackets.map(|sign| TokenWithSpan { token: sign, span: token.span }));
            continue;
        }
        if !matches!(token.token, Token::Whitespace(_)) {
            before = token.token.clone();
        }
        written.push(token);
    }
    *tokens = written;
}

/// Replaces `substring(a SIMILAR b ESCAPE c)` by the equivalent `substring(a FROM b FOR c)`, as
/// only this is in the grammar.
pub(super) fn plain_similar(tokens: &mut [TokenWithSpan]) {
    let signs: Vec<usize> =
        (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_))).collect();
    let is_word = |tokens: &[TokenWithSpan], at: usize, wanted: &str| {
        matches!(&tokens[at].token, Token::Word(word)
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
    };
    // For each open parenthesis, whether it belongs to `substring`, and whether SIMILAR was found
    // in it.
    let mut open: Vec<(bool, bool)> = Vec::new();
    for (number, &at) in signs.iter().enumerate() {
        let next = signs.get(number + 1);
        match &tokens[at].token {
            Token::LParen => {
                let before = number.checked_sub(1).map(|before| signs[before]);
                open.push((before.is_some_and(|at| is_word(tokens, at, "substring")), false));
            }
            Token::RParen => drop(open.pop()),
            _ => {}
        }
        let Some((true, is_similar)) = open.last_mut() else { continue };
        let is_operator = next.is_some_and(|next| is_word(tokens, *next, "to"));
        if is_word(tokens, at, "similar") && !is_operator {
            tokens[at].token = Token::make_keyword("FROM");
            *is_similar = true;
        } else if *is_similar && is_word(tokens, at, "escape") {
            tokens[at].token = Token::make_keyword("FOR");
        }
    }
}

/// True for one of these words, unless it is quoted.
pub(super) fn is_word(token: &TokenWithSpan, words: &[&str]) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none()
        && words.iter().any(|wanted| word.value.eq_ignore_ascii_case(wanted)))
}

/// True if these words occur in this order without a list of columns behind them.
pub(super) fn is_of_column(tokens: &[TokenWithSpan], wanted: &[&str]) -> bool {
    let signs = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let signs: Vec<&TokenWithSpan> = signs.collect();
    (0..signs.len()).any(|at| {
        let words = wanted.iter().enumerate();
        let mut words = words.map(|(by, word)| (signs.get(at + by), word));
        words.all(|(sign, word)| sign.is_some_and(|sign| is_word(sign, &[word])))
            && signs.get(at + wanted.len()).is_none_or(|next| next.token != Token::LParen)
    })
}

/// True if these words occur in this order, one after the other.
pub(super) fn has_words(tokens: &[TokenWithSpan], wanted: &[&str]) -> bool {
    let mut found = 0;
    tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).any(|token| {
        let fits = |at: usize| {
            matches!(&token.token, Token::Word(word)
                if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted[at]))
        };
        found = if fits(found) { found + 1 } else { usize::from(fits(0)) };
        found == wanted.len()
    })
}

/// True for `ON DELETE SET NULL (columns)`, which is not in the grammar.
pub(super) fn has_partial_action(tokens: &[TokenWithSpan]) -> bool {
    let signs = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let words: Vec<String> = signs.map(|token| token.token.to_string().to_uppercase()).collect();
    words.windows(4).any(|words| {
        words[0] == "DELETE"
            && words[1] == "SET"
            && matches!(&*words[2], "NULL" | "DEFAULT")
            && words[3] == "("
    })
}

/// Options of COPY can be `on` and `off`, for which the grammar accepts only `true` and `false`.
pub(super) fn plain_switches(tokens: &mut [TokenWithSpan]) {
    let mut after_switch = false;
    for token in tokens {
        let Token::Word(word) = &token.token else { continue };
        let plain = match word.value.to_lowercase().as_str() {
            "on" => Some("TRUE"),
            "off" => Some("FALSE"),
            _ => None,
        };
        let is_switch = matches!(word.value.to_lowercase().as_str(), "freeze" | "header");
        if let (Some(plain), true) = (plain, after_switch) {
            token.token = Token::make_keyword(plain);
        }
        after_switch = is_switch;
    }
}
