//! JSON to SQLite and back.

use rusqlite::types::{Value as Bound, ValueRef};
use serde_json::{Map, Value};

use crate::driver::args::invalid;
use crate::driver::sql::{float, hex, rows_affected};
use crate::outcome::{Failure, FailureReason};

/// `value` as SQLite stores it; `argument` names it in the error.
pub(super) fn bind(value: &Value, argument: impl Fn() -> String) -> Result<Bound, Failure> {
    Ok(match value {
        Value::Null => Bound::Null,
        Value::Bool(truth) => Bound::Integer(i64::from(*truth)),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Bound::Integer(whole),
            (None, Some(fraction)) if number.is_f64() => Bound::Real(fraction),
            _ => {
                return Err(invalid(format!(
                    "{} must fit a signed whole number of 64 bits",
                    argument()
                )));
            }
        },
        Value::String(text) => Bound::Text(text.clone()),
        Value::Array(_) | Value::Object(_) => Bound::Text(value.to_string()),
    })
}

/// One value of a row, copied out of SQLite and not decoded yet.
#[derive(Debug)]
pub(super) enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Text(Box<[u8]>),
    Blob(Box<[u8]>),
}

impl Cell {
    pub(super) fn of(value: ValueRef<'_>) -> Cell {
        match value {
            ValueRef::Null => Cell::Null,
            ValueRef::Integer(whole) => Cell::Integer(whole),
            ValueRef::Real(fraction) => Cell::Real(fraction),
            ValueRef::Text(text) => Cell::Text(text.into()),
            ValueRef::Blob(bytes) => Cell::Blob(bytes.into()),
        }
    }

    /// What it counts against the limit of bytes.
    pub(super) fn size(value: ValueRef<'_>) -> usize {
        match value {
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => 8,
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => 8 + bytes.len(),
        }
    }

    fn decode(self, column: &str) -> Result<Value, Failure> {
        Ok(match self {
            Cell::Null => Value::Null,
            Cell::Integer(whole) => whole.into(),
            Cell::Real(fraction) => float(fraction),
            Cell::Blob(bytes) => hex(&bytes),
            Cell::Text(bytes) => {
                String::from_utf8(bytes.into()).map(Value::String).map_err(|_| {
                    let message = format!("column `{column}` holds text that is not UTF-8");
                    Failure::new(FailureReason::Decode, message)
                })?
            }
        })
    }
}

/// What came back.
#[derive(Debug)]
pub(super) enum Answer {
    Rows(Rows),
    Affected(u64),
}

/// Rows, one after the other.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// Empty if there are no rows.
    pub(super) columns: Vec<String>,
    pub(super) cells: Vec<Cell>,
}

impl Answer {
    pub(super) fn decode(self) -> Result<Value, Failure> {
        let rows = match self {
            Answer::Affected(count) => return Ok(rows_affected(count)),
            Answer::Rows(rows) => rows,
        };
        let mut decoded = Vec::with_capacity(rows.cells.len() / rows.columns.len().max(1));
        let mut cells = rows.cells.into_iter().peekable();
        while cells.peek().is_some() {
            let mut row = Map::with_capacity(rows.columns.len());
            for (column, cell) in rows.columns.iter().zip(&mut cells) {
                row.insert(column.clone(), cell.decode(column)?);
            }
            decoded.push(Value::Object(row));
        }
        Ok(Value::Array(decoded))
    }
}
