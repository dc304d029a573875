//! JSON: its operators and functions, and values of other types as JSON.
//!
//! ```text
//!   j -> 'a'                      Get(j, 'a'), of the type of j
//!   jsonb_build_array(1, t.d)     cast(BuildArray(Of(1), Of(t.d)) as jsonb)
//!   row_to_json(t)                Of(t)
//! ```
//!
//! The JSON form of a value depends on its type, which is known only here, so each conversion is a
//! call with the type.

use super::Binder;
use super::convert::{bare, of_any};
use super::expr::{Typed, boolean, typed};
use super::json_paths::{path_call, path_function, path_operator};
use super::operators::no_operator;
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::expr::Expr;
use crate::functions::{Func, JsonFunc};
use crate::types::{Family, SqlType};
use sqlparser::ast::BinaryOperator;

pub(super) const TEXTS: SqlType = SqlType::Array(&SqlType::Text);

/// True if an operator with sides of these types is one of JSON.
pub(super) fn is_json_operator(op: &BinaryOperator, a: SqlType, b: SqlType) -> bool {
    use BinaryOperator as Op;
    let has_jsonb = a == SqlType::Jsonb || b == SqlType::Jsonb;
    let is_text = a.family() == Family::Text || b.family() == Family::Text;
    match op {
        Op::Arrow
        | Op::LongArrow
        | Op::HashArrow
        | Op::HashLongArrow
        | Op::HashMinus
        | Op::Question
        | Op::QuestionAnd
        | Op::QuestionPipe
        | Op::AtQuestion
        | Op::AtAt => true,
        Op::AtArrow | Op::ArrowAt => has_jsonb,
        Op::StringConcat => has_jsonb && !is_text,
        Op::Minus => a == SqlType::Jsonb,
        _ => false,
    }
}

impl Binder<'_> {
    /// A function of JSON with converted arguments.
    pub(super) fn json_call(
        &mut self,
        name: &str,
        (func, ty): (JsonFunc, SqlType),
        args: Vec<Typed>,
    ) -> Result<Typed, SqlError> {
        let wanted = |at| crate::functions::json_argument(func, name, at);
        let fits = |(at, arg): (usize, &Typed)| {
            let same = arg.ty == SqlType::Unknown || bare(arg.ty) == wanted(at);
            same || (wanted(at) == SqlType::Text && arg.ty.family() == Family::Text)
        };
        if !args.iter().enumerate().all(fits) {
            return Err(unknown_function(name, &args));
        }
        let args = args.into_iter().enumerate().map(|(at, arg)| self.coerce(arg, wanted(at)));
        Ok(typed(call(func, args.collect::<Result<_, _>>()?), ty))
    }

    /// An operator of JSON.
    pub(super) fn json_operator(
        &mut self,
        op: &BinaryOperator,
        a: Typed,
        b: Typed,
    ) -> Result<Typed, SqlError> {
        use BinaryOperator as Op;
        use JsonFunc::*;
        let wrong = || no_operator(&op.to_string(), a.ty, b.ty);
        let is_whole = matches!(b.ty, SqlType::Int2 | SqlType::Int4);
        let is_text = matches!(b.ty.family(), Family::Text | Family::Unknown);
        let is_texts = b.ty == SqlType::Unknown || b.ty == TEXTS;
        let is_json = a.ty.family() == Family::Json;
        let is_jsonb = a.ty == SqlType::Jsonb;
        let jsonb = SqlType::Jsonb;
        let (func, ty, wanted) = match op {
            Op::Arrow if is_json && is_whole => (Get, a.ty, SqlType::Int4),
            Op::Arrow if is_json && is_text => (Get, a.ty, SqlType::Text),
            Op::LongArrow if is_json && is_whole => (GetText, SqlType::Text, SqlType::Int4),
            Op::LongArrow if is_json && is_text => (GetText, SqlType::Text, SqlType::Text),
            Op::HashArrow if is_json && is_texts => (Path, a.ty, TEXTS),
            Op::HashLongArrow if is_json && is_texts => (PathText, SqlType::Text, TEXTS),
            Op::HashMinus if is_jsonb && is_texts => (DeletePath, jsonb, TEXTS),
            Op::Question if is_jsonb && is_text => (Exists, SqlType::Bool, SqlType::Text),
            Op::QuestionPipe if is_jsonb && is_texts => (ExistsAny, SqlType::Bool, TEXTS),
            Op::QuestionAnd if is_jsonb && is_texts => (ExistsAll, SqlType::Bool, TEXTS),
            Op::Minus if is_whole => (DeleteItem, jsonb, SqlType::Int4),
            Op::Minus if is_text => (DeleteKey, jsonb, SqlType::Text),
            Op::Minus if is_texts => (DeleteKeys, jsonb, TEXTS),
            Op::AtArrow | Op::ArrowAt | Op::StringConcat => {
                let is_one = |ty| matches!(ty, SqlType::Jsonb | SqlType::Unknown);
                if !is_one(a.ty) || !is_one(b.ty) {
                    return Err(wrong());
                }
                let (a, b) = (self.coerce(a, jsonb)?, self.coerce(b, jsonb)?);
                return Ok(match op {
                    Op::AtArrow => boolean(call(Contains, vec![a, b])),
                    Op::ArrowAt => boolean(call(Contains, vec![b, a])),
                    _ => typed(call(Concat, vec![a, b]), jsonb),
                });
            }
            Op::AtQuestion | Op::AtAt => return path_operator(self, op, a, b),
            _ => return Err(wrong()),
        };
        let args = vec![a.expr, self.coerce(b, wanted)?];
        Ok(typed(call(func, args), ty))
    }

    /// A function of JSON with arguments of any type, by its name, or `None`.
    pub(super) fn json_function(
        &mut self,
        name: &str,
        args: &[Typed],
    ) -> Option<Result<Typed, SqlError>> {
        if let Some(func) = path_function(name) {
            return Some(path_call(self, name, func, args.to_vec()));
        }
        let (built, ty) = match name {
            "to_json" | "array_to_json" | "row_to_json" | "json_build_array"
            | "json_build_object" | "json_object" => (true, SqlType::Json),
            "to_jsonb" | "jsonb_build_array" | "jsonb_build_object" | "jsonb_object" => {
                (true, SqlType::Jsonb)
            }
            "json_extract_path" | "json_extract_path_text" => (false, SqlType::Json),
            "jsonb_extract_path" | "jsonb_extract_path_text" => (false, SqlType::Jsonb),
            _ => {
                let (_, stem) =
                    name.split_once('_').filter(|(start, _)| start.starts_with("json"))?;
                let makes_rows =
                    stem.starts_with("populate_record") || stem.starts_with("to_record");
                return makes_rows
                    .then(|| Err(SqlError::unsupported(format!("the function {name}"))));
            }
        };
        let args = args.to_vec();
        Some(match built {
            true => self.built(name, args).map(|built| as_type(built, ty)),
            false => self.extracted(name.ends_with("_text"), ty, args),
        })
    }

    fn built(&mut self, name: &str, args: Vec<Typed>) -> Result<Expr, SqlError> {
        let args = match name.contains("_build_") {
            true => args.into_iter().map(|arg| of_any(self, arg)).collect(),
            false => args,
        };
        match (name, args.len()) {
            ("to_json" | "to_jsonb", 1) => {
                let [value] = <[Typed; 1]>::try_from(args).expect("there is one");
                if value.ty == SqlType::Unknown {
                    let message = "could not determine polymorphic type because input has type \
                                   unknown";
                    return Err(SqlError::new(code::DATATYPE_MISMATCH, message));
                }
                self.json_of(value)
            }
            ("array_to_json" | "row_to_json", 1 | 2)
                if args[0].ty.family()
                    == if name == "row_to_json" { Family::Row } else { Family::Array } =>
            {
                let mut args = args.into_iter();
                let whole = self.json_of(args.next().expect("there is one"))?;
                let is_broken = args.next().map(|flag| self.coerce(flag, SqlType::Bool));
                match (whole, is_broken.transpose()?) {
                    (Expr::Call(func, mut parts), Some(is_broken)) => {
                        parts.push(is_broken);
                        Ok(Expr::Call(func, parts))
                    }
                    (whole, _) => Ok(whole),
                }
            }
            ("json_build_array" | "jsonb_build_array", _) => {
                let values = args.into_iter().map(|arg| self.json_of(arg));
                Ok(call(JsonFunc::BuildArray, values.collect::<Result<_, _>>()?))
            }
            ("json_build_object" | "jsonb_build_object", count) => {
                if count % 2 > 0 {
                    let message = "argument list must have even number of elements";
                    return Err(SqlError::new(code::INVALID_PARAMETER, message));
                }
                let mut members = Vec::with_capacity(count);
                for (at, arg) in args.into_iter().enumerate() {
                    members.push(if at % 2 > 0 { self.json_of(arg)? } else { self.json_key(arg)? });
                }
                Ok(call(JsonFunc::BuildObject, members))
            }
            ("json_object" | "jsonb_object", 1 | 2) => {
                let mut arrays = Vec::with_capacity(2);
                for arg in args {
                    if !matches!(arg.ty, SqlType::Unknown | SqlType::Array(SqlType::Text)) {
                        return Err(unknown_function(name, &[arg]));
                    }
                    arrays.push(self.coerce(arg, TEXTS)?);
                }
                Ok(call(JsonFunc::Object, arrays))
            }
            _ => Err(unknown_function(name, &args)),
        }
    }

    fn extracted(
        &mut self,
        is_text: bool,
        ty: SqlType,
        args: Vec<Typed>,
    ) -> Result<Typed, SqlError> {
        let mut args = args.into_iter();
        let Some(first) =
            args.next().filter(|first| matches!(first.ty, SqlType::Unknown) || first.ty == ty)
        else {
            let message = format!("{ty}_extract_path takes a {ty} and texts");
            return Err(SqlError::new(code::UNDEFINED_FUNCTION, message));
        };
        let mut found = self.coerce(first, ty)?;
        // A path is a list of steps; a step into an array is a number, possibly as a text.
        for step in args {
            let step = self.as_text(step)?;
            let path = Expr::Call(Func::ArrayOf, vec![step]);
            found = call(JsonFunc::Path, vec![found, path]);
        }
        if !is_text {
            return Ok(typed(found, ty));
        }
        let all = Expr::Const(Datum::text("{}"));
        Ok(typed(call(JsonFunc::PathText, vec![found, all]), SqlType::Text))
    }

    /// A key of an object.
    pub(super) fn json_key(&mut self, key: Typed) -> Result<Expr, SqlError> {
        if matches!(key.ty.family(), Family::Json | Family::Array | Family::Row) {
            let message = "key value must be scalar, not array, composite, or json";
            return Err(SqlError::new(code::INVALID_PARAMETER, message));
        }
        self.as_shown(key)
    }

    /// A value as JSON.
    pub(super) fn json_of(&mut self, value: Typed) -> Result<Expr, SqlError> {
        let ty = if value.ty == SqlType::Unknown { SqlType::Text } else { value.ty };
        let value = self.coerce(value, ty)?;
        if let SqlType::Reg(_) = ty {
            let name = self.as_text(typed(value, ty))?;
            return self.json_of(typed(name, SqlType::Text));
        }
        if ty.family() == Family::Json {
            return Ok(value);
        }
        let number = |number: i64| Expr::Const(Datum::Int(number));
        Ok(call(JsonFunc::Of, vec![value, number(ty.number()), number(ty.modifier().into())]))
    }
}

/// A JSON text as a value of a JSON type.
pub(super) fn as_type(written: Expr, ty: SqlType) -> Typed {
    match ty {
        SqlType::Jsonb => typed(Expr::Cast(Box::new(written), ty), ty),
        ty => typed(written, ty),
    }
}

fn call(func: JsonFunc, args: Vec<Expr>) -> Expr {
    Expr::Call(Func::Json(func), args)
}

pub(super) fn unknown_function(name: &str, args: &[Typed]) -> SqlError {
    let shown: Vec<String> = args.iter().map(|arg| bare(arg.ty).to_string()).collect();
    let message = format!("function {name}({}) does not exist", shown.join(", "));
    SqlError::new(code::UNDEFINED_FUNCTION, message)
        .hint("No function matches the given name and argument types; add a cast.")
}
