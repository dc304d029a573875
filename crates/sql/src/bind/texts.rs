//! Functions of texts and byte strings that are resolved by the types of their arguments.

use super::Binder;
use super::convert::of_any;
use super::expr::{Typed, typed};
use crate::error::SqlError;
use crate::expr::Expr;
use crate::functions::{FloatFunc, Func, TextFunc};
use crate::types::SqlType;

const TEXT: SqlType = SqlType::Text;
const BYTES: SqlType = SqlType::Bytea;
const INT: SqlType = SqlType::Int4;

impl Binder<'_> {
    /// Resolves one of these functions by its name, or returns `None`.
    pub(super) fn text_function(
        &mut self,
        name: &str,
        args: &[Typed],
    ) -> Option<Result<Typed, SqlError>> {
        use TextFunc::*;
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
            ("get_byte", 2) => (GetByte, &[BYTES, INT], INT),
            ("set_byte", 3) => (SetByte, &[BYTES, INT, INT], BYTES),
            ("convert_from", 2) => (ConvertFrom, &[BYTES, TEXT], TEXT),
            ("convert_to", 2) => (ConvertTo, &[TEXT, TEXT], BYTES),
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

/// A call with one argument of any type, converted to a text.
fn of_text(binder: &mut Binder<'_>, func: TextFunc, args: &[Typed]) -> Result<Typed, SqlError> {
    let text = binder.as_text(args[0].clone())?;
    Ok(typed(Expr::Call(Func::Text(func), vec![text]), TEXT))
}
