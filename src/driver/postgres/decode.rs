//! The server's values to JSON.

use std::error::Error;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use postgres::types::{FromSql, Kind, Type};
use postgres::{Column, Row};
use serde_json::{Map, Value};

use super::temporal;
use crate::driver::sql::{float, hex, rows_affected};
use crate::outcome::{Executed, Failure, FailureReason};

/// What came back, not decoded yet.
#[derive(Debug)]
pub(super) enum Answer {
    Rows(Vec<Row>),
    Affected(u64),
}

impl Answer {
    pub(super) fn decode(self) -> Result<Value, Failure> {
        match self {
            Answer::Affected(count) => Ok(rows_affected(count)),
            Answer::Rows(rows) => rows.iter().map(row).collect::<Result<_, _>>().map(Value::Array),
        }
    }
}

/// Refuses columns that have no JSON form, before the statement runs.
pub(super) fn check(columns: &[Column]) -> Result<(), Failure> {
    match columns.iter().find(|column| !has_json_form(column.type_())) {
        None => Ok(()),
        Some(column) => Err(Failure::new(
            FailureReason::QueryFailed,
            format!(
                "column `{}` is of type {}, which has no JSON form here: cast it, as in `{}::text`",
                column.name(),
                column.type_().name(),
                column.name()
            ),
        )
        .executed(Executed::No)),
    }
}

fn row(row: &Row) -> Result<Value, Failure> {
    let mut object = Map::with_capacity(row.len());
    for (at, column) in row.columns().iter().enumerate() {
        let bad = |error: String| {
            let message = format!("column `{}` of type {}: {error}", column.name(), column.type_());
            Failure::new(FailureReason::Decode, message)
        };
        let raw: Option<Raw<'_>> = row.try_get(at).map_err(|error| bad(error.to_string()))?;
        let value = match raw {
            None => Value::Null,
            Some(Raw(bytes)) => {
                decode(column.type_(), bytes).map_err(|error| bad(error.to_string()))?
            }
        };
        object.insert(column.name().to_owned(), value);
    }
    Ok(Value::Object(object))
}

/// A value's bytes as they are.
struct Raw<'a>(&'a [u8]);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Raw<'a>, Box<dyn Error + Sync + Send>> {
        Ok(Raw(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

type Decoded = Result<Value, Box<dyn Error + Sync + Send>>;

fn has_json_form(ty: &Type) -> bool {
    match ty.kind() {
        Kind::Domain(base) | Kind::Array(base) => has_json_form(base),
        Kind::Enum(_) => true,
        Kind::Simple => codec(ty).is_some(),
        Kind::Pseudo => *ty == Type::VOID || *ty == Type::UNKNOWN,
        _ => false,
    }
}

fn decode(ty: &Type, raw: &[u8]) -> Decoded {
    match ty.kind() {
        Kind::Domain(base) => decode(base, raw),
        Kind::Array(member) => array(member, raw),
        Kind::Enum(_) => text(raw),
        _ => match codec(ty) {
            Some(codec) => codec(raw),
            None => Err("it has no JSON form here".into()),
        },
    }
}

/// The one list of what can be read.
fn codec(ty: &Type) -> Option<fn(&[u8]) -> Decoded> {
    Some(match *ty {
        Type::BOOL => |raw| Ok((fixed::<1>(raw)? != [0]).into()),
        Type::INT2 => |raw| Ok(i16::from_be_bytes(fixed(raw)?).into()),
        Type::INT4 => |raw| Ok(i32::from_be_bytes(fixed(raw)?).into()),
        Type::INT8 => |raw| Ok(i64::from_be_bytes(fixed(raw)?).into()),
        Type::OID | Type::XID | Type::CID => |raw| Ok(u32::from_be_bytes(fixed(raw)?).into()),
        Type::FLOAT4 => |raw| float4(f32::from_be_bytes(fixed(raw)?)),
        Type::FLOAT8 => |raw| Ok(float(f64::from_be_bytes(fixed(raw)?))),
        Type::NUMERIC => numeric,
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN | Type::XML => text,
        Type::CHAR => |raw| Ok(char::from(fixed::<1>(raw)?[0]).to_string().into()),
        Type::JSON => |raw| Ok(serde_json::from_slice(raw)?),
        Type::JSONB => |raw| Ok(serde_json::from_slice(versioned(raw)?)?),
        Type::JSONPATH => |raw| text(versioned(raw)?),
        Type::BYTEA => |raw| Ok(hex(raw)),
        Type::UUID => uuid,
        Type::DATE => |raw| Ok(temporal::date(i32::from_be_bytes(fixed(raw)?)).into()),
        Type::TIME => |raw| Ok(temporal::time(i64::from_be_bytes(fixed(raw)?)).into()),
        Type::TIMETZ => timetz,
        Type::TIMESTAMP => {
            |raw| Ok(temporal::timestamp(i64::from_be_bytes(fixed(raw)?), "").into())
        }
        Type::TIMESTAMPTZ => {
            |raw| Ok(temporal::timestamp(i64::from_be_bytes(fixed(raw)?), "Z").into())
        }
        Type::INTERVAL => interval,
        Type::INET | Type::CIDR => inet,
        Type::MACADDR | Type::MACADDR8 => macaddr,
        Type::BIT | Type::VARBIT => bits,
        Type::VOID => |_| Ok(Value::Null),
        _ if ty.name() == "citext" => text,
        _ => return None,
    })
}

fn fixed<const N: usize>(raw: &[u8]) -> Result<[u8; N], Box<dyn Error + Sync + Send>> {
    raw.try_into().map_err(|_| format!("{} bytes where {N} are due", raw.len()).into())
}

fn take<'a>(raw: &mut &'a [u8], count: usize) -> Result<&'a [u8], Box<dyn Error + Sync + Send>> {
    let (head, rest) = raw.split_at_checked(count).ok_or("it ends too early")?;
    *raw = rest;
    Ok(head)
}

fn int(raw: &mut &[u8]) -> Result<i32, Box<dyn Error + Sync + Send>> {
    Ok(i32::from_be_bytes(fixed(take(raw, 4)?)?))
}

fn short(raw: &mut &[u8]) -> Result<u16, Box<dyn Error + Sync + Send>> {
    Ok(u16::from_be_bytes(fixed(take(raw, 2)?)?))
}

fn text(raw: &[u8]) -> Decoded {
    Ok(std::str::from_utf8(raw)?.into())
}

fn versioned(raw: &[u8]) -> Result<&[u8], Box<dyn Error + Sync + Send>> {
    raw.strip_prefix(&[1]).ok_or_else(|| "its version is not 1".into())
}

/// The shortest digits that are this number, not those of its nearest 64-bit one.
fn float4(number: f32) -> Decoded {
    Ok(if number.is_finite() { float(number.to_string().parse()?) } else { float(number.into()) })
}

fn uuid(raw: &[u8]) -> Decoded {
    let digits = format!("{:032x}", u128::from_be_bytes(fixed(raw)?));
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    Ok(parts.join("-").into())
}

fn timetz(mut raw: &[u8]) -> Decoded {
    let micros = i64::from_be_bytes(fixed(take(&mut raw, 8)?)?);
    Ok((temporal::time(micros) + &temporal::offset(int(&mut raw)?)).into())
}

fn interval(mut raw: &[u8]) -> Decoded {
    let micros = i64::from_be_bytes(fixed(take(&mut raw, 8)?)?);
    let days = int(&mut raw)?;
    Ok(temporal::interval(int(&mut raw)?, days, micros).into())
}

fn inet(mut raw: &[u8]) -> Decoded {
    let head = take(&mut raw, 4)?;
    let (bits, is_cidr, length) = (head[1], head[2] != 0, head[3]);
    let (address, full) = match length {
        4 => (Ipv4Addr::from(fixed::<4>(raw)?).to_string(), 32),
        16 => (Ipv6Addr::from(fixed::<16>(raw)?).to_string(), 128),
        _ => return Err("an address of neither family".into()),
    };
    let whole = bits == full && !is_cidr;
    Ok(if whole { address.into() } else { format!("{address}/{bits}").into() })
}

fn macaddr(raw: &[u8]) -> Decoded {
    let parts: Vec<_> = raw.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(parts.join(":").into())
}

fn bits(mut raw: &[u8]) -> Decoded {
    let count = usize::try_from(int(&mut raw)?)?;
    let mut text: String = raw.iter().map(|byte| format!("{byte:08b}")).collect();
    text.truncate(count);
    Ok(text.into())
}

/// Digits in base 10,000; as a string, since a JSON number would lose some.
fn numeric(mut raw: &[u8]) -> Decoded {
    let groups = usize::from(short(&mut raw)?);
    let weight = short(&mut raw)?.cast_signed();
    let sign = short(&mut raw)?;
    let scale = usize::from(short(&mut raw)?);
    let mut text = match sign {
        0x0000 => String::new(),
        0x4000 => String::from("-"),
        0xC000 => return Ok("NaN".into()),
        0xD000 => return Ok("Infinity".into()),
        0xF000 => return Ok("-Infinity".into()),
        _ => return Err("a sign that is none".into()),
    };
    let digits = (0..groups).map(|_| short(&mut raw)).collect::<Result<Vec<_>, _>>()?;
    let group = |place: i32| {
        let at = i32::from(weight) - place;
        usize::try_from(at).ok().and_then(|at| digits.get(at)).copied().unwrap_or(0)
    };
    let _ = write!(text, "{}", group(i32::from(weight).max(0)));
    for place in (0..i32::from(weight)).rev() {
        let _ = write!(text, "{:04}", group(place));
    }
    if scale > 0 {
        let fraction: String =
            (1..=scale.div_ceil(4)).map(|at| format!("{:04}", group(-(at as i32)))).collect();
        let _ = write!(text, ".{}", &fraction[..scale]);
    }
    Ok(text.into())
}

/// Dimensions, then the values, row by row.
fn array(member: &Type, mut raw: &[u8]) -> Decoded {
    let dimensions = usize::try_from(int(&mut raw)?)?;
    take(&mut raw, 8)?;
    let mut lengths = Vec::new();
    for _ in 0..dimensions {
        lengths.push(usize::try_from(int(&mut raw)?)?);
        take(&mut raw, 4)?;
    }
    if lengths.is_empty() {
        return Ok(Value::Array(Vec::new()));
    }
    nested(member, &lengths, &mut raw)
}

fn nested(member: &Type, lengths: &[usize], raw: &mut &[u8]) -> Decoded {
    let Some((length, inner)) = lengths.split_first() else {
        let size = int(raw)?;
        return match usize::try_from(size) {
            Err(_) => Ok(Value::Null),
            Ok(size) => decode(member, take(raw, size)?),
        };
    };
    (0..*length).map(|_| nested(member, inner, raw)).collect::<Result<_, _>>().map(Value::Array)
}
