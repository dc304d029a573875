//! Statements of PostgreSQL that Isomer does not have. They are refused by name, before the grammar
//! finds fault with them.
//!
//! `DROP .. IF EXISTS` of an object of a kind that cannot exist does nothing, as at PostgreSQL.

use crate::error::{SqlError, code};
use crate::types::other_type;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// A kind of object that cannot exist: the words of its name, the tag of its DROP, and the words
/// after which a hint begins.
struct Kind {
    words: &'static [&'static str],
    drop: &'static str,
    hint: Option<&'static str>,
}

const fn kind(
    words: &'static [&'static str],
    drop: &'static str,
    hint: Option<&'static str>,
) -> Kind {
    Kind { words, drop, hint }
}

/// Longer names come before their beginnings.
const KINDS: [Kind; 31] = [
    kind(&["ACCESS", "METHOD"], "DROP ACCESS METHOD", None),
    kind(&["AGGREGATE"], "DROP AGGREGATE", None),
    kind(&["CAST"], "DROP CAST", None),
    kind(&["COLLATION"], "DROP COLLATION", Some("Texts are in the order of their bytes.")),
    kind(&["CONVERSION"], "DROP CONVERSION", None),
    kind(&["EVENT", "TRIGGER"], "DROP EVENT TRIGGER", None),
    kind(&["EXTENSION"], "DROP EXTENSION", None),
    kind(&["FOREIGN", "DATA", "WRAPPER"], "DROP FOREIGN DATA WRAPPER", None),
    kind(&["FOREIGN", "TABLE"], "DROP FOREIGN TABLE", None),
    kind(&["FUNCTION"], "DROP FUNCTION", Some("CREATE PROCEDURE .. LANGUAGE SQL is supported.")),
    kind(&["LANGUAGE"], "DROP LANGUAGE", None),
    kind(&["LARGE", "OBJECT"], "DROP LARGE OBJECT", Some("A bytea holds up to 16 MiB.")),
    kind(&["MATERIALIZED", "VIEW"], "DROP MATERIALIZED VIEW", Some(MATERIALIZED)),
    kind(&["OPERATOR", "CLASS"], "DROP OPERATOR CLASS", None),
    kind(&["OPERATOR", "FAMILY"], "DROP OPERATOR FAMILY", None),
    kind(&["OPERATOR"], "DROP OPERATOR", None),
    kind(&["POLICY"], "DROP POLICY", Some("A view can show some of the rows of a table.")),
    kind(&["PUBLICATION"], "DROP PUBLICATION", None),
    kind(&["ROUTINE"], "DROP ROUTINE", None),
    kind(&["RULE"], "DROP RULE", None),
    kind(&["SERVER"], "DROP SERVER", None),
    kind(&["STATISTICS"], "DROP STATISTICS", Some("ANALYZE keeps statistics of each column.")),
    kind(&["SUBSCRIPTION"], "DROP SUBSCRIPTION", None),
    kind(&["TABLESPACE"], "DROP TABLESPACE", Some("ALTER TABLE .. REMASTER places rows at sites.")),
    kind(&["TEXT", "SEARCH", "CONFIGURATION"], "DROP TEXT SEARCH CONFIGURATION", None),
    kind(&["TEXT", "SEARCH", "DICTIONARY"], "DROP TEXT SEARCH DICTIONARY", None),
    kind(&["TEXT", "SEARCH", "PARSER"], "DROP TEXT SEARCH PARSER", None),
    kind(&["TEXT", "SEARCH", "TEMPLATE"], "DROP TEXT SEARCH TEMPLATE", None),
    kind(&["TRANSFORM"], "DROP TRANSFORM", None),
    kind(&["TRIGGER"], "DROP TRIGGER", None),
    kind(&["USER", "MAPPING"], "DROP USER MAPPING", None),
];

const MATERIALIZED: &str = "CREATE TABLE .. AS keeps the rows of a query.";

/// Other statements, by their first words.
const STATEMENTS: [(&[&str], Option<&str>); 9] = [
    (&["DO"], Some("CREATE PROCEDURE .. LANGUAGE SQL and CALL run several statements.")),
    (&["LISTEN"], None),
    (&["NOTIFY"], None),
    (&["LOAD"], None),
    (&["IMPORT", "FOREIGN", "SCHEMA"], None),
    (&["SECURITY", "LABEL"], None),
    (&["REFRESH", "MATERIALIZED", "VIEW"], Some(MATERIALIZED)),
    (&["PREPARE", "TRANSACTION"], Some("COMMIT is atomic over all sites.")),
    (&["ALTER", "LARGE", "OBJECT"], None),
];

/// Actions of ALTER TABLE.
const ACTIONS: [&[&str]; 6] =
    [&["INHERIT"], &["NO", "INHERIT"], &["SET", "TABLESPACE"], &["RESET"], &["OF"], &["NOT", "OF"]];

/// Forms of XML that are no calls.
const XML: [&str; 8] = [
    "XMLELEMENT",
    "XMLEXISTS",
    "XMLFOREST",
    "XMLPARSE",
    "XMLPI",
    "XMLROOT",
    "XMLSERIALIZE",
    "XMLTABLE",
];

/// Words that may stand between CREATE and the kind of the object.
const BETWEEN: [&str; 5] = ["OR", "REPLACE", "CONSTRAINT", "TRUSTED", "PROCEDURAL"];

/// Looks at the first words of a statement. Returns the tag of one that does nothing.
///
/// # Errors
/// 0A000 with its name, if Isomer does not have it.
pub(super) fn check(tokens: &[TokenWithSpan]) -> Result<Option<&'static str>, SqlError> {
    let words = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let words: Vec<String> = words
        .map_while(|token| match &token.token {
            Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_uppercase()),
            _ => None,
        })
        .take(10)
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let refuse = |name: String, hint: Option<&str>| {
        let error = SqlError::unsupported(name);
        Err(hint.map_or(error.clone(), |hint| error.hint(hint)))
    };
    if let Some(error) = form(tokens) {
        return Err(error);
    }
    if let ["ALTER", "TABLE", ..] = words.as_slice()
        && let Some(action) = action(tokens)
    {
        return refuse(format!("ALTER TABLE .. {}", action.join(" ")), None);
    }
    if let Some((name, hint)) = STATEMENTS.iter().find(|(name, _)| words.starts_with(name)) {
        return refuse(name.join(" "), *hint);
    }
    if let [verb @ ("COMMIT" | "ROLLBACK"), "PREPARED", ..] = words.as_slice() {
        return refuse(format!("{verb} PREPARED"), None);
    }
    if let ["COMMENT", "ON", rest @ ..] = words.as_slice() {
        let mut kinds = KINDS.iter().map(|kind| kind.words);
        let kind = kinds.find(|kind| rest.starts_with(kind));
        return kind
            .map_or(Ok(None), |kind| refuse(format!("COMMENT ON {}", kind.join(" ")), None));
    }
    let [verb @ ("CREATE" | "ALTER" | "DROP"), rest @ ..] = words.as_slice() else {
        return Ok(None);
    };
    let skipped = rest.iter().take_while(|word| **verb == *"CREATE" && BETWEEN.contains(word));
    let rest = &rest[skipped.count()..];
    let Some(Kind { words: name, drop, hint }) =
        KINDS.iter().find(|kind| rest.starts_with(kind.words))
    else {
        return Ok(None);
    };
    match (*verb, &rest[name.len()..]) {
        // The extension with the views of the schema isomer, and one that each database of
        // PostgreSQL has.
        ("CREATE", ["IF", "NOT", "EXISTS", "ISOMER" | "PLPGSQL", ..])
            if *drop == "DROP EXTENSION" =>
        {
            Ok(None)
        }
        ("CREATE", [object @ ("ISOMER" | "PLPGSQL"), ..]) if *drop == "DROP EXTENSION" => {
            let name = object.to_lowercase();
            let message = format!("extension \"{name}\" already exists");
            Err(SqlError::new(code::DUPLICATE_OBJECT, message))
        }
        ("DROP", ["IF", "EXISTS", object, ..])
            if *object != "ISOMER" || *drop != "DROP EXTENSION" =>
        {
            Ok(Some(*drop))
        }
        _ => refuse(format!("{verb} {}", name.join(" ")), *hint),
    }
}

/// The error for a form of XML, or for a literal of a type that is not there: `int4range '[1,2)'`.
fn form(tokens: &[TokenWithSpan]) -> Option<SqlError> {
    let mut tokens = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let mut before: Option<&str> = None;
    tokens.find_map(|token| match (before.take(), &token.token) {
        (_, Token::Word(word)) if word.quote_style.is_none() => {
            before = Some(&word.value);
            None
        }
        (Some(name), Token::LParen) => {
            let found = XML.iter().find(|known| known.eq_ignore_ascii_case(name))?;
            Some(SqlError::unsupported(format!("the function {}", found.to_lowercase())))
        }
        (Some(name), Token::SingleQuotedString(_)) => other_type(name),
        _ => None,
    })
}

/// The first action of an ALTER TABLE, if it is one of those above.
fn action(tokens: &[TokenWithSpan]) -> Option<&'static [&'static str]> {
    let significant = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_));
    let mut tokens = tokens.iter().filter(significant).skip(2).peekable();
    let is_word = |token: &TokenWithSpan, words: &[&str]| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => {
            words.iter().any(|known| known.eq_ignore_ascii_case(&word.value))
        }
        _ => false,
    };
    while tokens.next_if(|token| is_word(token, &["IF", "EXISTS", "ONLY"])).is_some() {}
    tokens.next()?;
    while tokens.next_if(|token| token.token == Token::Period).is_some() {
        tokens.next()?;
    }
    tokens.next_if(|token| token.token == Token::Mul);
    let rest: Vec<&TokenWithSpan> = tokens.take(3).collect();
    let begins = |words: &&&[&str]| {
        let both = words.iter().zip(&rest);
        rest.len() >= words.len() && both.into_iter().all(|(word, token)| is_word(token, &[word]))
    };
    ACTIONS.iter().find(begins).copied()
}
