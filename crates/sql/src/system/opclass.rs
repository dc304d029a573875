//! Operator classes: the order of a type's values in an index. Tools query the class of each column
//! of an index, and print those that are not the default of the type. Here each type has one.

use super::{BTREE, OWNER, PG_CATALOG, int, text, yes};
use crate::datum::Datum;
use crate::types::SqlType;

/// Its oid, its name, the oid of its family, and the types that it applies to. The oids are
/// PostgreSQL's.
type Class = (i64, &'static str, i64, fn(SqlType) -> bool);

/// All of them.
const CLASSES: [Class; 21] = [
    (1978, "int4_ops", 1976, |ty| ty == SqlType::Int4),
    (1979, "int2_ops", 1976, |ty| ty == SqlType::Int2),
    (1981, "oid_ops", 1989, |ty| ty == SqlType::Oid),
    (3122, "date_ops", 434, |ty| ty == SqlType::Date),
    (3123, "float8_ops", 1970, |ty| ty == SqlType::Float8),
    (3124, "int8_ops", 1976, |ty| ty == SqlType::Int8),
    (3125, "numeric_ops", 1988, |ty| matches!(ty, SqlType::Numeric(_))),
    (3126, "text_ops", 1994, |ty| matches!(ty, SqlType::Text | SqlType::Varchar(_))),
    (3127, "timestamptz_ops", 434, |ty| ty == SqlType::TimestampTz),
    (3128, "timestamp_ops", 434, |ty| ty == SqlType::Timestamp),
    (10000, "array_ops", 397, SqlType::is_array),
    (10003, "bool_ops", 424, |ty| ty == SqlType::Bool),
    (10004, "bpchar_ops", 426, |ty| matches!(ty, SqlType::Char(_))),
    (10006, "bytea_ops", 428, |ty| ty == SqlType::Bytea),
    (10012, "float4_ops", 1970, |ty| ty == SqlType::Float4),
    (10022, "interval_ops", 1982, |ty| ty == SqlType::Interval),
    (10038, "time_ops", 1996, |ty| ty == SqlType::Time),
    (10041, "timetz_ops", 2000, |ty| ty == SqlType::TimeTz),
    (10065, "uuid_ops", 2968, |ty| ty == SqlType::Uuid),
    (10069, "enum_ops", 3522, |ty| matches!(ty, SqlType::Enum(_))),
    (10088, "jsonb_ops", 4033, |ty| ty == SqlType::Jsonb),
];

/// The rows of `pg_opclass`.
pub(super) fn rows() -> Vec<Vec<Datum>> {
    let row = |&(oid, name, family, is_of): &Class| {
        let input = match name {
            "array_ops" => 2277,
            "enum_ops" => 3500,
            _ => crate::types::ALL.iter().find(|ty| is_of(**ty)).map_or(0, |ty| ty.oid().into()),
        };
        let (class, owner) = (int(PG_CATALOG), int(OWNER));
        vec![
            int(oid),
            int(BTREE),
            text(name),
            class,
            owner,
            int(family),
            int(input),
            yes(true),
            int(0),
        ]
    };
    CLASSES.iter().map(row).collect()
}

/// The oid of the class for an index column of this type.
pub(super) fn of(ty: SqlType) -> i64 {
    CLASSES.iter().find(|(.., is_of)| is_of(ty.plain())).map_or(0, |(oid, ..)| *oid)
}
