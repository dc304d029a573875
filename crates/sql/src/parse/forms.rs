//! Forms of PostgreSQL's statements that the grammar does not have. They are written in a form that
//! it has, or refused by name.
//!
//! ```text
//!   CREATE TABLE t (a) AS TABLE u       CREATE TABLE t AS SELECT * FROM (TABLE u) AS "new table" (a)
//!   SELECT .. FROM ONLY (t)             SELECT .. FROM t
//!   trim(leading from x)                trim(leading ' ' from x)
//!   ALTER TABLE t ATTACH PARTITION ..   0A000
//! ```
//!
//! Words that change nothing are left out: `USING heap`, `WITHOUT OIDS`, ONLY.

use super::rewrite::whole_tables;
use crate::error::{SqlError, code};
use sqlparser::ast::ObjectName;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The alias of a query whose columns a CREATE TABLE names.
pub(crate) const NEW_TABLE: &str = "new table";

/// The first words of a statement, words that stand together in it, and the name of the form.
type FormRule = (&'static str, &'static str, &'static str);

/// Forms that are refused.
const FORMS: [FormRule; 32] = [
    ("ALTER INDEX ALL", "IN TABLESPACE", "ALTER INDEX ALL IN TABLESPACE"),
    ("ALTER TABLE ALL", "IN TABLESPACE", "ALTER TABLE ALL IN TABLESPACE"),
    ("ALTER INDEX", "SET TABLESPACE", "ALTER INDEX .. SET TABLESPACE"),
    ("ALTER INDEX", "ATTACH PARTITION", "ALTER INDEX .. ATTACH PARTITION"),
    ("ALTER INDEX", "DEPENDS ON EXTENSION", "ALTER INDEX .. DEPENDS ON EXTENSION"),
    ("ALTER INDEX", "SET STATISTICS", "ALTER INDEX .. ALTER COLUMN .. SET STATISTICS"),
    ("ALTER SEQUENCE", "SET LOGGED", "ALTER SEQUENCE .. SET LOGGED"),
    ("ALTER SEQUENCE", "SET UNLOGGED", "ALTER SEQUENCE .. SET UNLOGGED"),
    ("ALTER TABLE", "ATTACH PARTITION", "ALTER TABLE .. ATTACH PARTITION"),
    ("ALTER TABLE", "DETACH PARTITION", "ALTER TABLE .. DETACH PARTITION"),
    ("ALTER TABLE", "SET ACCESS METHOD", "ALTER TABLE .. SET ACCESS METHOD"),
    ("ALTER TABLE", "USING INDEX TABLESPACE", "USING INDEX TABLESPACE"),
    ("ALTER TYPE", "SET (", "ALTER TYPE .. SET (..)"),
    ("ALTER VIEW", "SET (", "ALTER VIEW .. SET (..)"),
    ("ALTER VIEW", "RESET (", "ALTER VIEW .. RESET (..)"),
    ("ALTER VIEW", "SET DEFAULT", "ALTER VIEW .. ALTER COLUMN .. SET DEFAULT"),
    ("ALTER VIEW", "DROP DEFAULT", "ALTER VIEW .. ALTER COLUMN .. DROP DEFAULT"),
    ("DROP INDEX CONCURRENTLY", "CASCADE", "DROP INDEX CONCURRENTLY .. CASCADE"),
    ("COPY", "FORCE_QUOTE *", "the option FORCE_QUOTE of COPY"),
    ("CREATE INDEX", ") TABLESPACE", "TABLESPACE of an index"),
    ("CREATE UNIQUE INDEX", ") TABLESPACE", "TABLESPACE of an index"),
    ("CREATE TABLE", "USING INDEX TABLESPACE", "USING INDEX TABLESPACE"),
    ("CREATE TABLE", "COMPRESSION PGLZ", "COMPRESSION of a column"),
    ("CREATE TABLE", "COMPRESSION LZ4", "COMPRESSION of a column"),
    ("CREATE TABLE", "AS EXECUTE", "CREATE TABLE .. AS EXECUTE"),
    ("CREATE TEMP TABLE", "AS EXECUTE", "CREATE TABLE .. AS EXECUTE"),
    ("CREATE TEMPORARY TABLE", "AS EXECUTE", "CREATE TABLE .. AS EXECUTE"),
    ("SET XML OPTION", "", "SET XML OPTION"),
    ("SELECT", "IS DOCUMENT", "IS DOCUMENT"),
    ("SELECT", "IS NOT DOCUMENT", "IS DOCUMENT"),
    ("WITH RECURSIVE", ") SEARCH DEPTH FIRST", "SEARCH of a recursive query"),
    ("WITH RECURSIVE", ") SEARCH BREADTH FIRST", "SEARCH of a recursive query"),
];

/// The words that may follow GROUP BY ALL where it is followed by no expression.
const AFTER_ALL: [&str; 12] = [
    ")",
    ";",
    "HAVING",
    "WINDOW",
    "UNION",
    "INTERSECT",
    "EXCEPT",
    "ORDER",
    "LIMIT",
    "OFFSET",
    "FETCH",
    "FOR",
];

/// A statement without any of these words is as the grammar has it.
const SIGNS: [&str; 14] = [
    "ALL",
    "ALTER",
    "COMMENT",
    "CONCURRENTLY",
    "COPY",
    "CREATE",
    "DOCUMENT",
    "JOIN",
    "ONLY",
    "RECURSIVE",
    "SCHEMA",
    "TRIM",
    "UESCAPE",
    "XML",
];

/// True for a token that is one of [`SIGNS`].
fn is_sign(token: &TokenWithSpan) -> bool {
    let Token::Word(word) = &token.token else { return false };
    word.quote_style.is_none() && SIGNS.iter().any(|sign| word.value.eq_ignore_ascii_case(sign))
}

/// A token as an upper-case word; quoted names and literals are no words.
fn word(token: &TokenWithSpan) -> String {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_uppercase(),
        Token::Word(_) | Token::SingleQuotedString(_) => "\"".to_owned(),
        other => other.to_string(),
    }
}

/// The place of words that stand together, from a place on.
fn find(words: &[String], from: usize, wanted: &str) -> Option<usize> {
    let wanted: Vec<&str> = wanted.split(' ').collect();
    (from..words.len()).find(|at| fits(words, *at, &wanted))
}

fn fits(words: &[String], at: usize, wanted: &[&str]) -> bool {
    let there = words.get(at..at + wanted.len());
    there.is_some_and(|there| there.iter().zip(wanted).all(|(word, wanted)| word == wanted))
}

/// Writes forms that the grammar does not have in one that it has.
///
/// # Errors
/// 0A000 with its name for one that Isomer does not have.
pub(super) fn rewrite(tokens: &mut Vec<TokenWithSpan>) -> Result<(), SqlError> {
    if !tokens.iter().any(is_sign) {
        return Ok(());
    }
    let all: Vec<usize> =
        (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_))).collect();
    let words: Vec<String> = all.iter().map(|at| word(&tokens[*at])).collect();
    let begins = |start: &str| fits(&words, 0, &start.split(' ').collect::<Vec<_>>());
    let is_there = |(start, inside, _): &&FormRule| {
        begins(start) && (inside.is_empty() || find(&words, 1, inside).is_some())
    };
    if let Some((_, _, name)) = FORMS.iter().find(is_there) {
        return Err(SqlError::unsupported(name));
    }
    if begins("WITH RECURSIVE") && cycles(&words) {
        return Err(SqlError::unsupported("CYCLE of a recursive query"));
    }
    if has_alias_of_using(&words) {
        return Err(SqlError::unsupported("an alias of JOIN .. USING"));
    }
    if words.iter().any(|word| word == "UESCAPE") {
        return Err(SqlError::unsupported("UESCAPE")
            .hint("Write the escapes with a backslash, or use unistr()."));
    }
    let mut edits = Vec::new();
    for at in 0..words.len() {
        edits.extend(edit(&words, at));
    }
    if begins("ALTER TABLE") {
        edits.extend(collation_of_type(&words, |at| tokens[all[at]].clone())?);
    }
    edits.extend(comment_on_constraint(&words, |at| tokens[all[at]].token.clone()));
    let is_table = |at: usize| words.get(at).is_some_and(|word| word == "TABLE");
    let creates_table = words.first().is_some_and(|word| word == "CREATE")
        && (is_table(1)
            || (is_table(2) && matches!(&*words[1], "TEMP" | "TEMPORARY" | "UNLOGGED")));
    if creates_table {
        edits.extend(of_table(&words, |at| tokens[all[at]].token.clone())?);
    }
    // From the last one on, so that places stay right.
    edits.sort_by_key(|edit: &Edit| std::cmp::Reverse(edit.at));
    for Edit { at, count, new } in edits {
        let span = tokens[all[at.min(all.len() - 1)]].span;
        let from = all.get(at).copied().unwrap_or(tokens.len());
        let to = if count == 0 { from } else { all[at + count - 1] + 1 };
        tokens.splice(from..to, new.into_iter().map(|token| TokenWithSpan { token, span }));
    }
    if creates_table && find(&words, 0, "AS TABLE").is_some() {
        let begins = tokens.iter().position(|token| word(token) == "AS").unwrap_or(0);
        let mut query = tokens.split_off(begins + 1);
        whole_tables(&mut query);
        tokens.append(&mut query);
    }
    Ok(())
}

/// Replaces `count` words from a place on.
struct Edit {
    at: usize,
    count: usize,
    new: Vec<Token>,
}

/// The change of the words at a place.
fn edit(words: &[String], at: usize) -> Option<Edit> {
    let is = |wanted: &[&str]| fits(words, at, wanted);
    let drop = |at: usize, count: usize| Some(Edit { at, count, new: Vec::new() });
    let blank = || vec![Token::SingleQuotedString(" ".to_owned())];
    match words[at].as_str() {
        "TRIM" if is(&["TRIM", "(", "FROM"]) => drop(at + 2, 1),
        "TRIM"
            if ["LEADING", "TRAILING", "BOTH"]
                .iter()
                .any(|side| is(&["TRIM", "(", side, "FROM"])) =>
        {
            Some(Edit { at: at + 3, count: 0, new: blank() })
        }
        "INTO" if at == 1 && is(&["INTO", "ONLY"]) => drop(at + 1, 1),
        "ON" if is(&["ON", "ONLY"]) && words[0] == "CREATE" => drop(at + 1, 1),
        "DROP" if at == 0 && is(&["DROP", "INDEX", "CONCURRENTLY"]) => drop(at + 2, 1),
        "GROUP" if is(&["GROUP", "BY", "ALL"]) => {
            let ends = words.get(at + 3).is_none_or(|next| AFTER_ALL.contains(&next.as_str()));
            if ends { None } else { drop(at + 2, 1) }
        }
        "SET" if at == 0 && is(&["SET", "SCHEMA"]) => {
            let new = vec![Token::make_word("search_path", None), Token::Eq];
            Some(Edit { at: 1, count: 1, new })
        }
        "(" if at > 0 && words[at - 1] == "ONLY" => {
            let end = words[at..].iter().position(|word| word == ")")? + at;
            // The name with its parts; ONLY itself is dropped elsewhere.
            let is_name = words[at + 1..end].iter().skip(1).step_by(2).all(|word| word == ".");
            is_name.then(|| Edit { at, count: 1, new: Vec::new() })
        }
        ")" => {
            let open = words[..at].iter().rposition(|word| word == "(" || word == ")")?;
            let is_name = words[open + 1..at].iter().skip(1).step_by(2).all(|word| word == ".");
            let is_of_only = open > 0 && words[open] == "(" && words[open - 1] == "ONLY";
            if is_of_only && is_name { drop(at, 1) } else { None }
        }
        _ => None,
    }
}

/// Changes of a CREATE TABLE: words that change nothing, and the names of the columns of a query.
///
/// # Errors
/// 0A000, 42704.
fn of_table(words: &[String], token: impl Fn(usize) -> Token) -> Result<Vec<Edit>, SqlError> {
    let (mut edits, mut depth, mut open) = (Vec::new(), 0_usize, None);
    let mut list = None;
    for (at, word) in words.iter().enumerate() {
        match word.as_str() {
            "(" => {
                open = Some(at).filter(|_| depth == 0).or(open);
                depth += 1;
            }
            ")" => {
                depth = depth.saturating_sub(1);
                list = list.or(open.filter(|_| depth == 0).map(|open| (open, at)));
                if depth == 1 && fits(words, at, &[")", "WITH", "("]) {
                    return Err(SqlError::unsupported("a storage parameter of a constraint"));
                }
            }
            "OF" if depth == 0
                && open.is_none()
                && !matches!(&*words[at - 1], "PARTITION" | "TABLE" | "EXISTS" | ".") =>
            {
                return Err(SqlError::unsupported("CREATE TABLE .. OF a composite type"));
            }
            "WITHOUT" if depth == 0 && fits(words, at, &["WITHOUT", "OIDS"]) => {
                edits.push(Edit { at, count: 2, new: Vec::new() });
            }
            "USING" if depth == 0 => match words.get(at + 1).map(String::as_str) {
                Some("HEAP") => edits.push(Edit { at, count: 2, new: Vec::new() }),
                Some(other) => {
                    let name = other.to_lowercase();
                    let message = format!("access method \"{name}\" does not exist");
                    return Err(SqlError::new(code::UNDEFINED_OBJECT, message));
                }
                None => {}
            },
            "AS" if depth == 0 => {
                let names = list.filter(|list| is_of_names(&words[list.0 + 1..list.1]));
                edits.extend(names.into_iter().flat_map(|(open, close)| {
                    named_columns(words, (open, close), at, (open..=close).map(&token))
                }));
                break;
            }
            _ => {}
        }
    }
    Ok(edits)
}

/// True for names with commas between them.
fn is_of_names(list: &[String]) -> bool {
    list.len() % 2 == 1 && list.iter().skip(1).step_by(2).all(|word| word == ",")
}

/// The changes that give the columns of a query the names of the list before AS.
fn named_columns(
    words: &[String],
    (open, close): (usize, usize),
    begins: usize,
    list: impl Iterator<Item = Token>,
) -> Vec<Edit> {
    // WITH [NO] DATA is about the table.
    let ends = ["WITH NO DATA", "WITH DATA"].iter().find_map(|end| find(words, begins, end));
    let ends =
        ends.unwrap_or(words.len() - usize::from(words.last().is_some_and(|last| last == ";")));
    let key = Token::make_keyword;
    let before = vec![key("SELECT"), Token::Mul, key("FROM"), Token::LParen];
    let alias = [Token::RParen, key("AS"), Token::make_word(NEW_TABLE, Some('"'))];
    let names = alias.into_iter().chain(list).collect();
    vec![
        Edit { at: open, count: close + 1 - open, new: Vec::new() },
        Edit { at: begins + 1, count: 0, new: before },
        Edit { at: ends, count: 0, new: names },
    ]
}

/// Leaves out the collation behind `ALTER COLUMN .. TYPE ..`, where the grammar has none.
///
/// # Errors
/// 42704 unless it orders by bytes, as all texts are ordered.
fn collation_of_type(
    words: &[String],
    token: impl Fn(usize) -> TokenWithSpan,
) -> Result<Option<Edit>, SqlError> {
    let found = find(words, 0, "TYPE").and_then(|ty| find(words, ty, "COLLATE"));
    let is_before_using = |at: &usize| find(words, 0, "USING").is_none_or(|using| *at < using);
    let Some(at) = found.filter(is_before_using) else { return Ok(None) };
    let last = if words.get(at + 2).is_some_and(|word| word == ".") { at + 3 } else { at + 1 };
    let name = |at: usize| match token(at) {
        TokenWithSpan { token: Token::Word(word), span } => Some(word.to_ident(span)),
        _ => None,
    };
    let names: Vec<_> = (at + 1..=last).step_by(2).filter(|at| *at < words.len()).collect();
    let names: Vec<_> = names.into_iter().filter_map(name).collect();
    if names.is_empty() {
        return Ok(None);
    }
    crate::refuse::collation(&ObjectName::from(names))?;
    Ok(Some(Edit { at, count: last + 1 - at, new: Vec::new() }))
}

/// `COMMENT ON CONSTRAINT c ON t IS ..` as a comment on a collation `t.c`, and one of a domain as
/// on an extension, for which [`crate::comment`] has the reason.
fn comment_on_constraint(words: &[String], token: impl Fn(usize) -> Token) -> Option<Edit> {
    if !fits(words, 0, &["COMMENT", "ON", "CONSTRAINT"]) || words.get(4)? != "ON" {
        return None;
    }
    let end = find(words, 5, "IS")?;
    let is_of_domain = words[5] == "DOMAIN" && end > 6;
    let kind = Token::make_keyword(if is_of_domain { "EXTENSION" } else { "COLLATION" });
    let of = (if is_of_domain { 6 } else { 5 })..end;
    let new = std::iter::once(kind).chain(of.map(&token)).chain([Token::Period, token(3)]);
    Some(Edit { at: 2, count: end - 2, new: new.collect() })
}

/// True for CYCLE behind a query in WITH RECURSIVE.
fn cycles(words: &[String]) -> bool {
    let is_cycle =
        |at: &usize| words[*at] == ")" && words.get(at + 1).is_some_and(|w| w == "CYCLE");
    (0..words.len()).any(|at| is_cycle(&at) && find(words, at, "USING").is_some())
}

/// True for `JOIN .. USING (columns) AS alias`.
fn has_alias_of_using(words: &[String]) -> bool {
    let is_one = |at: usize| {
        let Some(length) = words[at..].iter().position(|word| word == ")") else { return false };
        let list = &words[at + 2..at + length.max(2)];
        is_of_names(list) && words.get(at + length + 1).is_some_and(|word| word == "AS")
    };
    find(words, 0, "JOIN").is_some_and(|join| {
        (join..words.len()).any(|at| fits(words, at, &["USING", "("]) && is_one(at))
    })
}

#[cfg(test)]
mod tests {
    use crate::parse::parse;

    #[test]
    fn names_that_are_words_of_forms_stay_names() {
        for text in [
            "create index on t (tablespace)",
            "create table of (using_it int)",
            "create table app.of (using_it int)",
            "select cycle, search from t where document is null",
            "select t.schema, (t.only) from t",
            "create table t (a) as select b from u join v using (b)",
            "select 1 from u join v using (b) where (a) in (select 1)",
        ] {
            assert!(parse(text).is_ok(), "{text}: {:?}", parse(text));
        }
    }

    #[test]
    fn forms_are_refused_by_name() {
        for (text, what) in [
            ("alter table t attach partition u default", "ALTER TABLE .. ATTACH PARTITION"),
            ("select * from u join v using (a) as w", "an alias of JOIN .. USING"),
            ("create index on t (a) tablespace x", "TABLESPACE of an index"),
            ("create table t of ty", "CREATE TABLE .. OF a composite type"),
            (
                "with recursive r as (select 1) search depth first by a set b select * from r",
                "SEARCH of a recursive query",
            ),
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(error.message, format!("{what} is not supported"));
        }
    }
}
