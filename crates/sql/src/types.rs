//! The types of SQL, and their storage.
//!
//! ```text
//!   smallint, integer, bigint, oid, date     Int64        the range is checked on input
//!   regclass, regtype, regrole and similar   Int64        the oid; its name is looked up for output
//!   real, double precision                   Float64
//!   numeric(p, s)                            Decimal(s)   if its digits always fit an i128
//!   numeric, and other numeric(p, s)         Numeric      digits; in keys without trailing zeros
//!   text, varchar(n), char(n), name, "char"  Text         char(n) without its trailing blanks
//!   timestamp, timestamp with time zone      Timestamp
//!   time                                     Int64        microseconds since midnight
//!   time with time zone                      Bytes        the time in UTC, and the zone; sortable
//!   interval                                 Bytes        not in keys: equal ones differ in form
//!   timestamp(n) and similar                 as without n
//!   uuid                                     Bytes        sixteen
//!   json, jsonb                              Text         not in keys
//!   arrays, numeric(p, s)[] and similar      Text         not in keys; elements as if stored alone
//!   enums                                    Bytes        the sort key of the label
//! ```

use crate::enums::EnumId;
use crate::error::{SqlError, code};
use crate::fields::Fields;
use isomer_design::{ColumnType, DECIMAL_SCALE_MAX};
use sqlparser::ast::{ArrayElemTypeDef, CharacterLength, DataType, ExactNumberInfo, TimezoneInfo};
use std::fmt;

/// A type of SQL, with its modifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SqlType {
    /// `boolean`
    Bool,
    /// `smallint`
    Int2,
    /// `integer`
    Int4,
    /// `bigint`
    Int8,
    /// `real`
    Float4,
    /// `double precision`
    Float8,
    /// `numeric`, with precision and scale.
    Numeric(Option<(u16, i16)>),
    /// `text`
    Text,
    /// `character varying`, with its maximal length.
    Varchar(Option<u32>),
    /// `character`, with its length; trailing blanks are not significant.
    Char(Option<u32>),
    /// `name`: of a catalog object.
    Name,
    /// `"char"`: one byte, used in the catalog.
    Letter,
    /// `bytea`
    Bytea,
    /// `date`
    Date,
    /// `timestamp without time zone`
    Timestamp,
    /// `timestamp with time zone`: an instant, stored in UTC.
    TimestampTz,
    /// `time without time zone`
    Time,
    /// `time with time zone`
    TimeTz,
    /// `interval`
    Interval,
    /// `uuid`
    Uuid,
    /// `json`: the original text.
    Json,
    /// `jsonb`: in canonical form.
    Jsonb,
    /// An enum.
    Enum(EnumId),
    /// An array; its element type is one of [`ALL`].
    Array(&'static SqlType),
    /// An array of an enum.
    EnumArray(EnumId),
    /// A time or an interval of one of the types above, with a number of digits of seconds:
    /// `timestamp(3)`. Results of operations on its values have the type without them.
    Rounded(&'static SqlType, u8),
    /// `interval` with only some of its fields, and perhaps a number of digits of seconds:
    /// `interval day to second(3)`. Results of operations on its values are plain intervals.
    Spanned(Fields, Option<u8>),
    /// An array whose elements have this modifier in PostgreSQL's encoding: `varchar(3)[]`,
    /// `numeric(5,2)[]`. Results of operations on its values have the type without it.
    Limited(&'static SqlType, i32),
    /// `int2vector`, used in the catalog.
    Int2Vector,
    /// `oid`: the number of a catalog object.
    Oid,
    /// The number of a catalog object, read and shown as the name of the object.
    Reg(Reg),
    /// `record`: a row.
    Record,
    /// Undetermined: a quoted literal, NULL, or a parameter.
    Unknown,
}

/// The objects whose numbers have a type of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reg {
    /// `regclass`: relations.
    Class,
    /// `regtype`: types.
    Type,
    /// `regnamespace`: schemas.
    Namespace,
    /// `regrole`: roles.
    Role,
    /// `regproc`: procedures, by their names.
    Procedure,
    /// `regprocedure`: procedures, with the types of their arguments.
    Signature,
}

/// Types whose values can be compared with each other and convert implicitly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Booleans.
    Bool,
    /// Numbers.
    Number,
    /// Texts.
    Text,
    /// Byte strings.
    Bytes,
    /// UUIDs.
    Uuid,
    /// `json` and `jsonb`.
    Json,
    /// Arrays.
    Array,
    /// Dates and times.
    Time,
    /// Times of day.
    Clock,
    /// Intervals.
    Interval,
    /// Rows.
    Row,
    /// The values of one enum, by its oid.
    Enum(u32),
    /// Undetermined.
    Unknown,
}

impl SqlType {
    /// The type without the precision of its seconds, or the modifier of its elements.
    #[must_use]
    pub fn plain(self) -> SqlType {
        match self {
            SqlType::Rounded(of, _) => *of,
            SqlType::Spanned(..) => SqlType::Interval,
            SqlType::Limited(element, _) => SqlType::Array(element),
            other => other,
        }
    }

    /// The type without any modifier.
    #[must_use]
    pub fn without_modifier(self) -> SqlType {
        match self {
            SqlType::Varchar(_) => SqlType::Varchar(None),
            SqlType::Char(_) => SqlType::Char(None),
            SqlType::Numeric(_) => SqlType::Numeric(None),
            other => other.plain(),
        }
    }

    /// The type with a number of digits of seconds, at most six; `None` for a type without seconds.
    pub fn rounded(self, digits: u8) -> Option<SqlType> {
        let has_seconds = matches!(self.family(), Family::Time | Family::Clock | Family::Interval)
            && self != SqlType::Date;
        let of = ALL.iter().find(|ty| **ty == self).filter(|_| has_seconds)?;
        Some(SqlType::Rounded(of, digits.min(SECOND_DIGITS)))
    }

    /// The name in the catalog, which can differ from the one in SQL.
    pub fn catalog_name(self) -> String {
        match self {
            SqlType::Int2 => "int2",
            SqlType::Int4 => "int4",
            SqlType::Int8 => "int8",
            SqlType::Float4 => "float4",
            SqlType::Float8 => "float8",
            SqlType::Varchar(_) => "varchar",
            SqlType::Char(_) => "bpchar",
            SqlType::Bool => "bool",
            SqlType::Timestamp => "timestamp",
            SqlType::TimestampTz => "timestamptz",
            SqlType::Time => "time",
            SqlType::TimeTz => "timetz",
            SqlType::Numeric(_) => "numeric",
            SqlType::Letter => "char",
            SqlType::Enum(labels) => return labels.name().name,
            SqlType::Rounded(of, _) => return of.catalog_name(),
            SqlType::Spanned(..) => "interval",
            SqlType::Limited(..) => return self.plain().catalog_name(),
            other => return other.to_string(),
        }
        .to_owned()
    }

    /// The oid of the type.
    pub fn oid(self) -> u32 {
        match self {
            SqlType::Bool => 16,
            SqlType::Bytea => 17,
            SqlType::Letter => 18,
            SqlType::Int2Vector => 22,
            SqlType::Uuid => 2950,
            SqlType::Json => 114,
            SqlType::Jsonb => 3802,
            SqlType::Array(element) => element.array_oid(),
            SqlType::EnumArray(labels) => labels.array_oid(),
            SqlType::Name => 19,
            SqlType::Int8 => 20,
            SqlType::Int2 => 21,
            SqlType::Int4 => 23,
            SqlType::Text => 25,
            SqlType::Oid => 26,
            SqlType::Reg(Reg::Class) => 2205,
            SqlType::Reg(Reg::Type) => 2206,
            SqlType::Reg(Reg::Namespace) => 4089,
            SqlType::Reg(Reg::Role) => 4096,
            SqlType::Reg(Reg::Procedure) => 24,
            SqlType::Reg(Reg::Signature) => 2202,
            SqlType::Float4 => 700,
            SqlType::Float8 => 701,
            SqlType::Unknown => 705,
            SqlType::Record => 2249,
            SqlType::Char(_) => 1042,
            SqlType::Varchar(_) => 1043,
            SqlType::Date => 1082,
            SqlType::Time => 1083,
            SqlType::Interval => 1186,
            SqlType::TimeTz => 1266,
            SqlType::Timestamp => 1114,
            SqlType::TimestampTz => 1184,
            SqlType::Numeric(_) => 1700,
            SqlType::Enum(labels) => labels.oid(),
            SqlType::Rounded(of, _) => of.oid(),
            SqlType::Spanned(..) => SqlType::Interval.oid(),
            SqlType::Limited(element, _) => element.array_oid(),
        }
    }

    /// The oid of its array type; 0 if there is none.
    pub fn array_oid(self) -> u32 {
        match self {
            SqlType::Bool => 1000,
            SqlType::Bytea => 1001,
            SqlType::Letter => 1002,
            SqlType::Name => 1003,
            SqlType::Int2 => 1005,
            SqlType::Int4 => 1007,
            SqlType::Text => 1009,
            SqlType::Char(_) => 1014,
            SqlType::Varchar(_) => 1015,
            SqlType::Int8 => 1016,
            SqlType::Float4 => 1021,
            SqlType::Float8 => 1022,
            SqlType::Oid => 1028,
            SqlType::Reg(Reg::Class) => 2210,
            SqlType::Reg(Reg::Type) => 2211,
            SqlType::Reg(Reg::Namespace) => 4090,
            SqlType::Reg(Reg::Role) => 4097,
            SqlType::Reg(Reg::Procedure) => 1008,
            SqlType::Reg(Reg::Signature) => 2207,
            SqlType::Timestamp => 1115,
            SqlType::Date => 1182,
            SqlType::Time => 1183,
            SqlType::Interval => 1187,
            SqlType::TimeTz => 1270,
            SqlType::TimestampTz => 1185,
            SqlType::Numeric(_) => 1231,
            SqlType::Uuid => 2951,
            SqlType::Json => 199,
            SqlType::Jsonb => 3807,
            SqlType::Record => 2287,
            SqlType::Enum(labels) => labels.array_oid(),
            SqlType::Rounded(of, _) => of.array_oid(),
            SqlType::Spanned(..) => SqlType::Interval.array_oid(),
            SqlType::Array(_)
            | SqlType::EnumArray(_)
            | SqlType::Limited(..)
            | SqlType::Int2Vector
            | SqlType::Unknown => 0,
        }
    }

    /// The internal number of the type in arguments of functions, while a statement runs.
    pub(crate) fn number(self) -> i64 {
        match self {
            SqlType::Enum(labels) => labels.number(),
            SqlType::EnumArray(labels) => labels.number() + 1,
            other => other.oid().into(),
        }
    }

    /// The type with a [number](SqlType::number).
    pub(crate) fn numbered(number: i64) -> Option<SqlType> {
        match EnumId::numbered(number) {
            Some((labels, true)) => Some(SqlType::EnumArray(labels)),
            Some((labels, false)) => Some(SqlType::Enum(labels)),
            None => SqlType::of_oid(u32::try_from(number).ok()?),
        }
    }

    /// The predefined type with an oid.
    pub fn of_oid(oid: u32) -> Option<SqlType> {
        let array = || ALL.iter().find(|ty| ty.array_oid() == oid && oid > 0).map(SqlType::Array);
        ALL.iter().copied().find(|ty| ty.oid() == oid).or_else(array)
    }

    /// Its array type, with its modifier.
    pub fn limited_array(self) -> Option<SqlType> {
        Some(self.array()?.with_modifier(self.modifier()))
    }

    /// Its array type, without its modifier.
    pub fn array(self) -> Option<SqlType> {
        if let SqlType::Enum(labels) = self {
            return Some(SqlType::EnumArray(labels));
        }
        SqlType::of_oid(self.array_oid()).filter(|_| self.array_oid() > 0)
    }

    /// The type of an array's elements.
    pub fn element(self) -> Option<SqlType> {
        match self {
            SqlType::Array(element) => Some(*element),
            SqlType::EnumArray(labels) => Some(SqlType::Enum(labels)),
            SqlType::Limited(element, modifier) => Some(element.with_modifier(modifier)),
            SqlType::Int2Vector => Some(SqlType::Int2),
            _ => None,
        }
    }

    /// The enum, if it is one or an array of one.
    pub fn labels(self) -> Option<EnumId> {
        match self {
            SqlType::Enum(labels) | SqlType::EnumArray(labels) => Some(labels),
            _ => None,
        }
    }

    /// True if it is an array of any type.
    pub fn is_array(self) -> bool {
        matches!(self, SqlType::Array(_) | SqlType::EnumArray(_))
    }

    /// The size of a value in bytes, or -1.
    pub fn width(self) -> i16 {
        match self {
            SqlType::Bool | SqlType::Letter => 1,
            SqlType::Int2 => 2,
            SqlType::Int4 | SqlType::Float4 | SqlType::Oid | SqlType::Date => 4,
            SqlType::Enum(_) | SqlType::Reg(_) => 4,
            SqlType::Int8 | SqlType::Float8 | SqlType::Timestamp | SqlType::TimestampTz => 8,
            SqlType::Time => 8,
            SqlType::TimeTz => 12,
            SqlType::Interval => 16,
            SqlType::Name => 64,
            SqlType::Uuid => 16,
            SqlType::Unknown => -2,
            SqlType::Rounded(of, _) => of.width(),
            SqlType::Spanned(..) => SqlType::Interval.width(),
            _ => -1,
        }
    }

    /// The modifier in PostgreSQL's encoding, or -1.
    pub fn modifier(self) -> i32 {
        match self {
            SqlType::Varchar(Some(length)) | SqlType::Char(Some(length)) => length as i32 + 4,
            SqlType::Numeric(Some((precision, scale))) => {
                ((i32::from(precision) << 16) | (i32::from(scale) & SCALE_BITS)) + 4
            }
            SqlType::Rounded(SqlType::Interval, digits) => ALL_FIELDS | i32::from(digits),
            SqlType::Spanned(fields, digits) => {
                fields.bits() << 16 | digits.map_or(ALL_DIGITS, i32::from)
            }
            SqlType::Rounded(_, digits) => digits.into(),
            SqlType::Limited(_, modifier) => modifier,
            _ => -1,
        }
    }

    /// The type with a modifier in PostgreSQL's encoding.
    #[must_use]
    pub fn with_modifier(self, modifier: i32) -> SqlType {
        let length = || u32::try_from(modifier - 4).ok();
        match self {
            SqlType::Varchar(_) => SqlType::Varchar(length()),
            SqlType::Char(_) => SqlType::Char(length()),
            SqlType::Numeric(_) => {
                // The scale has eleven bits, including a sign.
                let scale = |both: u32| ((both as i32 & SCALE_BITS) ^ 1024) - 1024;
                SqlType::Numeric(length().map(|both| ((both >> 16) as u16, scale(both) as i16)))
            }
            SqlType::Interval if let Some(fields) = Fields::of_bits(modifier >> 16) => {
                let digits = u8::try_from(modifier & ALL_DIGITS).ok();
                SqlType::Spanned(fields, digits)
            }
            SqlType::Array(element) if modifier >= 0 => {
                let limited = element.with_modifier(modifier);
                if limited == *element { self } else { SqlType::Limited(element, modifier) }
            }
            other => match u8::try_from(modifier & 0xffff) {
                Ok(digits) if modifier >= 0 => other.rounded(digits).unwrap_or(other),
                _ => other,
            },
        }
    }

    /// The family.
    pub fn family(self) -> Family {
        match self {
            SqlType::Bool => Family::Bool,
            SqlType::Text
            | SqlType::Varchar(_)
            | SqlType::Char(_)
            | SqlType::Name
            | SqlType::Letter => Family::Text,
            SqlType::Bytea => Family::Bytes,
            SqlType::Uuid => Family::Uuid,
            SqlType::Json | SqlType::Jsonb => Family::Json,
            SqlType::Array(_)
            | SqlType::EnumArray(_)
            | SqlType::Limited(..)
            | SqlType::Int2Vector => Family::Array,
            SqlType::Date | SqlType::Timestamp | SqlType::TimestampTz => Family::Time,
            SqlType::Time | SqlType::TimeTz => Family::Clock,
            SqlType::Interval => Family::Interval,
            SqlType::Enum(labels) => Family::Enum(labels.oid()),
            SqlType::Unknown => Family::Unknown,
            SqlType::Record => Family::Row,
            SqlType::Rounded(of, _) => of.family(),
            SqlType::Spanned(..) => Family::Interval,
            _ => Family::Number,
        }
    }

    /// True for integer types.
    pub fn is_integer(self) -> bool {
        matches!(self, SqlType::Int2 | SqlType::Int4 | SqlType::Int8 | SqlType::Oid)
    }

    /// True for floating-point types.
    pub fn is_float(self) -> bool {
        matches!(self, SqlType::Float4 | SqlType::Float8)
    }

    /// The stored type of a column of the type.
    pub fn storage(self) -> ColumnType {
        match self {
            SqlType::Bool => ColumnType::Bool,
            SqlType::Int2 | SqlType::Int4 | SqlType::Int8 | SqlType::Oid => ColumnType::Int64,
            SqlType::Date => ColumnType::Date,
            SqlType::Time | SqlType::Reg(_) => ColumnType::Int64,
            SqlType::Float4 | SqlType::Float8 => ColumnType::Float64,
            SqlType::Numeric(modifier) => match modifier.and_then(short_scale) {
                Some(scale) => ColumnType::Decimal { scale },
                None => ColumnType::Numeric,
            },
            SqlType::Bytea
            | SqlType::Uuid
            | SqlType::TimeTz
            | SqlType::Interval
            | SqlType::Enum(_) => ColumnType::Bytes,
            SqlType::Timestamp | SqlType::TimestampTz => ColumnType::Timestamp,
            SqlType::Rounded(of, _) => of.storage(),
            SqlType::Spanned(..) => SqlType::Interval.storage(),
            _ => ColumnType::Text,
        }
    }

    /// True if columns of the type can be in a key or an index.
    pub fn has_order(self) -> bool {
        !matches!(self.family(), Family::Json | Family::Array | Family::Interval | Family::Row)
    }

    /// The predefined type with a name.
    ///
    /// # Errors
    /// 0A000 for types of PostgreSQL that are not supported, 42704 for unknown ones.
    pub fn parse(ty: &DataType) -> Result<SqlType, SqlError> {
        Ok(match ty {
            DataType::Bool | DataType::Boolean => SqlType::Bool,
            DataType::SmallInt(Some(_))
            | DataType::Int2(Some(_))
            | DataType::Int(Some(_))
            | DataType::Integer(Some(_))
            | DataType::Int4(Some(_))
            | DataType::BigInt(Some(_))
            | DataType::Int8(Some(_)) => {
                return Err(SqlError::new(code::SYNTAX, "syntax error at or near \"(\""));
            }
            DataType::SmallInt(_) | DataType::Int2(_) => SqlType::Int2,
            DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => SqlType::Int4,
            DataType::BigInt(_) | DataType::Int8(_) => SqlType::Int8,
            DataType::Real | DataType::Float4 => SqlType::Float4,
            DataType::Float(ExactNumberInfo::Precision(1..=24)) => SqlType::Float4,
            DataType::Float(ExactNumberInfo::Precision(bits @ (0 | 54..))) => {
                let wrong = if *bits == 0 { "at least 1 bit" } else { "less than 54 bits" };
                let message = format!("precision for type float must be {wrong}");
                return Err(SqlError::new(code::INVALID_PARAMETER, message));
            }
            DataType::Float(_)
            | DataType::Float8
            | DataType::Double(_)
            | DataType::DoublePrecision => SqlType::Float8,
            DataType::Numeric(info) | DataType::Decimal(info) | DataType::Dec(info) => {
                numeric(*info)?
            }
            DataType::Text => SqlType::Text,
            DataType::Varchar(length)
            | DataType::CharacterVarying(length)
            | DataType::CharVarying(length) => SqlType::Varchar(characters(length.as_ref())?),
            DataType::Char(length) | DataType::Character(length) => {
                SqlType::Char(Some(characters(length.as_ref())?.unwrap_or(1)))
            }
            DataType::Regclass => SqlType::Reg(Reg::Class),
            DataType::Bytea => SqlType::Bytea,
            DataType::Uuid => SqlType::Uuid,
            DataType::JSON => SqlType::Json,
            DataType::JSONB => SqlType::Jsonb,
            DataType::Date => SqlType::Date,
            DataType::Timestamp(digits, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => {
                with_digits(SqlType::TimestampTz, *digits)
            }
            DataType::Timestamp(digits, _) => with_digits(SqlType::Timestamp, *digits),
            DataType::Time(digits, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => {
                with_digits(SqlType::TimeTz, *digits)
            }
            DataType::Time(digits, _) => with_digits(SqlType::Time, *digits),
            DataType::Interval { fields: None, precision } => {
                with_digits(SqlType::Interval, *precision)
            }
            DataType::Interval { fields: Some(fields), precision } => {
                let name = fields.to_string().to_lowercase();
                let fields = Fields::of_name(&name).ok_or_else(|| unknown_type(&name))?;
                spanned(fields, *precision)?
            }
            DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => {
                let of = SqlType::parse(element)?;
                if of.plain().is_array() {
                    // The number of dimensions is no part of the type.
                    return Ok(of);
                }
                of.limited_array().ok_or_else(|| unknown_type(&ty.to_string().to_lowercase()))?
            }
            DataType::Custom(name, digits) => {
                let name = name.to_string();
                if let (Some(found), [_, ..]) = (SqlType::of_name(&name), digits.as_slice()) {
                    return modified(found, digits).ok_or_else(|| {
                        let message = format!("type modifier is not allowed for type \"{name}\"");
                        SqlError::new(code::SYNTAX, message)
                    });
                }
                return SqlType::of_name(&name).ok_or_else(|| {
                    other_type(&name).unwrap_or_else(|| {
                        let name = crate::catalog::Named::read(&name);
                        let message = format!("type \"{name}\" does not exist");
                        SqlError::new(code::UNDEFINED_OBJECT, message)
                    })
                });
            }
            other => return Err(unknown_type(&other.to_string().to_lowercase())),
        })
    }

    /// The type of a name that is not a keyword.
    pub fn of_name(name: &str) -> Option<SqlType> {
        // A quoted name with upper-case letters is a different one.
        let quoted = name.contains('"');
        let lower = if quoted { name.replace('"', "") } else { name.to_lowercase() };
        let name = lower.strip_prefix("pg_catalog.").unwrap_or(&lower);
        if let Some(element) = name.strip_prefix('_') {
            return SqlType::of_name(element)?.array();
        }
        Some(match name {
            "name" => SqlType::Name,
            "uuid" => SqlType::Uuid,
            "json" => SqlType::Json,
            "jsonb" => SqlType::Jsonb,
            "oid" => SqlType::Oid,
            "regproc" => SqlType::Reg(Reg::Procedure),
            "regprocedure" => SqlType::Reg(Reg::Signature),
            "regclass" => SqlType::Reg(Reg::Class),
            "regtype" => SqlType::Reg(Reg::Type),
            "regnamespace" => SqlType::Reg(Reg::Namespace),
            "regrole" => SqlType::Reg(Reg::Role),
            "char" => SqlType::Letter,
            "cstring" => SqlType::Text,
            "bpchar" => SqlType::Char(None),
            "serial" | "serial4" | "int" | "integer" | "int4" => SqlType::Int4,
            "bigserial" | "serial8" | "int8" | "bigint" => SqlType::Int8,
            "smallserial" | "serial2" | "int2" | "smallint" => SqlType::Int2,
            "timestamptz" => SqlType::TimestampTz,
            "timetz" => SqlType::TimeTz,
            "time" => SqlType::Time,
            "interval" => SqlType::Interval,
            "timestamp" => SqlType::Timestamp,
            "text" => SqlType::Text,
            "varchar" => SqlType::Varchar(None),
            "numeric" => SqlType::Numeric(None),
            "float8" => SqlType::Float8,
            "float4" => SqlType::Float4,
            "bool" | "boolean" => SqlType::Bool,
            "bytea" => SqlType::Bytea,
            "date" => SqlType::Date,
            _ => return None,
        })
    }
}

/// All types, without modifiers.
pub(crate) static ALL: [SqlType; 31] = [
    SqlType::Bool,
    SqlType::Int2,
    SqlType::Int4,
    SqlType::Int8,
    SqlType::Float4,
    SqlType::Float8,
    SqlType::Numeric(None),
    SqlType::Text,
    SqlType::Varchar(None),
    SqlType::Char(None),
    SqlType::Name,
    SqlType::Letter,
    SqlType::Bytea,
    SqlType::Date,
    SqlType::Timestamp,
    SqlType::TimestampTz,
    SqlType::Time,
    SqlType::TimeTz,
    SqlType::Interval,
    SqlType::Oid,
    SqlType::Reg(Reg::Class),
    SqlType::Reg(Reg::Type),
    SqlType::Reg(Reg::Namespace),
    SqlType::Reg(Reg::Role),
    SqlType::Reg(Reg::Procedure),
    SqlType::Reg(Reg::Signature),
    SqlType::Uuid,
    SqlType::Json,
    SqlType::Jsonb,
    SqlType::Record,
    SqlType::Unknown,
];

/// The largest precision of a numeric.
const PRECISION_MAX: u16 = 1000;
/// The position of the scale in the modifier of a numeric.
const SCALE_BITS: i32 = 0x7ff;
/// The largest number of digits of seconds.
const SECOND_DIGITS: u8 = 6;
/// The modifier of an interval without a restriction of its fields.
const ALL_FIELDS: i32 = 0x7fff << 16;
/// The digits in the modifier of an interval without a restriction of its digits.
const ALL_DIGITS: i32 = 0xffff;

fn with_digits(ty: SqlType, digits: Option<u64>) -> SqlType {
    let rounded = digits.and_then(|digits| ty.rounded(digits.min(SECOND_DIGITS.into()) as u8));
    rounded.unwrap_or(ty)
}

/// An interval with only these fields.
///
/// # Errors
/// 42601 if digits are given and seconds are no field.
pub(crate) fn spanned(fields: Fields, digits: Option<u64>) -> Result<SqlType, SqlError> {
    if digits.is_some() && fields.last() != "second" {
        return Err(SqlError::new(code::SYNTAX, "syntax error at or near \"(\""));
    }
    Ok(SqlType::Spanned(fields, digits.map(|digits| digits.min(SECOND_DIGITS.into()) as u8)))
}

/// A type whose name is not in the grammar, with its modifiers: `bpchar(3)`; `None` if it does not
/// take them.
fn modified(ty: SqlType, modifiers: &[String]) -> Option<SqlType> {
    if let (SqlType::Numeric(_), [precision, scale]) = (ty, modifiers) {
        let (precision, scale) = (precision.parse().ok()?, scale.parse().ok()?);
        return numeric(ExactNumberInfo::PrecisionAndScale(precision, scale)).ok();
    }
    let numbers: Option<Vec<u64>> = modifiers.iter().map(|number| number.parse().ok()).collect();
    let numbers = numbers?;
    let length = || CharacterLength::IntegerLength { length: numbers[0], unit: None };
    match (ty, numbers.as_slice()) {
        (SqlType::Varchar(_), [_]) => characters(Some(&length())).ok().map(SqlType::Varchar),
        (SqlType::Char(_), [_]) => characters(Some(&length())).ok().map(SqlType::Char),
        (SqlType::Numeric(_), [precision]) => numeric(ExactNumberInfo::Precision(*precision)).ok(),
        (ty, [digits]) => ty.rounded((*digits).min(SECOND_DIGITS.into()) as u8),
        _ => None,
    }
}

/// Types of PostgreSQL that are not supported, and that the grammar takes for names.
const OTHERS: [&str; 20] = [
    "money",
    "inet",
    "cidr",
    "macaddr",
    "point",
    "line",
    "box",
    "path",
    "polygon",
    "circle",
    "xml",
    "citext",
    "jsonpath",
    "macaddr8",
    "lseg",
    "tsvector",
    "tsquery",
    "regconfig",
    "regdictionary",
    "pg_lsn",
];

/// Ranges, which are not supported either: types, and functions that make their values.
pub(crate) const RANGES: [&str; 12] = [
    "int4range",
    "int8range",
    "numrange",
    "tsrange",
    "tstzrange",
    "daterange",
    "int4multirange",
    "int8multirange",
    "nummultirange",
    "tsmultirange",
    "tstzmultirange",
    "datemultirange",
];

/// The error for one of these types.
pub(crate) fn other_type(name: &str) -> Option<SqlError> {
    let name = name.to_lowercase();
    let is_one = OTHERS.contains(&&*name) || RANGES.contains(&&*name);
    is_one.then(|| unknown_type(&name))
}

fn unknown_type(name: &str) -> SqlError {
    SqlError::new(code::FEATURE_NOT_SUPPORTED, format!("type {name} is not supported")).hint(
        "there are smallint, integer, bigint, serial, real, double precision, numeric, boolean, \
         text, varchar, char, bytea, uuid, json, jsonb, date, time, timetz, timestamp, \
         timestamptz, interval, and arrays of these",
    )
}

fn numeric(info: ExactNumberInfo) -> Result<SqlType, SqlError> {
    let (precision, scale) = match info {
        ExactNumberInfo::None => return Ok(SqlType::Numeric(None)),
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    let wrong = |message| SqlError::new(code::INVALID_PARAMETER, message);
    let digits =
        u16::try_from(precision).ok().filter(|digits| (1..=PRECISION_MAX).contains(digits));
    let digits = digits.ok_or_else(|| {
        wrong(format!("NUMERIC precision {precision} must be between 1 and {PRECISION_MAX}"))
    })?;
    let most = PRECISION_MAX as i16;
    let shown = i16::try_from(scale).ok().filter(|shown| (-most..=most).contains(shown));
    let shown = shown.ok_or_else(|| {
        wrong(format!("NUMERIC scale {scale} must be between -{most} and {most}"))
    })?;
    Ok(SqlType::Numeric(Some((digits, shown))))
}

/// The scale of the stored values of a numeric column, if an `i128` can hold all its values.
fn short_scale((precision, scale): (u16, i16)) -> Option<u8> {
    let shown = i32::from(scale).max(0);
    let before = (i32::from(precision) - i32::from(scale)).max(0);
    (before + shown <= DECIMAL_SCALE_MAX.into()).then_some(shown as u8)
}

fn characters(length: Option<&CharacterLength>) -> Result<Option<u32>, SqlError> {
    match length {
        None | Some(CharacterLength::Max) => Ok(None),
        Some(CharacterLength::IntegerLength { length, .. }) => match u32::try_from(*length) {
            Ok(length @ 1..=10_485_760) => Ok(Some(length)),
            _ => {
                let message = format!("a length of {length} is not possible: it is 1 to 10485760");
                Err(SqlError::new(code::INVALID_PARAMETER, message))
            }
        },
    }
}

/// As in a column definition: `integer`, `numeric(12,2)`, `character varying(16)`.
impl fmt::Display for SqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SqlType::Bool => "boolean",
            SqlType::Int2 => "smallint",
            SqlType::Int4 => "integer",
            SqlType::Int8 => "bigint",
            SqlType::Float4 => "real",
            SqlType::Float8 => "double precision",
            SqlType::Numeric(None) => "numeric",
            SqlType::Numeric(Some((precision, scale))) => {
                return write!(f, "numeric({precision},{scale})");
            }
            SqlType::Text => "text",
            SqlType::Varchar(None) => "character varying",
            SqlType::Varchar(Some(length)) => return write!(f, "character varying({length})"),
            SqlType::Char(None) => "bpchar",
            SqlType::Char(Some(length)) => return write!(f, "character({length})"),
            SqlType::Name => "name",
            SqlType::Letter => "\"char\"",
            SqlType::Bytea => "bytea",
            SqlType::Date => "date",
            SqlType::Timestamp => "timestamp without time zone",
            SqlType::TimestampTz => "timestamp with time zone",
            SqlType::Time => "time without time zone",
            SqlType::TimeTz => "time with time zone",
            SqlType::Interval => "interval",
            SqlType::Rounded(of, digits) => {
                let name = of.to_string();
                let (word, rest) = name.split_at(name.find(' ').unwrap_or(name.len()));
                return write!(f, "{word}({digits}){rest}");
            }
            SqlType::Spanned(fields, None) => return write!(f, "interval {fields}"),
            SqlType::Spanned(fields, Some(digits)) => {
                return write!(f, "interval {fields}({digits})");
            }
            SqlType::Oid => "oid",
            SqlType::Reg(Reg::Class) => "regclass",
            SqlType::Reg(Reg::Type) => "regtype",
            SqlType::Reg(Reg::Namespace) => "regnamespace",
            SqlType::Reg(Reg::Role) => "regrole",
            SqlType::Reg(Reg::Procedure) => "regproc",
            SqlType::Reg(Reg::Signature) => "regprocedure",
            SqlType::Uuid => "uuid",
            SqlType::Json => "json",
            SqlType::Jsonb => "jsonb",
            SqlType::Record => "record",
            SqlType::Enum(labels) => return f.write_str(&labels.name().said()),
            SqlType::EnumArray(labels) => return write!(f, "{}[]", labels.name().said()),
            SqlType::Array(element) => return write!(f, "{element}[]"),
            SqlType::Limited(element, modifier) => {
                return write!(f, "{}[]", element.with_modifier(*modifier));
            }
            SqlType::Int2Vector => "int2vector",
            SqlType::Unknown => "unknown",
        })
    }
}
