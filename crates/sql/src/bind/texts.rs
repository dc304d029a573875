//! Functions of texts and byte strings that are resolved by the types of their arguments.

use super::Binder;
use super::convert::of_any;
use super::expr::{Typed, typed};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Expr;
use crate::functions::{BytesFunc, FloatFunc, Func, TextFunc};
use crate::types::{Family, SqlType};

const TEXT: SqlType = SqlType::Text;
const TEXTS: SqlType = SqlType::Array(&SqlType::Text);
const BYTES: SqlType = SqlType::Bytea;
const INT: SqlType = SqlType::Int4;
const LONG: SqlType = SqlType::Int8;

/// A function of byte strings by its name: the types of its arguments, and of its result. Functions
/// that texts have as well are those of byte strings if an argument is one.
fn bytes_function(name: &str, args: &[Typed]) -> Option<(BytesFunc, &'static [SqlType], SqlType)> {
    use BytesFunc::*;
    let is_of_bytes = args.iter().any(|arg| arg.ty == BYTES);
    Some(match (name, args.len()) {
        ("substring" | "substr", 2) if is_of_bytes => (Substring, &[BYTES, INT], BYTES),
        ("substring" | "substr", 3) if is_of_bytes => (Substring, &[BYTES, INT, INT], BYTES),
        ("position", 2) if is_of_bytes => (Position, &[BYTES, BYTES], INT),
        ("overlay", 3) if is_of_bytes => (Overlay, &[BYTES, BYTES, INT], BYTES),
        ("overlay", 4) if is_of_bytes => (Overlay, &[BYTES, BYTES, INT, INT], BYTES),
        ("btrim", 2) if is_of_bytes => (Trim, &[BYTES, BYTES], BYTES),
        ("ltrim", 2) if is_of_bytes => (LeftTrim, &[BYTES, BYTES], BYTES),
        ("rtrim", 2) if is_of_bytes => (RightTrim, &[BYTES, BYTES], BYTES),
        ("length", 2) => (CharCount, &[BYTES, TEXT], INT),
        ("get_byte", 2) => (GetByte, &[BYTES, INT], INT),
        ("set_byte", 3) => (SetByte, &[BYTES, INT, INT], BYTES),
        ("get_bit", 2) => (GetBit, &[BYTES, LONG], INT),
        ("set_bit", 3) => (SetBit, &[BYTES, LONG, INT], BYTES),
        ("bit_count", 1) => (BitCount, &[BYTES], LONG),
        ("convert_from", 2) => (ConvertFrom, &[BYTES, TEXT], TEXT),
        ("convert_to", 2) => (ConvertTo, &[TEXT, TEXT], BYTES),
        ("convert", 3) => (Convert, &[BYTES, TEXT, TEXT], BYTES),
        _ => return None,
    })
}

/// The type whose values a function shows in binary form: `int4send`, `uuid_send`.
fn sent_type(name: &str) -> Option<SqlType> {
    const WITH_LINE: [&str; 10] = [
        "date_",
        "interval_",
        "json_",
        "jsonb_",
        "numeric_",
        "time_",
        "timestamp_",
        "timestamptz_",
        "timetz_",
        "uuid_",
    ];
    const WITHOUT: [&str; 11] = [
        "bool", "bytea", "float4", "float8", "int2", "int4", "int8", "name", "oid", "text",
        "varchar",
    ];
    let stem = name.strip_suffix("send")?;
    let is_known = WITH_LINE.contains(&stem) || WITHOUT.contains(&stem);
    SqlType::of_name(stem.trim_end_matches('_')).filter(|_| is_known)
}

impl Binder<'_> {
    /// Resolves one of these functions by its name, or returns `None`.
    pub(super) fn text_function(
        &mut self,
        name: &str,
        args: &[Typed],
    ) -> Option<Result<Typed, SqlError>> {
        use TextFunc::*;
        if let Some((func, types, result)) = bytes_function(name, args) {
            return Some(self.call_of(name, Func::Bytes(func), (types, result), args.to_vec()));
        }
        if let ([value], Some(ty)) = (args, sent_type(name)) {
            return Some(sent(self, name, value.clone(), ty));
        }
        let is = |at: usize, ty: SqlType| args.get(at).is_some_and(|arg| arg.ty == ty);
        let (func, types, result): (TextFunc, &[SqlType], SqlType) = match (name, args.len()) {
            ("chr", 1) => (Chr, &[INT], TEXT),
            ("ascii", 1) => (Ascii, &[TEXT], INT),
            ("initcap", 1) => (InitCap, &[TEXT], TEXT),
            ("split_part", 3) => (SplitPart, &[TEXT, TEXT, INT], TEXT),
            ("to_hex", 1) if is(0, SqlType::Int8) => (ToHex { bits: 64 }, &[SqlType::Int8], TEXT),
            ("to_hex", 1) => (ToHex { bits: 32 }, &[INT], TEXT),
            ("translate", 3) => (Translate, &[TEXT, TEXT, TEXT], TEXT),
            ("overlay", 3) => (Overlay, &[TEXT, TEXT, INT], TEXT),
            ("overlay", 4) => (Overlay, &[TEXT, TEXT, INT, INT], TEXT),
            ("octet_length", 1) if is(0, BYTES) => (Bytes { of_each: 1 }, &[BYTES], INT),
            // Trailing blanks of a char(n) count.
            ("octet_length", 1) if matches!(args[0].ty, SqlType::Char(_)) => {
                return Some(self.of_shown(Bytes { of_each: 1 }, args, INT));
            }
            ("octet_length", 1) => (Bytes { of_each: 1 }, &[TEXT], INT),
            ("bit_length", 1) if is(0, BYTES) => (Bytes { of_each: 8 }, &[BYTES], INT),
            ("bit_length", 1) => (Bytes { of_each: 8 }, &[TEXT], INT),
            ("encode", 2) => (Encode, &[BYTES, TEXT], TEXT),
            ("decode", 2) => (Decode, &[TEXT, TEXT], BYTES),
            ("parse_ident", 1) => {
                let strict = typed(Expr::Const(Datum::Bool(true)), SqlType::Bool);
                return self.text_function(name, &[args[0].clone(), strict]);
            }
            ("parse_ident", 2) => (ParseIdent, &[TEXT, SqlType::Bool], TEXTS),
            ("unistr", 1) => (Unistr, &[TEXT], TEXT),
            ("pg_size_bytes", 1) => (SizeBytes, &[TEXT], LONG),
            ("pg_collation_for", 1) => return Some(collation_for(&args[0])),
            ("pg_column_size", 1) => return Some(column_size(self, args[0].clone())),
            ("quote_literal", 1) => return Some(of_text(self, QuoteLiteral, args)),
            ("quote_nullable", 1) => return Some(of_text(self, QuoteNullable, args)),
            ("format", 1..) => return Some(self.of_shown(Format, args, TEXT)),
            ("num_nulls", 1..) => {
                return Some(self.of_shown(NullCount { of_nulls: true }, args, INT));
            }
            ("num_nonnulls", 1..) => {
                return Some(self.of_shown(NullCount { of_nulls: false }, args, INT));
            }
            _ => {
                let func = FloatFunc::named(name, args.len())?;
                let types = [SqlType::Float8; 2];
                let types = (&types[..args.len()], SqlType::Float8);
                return Some(self.call_of(name, Func::Float(func), types, args.to_vec()));
            }
        };
        Some(self.call_of(name, Func::Text(func), (types, result), args.to_vec()))
    }

    /// A call with arguments of any type, converted to their client-visible texts.
    fn of_shown(
        &mut self,
        func: TextFunc,
        args: &[Typed],
        result: SqlType,
    ) -> Result<Typed, SqlError> {
        let shown = args.iter().enumerate().map(|(at, arg)| {
            // The pattern of `format` is a text.
            let is_any = func != TextFunc::Format || at > 0;
            let arg = if is_any { of_any(self, arg.clone()) } else { arg.clone() };
            self.as_shown(arg)
        });
        let shown = shown.collect::<Result<_, _>>()?;
        Ok(typed(Expr::Call(Func::Text(func), shown), result))
    }
}

/// The binary form of a value of this type.
fn sent(binder: &mut Binder<'_>, name: &str, value: Typed, ty: SqlType) -> Result<Typed, SqlError> {
    let mut sent =
        binder.call_of(name, Func::Bytes(BytesFunc::Send), (&[ty], BYTES), vec![value])?;
    if let Expr::Call(_, args) = &mut sent.expr {
        args.push(Expr::Const(Datum::Int(ty.number())));
    }
    Ok(sent)
}

/// `pg_column_size`: a value of a type of a fixed width has that, others have a header.
fn column_size(binder: &mut Binder<'_>, value: Typed) -> Result<Typed, SqlError> {
    let is_literal = value.ty == SqlType::Unknown;
    let is_column = matches!(value.expr, Expr::Column(_));
    let width = value.ty.plain().width();
    let value = match value.ty {
        SqlType::Char(_) => binder.as_shown(value)?,
        _ if is_literal => binder.coerce(value, TEXT)?,
        _ => value.expr,
    };
    let form = [width.into(), i64::from(is_literal), i64::from(is_column)];
    let form = form.map(|number| Expr::Const(Datum::Int(number)));
    let args = std::iter::once(value).chain(form).collect();
    Ok(typed(Expr::Call(Func::Bytes(BytesFunc::Size), args), INT))
}

/// `pg_collation_for`: there is one collation, of texts.
fn collation_for(value: &Typed) -> Result<Typed, SqlError> {
    match value.ty.family() {
        Family::Unknown => Ok(typed(Expr::Const(Datum::Null), TEXT)),
        Family::Text => {
            let name = Datum::text("\"default\"");
            Ok(typed(Expr::Const(name), TEXT))
        }
        _ => {
            let message = format!("collations are not supported by type {}", super::bare(value.ty));
            Err(SqlError::new(crate::error::code::DATATYPE_MISMATCH, message))
        }
    }
}

/// A call with one argument of any type, converted to a text.
fn of_text(binder: &mut Binder<'_>, func: TextFunc, args: &[Typed]) -> Result<Typed, SqlError> {
    let text = binder.as_text(args[0].clone())?;
    Ok(typed(Expr::Call(Func::Text(func), vec![text]), TEXT))
}
