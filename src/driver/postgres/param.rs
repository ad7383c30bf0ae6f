//! JSON to the server's parameter types.
//!
//! Values travel as text, which the server reads by the parameter's own rules: so every type can be
//! bound, enums and extensions included. What JSON tells apart is checked here, before anything is
//! sent.

use std::error::Error;
use std::fmt;

use bytes::BytesMut;
use postgres::types::{Format, IsNull, Kind, ToSql, Type, to_sql_checked};
use serde_json::Value;

/// A parameter as text; `None` is null.
pub(super) struct Text(Option<String>);

/// Without the value: the client logs the parameters of every statement at its debug level.
impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl ToSql for Text {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        Ok(match &self.0 {
            None => IsNull::Yes,
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                IsNull::No
            }
        })
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

/// `value` for a parameter of type `ty`.
///
/// # Errors
///
/// What it must be, without the value.
pub(super) fn encode(value: &Value, ty: &Type) -> Result<Text, String> {
    text(value, ty).map(Text)
}

fn text(value: &Value, ty: &Type) -> Result<Option<String>, String> {
    if value.is_null() {
        return Ok(None);
    }
    match ty.kind() {
        Kind::Domain(base) => return text(value, base),
        Kind::Array(member) => return list(value, member).map(Some),
        Kind::Enum(allowed) => return one_of(value, allowed).map(Some),
        _ => {}
    }
    let text = match *ty {
        Type::JSON | Type::JSONB => Some(value.to_string()),
        Type::BOOL => value.as_bool().map(|truth| truth.to_string()),
        Type::INT2 => whole(value, i16::MIN.into(), i16::MAX.into()),
        Type::INT4 => whole(value, i32::MIN.into(), i32::MAX.into()),
        Type::INT8 => whole(value, i64::MIN, i64::MAX),
        Type::OID => whole(value, 0, u32::MAX.into()),
        Type::FLOAT4 | Type::FLOAT8 => value.is_number().then(|| value.to_string()),
        Type::NUMERIC => decimal(value),
        _ => value.as_str().map(str::to_owned),
    };
    match text {
        Some(text) if text.contains('\0') => Err("must not contain the character NUL".into()),
        Some(text) => Ok(Some(text)),
        None => Err(format!("must be {} ({})", rule(ty), ty.name())),
    }
}

fn rule(ty: &Type) -> &'static str {
    match *ty {
        Type::BOOL => "true or false",
        Type::INT2 => "a whole number of 16 bits",
        Type::INT4 => "a whole number of 32 bits",
        Type::INT8 => "a whole number of 64 bits",
        Type::OID => "a whole number of 32 bits without a sign",
        Type::FLOAT4 | Type::FLOAT8 => "a number",
        Type::NUMERIC => "a number, or a string with one",
        _ => "a string",
    }
}

fn whole(value: &Value, min: i64, max: i64) -> Option<String> {
    let number = value.as_i64().filter(|number| (min..=max).contains(number))?;
    Some(number.to_string())
}

/// A number in a string keeps the digits that a JSON number may lose.
fn decimal(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => {
            let number = text.parse::<f64>().is_ok_and(f64::is_finite);
            let plain = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
            (number && plain).then(|| text.clone())
        }
        _ => None,
    }
}

fn one_of(value: &Value, allowed: &[String]) -> Result<String, String> {
    match value.as_str() {
        Some(text) if allowed.iter().any(|known| known == text) => Ok(text.to_owned()),
        _ => Err(format!("must be one of {}", allowed.join(", "))),
    }
}

/// A list as PostgreSQL writes arrays: `{"a","b",NULL,{…}}`.
fn list(value: &Value, member: &Type) -> Result<String, String> {
    let items = value.as_array().ok_or_else(|| format!("must be a list of {}", member.name()))?;
    let nests = !matches!(*member, Type::JSON | Type::JSONB);
    let mut literal = String::from("{");
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            literal.push(',');
        }
        if nests && item.is_array() {
            literal.push_str(&list(item, member)?);
            continue;
        }
        match text(item, member).map_err(|rule| format!("item {}: {rule}", at + 1))? {
            None => literal.push_str("NULL"),
            Some(text) => {
                literal.push('"');
                literal.push_str(&text.replace('\\', r"\\").replace('"', "\\\""));
                literal.push('"');
            }
        }
    }
    literal.push('}');
    Ok(literal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn encoded(value: &Value, ty: &Type) -> Option<String> {
        encode(value, ty).unwrap().0
    }

    #[test]
    fn values_become_the_text_of_their_type() {
        for (value, ty, text) in [
            (json!(7), Type::INT4, "7"),
            (json!(true), Type::BOOL, "true"),
            (json!(1.5), Type::FLOAT8, "1.5"),
            (json!("12345678901234567890.5"), Type::NUMERIC, "12345678901234567890.5"),
            (json!("x"), Type::TEXT, "x"),
            (json!({"a": [1, null]}), Type::JSONB, r#"{"a":[1,null]}"#),
            (json!("s"), Type::JSON, r#""s""#),
            (json!([1, null, 2]), Type::INT4_ARRAY, r#"{"1",NULL,"2"}"#),
            (json!([["a\"b"], ["c\\"]]), Type::TEXT_ARRAY, r#"{{"a\"b"},{"c\\"}}"#),
            (json!([[1], {"a": "b"}]), Type::JSON_ARRAY, r#"{"[1]","{\"a\":\"b\"}"}"#),
        ] {
            assert_eq!(encoded(&value, &ty).as_deref(), Some(text), "{ty}");
        }
        assert_eq!(encoded(&Value::Null, &Type::INT8), None);
    }

    #[test]
    fn wrong_types_are_told_without_the_value() {
        for (value, ty, rule) in [
            (json!("secret"), Type::INT4, "a whole number of 32 bits (int4)"),
            (json!(40_000), Type::INT2, "a whole number of 16 bits (int2)"),
            (json!(1.5), Type::INT8, "a whole number of 64 bits (int8)"),
            (json!(u64::MAX), Type::INT8, "a whole number of 64 bits (int8)"),
            (json!(1), Type::TEXT, "a string (text)"),
            (json!("1"), Type::BOOL, "true or false (bool)"),
            (json!("1 or 1"), Type::NUMERIC, "a number, or a string with one (numeric)"),
            (json!("secret"), Type::INT4_ARRAY, "a list of int4"),
            (json!([1, "secret"]), Type::INT4_ARRAY, "item 2: must be a whole number"),
            (json!("a\0secret"), Type::TEXT, "the character NUL"),
        ] {
            let error = encode(&value, &ty).unwrap_err();
            assert!(error.contains(rule) && !error.contains("secret"), "{error}");
        }
    }
}
