//! From text to statements.
//!
//! The grammar is that of the crate `sqlparser`, with its PostgreSQL dialect. Isomer's own statements
//! are read here, token by token, before that:
//!
//! ```text
//!   SHOW TABLES | PARTITIONS | SITES | CHANGES | DECISIONS | JOBS
//!   ALTER SYSTEM SET autopilot = off | recommend | auto
//!   ALTER SYSTEM SET site_memory = size
//!   ALTER TABLE t SPLIT AT (key)              ALTER TABLE t MERGE AT (key)
//!   ALTER TABLE t REMASTER [AT (key)] TO SITE n
//!   ALTER TABLE t ADD | DROP REPLICA [AT (key)] ON SITE n
//!   CREATE TABLE t (..) SHARD BY (columns)    ALTER TABLE t SHARD BY ..: see the module of shard keys
//!   CREATE | ALTER | DROP SEQUENCE ..         identity columns: see the module of sequences
//!   CREATE | ALTER USER name [PASSWORD 'text' | NULL] [[NO]SUPERUSER] [[NO]LOGIN]
//!   DROP USER [IF EXISTS] name
//!   SET CONSTRAINTS ALL | name, .. DEFERRED | IMMEDIATE
//! ```
//!
//! VACUUM, ANALYZE and ALTER COLUMN .. SET STATISTICS are understood and have nothing to do: garbage is freed without
//! them, and there are no statistics. What would promise something that is not kept (GRANT ..) is refused
//! ([`REFUSED`]).

mod sequence;
mod shard;

use crate::budget::Budget;
use crate::error::{SqlError, clipped, code};
pub use sequence::{IdentityChange, SequenceChange, SequenceStatement, sequence_options};
pub use shard::{Reshard, ShardControl, column_list};
use sqlparser::ast::{Expr, ObjectName, Query, Select, Statement};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Word};

/// How deep parentheses and the like may be nested.
const DEPTH_MAX: usize = 60;
/// How many operators one expression may have: its tree is as deep.
const OPERATORS_MAX: usize = 2_000;

/// A name has at most so many bytes.
pub const NAME_BYTES_MAX: usize = 63;
/// So many notices are made of one text.
const NOTICES_MAX: usize = 100;
/// What the tree of a statement takes for each word, number or text, about.
const TREE_BYTES: usize = 400;
/// What a statement takes beside: itself, in a list that doubles when it grows, and the query in it.
const STATEMENT_BYTES: usize =
    2 * size_of::<Parsed>() + size_of::<Query>() + 2 * size_of::<Select>();

/// Statements that are refused by their first word, and what to do instead.
const REFUSED: [(&str, &str); 4] = [
    ("GRANT", "Every user may read and write every table; superusers manage users (ALTER USER)."),
    ("REVOKE", "Every user may read and write every table; who must not is not made a user."),
    ("CLUSTER", "A table is in the order of its primary key."),
    ("REINDEX", "Drop the index and create it again."),
];

/// A statement as it was written.
#[derive(Clone, PartialEq, Debug)]
pub enum Parsed {
    /// A statement of SQL.
    Sql(Box<Statement>),
    /// INSERT .. OVERRIDING .. VALUE.
    Overriding(Box<Statement>, Overriding),
    /// A statement about sequences.
    Sequence(Box<SequenceStatement>),
    /// A statement about the design.
    Design(DesignStatement),
    /// ALTER TABLE .. SHARD BY.
    Reshard(Box<Reshard>),
    /// A statement about a user.
    User(UserStatement),
    /// SET CONSTRAINTS.
    Constraints(ConstraintsStatement),
    /// A statement that does nothing, and its tag.
    Nothing(&'static str),
}

/// `SET CONSTRAINTS ALL | name, .. DEFERRED | IMMEDIATE`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConstraintsStatement {
    /// Their names; none: all that are deferrable.
    pub names: Option<Vec<String>>,
    /// True: they are checked at the commit from now on.
    pub deferred: bool,
}

/// Which values of identity columns an INSERT takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overriding {
    /// OVERRIDING SYSTEM VALUE: those that it gives.
    System,
    /// OVERRIDING USER VALUE: those of the sequence.
    User,
}

/// A statement about the design.
#[derive(Clone, PartialEq, Debug)]
pub enum DesignStatement {
    /// `SHOW PARTITIONS` and so on: a table of the schema `isomer`.
    Show(&'static str),
    /// `ALTER TABLE t ..`
    Alter {
        /// The table.
        table: ObjectName,
        /// What is to be changed.
        change: DesignChange,
    },
    /// `ALTER SYSTEM SET autopilot = ..`
    Autopilot(String),
    /// `ALTER SYSTEM SET site_memory = ..`
    SiteMemory(String),
    /// `ALTER SYSTEM RECONFIGURE ..`
    Reconfigure(Reconfigure),
    /// CHECKPOINT: at every site.
    Checkpoint,
}

/// A statement about a plan that is carried out beside the transactions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reconfigure {
    /// `ALTER SYSTEM RECONFIGURE 'plan'`: a change on each line. With DRY RUN it is only tried.
    Start {
        /// The plan.
        plan: String,
        /// It is only tried.
        is_dry_run: bool,
    },
    /// `ALTER SYSTEM PAUSE RECONFIGURATION 7`
    Pause(u64),
    /// `ALTER SYSTEM RESUME RECONFIGURATION 7`
    Resume(u64),
    /// `ALTER SYSTEM CANCEL RECONFIGURATION 7`
    Cancel(u64),
    /// `ALTER SYSTEM REVERSE RECONFIGURATION 7`
    Reverse(u64),
}

/// A statement about a user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UserStatement {
    /// `CREATE USER`
    Create {
        /// Its name.
        name: String,
        /// What is said of it. Without a password it cannot connect where one is asked for.
        attributes: UserAttributes,
    },
    /// `ALTER USER`
    Alter {
        /// Its name.
        name: String,
        /// What changes; the rest stays as it is.
        attributes: UserAttributes,
    },
    /// `DROP USER`
    Drop {
        /// Its name.
        name: String,
        /// True if it need not exist.
        if_exists: bool,
    },
}

/// What a statement says of a user.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UserAttributes {
    /// Its password; `Some(None)`: none from now on.
    pub password: Option<Option<String>>,
    /// True if it may manage other users and the server.
    pub superuser: Option<bool>,
    /// True if it may connect.
    pub login: Option<bool>,
}

/// What is to be changed in the design of a table. Keys are values of the key columns, or of the first
/// of them.
#[derive(Clone, PartialEq, Debug)]
pub enum DesignChange {
    /// Split where this key begins.
    Split(Vec<Expr>),
    /// Merge the partitions that meet at this key.
    Merge(Vec<Expr>),
    /// Hand the partition with this key (none: all) to a site.
    Remaster(Option<Vec<Expr>>, u16),
    /// Add a replica of the partition with this key (none: of all) at a site.
    AddReplica(Option<Vec<Expr>>, u16),
    /// Drop it.
    DropReplica(Option<Vec<Expr>>, u16),
    /// Hold up, go on with, or end a change of the shard key that is under way.
    Sharding(ShardControl),
}

/// Reads statements that Isomer itself has written.
///
/// # Errors
/// As [`read`].
pub fn parse(text: &str) -> Result<Vec<Parsed>, SqlError> {
    read(text, &Budget::unlimited(), &mut Vec::new())
}

/// Reads statements, separated by semicolons. Names of more than 63 bytes are cut, with a notice.
///
/// # Errors
/// 42601 with the place, 54001 if they are too deeply nested; what the budget has against it.
pub fn read(
    text: &str,
    budget: &Budget,
    notices: &mut Vec<SqlError>,
) -> Result<Vec<Parsed>, SqlError> {
    let mark = budget.mark();
    let counted = count(text);
    // All tokens, and those of each statement.
    let tokens_bytes = 2 * counted.tokens * size_of::<TokenWithSpan>() + text.len();
    let tree_bytes = counted.words * TREE_BYTES + text.len();
    budget.charge(tokens_bytes)?;
    budget.charge(tree_bytes)?;
    let dialect = PostgreSqlDialect {};
    let mut tokens = Vec::with_capacity(counted.tokens);
    let mut tokenizer = Tokenizer::new(&dialect, text);
    tokenizer.tokenize_with_location_into_buf(&mut tokens).map_err(|error| {
        syntax(&error.message, Some((error.location.line, error.location.column)), text)
    })?;
    budget.tick(16 * tokens.len())?;
    for token in &mut tokens {
        if let Token::Word(word) = &mut token.token {
            cut_name(word, notices);
        }
    }
    let lengths: Vec<usize> =
        tokens.split(|token| token.token == Token::SemiColon).map(<[_]>::len).collect();
    let statements_bytes = lengths.len() * STATEMENT_BYTES;
    budget.charge(statements_bytes)?;
    let (mut tokens, mut statements) = (tokens.into_iter(), Vec::new());
    for length in lengths {
        let part: Vec<TokenWithSpan> = tokens.by_ref().take(length).collect();
        tokens.next();
        let is_blank =
            |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_) | Token::EOF);
        if part.iter().all(is_blank) {
            continue;
        }
        check_size(&part)?;
        budget.tick(16 * part.len())?;
        statements.push(statement(part, text)?);
    }
    budget.settle(mark, tree_bytes + statements_bytes)?;
    Ok(statements)
}

/// A name as PostgreSQL takes it: cut to 63 bytes.
fn cut_name(word: &mut Word, notices: &mut Vec<SqlError>) {
    if word.value.len() <= NAME_BYTES_MAX {
        return;
    }
    let end = word.value.floor_char_boundary(NAME_BYTES_MAX);
    let cut = word.value[..end].to_owned();
    if notices.len() < NOTICES_MAX {
        let name = clipped(&word.value);
        let message = format!("identifier \"{name}\" will be truncated to \"{cut}\"");
        notices.push(SqlError::new("42622", message));
    }
    word.value = cut;
}

/// How many tokens a text has, and how many of them are words, numbers or texts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Counted {
    tokens: usize,
    words: usize,
}

/// Counts the tokens of a text, not one too few, without making them: what a text takes when it is read is
/// asked for before.
fn count(text: &str) -> Counted {
    let bytes = text.as_bytes();
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    let find = |from: usize, wanted: &[u8]| {
        let rest = bytes.get(from..).unwrap_or_default();
        // The end of the text ends everything.
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
                // Comments are in each other; the shortest ends first, and what follows counts once more.
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

/// Reads one expression.
///
/// # Errors
/// 42601.
pub fn parse_expression(text: &str) -> Result<Expr, SqlError> {
    let parser = Parser::new(&PostgreSqlDialect {}).with_recursion_limit(DEPTH_MAX);
    let mut parser = parser.try_with_sql(text).map_err(|error| refused(error, text))?;
    parser.parse_expr().map_err(|error| refused(error, text))
}

/// Trees are as deep as chains of operators are long, and are walked by recursion. A chain goes on behind
/// parentheses, and a part of a list is as deep as what stands before the list, and itself:
///
/// ```text
///   1 + f(2 + 3, 4) + 5        1 +   at 1    f(2 + 3    at 2    , 4    at 1 again    ) + 5    at 3
/// ```
fn check_size(tokens: &[TokenWithSpan]) -> Result<(), SqlError> {
    let mut operators = 0;
    // For each list around: the operators before it, and of its parts that has most.
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

/// Words that make a tree deeper by one, as often as they come.
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

/// Takes [NOT] DEFERRABLE from the modes of a transaction, as the grammar does not know it. It asks to wait for a
/// snapshot in which nothing can fail, and every snapshot of a transaction that only reads is one.
fn drop_deferrable(tokens: &mut Vec<TokenWithSpan>) {
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

fn statement(mut tokens: Vec<TokenWithSpan>, text: &str) -> Result<Parsed, SqlError> {
    let word = |at: usize| -> String {
        let words = tokens.iter().filter(|t| !matches!(t.token, Token::Whitespace(_)));
        words.map(|t| t.token.to_string().to_uppercase()).nth(at).unwrap_or_default()
    };
    let (first, second) = (word(0), word(1));
    if let Some((_, hint)) = REFUSED.iter().find(|(word, _)| *word == first) {
        return Err(SqlError::unsupported(first).hint(*hint));
    }
    // The grammar knows it in some places only, and it means nothing in any.
    if has_words(&tokens, &["NULLS", "NOT", "DISTINCT"]) {
        return Err(SqlError::unsupported("NULLS NOT DISTINCT"));
    }
    if first == "CREATE" && second == "RECURSIVE" {
        return Err(SqlError::unsupported("a recursive view"));
    }
    if first == "CREATE" && has_words(&tokens, &["WITH", "NO", "DATA"]) {
        return Err(SqlError::unsupported("WITH NO DATA"));
    }
    if first == "CREATE" && has_words(&tokens, &["CHECK", "OPTION"]) {
        return Err(SqlError::unsupported("WITH CHECK OPTION"));
    }
    if matches!(&*first, "CREATE" | "ALTER") && has_partial_action(&tokens) {
        let what = "SET NULL or SET DEFAULT of some columns of a foreign key";
        return Err(SqlError::unsupported(what));
    }
    if first == "ALTER"
        && matches!(&*second, "SEQUENCE" | "VIEW")
        && has_words(&tokens, &["OWNER", "TO"])
    {
        // ALTER TABLE does it for all kinds of relations.
        return statement(as_table(tokens), text);
    }
    match (first.as_str(), second.as_str()) {
        ("BEGIN" | "START", _) | ("SET", "TRANSACTION" | "SESSION") => drop_deferrable(&mut tokens),
        ("VACUUM", _) => return Ok(Parsed::Nothing("VACUUM")),
        ("ANALYZE", _) => return Ok(Parsed::Nothing("ANALYZE")),
        ("ALTER", "TABLE") if is_about_statistics(&tokens) => {
            return Ok(Parsed::Nothing("ALTER TABLE"));
        }
        ("CHECKPOINT", _) => return Ok(Parsed::Design(DesignStatement::Checkpoint)),
        // There are no cursors of SQL and no channels: none of them is open.
        ("CLOSE", "ALL") => return Ok(Parsed::Nothing("CLOSE CURSOR ALL")),
        ("UNLISTEN", _) => return Ok(Parsed::Nothing("UNLISTEN")),
        ("CREATE" | "ALTER" | "DROP", "USER" | "ROLE") => {
            return user(&tokens, text).map(Parsed::User);
        }
        ("SET", "CONSTRAINTS") => {
            let mut own = Parser::new(&PostgreSqlDialect {}).with_tokens_with_locations(tokens);
            let found = constraints(&mut own).map_err(|error| refused(error, text))?;
            return Ok(Parsed::Constraints(found));
        }
        ("ALTER", "SYSTEM") => {
            let system = system(&tokens).map_err(|error| refused(error, text))?;
            return Ok(Parsed::Design(system));
        }
        ("ABORT", _) => {
            let rollback = Parser::parse_sql(&PostgreSqlDialect {}, "ROLLBACK");
            let rollback = rollback.ok().and_then(|mut all| all.pop()).expect("it is a statement");
            return Ok(Parsed::Sql(Box::new(rollback)));
        }
        ("SHOW", show) => {
            let system = [
                "tables",
                "partitions",
                "sites",
                "changes",
                "decisions",
                "jobs",
                "reconfigurations",
                "checkpoints",
            ];
            if let Some(found) = system.iter().find(|name| name.eq_ignore_ascii_case(show)) {
                return Ok(Parsed::Design(DesignStatement::Show(found)));
            }
        }
        ("TABLE" | "SELECT" | "WITH" | "VALUES" | "(" | "INSERT", _) => whole_tables(&mut tokens),
        ("COPY", _) => {
            plain_switches(&mut tokens);
            tokens.push(TokenWithSpan::wrap(Token::SemiColon));
        }
        _ => {}
    }
    let overriding =
        if matches!(&*first, "INSERT" | "WITH") { overriding(&mut tokens) } else { None };
    let parser = || Parser::new(&PostgreSqlDialect {}).with_recursion_limit(DEPTH_MAX);
    if let ("ALTER" | "DROP", "SEQUENCE")
    | ("CREATE", "SEQUENCE" | "TEMP" | "TEMPORARY" | "UNLOGGED")
    | ("ALTER", "TABLE") = (first.as_str(), second.as_str())
    {
        let mut own = parser().with_tokens_with_locations(tokens.clone());
        let found = sequence::statement(&mut own).map_err(|error| refused(error, text))?;
        if let Some(found) = found {
            return found.map(|found| Parsed::Sequence(Box::new(found)));
        }
    }
    if let ("CREATE" | "ALTER", "TABLE") = (first.as_str(), second.as_str()) {
        sequence::put_in_order(&mut tokens).map_err(|error| refused(error, text))?;
    }
    if (first.as_str(), second.as_str()) == ("CREATE", "TABLE") {
        shard::as_parameter(&mut tokens).map_err(|error| refused(error, text))?;
    }
    if (first.as_str(), second.as_str()) == ("ALTER", "TABLE") {
        let mut own = parser().with_tokens_with_locations(tokens.clone());
        if let Some(reshard) = shard::alter(&mut own).map_err(|error| refused(error, text))? {
            return Ok(Parsed::Reshard(Box::new(reshard)));
        }
        let mut own = parser().with_tokens_with_locations(tokens.clone());
        if let Some(design) = alter(&mut own).map_err(|error| refused(error, text))? {
            return Ok(Parsed::Design(design));
        }
    }
    let mut parser = parser().with_tokens_with_locations(tokens);
    let parsed = parser.parse_statement().map_err(|error| refused(error, text))?;
    let next = parser.peek_token();
    if next.token != Token::EOF && next.token != Token::SemiColon {
        let place = Some((next.span.start.line, next.span.start.column));
        return Err(syntax(&format!("syntax error at or near \"{}\"", next.token), place, text));
    }
    Ok(match overriding {
        Some(overriding) => Parsed::Overriding(Box::new(parsed), overriding),
        None => Parsed::Sql(Box::new(parsed)),
    })
}

/// True for `ALTER TABLE .. ALTER COLUMN c SET STATISTICS n`, and nothing else.
fn is_about_statistics(tokens: &[TokenWithSpan]) -> bool {
    let is_comma = |token: &TokenWithSpan| token.token == Token::Comma;
    has_words(tokens, &["SET", "STATISTICS"]) && !tokens.iter().any(is_comma)
}

/// `ALTER SEQUENCE` or `ALTER VIEW` as `ALTER TABLE`.
fn as_table(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut words = tokens.iter_mut().filter(|t| !matches!(t.token, Token::Whitespace(_)));
    if let Some(kind) = words.nth(1) {
        kind.token = Token::make_keyword("TABLE");
    }
    tokens
}

fn constraints(parser: &mut Parser<'_>) -> Result<ConstraintsStatement, ParserError> {
    parser.expect_keyword(Keyword::SET)?;
    parser.next_token();
    let names = match parser.parse_keyword(Keyword::ALL) {
        true => None,
        false => {
            let names = parser.parse_comma_separated(|parser| parser.parse_object_name(false))?;
            let name = |name: &ObjectName| {
                let last = name.0.last().and_then(|part| part.as_ident());
                last.map(crate::bind::folded).unwrap_or_default()
            };
            Some(names.iter().map(name).collect())
        }
    };
    let deferred = match parser.parse_one_of_keywords(&[Keyword::DEFERRED, Keyword::IMMEDIATE]) {
        Some(word) => word == Keyword::DEFERRED,
        None => return parser.expected_ref("DEFERRED or IMMEDIATE", parser.peek_token_ref()),
    };
    let end = parser.peek_token_ref();
    match end.token {
        Token::EOF | Token::SemiColon => Ok(ConstraintsStatement { names, deferred }),
        _ => parser.expected_ref("end of statement", end),
    }
}

/// Takes OVERRIDING .. VALUE out of an INSERT, as the grammar does not know it.
fn overriding(tokens: &mut Vec<TokenWithSpan>) -> Option<Overriding> {
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

/// `TABLE t` in the place of a query: the grammar knows it in some places only.
fn whole_tables(tokens: &mut Vec<TokenWithSpan>) {
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

/// True if these words follow each other somewhere.
fn has_words(tokens: &[TokenWithSpan], wanted: &[&str]) -> bool {
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

/// True for `ON DELETE SET NULL (columns)`, which the grammar does not know.
fn has_partial_action(tokens: &[TokenWithSpan]) -> bool {
    let signs = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let words: Vec<String> = signs.map(|token| token.token.to_string().to_uppercase()).collect();
    words.windows(4).any(|words| {
        words[0] == "DELETE"
            && words[1] == "SET"
            && matches!(&*words[2], "NULL" | "DEFAULT")
            && words[3] == "("
    })
}

/// Options of COPY are switched by `on` and `off` too, which the grammar knows as `true` and `false`.
fn plain_switches(tokens: &mut [TokenWithSpan]) {
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

/// `ALTER SYSTEM ..`
fn system(tokens: &[TokenWithSpan]) -> Result<DesignStatement, ParserError> {
    let mut parser = Parser::new(&PostgreSqlDialect {}).with_tokens_with_locations(tokens.to_vec());
    ["ALTER", "SYSTEM"].iter().try_for_each(|word| expect(&mut parser, word))?;
    let verb = parser.next_token().token.to_string().to_uppercase();
    let control: fn(u64) -> Reconfigure = match verb.as_str() {
        "SET" => return system_setting(parser),
        "RECONFIGURE" => {
            let plan = parser.parse_literal_string()?;
            let is_dry_run = parser.peek_token().token != Token::EOF;
            if is_dry_run {
                ["DRY", "RUN"].iter().try_for_each(|word| expect(&mut parser, word))?;
            }
            expect(&mut parser, "EOF")?;
            return Ok(DesignStatement::Reconfigure(Reconfigure::Start { plan, is_dry_run }));
        }
        "PAUSE" => Reconfigure::Pause,
        "RESUME" => Reconfigure::Resume,
        "CANCEL" => Reconfigure::Cancel,
        "REVERSE" => Reconfigure::Reverse,
        other => {
            let known = "SET, RECONFIGURE, PAUSE, RESUME, CANCEL or REVERSE";
            let wrong = format!("Expected: {known}, found: {other}");
            return Err(ParserError::ParserError(wrong));
        }
    };
    expect(&mut parser, "RECONFIGURATION")?;
    let number = parser.parse_literal_uint()?;
    expect(&mut parser, "EOF")?;
    Ok(DesignStatement::Reconfigure(control(number)))
}

/// `ALTER SYSTEM SET name = value`, from the name on.
fn system_setting(mut parser: Parser<'_>) -> Result<DesignStatement, ParserError> {
    let name = parser.next_token().token.to_string();
    let statement: fn(String) -> DesignStatement = match name.to_lowercase().as_str() {
        "autopilot" => DesignStatement::Autopilot,
        "site_memory" => DesignStatement::SiteMemory,
        _ => {
            let wrong = format!("Expected: autopilot or site_memory, found: {name}");
            return Err(ParserError::ParserError(wrong));
        }
    };
    if !parser.consume_token(&Token::Eq) {
        expect(&mut parser, "TO")?;
    }
    let word = parser.next_token();
    let value = match word.token {
        Token::Word(word) => word.value.to_lowercase(),
        Token::SingleQuotedString(text) => text,
        other => other.to_string(),
    };
    expect(&mut parser, "EOF")?;
    Ok(statement(value))
}

fn alter(parser: &mut Parser<'_>) -> Result<Option<DesignStatement>, ParserError> {
    parser.next_token();
    parser.next_token();
    let table = parser.parse_object_name(false)?;
    let first = parser.next_token().token.to_string().to_uppercase();
    let second = parser.next_token().token.to_string().to_uppercase();
    let change = match (first.as_str(), second.as_str()) {
        ("SPLIT", "AT") => DesignChange::Split(key(parser)?),
        ("MERGE", "AT") => DesignChange::Merge(key(parser)?),
        ("REMASTER", "AT") => {
            let key = key(parser)?;
            expect(parser, "TO")?;
            DesignChange::Remaster(Some(key), site(parser)?)
        }
        ("PAUSE" | "RESUME" | "CANCEL", "SHARD") => {
            DesignChange::Sharding(shard::control(parser, &first)?)
        }
        ("REMASTER", "TO") => DesignChange::Remaster(None, site(parser)?),
        ("ADD" | "DROP", "REPLICA") => {
            let mut at = None;
            let next = parser.next_token().token.to_string().to_uppercase();
            if next == "AT" {
                at = Some(key(parser)?);
                expect(parser, "ON")?;
            } else if next != "ON" {
                return Err(ParserError::ParserError(format!("Expected: ON SITE, found: {next}")));
            }
            let site = site(parser)?;
            if first == "ADD" {
                DesignChange::AddReplica(at, site)
            } else {
                DesignChange::DropReplica(at, site)
            }
        }
        _ => return Ok(None),
    };
    let next = parser.peek_token();
    if next.token != Token::EOF {
        let near = format!("Expected: end of statement, found: {}", next.token);
        return Err(ParserError::ParserError(near));
    }
    Ok(Some(DesignStatement::Alter { table, change }))
}

fn expect(parser: &mut Parser<'_>, word: &str) -> Result<(), ParserError> {
    let found = parser.next_token().token.to_string();
    if found.eq_ignore_ascii_case(word) {
        return Ok(());
    }
    Err(ParserError::ParserError(format!("Expected: {word}, found: {found}")))
}

fn key(parser: &mut Parser<'_>) -> Result<Vec<Expr>, ParserError> {
    expect(parser, "(")?;
    let values = parser.parse_comma_separated(Parser::parse_expr)?;
    expect(parser, ")")?;
    Ok(values)
}

fn site(parser: &mut Parser<'_>) -> Result<u16, ParserError> {
    expect(parser, "SITE")?;
    let found = parser.next_token().token.to_string();
    let number = found.trim_start_matches(['s', 'S']).parse();
    number.map_err(|_| {
        ParserError::ParserError(format!("Expected: the number of a site, found: {found}"))
    })
}

/// What is said of a user by a word of its own, and holds for all of them or for none.
const SAID_OF_ALL: [&str; 6] =
    ["INHERIT", "ENCRYPTED", "NOCREATEDB", "NOCREATEROLE", "NOREPLICATION", "NOBYPASSRLS"];

/// `CREATE | ALTER | DROP USER name ..`; ROLE is another word for it, but that a role that is made
/// so may not connect unless that is said.
fn user(tokens: &[TokenWithSpan], text: &str) -> Result<UserStatement, SqlError> {
    let wrong = |error| refused(error, text);
    let mut parser = Parser::new(&PostgreSqlDialect {}).with_tokens_with_locations(tokens.to_vec());
    let verb = parser.next_token().token.to_string().to_uppercase();
    let is_user = parser.next_token().token.to_string().eq_ignore_ascii_case("user");
    let if_exists = verb == "DROP" && parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let ident = parser.parse_identifier().map_err(wrong)?;
    let name = if ident.quote_style.is_some() { ident.value } else { ident.value.to_lowercase() };
    let mut attributes = UserAttributes::default();
    loop {
        let word = parser.next_token();
        let upper = word.token.to_string().to_uppercase();
        match upper.as_str() {
            "EOF" => break,
            _ if verb == "DROP" => {
                let message =
                    format!("Expected: one name, found: {}{}", word.token, word.span.start);
                return Err(wrong(ParserError::ParserError(message)));
            }
            "PASSWORD" => {
                let null = parser.parse_keyword(Keyword::NULL);
                let given = if null { None } else { Some(parser.parse_literal_string()) };
                attributes.password = Some(given.transpose().map_err(wrong)?);
            }
            "SUPERUSER" => attributes.superuser = Some(true),
            "NOSUPERUSER" => attributes.superuser = Some(false),
            "LOGIN" => attributes.login = Some(true),
            "NOLOGIN" => attributes.login = Some(false),
            "WITH" => {}
            word if SAID_OF_ALL.contains(&word) => {}
            _ => {
                let known = "PASSWORD, [NO]SUPERUSER and [NO]LOGIN are what can be said of a user.";
                return Err(
                    SqlError::unsupported(format!("the attribute {upper} of a user")).hint(known)
                );
            }
        }
    }
    Ok(match verb.as_str() {
        "CREATE" => {
            attributes.login.get_or_insert(is_user);
            UserStatement::Create { name, attributes }
        }
        "ALTER" => UserStatement::Alter { name, attributes },
        _ => UserStatement::Drop { name, if_exists },
    })
}

fn refused(error: ParserError, text: &str) -> SqlError {
    match error {
        ParserError::RecursionLimitExceeded => {
            let message = format!("the statement is nested more than {DEPTH_MAX} levels deep");
            SqlError::new(code::TOO_COMPLEX, message)
        }
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => {
            let (what, place) = match message.rsplit_once(" at Line: ") {
                Some((what, place)) => (what.to_owned(), numbers(place)),
                None => (message.clone(), None),
            };
            let near = what.rsplit_once("found: ").map(|(_, near)| near.to_owned());
            let message = match near.as_deref() {
                Some("EOF") => "syntax error at end of input".to_owned(),
                Some(near) => format!("syntax error at or near \"{near}\""),
                None => format!("syntax error: {what}"),
            };
            let error = syntax(&message, place, text);
            match what.split_once("Expected: ") {
                Some((_, expected)) => {
                    let expected = expected.split(", found").next().unwrap_or(expected);
                    error.hint(format!("Expected is {expected}."))
                }
                None => error,
            }
        }
    }
}

/// `8, Column: 15` as numbers.
fn numbers(place: &str) -> Option<(u64, u64)> {
    let (line, column) = place.split_once(", Column: ")?;
    Some((line.trim().parse().ok()?, column.trim().parse().ok()?))
}

fn syntax(message: &str, place: Option<(u64, u64)>, text: &str) -> SqlError {
    let position = place.and_then(|(line, column)| position(text, line, column));
    SqlError::new(code::SYNTAX, message).at(position)
}

/// The number of a character, from 1, of a line and a column.
pub(crate) fn position(text: &str, line: u64, column: u64) -> Option<usize> {
    if line == 0 {
        return None;
    }
    let before = text.split_inclusive('\n').take(usize::try_from(line).ok()? - 1);
    Some(before.map(|line| line.chars().count()).sum::<usize>() + usize::try_from(column).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_statements_are_understood() {
        let parsed = parse("alter table t split at (5, 'x'); show partitions").expect("two");
        assert!(matches!(
            &parsed[0],
            Parsed::Design(DesignStatement::Alter { change: DesignChange::Split(key), .. })
                if key.len() == 2
        ));
        assert_eq!(parsed[1], Parsed::Design(DesignStatement::Show("partitions")));
        for text in ["alter system set autopilot = auto", "ALTER SYSTEM SET autopilot TO 'auto'"] {
            let auto = DesignStatement::Autopilot("auto".to_owned());
            assert_eq!(parse(text).expect("one"), [Parsed::Design(auto)]);
        }
        let error = parse("alter system set work_mem = 5").unwrap_err();
        assert_eq!(error.hint.as_deref(), Some("Expected is autopilot or site_memory."));
        let memory = DesignStatement::SiteMemory("4GB".to_owned());
        assert_eq!(
            parse("alter system set site_memory = '4GB'").expect("one"),
            [Parsed::Design(memory)]
        );
        let remaster = parse("ALTER TABLE t REMASTER AT (5) TO SITE 2").expect("one");
        assert!(matches!(
            &remaster[0],
            Parsed::Design(DesignStatement::Alter {
                change: DesignChange::Remaster(Some(_), 2),
                ..
            })
        ));
    }

    #[test]
    fn errors_say_where() {
        let error = parse("select 1\nfrom )").unwrap_err();
        assert_eq!((error.code, error.position), (code::SYNTAX, Some(15)), "{error}");
        assert_eq!(parse("selec 1").unwrap_err().code, code::SYNTAX);
        assert_eq!(parse(&"(".repeat(100_000)).unwrap_err().code, code::TOO_COMPLEX);
        let long = format!("select 1{}", "+1".repeat(100_000));
        assert_eq!(parse(&long).unwrap_err().code, code::TOO_COMPLEX);
    }

    #[test]
    fn chains_are_as_deep_as_they_are_long_whatever_stands_between() {
        for link in [
            " + mod(3, 2)",
            " collate \"C\"",
            " at time zone 'UTC'",
            " ilike 'a'",
            "::int[]",
            " + (1)",
        ] {
            let long = format!("select x{}", link.repeat(50_000));
            assert_eq!(parse(&long).unwrap_err().code, code::TOO_COMPLEX, "{link}");
        }
        let nested =
            (0..50).fold("1".to_owned(), |inner, _| format!("f({inner}{}, 2)", " + 1".repeat(100)));
        assert_eq!(parse(&format!("select {nested}")).unwrap_err().code, code::TOO_COMPLEX);
        let wide = format!("values {}", ["(1 + 1, f(2 + 2), 3)"; 5_000].join(", "));
        assert!(parse(&wide).is_ok());
    }

    #[test]
    fn names_are_cut_with_a_notice() {
        let (name, mut notices) = ("ä".repeat(100), Vec::new());
        let read = read(&format!("select {name}"), &Budget::unlimited(), &mut notices);
        let [Parsed::Sql(query)] = &read.expect("one")[..] else { panic!("one statement of SQL") };
        assert_eq!(query.to_string(), format!("SELECT {}", "ä".repeat(31)));
        assert_eq!(notices[0].code, "42622");
    }

    #[test]
    fn no_token_is_forgotten_when_they_are_counted() {
        for text in [
            "select 'a''b', \"c\"\"d\", e'f\\'g', $$h ' i$$, $j$ k $ l $j$, $1 from m -- n\n, o",
            "select /* a /* b */ c */ 1.5e3::numeric(3,2)||x'ff'",
            "insert into t values (1,2),(3,4),\t(5,'6')",
            "select 1 --",
            "",
        ] {
            let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize().expect(text);
            let counted = count(text);
            assert!(
                counted.tokens >= tokens.len(),
                "{} of {}: {text}",
                counted.tokens,
                tokens.len()
            );
        }
        let long = format!("select '{}'", "a, ' + b".replace('\'', "''").repeat(1000));
        assert!(count(&long).tokens < 10);
    }

    #[test]
    fn what_is_said_of_a_user_is_kept_and_nothing_else() {
        let parsed = parse("alter user bob superuser").expect("one");
        let attributes = UserAttributes { superuser: Some(true), ..UserAttributes::default() };
        let name = "bob".to_owned();
        assert_eq!(parsed, [Parsed::User(UserStatement::Alter { name, attributes })]);
        let role = parse("create role bob with password null noreplication").expect("one");
        let attributes =
            UserAttributes { password: Some(None), superuser: None, login: Some(false) };
        let name = "bob".to_owned();
        assert_eq!(role, [Parsed::User(UserStatement::Create { name, attributes })]);
        for refused in [
            "create user bob valid until 'tomorrow'",
            "alter role bob createdb",
            "grant select on t to bob",
            "revoke all on t from bob",
        ] {
            let error = parse(refused).expect_err("a refusal");
            assert_eq!(error.code, code::FEATURE_NOT_SUPPORTED, "{refused}");
            assert!(error.hint.is_some(), "{refused}");
        }
    }

    #[test]
    fn what_only_postgresql_needs_does_nothing() {
        assert_eq!(parse("vacuum analyze t").expect("one"), [Parsed::Nothing("VACUUM")]);
        assert_eq!(parse(" ; ; ").expect("none"), []);
        assert_eq!(parse("copy t from stdin with (freeze on)").expect("one").len(), 1);
    }
}
