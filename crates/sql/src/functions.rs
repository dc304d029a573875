//! Functions of SQL, except aggregates.
//!
//! Its name and the types of its arguments select a function and its result type when a statement
//! is bound. A function returns NULL for a NULL argument unless it is listed otherwise. The memory
//! of a result is reserved from the [budget](crate::budget) before it is made.

mod arrays;
mod bytes;
mod digests;
mod floats;
mod json;
mod json_paths;
mod names;
pub(crate) mod number_patterns;
mod numbers;
mod read_times;
mod regex;
mod rights;
mod rows;
mod sessions;
mod show_spans;
mod spans;
mod strings;
mod texts;
mod time_patterns;
mod times;

use crate::budget::Budget;
use crate::catalog::{Catalog, PG_CATALOG, TEMPORARY};
use crate::comment::{comment_of_constraint, comment_of_shared};
use crate::datum::Datum;
use crate::error::{SqlError, clipped, code};
use crate::system::ProcedurePart;
use crate::transaction::Surroundings;
use crate::types::{Family, Reg, SqlType};
pub(crate) use arrays::order as array_order;
pub use arrays::{ArrayFunc, EachPattern};
pub use bytes::BytesFunc;
pub use digests::DigestFunc;
pub use floats::FloatFunc;
pub(crate) use floats::six_digits;
pub use json::JsonFunc;
pub(crate) use json::{argument as json_argument, json_text};
pub(crate) use json_paths::items as path_items;
pub use numbers::NumberFunc;
use numbers::{analytic, number, power};
pub use regex::RegexFunc;
pub(crate) use regex::is_number;
pub(crate) use regex::{groups as regex_groups, split as regex_split};
pub use rights::Asked;
pub use rows::RowFunc;
pub use spans::TimeFunc;
use spans::moved;
pub(crate) use spans::{later, moment_later};
use std::collections::BTreeSet;
pub(crate) use strings::lower;
use strings::{cased_bytes, copy, join, pad, repeat, replace, substring, take};
pub use texts::TextFunc;
use times::extract;

/// The element type of `current_schemas`.
static NAME: SqlType = SqlType::Name;

/// A function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "they are what SQL calls so")]
pub enum Func {
    Lower,
    Upper,
    Length,
    Concat,
    ConcatWs,
    Substring,
    Trim,
    LeftTrim,
    RightTrim,
    Replace,
    Position,
    Left,
    Right,
    Repeat,
    Reverse,
    Abs,
    Round,
    Floor,
    Ceil,
    Trunc,
    Power,
    Sqrt,
    Mod,
    Sign,
    Coalesce,
    NullIf,
    Greatest,
    Least,
    Now,
    ClockTime,
    CurrentDate,
    Version,
    CurrentDatabase,
    CurrentSchema,
    CurrentUser,
    SessionUser,
    BackendPid,
    /// A property of the own session.
    OwnSession(sessions::Own),
    BlockingPids,
    Signal(bool),
    NextVal,
    /// The next value of an identity column, which needs no right on the sequence.
    NextOwn,
    CurrVal,
    LastVal,
    SetVal,
    SequenceLast,
    SequenceIsCalled,
    Sleep,
    Random,
    /// An advisory lock, of the session or the transaction.
    Advisory {
        shared: bool,
        waits: bool,
        for_session: bool,
    },
    AdvisoryUnlock {
        shared: bool,
    },
    AdvisoryUnlockAll,
    RandomUuid,
    Extract,
    Neg,
    FormatType,
    TableVisible,
    /// The labels between two bounds, each optional, of an enum.
    EnumRange,
    /// True if a type is found by its unqualified name.
    TypeVisible,
    TypeOf,
    RelationSize(sessions::Sized),
    PrettySize,
    DatabaseSize,
    ExportSnapshot,
    IndexDefinition,
    ConstraintDefinition,
    ViewDefinition,
    /// A part of a procedure's definition.
    Procedure(ProcedurePart),
    ShowDefault,
    UserById,
    NullText,
    Zero,
    True,
    False,
    QuoteIdent,
    ToRegnamespace,
    ToRegclass,
    ToRegrole,
    /// The oid of the object with this name.
    NumberOf(Reg),
    EncodingName,
    PgTypeName,
    Exp,
    Ln,
    StartsWith,
    LPad,
    RPad,
    Element,
    ArrayToString,
    /// `cardinality(array)`: the number of elements.
    Cardinality,
    CurrentSchemas,
    CurrentSetting,
    Show,
    TruthName,
    LikeEscape,
    ToRegtype,
    ToRegproc,
    VectorTypes,
    SerialSequence,
    SetConfig,
    DefaultAccess,
    Description,
    ColumnDescription,
    SharedDescription,
    LocalNow,
    Instant,
    /// An array whose elements are cast from one type to another; further arguments are the
    /// numbers of both types.
    ElementsAs {
        explicit: bool,
    },
    LocalTime,
    DateTrunc,
    ToChar,
    /// Parses a text as a time by a pattern.
    ReadTime,
    /// An array of its arguments, which are texts or NULL.
    ArrayOf,
    Json(JsonFunc),
    Row(RowFunc),
    Time(TimeFunc),
    Array(ArrayFunc),
    Regex(RegexFunc),
    Number(NumberFunc),
    /// True if a role has a right.
    MayOne(Asked),
    Digest(DigestFunc),
    Text(TextFunc),
    Bytes(BytesFunc),
    Float(FloatFunc),
    /// Two floats as one value, for two-argument aggregates.
    Pair,
    /// GROUPING. It is replaced before execution.
    Grouping,
}

/// The function with this name and these argument types, and its result type.
pub fn find(name: &str, args: &[SqlType]) -> Option<(Func, SqlType)> {
    use Func::*;
    let count = args.len();
    let first = args.first().copied().unwrap_or(SqlType::Unknown);
    let numeric = match first {
        SqlType::Unknown => SqlType::Float8,
        SqlType::Int2 | SqlType::Int4 | SqlType::Int8 | SqlType::Float4 => first,
        SqlType::Numeric(_) => SqlType::Numeric(None),
        other => other,
    };
    let exact = if first.is_float() { SqlType::Float8 } else { SqlType::Numeric(None) };
    let is_exact = matches!(first, SqlType::Numeric(_));
    let analytic = if is_exact { SqlType::Numeric(None) } else { SqlType::Float8 };
    Some(match (name, count) {
        ("lower", 1) => (Lower, SqlType::Text),
        ("upper", 1) => (Upper, SqlType::Text),
        ("length" | "char_length" | "character_length", 1) => (Length, SqlType::Int4),
        ("concat", _) => (Concat, SqlType::Text),
        ("concat_ws", 1..) => (ConcatWs, SqlType::Text),
        ("substr" | "substring", 2 | 3) => (Substring, SqlType::Text),
        ("btrim" | "trim", 1 | 2) => (Trim, SqlType::Text),
        ("ltrim", 1 | 2) => (LeftTrim, SqlType::Text),
        ("rtrim", 1 | 2) => (RightTrim, SqlType::Text),
        ("replace", 3) => (Replace, SqlType::Text),
        ("regexp_match", 2 | 3) => (Regex(RegexFunc::Match), SqlType::Array(&SqlType::Text)),
        ("regexp_like", 2 | 3) => (Regex(RegexFunc::Like), SqlType::Bool),
        ("regexp_count", 2..=4) => (Regex(RegexFunc::Count), SqlType::Int4),
        ("regexp_replace", 4) if args[3].is_integer() => {
            (Regex(RegexFunc::ReplaceFrom), SqlType::Text)
        }
        ("regexp_replace", 5 | 6) => (Regex(RegexFunc::ReplaceFrom), SqlType::Text),
        ("regexp_instr", 2..=7) => (Regex(RegexFunc::Place), SqlType::Int4),
        ("regexp_substr", 2..=6) => (Regex(RegexFunc::Part), SqlType::Text),
        ("md5", 1) => (Digest(DigestFunc::Md5), SqlType::Text),
        ("sha224", 1) => (Digest(DigestFunc::Sha224), SqlType::Bytea),
        ("sha256", 1) => (Digest(DigestFunc::Sha256), SqlType::Bytea),
        ("sha384", 1) => (Digest(DigestFunc::Sha384), SqlType::Bytea),
        ("sha512", 1) => (Digest(DigestFunc::Sha512), SqlType::Bytea),
        ("regexp_replace", 3 | 4) => (Regex(RegexFunc::Replace), SqlType::Text),
        ("regexp_split_to_array", 2 | 3) => {
            (Regex(RegexFunc::Split), SqlType::Array(&SqlType::Text))
        }
        ("similar_to_escape" | "similar_escape", 1 | 2) => {
            (Regex(RegexFunc::Similar), SqlType::Text)
        }
        ("strpos" | "position", 2) => (Position, SqlType::Int4),
        ("left", 2) => (Left, SqlType::Text),
        ("right", 2) => (Right, SqlType::Text),
        ("repeat", 2) => (Repeat, SqlType::Text),
        ("reverse", 1) => (Reverse, SqlType::Text),
        ("lpad", 2 | 3) => (LPad, SqlType::Text),
        ("rpad", 2 | 3) => (RPad, SqlType::Text),
        ("array_element", 2) => (Element, SqlType::Unknown),
        ("cardinality", 1) => (Cardinality, SqlType::Int4),
        ("array_to_string", 2 | 3) => (ArrayToString, SqlType::Text),
        ("getdatabaseencoding", 0) => (EncodingName, SqlType::Name),
        ("current_schemas", 1) => (CurrentSchemas, SqlType::Array(&NAME)),
        ("current_setting", 1 | 2) => (CurrentSetting, SqlType::Text),
        ("starts_with", 2) => (StartsWith, SqlType::Bool),
        ("abs", 1) => (Abs, numeric),
        ("round", 1 | 2) => (Round, exact),
        ("floor", 1) => (Floor, exact),
        ("ceil" | "ceiling", 1) => (Ceil, exact),
        ("trunc", 1 | 2) => (Trunc, exact),
        ("power" | "pow", 2) => (Power, power_type(args)),
        ("sqrt", 1) => (Sqrt, analytic),
        ("exp", 1) => (Exp, analytic),
        ("ln", 1) => (Ln, analytic),
        ("mod", 2) => (Mod, numeric),
        ("sign", 1) => (Sign, exact),
        ("nullif", 2) => (NullIf, first),
        ("coalesce", 1..) => (Coalesce, common(args)),
        ("greatest", 1..) => (Greatest, common(args)),
        ("least", 1..) => (Least, common(args)),
        ("now" | "transaction_timestamp" | "current_timestamp", 0) => (Now, SqlType::TimestampTz),
        ("localtimestamp", 0) => (LocalNow, SqlType::Timestamp),
        ("current_time", 0) => (Time(TimeFunc::CurrentTime), SqlType::TimeTz),
        ("localtime", 0) => (Time(TimeFunc::LocalTimeOfDay), SqlType::Time),
        ("clock_timestamp" | "statement_timestamp", 0) => (ClockTime, SqlType::TimestampTz),
        ("current_date", 0) => (CurrentDate, SqlType::Date),
        ("version", 0) => (Version, SqlType::Text),
        ("current_database" | "current_catalog", 0) => (CurrentDatabase, SqlType::Name),
        ("current_schema", 0) => (CurrentSchema, SqlType::Name),
        ("current_user" | "user" | "current_role" | "getpgusername", 0) => {
            (CurrentUser, SqlType::Name)
        }
        ("session_user", 0) => (SessionUser, SqlType::Name),
        ("pg_backend_pid", 0) => (BackendPid, SqlType::Int4),
        ("inet_client_addr", 0) => (OwnSession(sessions::Own::Address), SqlType::Text),
        ("inet_client_port", 0) => (OwnSession(sessions::Own::Port), SqlType::Int4),
        ("current_query", 0) => (OwnSession(sessions::Own::Query), SqlType::Text),
        ("pg_blocking_pids", 1) => (BlockingPids, SqlType::Array(&SqlType::Int4)),
        ("pg_cancel_backend", 1) => (Signal(false), SqlType::Bool),
        ("pg_terminate_backend", 1 | 2) => (Signal(true), SqlType::Bool),
        ("nextval", 1) => (NextVal, SqlType::Int8),
        ("currval", 1) => (CurrVal, SqlType::Int8),
        ("lastval", 0) => (LastVal, SqlType::Int8),
        ("setval", 2 | 3) => (SetVal, SqlType::Int8),
        ("pg_sleep", 1) => (Sleep, SqlType::Text),
        ("random", 0) => (Random, SqlType::Float8),
        ("gen_random_uuid", 0) => (RandomUuid, SqlType::Uuid),
        ("format_type", 2) => (FormatType, SqlType::Text),
        ("has_table_privilege", 2 | 3) => (MayOne(Asked::Table), SqlType::Bool),
        ("has_any_column_privilege", 2 | 3) => (MayOne(Asked::AnyColumn), SqlType::Bool),
        ("has_column_privilege", 3 | 4) => (MayOne(Asked::Column), SqlType::Bool),
        ("has_sequence_privilege", 2 | 3) => (MayOne(Asked::Sequence), SqlType::Bool),
        ("has_schema_privilege", 2 | 3) => (MayOne(Asked::Schema), SqlType::Bool),
        ("has_type_privilege", 2 | 3) => (MayOne(Asked::Type), SqlType::Bool),
        ("has_database_privilege", 2 | 3) => (MayOne(Asked::Database), SqlType::Bool),
        ("pg_has_role", 2 | 3) => (MayOne(Asked::Role), SqlType::Bool),
        ("pg_table_is_visible", 1) => (TableVisible, SqlType::Bool),
        ("pg_type_is_visible", 1) => (TypeVisible, SqlType::Bool),
        (
            "pg_opclass_is_visible"
            | "pg_opfamily_is_visible"
            | "pg_operator_is_visible"
            | "pg_conversion_is_visible"
            | "pg_statistics_obj_is_visible"
            | "pg_ts_config_is_visible"
            | "pg_ts_dict_is_visible"
            | "pg_ts_parser_is_visible"
            | "pg_ts_template_is_visible"
            | "pg_collation_is_visible",
            1,
        ) => (True, SqlType::Bool),
        ("pg_function_is_visible", 1) => (Procedure(ProcedurePart::IsVisible), SqlType::Bool),
        ("pg_get_functiondef", 1) => (Procedure(ProcedurePart::Definition), SqlType::Text),
        ("pg_get_function_arguments", 1) => (Procedure(ProcedurePart::Arguments), SqlType::Text),
        ("pg_get_function_identity_arguments", 1) => {
            (Procedure(ProcedurePart::Identity), SqlType::Text)
        }
        ("pg_get_function_result", 1) => (Procedure(ProcedurePart::Result), SqlType::Text),
        ("pg_get_function_sqlbody", 1) => (Procedure(ProcedurePart::Body), SqlType::Text),
        ("pg_typeof", 1) => (TypeOf, SqlType::Text),
        ("pg_relation_size", 1 | 2) | ("pg_table_size", 1) => {
            (RelationSize(sessions::Sized::Own), SqlType::Int8)
        }
        ("pg_indexes_size", 1) => (RelationSize(sessions::Sized::Indexes), SqlType::Int8),
        ("pg_total_relation_size", 1) => (RelationSize(sessions::Sized::Total), SqlType::Int8),
        ("pg_database_size" | "pg_tablespace_size", 1) => (DatabaseSize, SqlType::Int8),
        ("pg_export_snapshot", 0) => (ExportSnapshot, SqlType::Text),
        ("pg_size_pretty", 1) => (PrettySize, SqlType::Text),
        ("pg_get_indexdef", 1..=3) => (IndexDefinition, SqlType::Text),
        ("pg_get_constraintdef", 1 | 2) => (ConstraintDefinition, SqlType::Text),
        ("pg_get_viewdef", 1 | 2) => (ViewDefinition, SqlType::Text),
        ("pg_get_expr", 2 | 3) => (ShowDefault, SqlType::Text),
        ("pg_get_userbyid", 1) => (UserById, SqlType::Name),
        ("pg_encoding_to_char", 1) => (EncodingName, SqlType::Name),
        ("shobj_description", 2) => (SharedDescription, SqlType::Text),
        (
            "pg_get_statisticsobjdef_columns"
            | "pg_get_partkeydef"
            | "pg_get_triggerdef"
            | "pg_get_partition_constraintdef"
            | "pg_tablespace_location"
            | "pg_get_ruledef"
            | "pg_describe_object",
            1..=3,
        ) => (NullText, SqlType::Text),
        ("pg_relation_filenode" | "pg_my_temp_schema" | "pg_char_to_encoding", _) => {
            (Zero, SqlType::Oid)
        }
        // No table is a partition of another: psql looks for a table among these.
        ("pg_partition_ancestors", 1) => (NullText, SqlType::Oid),
        (
            "pg_is_in_recovery"
            | "pg_relation_is_publishable"
            | "pg_jit_available"
            | "pg_is_other_temp_schema"
            | "row_security_active",
            _,
        ) => (False, SqlType::Bool),
        ("pg_trigger_depth", 0) => (Zero, SqlType::Int4),
        ("quote_ident", 1) => (QuoteIdent, SqlType::Text),
        ("to_regnamespace", 1) => (ToRegnamespace, SqlType::Reg(Reg::Namespace)),
        ("to_regclass", 1) => (ToRegclass, SqlType::Reg(Reg::Class)),
        ("oidvectortypes", 1) => (VectorTypes, SqlType::Text),
        ("pg_advisory_unlock_all", 0) => (AdvisoryUnlockAll, SqlType::Text),
        ("pg_advisory_unlock", 1 | 2) => (AdvisoryUnlock { shared: false }, SqlType::Bool),
        ("pg_advisory_unlock_shared", 1 | 2) => (AdvisoryUnlock { shared: true }, SqlType::Bool),
        (_, 1 | 2) if advisory(name).is_some() => advisory(name)?,
        ("to_regtype", 1) => (ToRegtype, SqlType::Reg(Reg::Type)),
        ("to_regrole", 1) => (ToRegrole, SqlType::Reg(Reg::Role)),
        ("to_regproc", 1) => (ToRegproc, SqlType::Reg(Reg::Procedure)),
        ("to_regprocedure", 1) => (ToRegproc, SqlType::Reg(Reg::Signature)),
        ("pg_get_serial_sequence", 2) => (SerialSequence, SqlType::Text),
        ("set_config", 3) => (SetConfig, SqlType::Text),
        ("obj_description", 1 | 2) => (Description, SqlType::Text),
        ("col_description", 2) => (ColumnDescription, SqlType::Text),
        ("acldefault", 2) => (DefaultAccess, SqlType::Array(&SqlType::Text)),
        _ => return json::find(name, args),
    })
}

/// `pg_[try_]advisory_[xact_]lock[_shared]`
fn advisory(name: &str) -> Option<(Func, SqlType)> {
    let rest = name.strip_prefix("pg_")?;
    let (rest, waits) = rest.strip_prefix("try_").map_or((rest, true), |rest| (rest, false));
    let rest = rest.strip_prefix("advisory_")?;
    let (rest, for_session) = rest.strip_prefix("xact_").map_or((rest, true), |rest| (rest, false));
    let shared = match rest {
        "lock" => false,
        "lock_shared" => true,
        _ => return None,
    };
    let ty = if waits { SqlType::Text } else { SqlType::Bool };
    Some((Func::Advisory { shared, waits, for_session }, ty))
}

fn power_type(args: &[SqlType]) -> SqlType {
    let exact = args.iter().any(|ty| matches!(ty, SqlType::Numeric(_)))
        && !args.iter().any(|ty| ty.is_float());
    if exact { SqlType::Numeric(None) } else { SqlType::Float8 }
}

/// The common type of several types.
pub fn common(types: &[SqlType]) -> SqlType {
    let mut result = SqlType::Unknown;
    for &ty in types.iter().filter(|ty| **ty != SqlType::Unknown) {
        result = match (result, ty) {
            (SqlType::Unknown, ty) => ty,
            (a, b) if a == b => a,
            (a, b) if a.plain() == b.plain() => a.plain(),
            (a, b) if a.family() == Family::Number && b.family() == Family::Number => {
                if number_rank(a) >= number_rank(b) { wide(a) } else { wide(b) }
            }
            // The type of the first, because each converts to the other.
            (SqlType::Char(_), b) if b.family() == Family::Text => SqlType::Char(None),
            (SqlType::Varchar(_), SqlType::Char(_)) => SqlType::Varchar(None),
            (SqlType::Varchar(_), SqlType::Varchar(_) | SqlType::Text) => SqlType::Varchar(None),
            (a, b) if a.family() == Family::Text && b.family() == Family::Text => SqlType::Text,
            (a, b) if a.family() == Family::Array && b.family() == Family::Array => {
                match (a.plain().element(), b.plain().element()) {
                    (Some(of), Some(other)) if of.family() == other.family() => {
                        common(&[of, other]).without_modifier().array().unwrap_or(a)
                    }
                    _ => a.plain(),
                }
            }
            (SqlType::Date, later) | (later, SqlType::Date) => later.plain(),
            (a, b) if a.family() == Family::Clock && b.family() == Family::Clock => SqlType::TimeTz,
            (a, b) if a.family() == Family::Time && b.plain() == SqlType::TimestampTz => b.plain(),
            (a, _) => a.plain(),
        };
    }
    result
}

fn wide(ty: SqlType) -> SqlType {
    if matches!(ty, SqlType::Numeric(_)) { SqlType::Numeric(None) } else { ty }
}

/// The rank of a numeric type: the lower one converts to the higher.
pub fn number_rank(ty: SqlType) -> u8 {
    match ty {
        SqlType::Int2 => 1,
        SqlType::Int4 => 2,
        SqlType::Oid | SqlType::Reg(_) => 3,
        SqlType::Int8 => 4,
        SqlType::Numeric(_) => 5,
        SqlType::Float4 => 6,
        SqlType::Float8 => 7,
        _ => 0,
    }
}

impl Func {
    /// True if its result with this number of arguments depends on the context: the time, the
    /// session, the catalog.
    pub(crate) fn asks_around(self, args: usize) -> bool {
        use Func::*;
        match self {
            Instant | LocalTime => args < 2,
            Time(func) => func.asks_around(args),
            // Timestamps are formatted in the session's zone.
            Json(JsonFunc::Of) | MayOne(_) => true,
            Now | ClockTime | CurrentDate | LocalNow | Version | CurrentDatabase
            | CurrentSchema | CurrentSchemas | CurrentUser | SessionUser | BackendPid
            | OwnSession(_) | Signal(_) | DatabaseSize | ExportSnapshot | BlockingPids
            | CurrentSetting | SetConfig | FormatType | TableVisible | TypeVisible
            | RelationSize(_) | IndexDefinition | ConstraintDefinition | ViewDefinition
            | ShowDefault | UserById | Procedure(_) | ToRegclass | ToRegrole | NumberOf(_)
            | PgTypeName | ToRegtype | ToRegproc | SerialSequence | Description
            | ColumnDescription | ToChar | ReadTime | SharedDescription | ToRegnamespace => true,
            _ => false,
        }
    }
}

/// True if the function can have a result although an argument is NULL.
fn takes_null(func: Func) -> bool {
    use Func::*;
    match func {
        Json(func) => return json::takes_null(func),
        Array(func) => return arrays::takes_null(func),
        Text(func) => return texts::takes_null(func),
        Number(func) => return numbers::takes_null(func),
        Row(_) => return true,
        _ => {}
    }
    matches!(
        func,
        Concat
            | ConcatWs
            | Coalesce
            | Greatest
            | Least
            | NullText
            | Zero
            | True
            | False
            | FormatType
            | TypeOf
            | ArrayToString
            | ArrayOf
            | EnumRange
            | Time(TimeFunc::Overlaps)
    )
}

/// Calls a function.
///
/// # Errors
/// Errors of the function: 22003, 2201F, and others.
pub fn call(
    func: Func,
    args: &[Datum],
    around: &Surroundings,
    catalog: &Catalog,
) -> Result<Datum, SqlError> {
    use Func::*;
    let budget = &*around.budget;
    if !takes_null(func) && args.iter().any(Datum::is_null) && func != NullIf {
        return Ok(Datum::Null);
    }
    let text = |at: usize| args.get(at).and_then(Datum::as_text).unwrap_or("");
    let int = |at: usize| match args.get(at) {
        Some(Datum::Int(value)) => *value,
        value => value.map_or(0, |value| value.to_decimal().to_i64().unwrap_or(0)),
    };
    Ok(match func {
        Lower => Datum::Text(lower(text(0), budget)?),
        Upper => {
            budget.charge(cased_bytes(text(0)))?;
            Datum::Text(text(0).to_uppercase())
        }
        Length => Datum::Int(match &args[0] {
            Datum::Bytes(bytes) => bytes.len() as i64,
            _ => text(0).chars().count() as i64,
        }),
        Concat => join(args, "", budget)?,
        ConcatWs if args[0].is_null() => Datum::Null,
        ConcatWs => join(&args[1..], text(0), budget)?,
        Substring => copy(substring(text(0), int(1), args.get(2).map(|_| int(2)))?, budget)?,
        Trim | LeftTrim | RightTrim => {
            let blanks: BTreeSet<char> = match args.get(1) {
                Some(_) => {
                    budget.charge(text(1).len())?;
                    text(1).chars().collect()
                }
                None => BTreeSet::from([' ']),
            };
            let mut rest = text(0);
            if func != RightTrim {
                rest = rest.trim_start_matches(|c| blanks.contains(&c));
            }
            if func != LeftTrim {
                rest = rest.trim_end_matches(|c| blanks.contains(&c));
            }
            copy(rest, budget)?
        }
        Replace => replace(text(0), text(1), text(2), budget)?,
        Position => Datum::Int(
            text(0).find(text(1)).map_or(0, |at| text(0)[..at].chars().count() as i64 + 1),
        ),
        Left => copy(take(text(0), int(1), false), budget)?,
        Right => copy(take(text(0), int(1), true), budget)?,
        Repeat => repeat(text(0), int(1), budget)?,
        LPad | RPad => {
            let with = if args.len() > 2 { text(2) } else { " " };
            pad(text(0), int(1), with, func == LPad, budget)?
        }
        Reverse => {
            budget.charge(text(0).len())?;
            let mut reversed = String::with_capacity(text(0).len());
            reversed.extend(text(0).chars().rev());
            Datum::Text(reversed)
        }
        StartsWith => Datum::Bool(text(0).starts_with(text(1))),
        Abs | Neg | Sign | Round | Floor | Ceil | Trunc => number(func, &args[0], int(1))?,
        Power => power(&args[0], &args[1], budget)?,
        Sqrt | Exp | Ln => analytic(func, &args[0], budget)?,
        Mod => crate::exec::arith(crate::expr::Arith::Rem, &args[0], &args[1])?,
        NullIf => {
            let same = !args[0].is_null() && !args[1].is_null() && args[0] == args[1];
            if same { Datum::Null } else { same_as(Some(&args[0]), budget)? }
        }
        Coalesce => same_as(args.iter().find(|value| !value.is_null()), budget)?,
        // The first of equal values, which may have a different text.
        Greatest => same_as(known(args).rev().max_by(|a, b| a.compare(b)), budget)?,
        Least => same_as(known(args).min_by(|a, b| a.compare(b)), budget)?,
        Now => Datum::Timestamp(around.begun_us),
        ClockTime => Datum::Timestamp(around.now_us),
        LocalNow => Datum::Timestamp(around.settings.zone().local(around.begun_us)),
        CurrentDate => {
            let now = around.settings.zone().local(around.begun_us);
            Datum::Int(now.div_euclid(86_400_000_000))
        }
        Instant | LocalTime => {
            let given = args.get(1).map(times::zone_of).transpose()?;
            let zone = given.as_ref().unwrap_or_else(|| around.settings.zone());
            match args[0] {
                Datum::Timestamp(wall) if func == Instant => {
                    Datum::Timestamp(moved(wall, |wall| zone.instant(wall))?)
                }
                Datum::Timestamp(moment) => {
                    Datum::Timestamp(moved(moment, |moment| zone.local(moment))?)
                }
                _ => Datum::Null,
            }
        }
        ElementsAs { explicit } => {
            budget.charge(4 * text(0).len())?;
            let numbered = |at: usize| SqlType::numbered(int(at)).unwrap_or(SqlType::Text);
            let times = (around.settings.times(), around.begun_us);
            crate::text::elements_as(text(0), (numbered(1), numbered(2)), explicit, times)?
        }
        DateTrunc => times::truncate(text(0), &args[1])?,
        ToChar => {
            budget.charge(16 * text(1).len())?;
            times::to_char(&args[0], text(1), &times::ShownZone::default())
        }
        ReadTime => Datum::Timestamp(read_times::read(text(0), text(1))?.0),
        Version => Datum::text(version()),
        CurrentDatabase => Datum::text(&*around.database),
        CurrentSchema => catalog.first_schema().map_or(Datum::Null, Datum::text),
        CurrentUser => Datum::text(&*around.identity.name),
        SessionUser => Datum::text(&*around.user),
        MayOne(asked) => rights::may(asked, args, catalog, around)?,
        UserById => Datum::Text(crate::system::role_name(around, int(0))),
        BackendPid => Datum::Int(around.process.into()),
        OwnSession(part) => sessions::own(part, around)?,
        BlockingPids => {
            let process = args[0].as_int().unwrap_or_default();
            let all = crate::system::blocking(process, around).into_iter();
            let all: Vec<String> = all.map(|process| process.to_string()).collect();
            Datum::Text(crate::array::format(all.iter().map(|process| Some(process.as_str()))))
        }
        Signal(ends_session) => Datum::Bool(sessions::signal(int(0), ends_session, around)?),
        EncodingName => Datum::text("UTF8"),
        Random => random(around.seed),
        RandomUuid => random_uuid(around.random),
        Extract => extract(text(0), &args[1])?,
        FormatType => format_type(args, catalog),
        TypeOf => args[0].clone(),
        EnumRange => match SqlType::numbered(int(2)).and_then(|ty| ty.labels()?.known()) {
            Some(labels) => {
                let key = |at: usize| match &args[at] {
                    Datum::Bytes(key) => Some(key.as_slice()),
                    _ => None,
                };
                let range = labels.range(key(0), key(1));
                let text = crate::array::format(range.map(Some));
                budget.charge(2 * text.len())?;
                Datum::Text(text)
            }
            None => Datum::Null,
        },
        TypeVisible => Datum::Bool(crate::system::is_visible_type(catalog, int(0))),
        TableVisible => Datum::Bool(crate::system::is_visible(catalog, int(0))),
        True => Datum::Bool(true),
        False => Datum::Bool(false),
        Zero => Datum::Int(0),
        RelationSize(part) => sessions::relation_size(catalog, &args[0], part, around)?,
        DatabaseSize => sessions::database_size(catalog, around)?,
        PrettySize => Datum::Text(sessions::pretty_size(&args[0])),
        NullText => Datum::Null,
        ShowDefault => {
            budget.charge(2 * text(0).len())?;
            Datum::Text(crate::sequence::shown(text(0), catalog))
        }
        SharedDescription => {
            let said = match text(1) {
                "pg_authid" => comment_of_shared(catalog, int(0), true),
                "pg_database" => comment_of_shared(catalog, int(0), false),
                _ => None,
            };
            said.map_or(Datum::Null, Datum::text)
        }
        Description if text(1) == "pg_constraint" => {
            comment_of_constraint(catalog, int(0)).map_or(Datum::Null, Datum::text)
        }
        Description | ColumnDescription => {
            let oid = u32::try_from(int(0)).unwrap_or(0);
            let said = match func {
                Description => catalog.comment(oid, ""),
                _ => catalog.comment_of_column(oid, int(1)),
            };
            let column = if func == Description { 0 } else { int(1) };
            let own = || crate::system::own_comment(int(0), column);
            said.or_else(own).map_or(Datum::Null, Datum::text)
        }
        NumberOf(reg) => match &args[0] {
            Datum::Text(name) => {
                budget.charge(2 * name.len())?;
                Datum::Int(crate::system::object_number(catalog, around, reg, name)?)
            }
            number => number.clone(),
        },
        DefaultAccess => {
            let owner = crate::system::role_name(around, int(1));
            match crate::system::default_access(text(0), &owner) {
                Some(access) => Datum::Text(access),
                None => {
                    let message =
                        format!("unrecognized object type abbreviation: {}", clipped(text(0)));
                    return Err(SqlError::new(code::INVALID_PARAMETER, message));
                }
            }
        }
        IndexDefinition => {
            let column = args.get(1).map_or(0, |_| int(1));
            let is_pretty = args.get(2).and_then(Datum::as_bool) == Some(true);
            crate::system::index_definition(catalog, int(0), column, is_pretty)
        }
        ConstraintDefinition => crate::system::constraint_definition(catalog, int(0)),
        Procedure(part) => crate::system::procedure_part(catalog, int(0), part),
        ViewDefinition => crate::system::view_definition(catalog, int(0), budget)?,
        // Each character may have to be doubled.
        QuoteIdent => {
            budget.charge(2 * text(0).len() + 2)?;
            Datum::Text(crate::catalog::quoted(text(0)))
        }
        ArrayOf => {
            let bytes = |value: &Datum| 2 * value.as_text().map_or(4, str::len) + 3;
            budget.charge(2 * args.iter().map(bytes).sum::<usize>())?;
            Datum::Text(crate::array::format(args.iter().map(Datum::as_text)))
        }
        Json(func) => json::call(func, args, around)?,
        Row(func) => rows::call(func, args, budget)?,
        Time(func) => spans::call(func, args, around)?,
        Array(func) => arrays::call(func, args, budget)?,
        Regex(func) => regex::call(func, args, budget)?,
        Number(func) => numbers::call(func, args, budget)?,
        Digest(func) => digests::call(func, &args[0], budget)?,
        Text(func) => texts::call(func, args, budget)?,
        Bytes(func) => bytes::call(func, args, budget)?,
        Float(func) => floats::call(func, args)?,
        Grouping => unreachable!("its value for each set has taken its place"),
        Pair => crate::exec::pair(args[0].to_f64(), args[1].to_f64()),
        ToRegnamespace => {
            let found = crate::system::regnamespace(catalog, &clipped(text(0)))?;
            found.map_or(Datum::Null, Datum::Int)
        }
        ToRegrole => {
            let name = crate::catalog::Named::read(&clipped(text(0))).name;
            let role = around.identity.roles().named(&name);
            role.map_or(Datum::Null, |role| Datum::Int(role.oid))
        }
        ToRegclass => {
            crate::system::regclass(catalog, &clipped(text(0))).map_or(Datum::Null, Datum::Int)
        }
        ToRegproc => {
            let found = crate::catalog::procedures::read(catalog, &clipped(text(0)));
            found.map_or(Datum::Null, |found| Datum::Int(found.oid.into()))
        }
        ToRegtype => {
            crate::system::regtype(catalog, &clipped(text(0))).map_or(Datum::Null, Datum::Int)
        }
        VectorTypes => {
            let one = |oid: Result<Datum, SqlError>| -> Result<String, SqlError> {
                let shown = format_type(&[oid?, Datum::Null], catalog);
                Ok(shown.as_text().unwrap_or_default().to_owned())
            };
            let types = crate::array::values(text(0), SqlType::Oid).map(one);
            Datum::Text(types.collect::<Result<Vec<_>, _>>()?.join(", "))
        }
        SerialSequence => {
            crate::system::serial_sequence(catalog, &clipped(text(0)), &clipped(text(1)))?
        }
        SetConfig => {
            let is_local = args[2].as_bool() == Some(true);
            let (name, value) = (clipped(text(0)).to_lowercase(), text(1).to_owned());
            let shown = around.settings.checked(&name, &value)?;
            around.wanted.borrow_mut().push((name, value, is_local));
            Datum::Text(shown)
        }
        LikeEscape => strings::like_escape(text(0), text(1), budget)?,
        PgTypeName => {
            let name = u32::try_from(int(0)).ok().and_then(|oid| catalog.type_name(oid, None));
            Datum::Text(name.unwrap_or_else(|| "-".to_owned()))
        }
        Element => {
            let ty = SqlType::numbered(int(2));
            // As a function, it counts from 1; as a subscript, from the array's lower bound.
            let first = args.get(3).map_or(1, |_| crate::array::first_number(text(0)));
            crate::array::element(text(0), int(1), first, ty.unwrap_or(SqlType::Text))?
        }
        Cardinality => Datum::Int(crate::array::elements(text(0)).count() as i64),
        ArrayToString if args[..2].iter().any(Datum::is_null) => Datum::Null,
        ArrayToString => {
            let (between, null) = (text(1), args.get(2).and_then(Datum::as_text));
            let mut joined = String::new();
            let mut is_first = true;
            for element in crate::array::elements(text(0)) {
                let element = element?;
                let Some(shown) = element.as_deref().or(null) else { continue };
                let between = if std::mem::take(&mut is_first) { "" } else { between };
                // A growing text has room for twice its length.
                budget.charge(2 * (between.len() + shown.len()))?;
                joined.push_str(between);
                joined.push_str(shown);
            }
            Datum::Text(joined)
        }
        CurrentSchemas => {
            let path = catalog.path.iter().map(String::as_str);
            let path = path.filter(|schema| catalog.has_schema(schema) || *schema == PG_CATALOG);
            let path: Vec<&str> = path.collect();
            let with_implied = args[0].as_bool() == Some(true);
            let own = Some(TEMPORARY).filter(|_| with_implied && catalog.has_own());
            let system = Some(PG_CATALOG).filter(|system| with_implied && !path.contains(system));
            let all = own.into_iter().chain(system).chain(path);
            Datum::Text(crate::array::format(all.map(Some)))
        }
        CurrentSetting => match around.settings.setting(&clipped(text(0))) {
            Some(value) => Datum::Text(value),
            None if args.get(1).and_then(Datum::as_bool) == Some(true) => Datum::Null,
            None => {
                let name = clipped(text(0));
                let message = format!("unrecognized configuration parameter \"{name}\"");
                return Err(SqlError::new(code::UNDEFINED_OBJECT, message));
            }
        },
        // The text of a value by its type: the value, the type's oid, its modifier.
        Show => {
            let ty = SqlType::numbered(int(1));
            let ty = ty.unwrap_or(SqlType::Text).with_modifier(int(2) as i32);
            budget.charge(2 * crate::text::format_bytes(&args[0]))?;
            if let Some(named) = crate::system::named(&args[0], ty, catalog, around) {
                return Ok(named);
            }
            let zone = around.settings.zone();
            Datum::Text(crate::text::format_in(&args[0], ty, zone).into_owned())
        }
        TruthName => Datum::text(if args[0].as_bool() == Some(true) { "true" } else { "false" }),
        NextVal
        | NextOwn
        | CurrVal
        | LastVal
        | SetVal
        | SequenceLast
        | SequenceIsCalled
        | Sleep
        | ExportSnapshot
        | Advisory { .. }
        | AdvisoryUnlock { .. }
        | AdvisoryUnlockAll => {
            return Err(SqlError::unsupported("this function"));
        }
    })
}

/// The result of `version()`, which clients parse.
pub fn version() -> String {
    format!("PostgreSQL 15.0 (Isomer {})", env!("CARGO_PKG_VERSION"))
}

/// A random number from 0 to below 1.
pub(crate) fn random(seed: u64) -> Datum {
    Datum::Float((mix(seed) >> 11) as f64 / (1u64 << 53) as f64)
}

/// A random UUID of version 4.
fn random_uuid(random: fn(&mut [u8])) -> Datum {
    let mut bytes = [0; 16];
    random(&mut bytes);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Datum::Bytes(bytes.to_vec())
}

/// A copy of a value; NULL for `None`.
fn same_as(value: Option<&Datum>, budget: &Budget) -> Result<Datum, SqlError> {
    let Some(value) = value else { return Ok(Datum::Null) };
    budget.charge(value.heap_bytes())?;
    Ok(value.clone())
}

fn known(args: &[Datum]) -> impl DoubleEndedIterator<Item = &Datum> {
    args.iter().filter(|value| !value.is_null())
}

fn mix(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn format_type(args: &[Datum], catalog: &Catalog) -> Datum {
    let Some(oid) = args[0].as_int() else { return Datum::Null };
    let modifier = args[1].as_int().and_then(|m| i32::try_from(m).ok()).filter(|m| *m >= 0);
    let name = u32::try_from(oid).ok().and_then(|oid| catalog.type_name(oid, modifier));
    Datum::Text(name.unwrap_or_else(|| "???".to_owned()))
}
