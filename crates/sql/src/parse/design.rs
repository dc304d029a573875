//! Statements about the design: of the partitions of a table, and of the whole system.

use super::expect;
use super::shard::{self, ShardControl};
use crate::bind::folded;
use crate::error::SqlError;
use sqlparser::ast::{Expr, ObjectName};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// A statement about the design.
#[derive(Clone, PartialEq, Debug)]
pub enum DesignStatement {
    /// `SHOW SITES` and similar: a table of the schema `isomer`. Partitions may be restricted to
    /// one table or index.
    Show(&'static str, Option<ObjectName>),
    /// `ALTER TABLE t ..`
    Alter {
        /// The table.
        table: ObjectName,
        /// The change.
        change: DesignChange,
    },
    /// `ALTER SYSTEM SET autopilot = ..`
    Autopilot(String),
    /// `ALTER SYSTEM SET autopilot_processor_percent = ..`
    AutopilotProcessor(String),
    /// `ALTER SYSTEM SET site_memory = ..`
    SiteMemory(String),
    /// `ALTER SYSTEM SET fused_rows = ..`
    FusedRows(String),
    /// `ALTER SYSTEM SET order_router = ..`: chooses the sites of statements on ordered tables.
    OrderRouter(String),
    /// `ALTER SYSTEM SET default_backups = ..`: the number of backups of new tables.
    DefaultBackups(String),
    /// `ALTER SYSTEM SET design_changes = on | off`: whether changes of the design may begin.
    DesignChanges(String),
    /// `ALTER SYSTEM SET change_window = '22:00-06:00'` and its like: when and how much strategies
    /// may change the design.
    Restrain(Restraint, String),
    /// `ALTER SYSTEM RECONFIGURE ..`
    Reconfigure(Reconfigure),
    /// `ALTER SYSTEM APPROVE PROPOSAL 3`
    Approve(u64),
    /// `ALTER SYSTEM REJECT PROPOSAL 3 BECAUSE 'reason'`
    Reject(u64, Option<String>),
    /// `ALTER SYSTEM PROPOSE 'plan' BECAUSE 'reason'`: the plan waits for approval.
    Propose(String, Option<String>),
    /// `ALTER SYSTEM PROPOSE SHARD KEY OF t (a, b)`: a shard key waits for approval.
    ProposeShardKey(ObjectName, Vec<String>),
    /// `ALTER SYSTEM RESTART [NODE 'b']`: this process, or the process of a name.
    Restart(Option<String>),
    /// `ALTER SYSTEM REMOVE NODE 'd'`: a process that has joined the cluster leaves it.
    RemoveNode(String),
    /// CHECKPOINT: at every site.
    Checkpoint,
}

/// A setting that restrains strategies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Restraint {
    /// `change_window`
    Window,
    /// `changes_per_minute`
    PerMinute,
    /// `change_bytes_per_second`
    BytesPerSecond,
    /// `change_added_p99`
    AddedP99,
}

/// A statement about a plan that is carried out concurrently with the transactions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reconfigure {
    /// `ALTER SYSTEM RECONFIGURE 'plan'`: one change per line. With DRY RUN it is only tested.
    Start {
        /// The plan.
        plan: String,
        /// It is only tested.
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
    /// `ALTER SYSTEM DRAIN SITE 3, 4`: a plan that moves everything away from the sites.
    Drain(Vec<u16>),
}

/// A change of the design of a table. Keys are values of the key columns, or of a prefix of them.
#[derive(Clone, PartialEq, Debug)]
pub enum DesignChange {
    /// Split where this key begins.
    Split(Vec<Expr>),
    /// Merge the partitions that meet at this key.
    Merge(Vec<Expr>),
    /// Move the master of the partition with this key (none: of all) to a site. The partition moves
    /// as a whole, wherever in it the key is.
    Remaster(Option<Vec<Expr>>, u16),
    /// Add a replica of the partition with this key (none: of all) at a site.
    AddReplica(Option<Vec<Expr>>, u16),
    /// Drop it.
    DropReplica(Option<Vec<Expr>>, u16),
    /// Pin keys, or unpin them.
    Pin(Pin),
    /// Pause, resume, or cancel a change of the shard key that is under way.
    Sharding(ShardControl),
}

/// `ALTER TABLE t PIN | UNPIN [FROM (k)] [TO (k)]`: whether strategies leave these keys where they
/// are.
#[derive(Clone, PartialEq, Debug)]
pub struct Pin {
    /// False: UNPIN.
    pub is_pinned: bool,
    /// The first key; none: the first of all.
    pub from: Option<Vec<Expr>>,
    /// The first key behind these; none: there is none.
    pub to: Option<Vec<Expr>>,
}

/// `ALTER SYSTEM ..`
pub(super) fn system(tokens: &[TokenWithSpan]) -> Result<DesignStatement, ParserError> {
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
        "DRAIN" => {
            let mut sites = vec![site(&mut parser)?];
            while parser.consume_token(&Token::Comma) {
                sites.push(site_number(&mut parser)?);
            }
            expect(&mut parser, "EOF")?;
            return Ok(DesignStatement::Reconfigure(Reconfigure::Drain(sites)));
        }
        "REMOVE" => {
            expect(&mut parser, "NODE")?;
            let name = node(&mut parser)?;
            expect(&mut parser, "EOF")?;
            return Ok(DesignStatement::RemoveNode(name));
        }
        "RESTART" => {
            let mut name = None;
            if parser.peek_token().token != Token::EOF {
                expect(&mut parser, "NODE")?;
                name = Some(node(&mut parser)?);
            }
            expect(&mut parser, "EOF")?;
            return Ok(DesignStatement::Restart(name));
        }
        "PROPOSE" => return propose(parser),
        "APPROVE" | "REJECT" => return proposal(parser, verb == "APPROVE"),
        "PAUSE" => Reconfigure::Pause,
        "RESUME" => Reconfigure::Resume,
        "CANCEL" => Reconfigure::Cancel,
        "REVERSE" => Reconfigure::Reverse,
        other => {
            let known = "SET, RECONFIGURE, PAUSE, RESUME, CANCEL, REVERSE, DRAIN, REMOVE, RESTART, PROPOSE, \
                         APPROVE or REJECT";
            let wrong = format!("Expected: {known}, found: {other}");
            return Err(ParserError::ParserError(wrong));
        }
    };
    expect(&mut parser, "RECONFIGURATION")?;
    let number = parser.parse_literal_uint()?;
    expect(&mut parser, "EOF")?;
    Ok(DesignStatement::Reconfigure(control(number)))
}

/// The name of a process of the cluster.
fn node(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    match parser.peek_token().token {
        Token::SingleQuotedString(_) => parser.parse_literal_string(),
        _ => Ok(parser.parse_identifier()?.value),
    }
}

/// `ALTER SYSTEM PROPOSE 'plan' [BECAUSE 'reason']` and `PROPOSE SHARD KEY OF t (a, b)`, behind
/// PROPOSE.
fn propose(mut parser: Parser<'_>) -> Result<DesignStatement, ParserError> {
    let is_text =
        |token| matches!(token, Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_));
    if !is_text(parser.peek_token().token) {
        ["SHARD", "KEY", "OF"].iter().try_for_each(|word| expect(&mut parser, word))?;
        let table = parser.parse_object_name(false)?;
        let columns = shard::columns(&mut parser)?.iter().map(folded).collect();
        expect(&mut parser, "EOF")?;
        return Ok(DesignStatement::ProposeShardKey(table, columns));
    }
    let (plan, mut why) = (parser.parse_literal_string()?, None);
    if parser.peek_token().token != Token::EOF {
        expect(&mut parser, "BECAUSE")?;
        why = Some(parser.parse_literal_string()?);
    }
    expect(&mut parser, "EOF")?;
    Ok(DesignStatement::Propose(plan, why))
}

/// `ALTER SYSTEM APPROVE | REJECT PROPOSAL n [BECAUSE 'reason']`, from PROPOSAL on.
fn proposal(mut parser: Parser<'_>, is_approved: bool) -> Result<DesignStatement, ParserError> {
    expect(&mut parser, "PROPOSAL")?;
    let number = parser.parse_literal_uint()?;
    let mut why = None;
    if !is_approved && parser.peek_token().token != Token::EOF {
        expect(&mut parser, "BECAUSE")?;
        why = Some(parser.parse_literal_string()?);
    }
    expect(&mut parser, "EOF")?;
    Ok(if is_approved {
        DesignStatement::Approve(number)
    } else {
        DesignStatement::Reject(number, why)
    })
}

/// The error for ALTER SYSTEM of a setting that is one of each session or of the command line.
///
/// `tokens`: those of the statement.
pub(super) fn foreign_setting(tokens: &[TokenWithSpan]) -> Option<SqlError> {
    let words = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let mut words = words.map(|token| token.token.to_string()).skip(2);
    let (verb, name) = (words.next()?.to_uppercase(), words.next()?.to_lowercase());
    let is_own = OWN_SETTINGS.contains(&name.as_str());
    if !matches!(&*verb, "SET" | "RESET") || (is_own && verb == "SET") {
        return None;
    }
    let own = OWN_SETTINGS.join(", ");
    let hint = match verb.as_str() {
        "SET" => {
            format!("ALTER SYSTEM SET is of {own}. SET and ALTER ROLE .. SET are of sessions.")
        }
        _ => "ALTER SYSTEM SET gives a setting another value.".to_owned(),
    };
    Some(SqlError::unsupported(format!("ALTER SYSTEM {verb} {name}")).hint(hint))
}

/// The settings of ALTER SYSTEM SET.
const OWN_SETTINGS: [&str; 11] = [
    "autopilot",
    "autopilot_processor_percent",
    "change_added_p99",
    "change_bytes_per_second",
    "change_window",
    "changes_per_minute",
    "default_backups",
    "design_changes",
    "fused_rows",
    "order_router",
    "site_memory",
];

/// `ALTER SYSTEM SET name = value`, from the name on.
fn system_setting(mut parser: Parser<'_>) -> Result<DesignStatement, ParserError> {
    let name = parser.next_token().token.to_string();
    let statement: fn(String) -> DesignStatement = match name.to_lowercase().as_str() {
        "autopilot" => DesignStatement::Autopilot,
        "autopilot_processor_percent" => DesignStatement::AutopilotProcessor,
        "site_memory" => DesignStatement::SiteMemory,
        "fused_rows" => DesignStatement::FusedRows,
        "order_router" => DesignStatement::OrderRouter,
        "default_backups" => DesignStatement::DefaultBackups,
        "design_changes" => DesignStatement::DesignChanges,
        "change_window" => |value| DesignStatement::Restrain(Restraint::Window, value),
        "changes_per_minute" => |value| DesignStatement::Restrain(Restraint::PerMinute, value),
        "change_bytes_per_second" => {
            |value| DesignStatement::Restrain(Restraint::BytesPerSecond, value)
        }
        "change_added_p99" => |value| DesignStatement::Restrain(Restraint::AddedP99, value),
        _ => {
            let known = OWN_SETTINGS.join(", ");
            let wrong = format!("Expected: {known}, found: {name}");
            return Err(ParserError::ParserError(wrong));
        }
    };
    if !parser.consume_token(&Token::Eq) {
        expect(&mut parser, "TO")?;
    }
    let sign = if parser.consume_token(&Token::Minus) { "-" } else { "" };
    let word = parser.next_token();
    let value = match word.token {
        Token::Word(word) => word.value.to_lowercase(),
        Token::SingleQuotedString(text) => text,
        other => other.to_string(),
    };
    expect(&mut parser, "EOF")?;
    Ok(statement(format!("{sign}{value}")))
}

pub(super) fn alter(parser: &mut Parser<'_>) -> Result<Option<DesignStatement>, ParserError> {
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
        ("PIN" | "UNPIN", "FROM" | "TO" | "EOF") => {
            let from = if second == "FROM" { Some(key(parser)?) } else { None };
            let has_end = match second.as_str() {
                "FROM" => parser.peek_token().token != Token::EOF,
                other => other == "TO",
            };
            if has_end && from.is_some() {
                expect(parser, "TO")?;
            }
            let to = if has_end { Some(key(parser)?) } else { None };
            DesignChange::Pin(Pin { is_pinned: first == "PIN", from, to })
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

fn key(parser: &mut Parser<'_>) -> Result<Vec<Expr>, ParserError> {
    expect(parser, "(")?;
    let values = parser.parse_comma_separated(Parser::parse_expr)?;
    expect(parser, ")")?;
    Ok(values)
}

fn site(parser: &mut Parser<'_>) -> Result<u16, ParserError> {
    expect(parser, "SITE")?;
    site_number(parser)
}

fn site_number(parser: &mut Parser<'_>) -> Result<u16, ParserError> {
    let found = parser.next_token().token.to_string();
    let number = found.trim_start_matches(['s', 'S']).parse();
    number.map_err(|_| {
        ParserError::ParserError(format!("Expected: the number of a site, found: {found}"))
    })
}
