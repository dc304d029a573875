//! From text to statements.
//!
//! The grammar is that of the crate `sqlparser`, with its PostgreSQL dialect. Isomer's own
//! statements are read here, token by token, before that:
//!
//! ```text
//!   SHOW TABLES | PARTITIONS | SITES | CHANGES | DECISIONS | JOBS
//!   ALTER SYSTEM SET autopilot = off | recommend | approve | auto
//!   ALTER SYSTEM SET design_changes = on | off
//!   ALTER SYSTEM PROPOSE 'plan' [BECAUSE 'reason']  ALTER SYSTEM PROPOSE SHARD KEY OF t (a, ..)
//!   ALTER SYSTEM RESTART [NODE b]
//!   ALTER SYSTEM APPROVE PROPOSAL n           ALTER SYSTEM REJECT PROPOSAL n [BECAUSE 'reason']
//!   ALTER SYSTEM SET autopilot_processor_percent = percent of one core
//!   ALTER SYSTEM SET site_memory = size       ALTER SYSTEM SET default_backups = number
//!   ALTER TABLE t SPLIT AT (key)              ALTER TABLE t MERGE AT (key)
//!   ALTER TABLE t REMASTER [AT (key)] TO SITE n
//!   ALTER TABLE t ADD | DROP REPLICA [AT (key)] ON SITE n
//!   ALTER TABLE t PIN | UNPIN [FROM (key)] [TO (key)]
//!   CREATE TABLE t (..) SHARD BY (columns)    ALTER TABLE t SHARD BY ..: see the module shard
//!   CREATE | ALTER | DROP SEQUENCE ..         identity columns: see the module sequence
//!   CREATE | ALTER | DROP DOMAIN ..           see the module domain
//!   CREATE | ALTER | DROP PROCEDURE ..        see the module procedure
//!   CREATE TABLE t (.., LIKE other ..)        forms of ALTER: see the modules like and alter
//!   CREATE | ALTER USER name [PASSWORD 'text' | NULL] [[NO]SUPERUSER] [[NO]LOGIN]
//!   DROP USER [IF EXISTS] name
//!   GRANT ..   REVOKE ..                      REASSIGN OWNED, DROP OWNED: see the module grant
//!   DECLARE c CURSOR ..   FETCH   MOVE   CLOSE  see the module cursor
//!   SET CONSTRAINTS ALL | name, .. DEFERRED | IMMEDIATE
//! ```
//!
//! VACUUM is accepted and has no effect, as garbage is freed without it. So are the forms of ALTER
//! TABLE about statistics and pages: ANALYZE takes samples of one size, and there are no pages.
//! Statements whose promise could not be kept are refused ([`REFUSED`]).

mod alter;
mod conflict;
mod cursor;
mod design;
mod domain;
mod exclusion;
mod forms;
mod glued;
mod grant;
mod lacking;
mod like;
mod maintain;
mod procedure;
mod rewrite;
mod samples;
mod sequence;
mod shard;
mod size;
mod subscripts;
mod user;

use crate::budget::Budget;
use crate::error::{SqlError, clipped, code};
pub use alter::{AlterChange, AlterStatement};
pub(crate) use conflict::{ConflictPart, conflict_part};
pub use cursor::{CursorStatement, Declare, Fetch, FetchWay};
pub use design::{DesignChange, DesignStatement, Pin, Reconfigure, Restraint};
use design::{alter as alter_design, system};
pub use domain::{DomainChange, DomainOption, DomainStatement};
pub(crate) use exclusion::{marked as marked_window, parted as parted_window, spelled_out};
pub(crate) use forms::NEW_TABLE;
pub use grant::{Grant, GrantRoles, NamedRights, RightsStatement, RoleName, Target};
pub use like::{Including, Like};
pub use maintain::Maintenance;
pub use procedure::{NewArgument, NewProcedure, ProcedureChange, ProcedureStatement, Signature};
pub(crate) use rewrite::{ROWS_FROM, SYMMETRIC, VARIADIC, keeps_keys, needs_as};
use rewrite::{as_table, drop_deferrable, has_partial_action, has_words, is_about_pages};
use rewrite::{
    lock_clauses, overriding, plain_arrays, plain_similar, plain_switches, whole_tables,
    without_only,
};
pub(crate) use samples::{NUMBER as SAMPLE_NUMBER, PERCENT as SAMPLE_PERCENT, sampled};
pub use sequence::{IdentityChange, SequenceChange, SequenceStatement, sequence_options};
pub use shard::{Reshard, ShardControl, column_list};
use size::{check_size, count};
use sqlparser::ast::{Expr, ObjectName, Query, Select, Statement};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Word};
use user::user;
pub use user::{UserAttributes, UserStatement};

/// How deep parentheses and the like may be nested.
const DEPTH_MAX: usize = 60;

/// The largest length of a name in bytes.
pub const NAME_BYTES_MAX: usize = 63;
/// The largest number of notices for one text.
const NOTICES_MAX: usize = 100;
/// Estimated memory of the tree of a statement, for each word, number or text.
const TREE_BYTES: usize = 400;
/// Memory of a statement besides its tree: the statement itself, in a list that doubles when it
/// grows, and its query.
const STATEMENT_BYTES: usize =
    2 * size_of::<Parsed>() + size_of::<Query>() + 2 * size_of::<Select>();

/// Statements that are refused by their first word, with a hint.
const REFUSED: [(&str, &str); 2] = [
    ("CLUSTER", "A table is in the order of its primary key."),
    ("REINDEX", "Drop the index and create it again."),
];

/// A parsed statement.
#[derive(Clone, PartialEq, Debug)]
pub enum Parsed {
    /// A statement of SQL.
    Sql(Box<Statement>),
    /// INSERT .. OVERRIDING .. VALUE.
    Overriding(Box<Statement>, Overriding),
    /// CREATE TABLE with LIKE among its columns.
    Table(Box<Statement>, Vec<Like>),
    /// A form of ALTER that is not in the grammar.
    Alter(Box<AlterStatement>),
    /// A statement about domains.
    Domain(Box<DomainStatement>),
    /// A statement about procedures.
    Procedure(Box<ProcedureStatement>),
    /// A statement about sequences.
    Sequence(Box<SequenceStatement>),
    /// A statement about the design.
    Design(DesignStatement),
    /// ALTER TABLE .. SHARD BY.
    Reshard(Box<Reshard>),
    /// A statement about a user.
    User(UserStatement),
    /// A statement about rights.
    Rights(RightsStatement),
    /// A statement about a cursor.
    Cursor(Box<CursorStatement>),
    /// SET CONSTRAINTS.
    Constraints(ConstraintsStatement),
    /// A statement without effect, and its command tag.
    Nothing(&'static str),
    /// VACUUM, ANALYZE.
    Maintain(Maintenance),
}

/// `SET CONSTRAINTS ALL | name, .. DEFERRED | IMMEDIATE`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConstraintsStatement {
    /// Their names; `None` for all deferrable constraints.
    pub names: Option<Vec<String>>,
    /// True: they are checked at commit from now on.
    pub deferred: bool,
}

/// The source of the values of identity columns in an INSERT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overriding {
    /// OVERRIDING SYSTEM VALUE: the values in the statement.
    System,
    /// OVERRIDING USER VALUE: the values of the sequence.
    User,
}

/// Parses statements that Isomer itself has written.
///
/// # Errors
/// As [`read`].
pub fn parse(text: &str) -> Result<Vec<Parsed>, SqlError> {
    read(text, &Budget::unlimited(), &mut Vec::new())
}

/// Parses statements, separated by semicolons. Names of more than 63 bytes are cut, with a notice.
///
/// # Errors
/// 42601 with the position, 54001 if they are too deeply nested; an error of the budget.
pub fn read(
    text: &str,
    budget: &Budget,
    notices: &mut Vec<SqlError>,
) -> Result<Vec<Parsed>, SqlError> {
    let mark = budget.mark();
    let counted = count(text);
    // All tokens, and those of a single statement.
    let tokens_bytes = 2 * counted.tokens * size_of::<TokenWithSpan>() + text.len();
    let tree_bytes = counted.words * TREE_BYTES + text.len();
    budget.charge(tokens_bytes)?;
    budget.charge(tree_bytes)?;
    let dialect = PostgreSqlDialect {};
    let mut tokens = Vec::with_capacity(counted.tokens);
    let parted = glued::part(text);
    let mut tokenizer = Tokenizer::new(&dialect, &parted.text);
    tokenizer.tokenize_with_location_into_buf(&mut tokens).map_err(|error| {
        let at = parted.place(error.location);
        syntax(&error.message, Some((at.line, at.column)), text)
    })?;
    parted.correct(&mut tokens);
    budget.tick(16 * tokens.len())?;
    let mut tokens = rewrite::spell_out_isnull(rewrite::join_literals(tokens, text)?);
    for token in &mut tokens {
        if let Token::Word(word) = &mut token.token {
            cut_name(word, notices);
        }
    }
    let lengths = procedure::lengths(&tokens);
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

/// Cuts a name to 63 bytes, as PostgreSQL does.
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

/// CREATE, ALTER and DROP DATABASE. There is one database, of the user that it begins with.
///
/// # Errors
/// 0A000, unless it says who the owner is.
fn database(verb: &str, tokens: &[TokenWithSpan]) -> Result<Parsed, SqlError> {
    let words = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let last: Vec<String> = words.skip(3).map(|token| token.token.to_string()).collect();
    let is_owned = |last: &[String]| {
        matches!(last, [owner, to, who] if owner.eq_ignore_ascii_case("owner")
            && to.eq_ignore_ascii_case("to")
            && who.trim_matches('"') == "isomer")
    };
    if verb == "ALTER" && is_owned(&last) {
        return Ok(Parsed::Nothing("ALTER DATABASE"));
    }
    Err(SqlError::unsupported(format!("{verb} DATABASE")).hint(
        "There is one database, and it has every name that a client connects to. A dump is restored \
         without --create.",
    ))
}

/// Parses one expression.
///
/// # Errors
/// 42601.
pub fn parse_expression(text: &str) -> Result<Expr, SqlError> {
    let parser = Parser::new(&PostgreSqlDialect {}).with_recursion_limit(DEPTH_MAX);
    let mut parser = parser.try_with_sql(text).map_err(|error| refused(error, text))?;
    parser.parse_expr().map_err(|error| refused(error, text))
}

fn statement(mut tokens: Vec<TokenWithSpan>, text: &str) -> Result<Parsed, SqlError> {
    let word = |at: usize| -> String {
        let words = tokens.iter().filter(|t| !matches!(t.token, Token::Whitespace(_)));
        words.map(|t| t.token.to_string().to_uppercase()).nth(at).unwrap_or_default()
    };
    let (first, second, third) = (word(0), word(1), word(2));
    if let Some((_, hint)) = REFUSED.iter().find(|(word, _)| *word == first) {
        return Err(SqlError::unsupported(first).hint(*hint));
    }
    if procedure::is_about([&first, &second, &third, &word(3)]) {
        let parser = Parser::new(&PostgreSqlDialect {}).with_recursion_limit(DEPTH_MAX);
        let mut own = parser.with_tokens_with_locations(tokens);
        let found = procedure::statement(&mut own, text).map_err(|error| refused(error, text))?;
        return found.map(|found| Parsed::Procedure(Box::new(found)));
    }
    if let Some(tag) = lacking::check(&tokens)? {
        return Ok(Parsed::Nothing(tag));
    }
    if has_words(&tokens, &["SET", "WITHOUT", "OIDS"]) && first == "ALTER" {
        return Ok(Parsed::Nothing("ALTER TABLE"));
    }
    forms::rewrite(&mut tokens)?;
    rewrite::quote_names(&mut tokens);
    rewrite::drop_collations(&mut tokens)?;
    plain_operators(&mut tokens);
    if has_words(&tokens, &["GROUP", "BY", "DISTINCT"]) {
        return Err(SqlError::unsupported("GROUP BY DISTINCT")
            .hint("Write the grouping sets as GROUPING SETS, each once."));
    }
    rewrite::as_calls(&mut tokens);
    rewrite::rows_without_parentheses(&mut tokens);
    rewrite::symmetric_bounds(&mut tokens);
    rewrite::like_each(&mut tokens);
    if matches!(&*first, "SELECT" | "WITH")
        && let Some(table) = rewrite::select_into(&tokens)
    {
        return statement(table, text);
    }
    if first == "CREATE" && has_words(&tokens, &["WITH", "NO", "DATA"]) {
        rewrite::without_data(&mut tokens);
    }
    if first == "MERGE" || first == "WITH" {
        rewrite::merge_defaults(&mut tokens);
    }
    if rewrite::is_of_column(&tokens, &["UNIQUE", "NULLS", "NOT", "DISTINCT"]) {
        return Err(SqlError::unsupported("NULLS NOT DISTINCT of a column")
            .hint("Write it as a constraint of the table: UNIQUE NULLS NOT DISTINCT (column)."));
    }
    if has_words(&tokens, &["WHERE", "CURRENT", "OF"]) {
        return Err(SqlError::unsupported("WHERE CURRENT OF"));
    }
    exclusion::as_names(&mut tokens);
    if first == "CREATE"
        && second == "SCHEMA"
        && (count_of(&tokens, "CREATE") > 1 || count_of(&tokens, "GRANT") > 0)
    {
        return Err(SqlError::unsupported("a definition inside of CREATE SCHEMA")
            .hint("Write it as a statement of its own, with the schema before its name."));
    }
    if second == "DATABASE" && matches!(&*first, "CREATE" | "ALTER" | "DROP") {
        return database(&first, &tokens);
    }
    if first == "ALTER" && second == "TYPE" && has_words(&tokens, &["ATTRIBUTE"]) {
        return Err(SqlError::unsupported("ALTER TYPE .. ATTRIBUTE, of a composite type,"));
    }
    if first == "CREATE"
        && has_words(&tokens, &["RECURSIVE", "VIEW"])
        && !rewrite::recursive_view(&mut tokens)
    {
        let message = "a recursive view needs a list of columns";
        return Err(SqlError::new(code::SYNTAX, message));
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
        // ALTER TABLE does the same for all kinds of relations.
        return statement(as_table(tokens), text);
    }
    plain_similar(&mut tokens);
    without_only(&mut tokens);
    lock_clauses(&mut tokens);
    if has_words(&tokens, &["ON", "CONFLICT"]) {
        conflict::as_names(&mut tokens);
    }
    match (first.as_str(), second.as_str()) {
        ("BEGIN" | "START", _) | ("SET", "TRANSACTION" | "SESSION") => drop_deferrable(&mut tokens),
        ("VACUUM" | "ANALYZE" | "ANALYSE", _) => {
            let found = maintain::statement(tokens).map_err(|error| refused(error, text))?;
            return Ok(Parsed::Maintain(found));
        }
        ("ALTER", "TABLE") if is_about_pages(&tokens) => {
            return Ok(Parsed::Nothing("ALTER TABLE"));
        }
        ("CHECKPOINT", _) => return Ok(Parsed::Design(DesignStatement::Checkpoint)),
        // There are no channels, so there is nothing to stop listening to.
        ("UNLISTEN", _) => return Ok(Parsed::Nothing("UNLISTEN")),
        ("CREATE" | "ALTER" | "DROP", "USER" | "ROLE" | "GROUP") => {
            return user(&tokens, text).map(Parsed::User);
        }
        ("GRANT" | "REVOKE" | "REASSIGN", _) | ("DROP", "OWNED") => {
            let mut own = Parser::new(&PostgreSqlDialect {}).with_tokens_with_locations(tokens);
            let found = grant::statement(&mut own).map_err(|error| refused(error, text))?;
            return found.map(Parsed::Rights);
        }
        ("ALTER", "DEFAULT") => {
            return Err(SqlError::unsupported("ALTER DEFAULT PRIVILEGES")
                .hint("GRANT .. ON ALL TABLES IN SCHEMA gives rights to those that there are."));
        }
        ("SET", "CONSTRAINTS") => {
            let mut own = Parser::new(&PostgreSqlDialect {}).with_tokens_with_locations(tokens);
            let found = constraints(&mut own).map_err(|error| refused(error, text))?;
            return Ok(Parsed::Constraints(found));
        }
        ("DECLARE" | "FETCH" | "MOVE" | "CLOSE", _) => {
            whole_tables(&mut tokens);
            let parser = Parser::new(&PostgreSqlDialect {}).with_recursion_limit(DEPTH_MAX);
            let mut own = parser.with_tokens_with_locations(tokens);
            let found = cursor::statement(&mut own).map_err(|error| refused(error, text))?;
            return Ok(Parsed::Cursor(Box::new(found)));
        }
        ("ALTER", "SYSTEM") => {
            if let Some(error) = design::foreign_setting(&tokens) {
                return Err(error);
            }
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
                "proposals",
                "checkpoints",
                "benefit",
            ];
            if let Some(found) = system.iter().find(|name| name.eq_ignore_ascii_case(show)) {
                let of = shown_relation(found, &tokens).map_err(|error| refused(error, text))?;
                return Ok(Parsed::Design(DesignStatement::Show(found, of)));
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
        if matches!(&*first, "INSERT" | "WITH" | "MERGE") { overriding(&mut tokens) } else { None };
    let mut parts = match &*first {
        "UPDATE" | "INSERT" | "MERGE" | "WITH" | "EXPLAIN" | "PREPARE" => {
            subscripts::take(&mut tokens).map_err(|error| refused(error, text))?
        }
        _ => Vec::new(),
    };
    let parser = || Parser::new(&PostgreSqlDialect {}).with_recursion_limit(DEPTH_MAX);
    if let ("CREATE" | "ALTER" | "DROP", "DOMAIN") = (first.as_str(), second.as_str()) {
        let mut own = parser().with_tokens_with_locations(tokens);
        let found = domain::statement(&mut own).map_err(|error| refused(error, text))?;
        return found.map(|found| Parsed::Domain(Box::new(found)));
    }
    if let ("ALTER", "TABLE" | "INDEX" | "VIEW" | "SEQUENCE" | "TYPE") =
        (first.as_str(), second.as_str())
    {
        let mut own = parser().with_tokens_with_locations(tokens.clone());
        if let Some(found) = alter::statement(&mut own).map_err(|error| refused(error, text))? {
            return Ok(Parsed::Alter(Box::new(found)));
        }
    }
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
        plain_arrays(&mut tokens);
        sequence::put_in_order(&mut tokens).map_err(|error| refused(error, text))?;
    }
    let creates_table = first == "CREATE"
        && matches!(&*second, "TABLE" | "TEMP" | "TEMPORARY" | "UNLOGGED")
        && (second == "TABLE" || third == "TABLE");
    let mut likes = Vec::new();
    if creates_table {
        likes = like::take(&mut tokens).map_err(|error| refused(error, text))?;
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
        if let Some(design) = alter_design(&mut own).map_err(|error| refused(error, text))? {
            return Ok(Parsed::Design(design));
        }
    }
    let mut parser = parser().with_tokens_with_locations(tokens);
    let mut parsed = parser.parse_statement().map_err(|error| refused(error, text))?;
    let next = parser.peek_token();
    if next.token != Token::EOF && next.token != Token::SemiColon {
        let place = Some((next.span.start.line, next.span.start.column));
        return Err(syntax(&format!("syntax error at or near \"{}\"", next.token), place, text));
    }
    subscripts::put(&mut parsed, &mut parts);
    if !parts.is_empty() {
        return Err(SqlError::unsupported("assignment to a part of a column here"));
    }
    Ok(match overriding {
        _ if !likes.is_empty() => Parsed::Table(Box::new(parsed), likes),
        Some(overriding) => Parsed::Overriding(Box::new(parsed), overriding),
        None => Parsed::Sql(Box::new(parsed)),
    })
}

/// How often a word occurs among tokens.
fn count_of(tokens: &[TokenWithSpan], wanted: &str) -> usize {
    let is_it = |token: &&TokenWithSpan| {
        matches!(&token.token, Token::Word(word)
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
    };
    tokens.iter().filter(is_it).count()
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

/// Reads one word.
fn expect(parser: &mut Parser<'_>, word: &str) -> Result<(), ParserError> {
    let found = parser.next_token().token.to_string();
    if found.eq_ignore_ascii_case(word) {
        return Ok(());
    }
    Err(ParserError::ParserError(format!("Expected: {word}, found: {found}")))
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

/// Parses the two numbers of `8, Column: 15`.
fn numbers(place: &str) -> Option<(u64, u64)> {
    let (line, column) = place.split_once(", Column: ")?;
    Some((line.trim().parse().ok()?, column.trim().parse().ok()?))
}

fn syntax(message: &str, place: Option<(u64, u64)>, text: &str) -> SqlError {
    let position = place.and_then(|(line, column)| position(text, line, column));
    SqlError::new(code::SYNTAX, message).at(position)
}

/// The character position, from 1, of a line and a column.
pub(crate) fn position(text: &str, line: u64, column: u64) -> Option<usize> {
    if line == 0 {
        return None;
    }
    let before = text.split_inclusive('\n').take(usize::try_from(line).ok()? - 1);
    Some(before.map(|line| line.chars().count()).sum::<usize>() + usize::try_from(column).ok()?)
}

/// Replaces `OPERATOR(pg_catalog.=)` before ANY and ALL, which the grammar does not accept there,
/// by `=`.
fn plain_operators(tokens: &mut Vec<TokenWithSpan>) {
    let is_word = |token: &TokenWithSpan, words: &[&str]| match &token.token {
        Token::Word(word) => words.iter().any(|one| word.value.eq_ignore_ascii_case(one)),
        _ => false,
    };
    // OPERATOR ( pg_catalog . = ) ANY
    let is_blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let mut at = 0;
    while at < tokens.len() {
        let there = (at..tokens.len()).filter(|at| !is_blank(&tokens[*at])).take(7);
        let there: Vec<usize> =
            if is_word(&tokens[at], &["OPERATOR"]) { there.collect() } else { Vec::new() };
        if let [_, open, schema, dot, operator, close, word] = there[..]
            && tokens[open].token == Token::LParen
            && is_word(&tokens[schema], &["pg_catalog"])
            && tokens[dot].token == Token::Period
            && tokens[close].token == Token::RParen
            && is_word(&tokens[word], &["ANY", "ALL", "SOME"])
        {
            tokens.drain(operator + 1..=close);
            tokens.drain(at..operator);
        }
        at += 1;
    }
}

/// The relation behind `SHOW PARTITIONS FROM`; nothing else may follow the name of a SHOW.
fn shown_relation(what: &str, tokens: &[TokenWithSpan]) -> Result<Option<ObjectName>, ParserError> {
    let parser = Parser::new(&PostgreSqlDialect {});
    let mut parser = parser.with_tokens_with_locations(tokens.to_vec());
    parser.next_token();
    parser.next_token();
    let is_of_one = what == "partitions" && parser.parse_keyword(Keyword::FROM);
    let of = is_of_one.then(|| parser.parse_object_name(false)).transpose()?;
    match parser.peek_token().token {
        Token::EOF | Token::SemiColon => Ok(of),
        _ => parser.expected("end of statement", parser.peek_token()),
    }
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
        assert_eq!(parsed[1], Parsed::Design(DesignStatement::Show("partitions", None)));
        for text in ["alter system set autopilot = auto", "ALTER SYSTEM SET autopilot TO 'auto'"] {
            let auto = DesignStatement::Autopilot("auto".to_owned());
            assert_eq!(parse(text).expect("one"), [Parsed::Design(auto)]);
        }
        let drain = DesignStatement::Reconfigure(Reconfigure::Drain(vec![3]));
        assert_eq!(parse("alter system drain site s3").expect("one"), [Parsed::Design(drain)]);
        let removed = DesignStatement::RemoveNode("d".to_owned());
        for text in ["alter system remove node d", "ALTER SYSTEM REMOVE NODE 'd'"] {
            assert_eq!(parse(text).expect("one"), [Parsed::Design(removed.clone())]);
        }
        for (text, wanted) in [
            ("alter system restart", DesignStatement::Restart(None)),
            ("alter system restart node 'b'", DesignStatement::Restart(Some("b".to_owned()))),
            (
                "alter system propose 'split t at 5' because 'hot'",
                DesignStatement::Propose("split t at 5".to_owned(), Some("hot".to_owned())),
            ),
        ] {
            assert_eq!(parse(text).expect("one"), [Parsed::Design(wanted)]);
        }
        let shard = parse("alter system propose shard key of t (A, b)").expect("one");
        assert!(matches!(
            &shard[0],
            Parsed::Design(DesignStatement::ProposeShardKey(_, columns)) if columns == &["a", "b"]
        ));
        assert!(parse("alter system propose shard key of t").is_err());
        let error = parse("alter system set work_mem = 5").unwrap_err();
        assert_eq!(error.message, "ALTER SYSTEM SET work_mem is not supported");
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
    fn chains_are_as_deep_as_they_are_long() {
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
    fn literals_continue_on_the_next_line_only() {
        let shown = |text: &str| {
            let statements = parse(text)?;
            let [Parsed::Sql(statement)] = &statements[..] else { panic!("one statement of SQL") };
            Ok::<String, SqlError>(statement.to_string())
        };
        for (text, expected) in [
            ("select 'foo'\n'bar'", "SELECT 'foobar'"),
            ("select 'a' -- b\n  'c'\n\n'd', 1", "SELECT 'acd', 1"),
            ("select E'a'\n'\\tb'", "SELECT E'a\\tb'"),
        ] {
            assert_eq!(shown(text).expect(text), expected);
        }
        for text in
            ["select 'foo' 'bar'", "select 'a' /*\n*/ 'b'", "select 123abc", "select 1.5e3x"]
        {
            assert_eq!(shown(text).unwrap_err().code, code::SYNTAX, "{text}");
        }
        assert!(shown("select 1 a, 2\"b\"").is_ok());
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
    fn the_count_of_tokens_is_an_upper_bound() {
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
    fn attributes_of_a_user_are_read() {
        let parsed = parse("alter user bob superuser").expect("one");
        let attributes = UserAttributes { superuser: Some(true), ..UserAttributes::default() };
        let name = "bob".to_owned();
        assert_eq!(parsed, [Parsed::User(UserStatement::Alter { name, attributes })]);
        let role = parse("create role bob with password null noreplication").expect("one");
        let attributes = UserAttributes {
            password: Some(None),
            login: Some(false),
            ..UserAttributes::default()
        };
        let name = "bob".to_owned();
        assert_eq!(role, [Parsed::User(UserStatement::Create { name, attributes })]);
        for refused in [
            "create user bob valid until 'tomorrow'",
            "alter role bob createdb",
            "grant all on database d to bob",
            "alter default privileges grant select on tables to bob",
        ] {
            let error = parse(refused).expect_err("a refusal");
            assert_eq!(error.code, code::FEATURE_NOT_SUPPORTED, "{refused}");
            assert!(error.hint.is_some(), "{refused}");
        }
    }

    #[test]
    fn statements_without_effect_are_accepted() {
        for (text, vacuums, analyzes, tables) in [
            ("vacuum", true, false, 0),
            ("vacuum full verbose analyze t", true, true, 1),
            ("vacuum (analyze, parallel 2) t (a, b), s.u", true, true, 2),
            ("vacuum (analyze false) t", true, false, 1),
            ("analyze verbose t (a)", false, true, 1),
        ] {
            let parsed = parse(text).expect(text);
            let [Parsed::Maintain(found)] = &parsed[..] else { panic!("{parsed:?}") };
            let read = (found.vacuums, found.analyzes, found.tables.len());
            assert_eq!(read, (vacuums, analyzes, tables), "{text}");
        }
        assert!(parse("vacuum t limit").is_err());
        assert_eq!(parse(" ; ; ").expect("none"), []);
        assert_eq!(parse("copy t from stdin with (freeze on)").expect("one").len(), 1);
    }
}
