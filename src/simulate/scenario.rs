//! The inputs of a simulation, and what each may be.

use std::error::Error;
use std::fmt;
use std::ops::RangeInclusive;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::outcome::Side;
use crate::admission::Dispatch;

/// A demand of two tenants, and the partition that meets it. Valid by construction: it comes from
/// JSON, with every field given and none besides.
///
/// | field | meaning | range |
/// | --- | --- | --- |
/// | `slots` | identical slots, numbered from 0 | 1 to 64 |
/// | `reserved_a` | slots 0 to `reserved_a` - 1 are A's home, the others B's | 0 to `slots` - 1 |
/// | `arrivals_a` | requests of A at each tick from 0 to 11 | 0 to 64 |
/// | `every_b` | one request of B at ticks 0, n, 2n … up to 11 | 1 to 12 |
/// | `hold_a`, `hold_b` | ticks a request holds its slot | 1 to 20 |
/// | `stall_a` | A's requests hold their slots until they time out | |
/// | `timeout_a`, `timeout_b` | ticks from arrival to the deadline | 1 to 20 |
/// | `policy` | `fifo`, `round_robin`, `strict` or `borrow` | |
/// | `max_waiting` | requests of one tenant that may wait | 0 to 64 |
/// | `target_percent` | completion rate that passes the gate | 0 to 100 |
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Scenario {
    pub(super) slots: u32,
    pub(super) reserved_a: u32,
    pub(super) arrivals_a: u32,
    pub(super) every_b: u32,
    pub(super) hold_a: u32,
    pub(super) hold_b: u32,
    pub(super) stall_a: bool,
    pub(super) timeout_a: u32,
    pub(super) timeout_b: u32,
    #[serde(serialize_with = "dispatch_name")]
    pub(super) policy: Dispatch,
    pub(super) max_waiting: u32,
    pub(super) target_percent: u32,
}

const FIELDS: [&str; 12] = [
    "slots",
    "reserved_a",
    "arrivals_a",
    "every_b",
    "hold_a",
    "hold_b",
    "stall_a",
    "timeout_a",
    "timeout_b",
    "policy",
    "max_waiting",
    "target_percent",
];

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    ///
    /// The text is not JSON, or a field is unknown, missing, given twice or out of its range.
    pub fn from_json(text: &str) -> Result<Scenario, InputError> {
        Given::parse(text)?.try_into()
    }

    /// Its fields as JSON, in order.
    pub fn fields(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(fields)) => fields,
            _ => unreachable!("a scenario is an object of numbers and words"),
        }
    }

    /// Ticks that a request of `side` holds its slot; `None`: until it times out.
    pub(super) fn hold(&self, side: Side) -> Option<u32> {
        match side {
            Side::A => (!self.stall_a).then_some(self.hold_a),
            Side::B => Some(self.hold_b),
        }
    }

    /// Ticks from the arrival of a request of `side` to its deadline.
    pub(super) fn timeout(&self, side: Side) -> u32 {
        match side {
            Side::A => self.timeout_a,
            Side::B => self.timeout_b,
        }
    }
}

impl TryFrom<Given> for Scenario {
    type Error = InputError;

    fn try_from(given: Given) -> Result<Scenario, InputError> {
        let fields = given.into_fields()?;
        let slots = number(&fields, "slots", 1..=64)?;
        Ok(Scenario {
            slots,
            reserved_a: number(&fields, "reserved_a", 0..=slots - 1)
                .map_err(|error| error.because("below `slots`, so that B keeps a home slot"))?,
            arrivals_a: number(&fields, "arrivals_a", 0..=64)?,
            every_b: number(&fields, "every_b", 1..=12)?,
            hold_a: number(&fields, "hold_a", 1..=20)?,
            hold_b: number(&fields, "hold_b", 1..=20)?,
            stall_a: field(&fields, "stall_a", Value::as_bool, || "true or false".to_owned())?,
            timeout_a: number(&fields, "timeout_a", 1..=20)?,
            timeout_b: number(&fields, "timeout_b", 1..=20)?,
            policy: field(&fields, "policy", dispatch, dispatch_names)?,
            max_waiting: number(&fields, "max_waiting", 0..=64)?,
            target_percent: number(&fields, "target_percent", 0..=100)?,
        })
    }
}

fn number(
    fields: &Map<String, Value>,
    name: &str,
    range: RangeInclusive<u32>,
) -> Result<u32, InputError> {
    let in_range = |value: &Value| {
        let number = u32::try_from(value.as_u64()?).ok()?;
        range.contains(&number).then_some(number)
    };
    field(fields, name, in_range, || {
        format!("a whole number from {} to {}", range.start(), range.end())
    })
}

fn field<T>(
    fields: &Map<String, Value>,
    name: &str,
    read: impl FnOnce(&Value) -> Option<T>,
    range: impl FnOnce() -> String,
) -> Result<T, InputError> {
    let Some(value) = fields.get(name) else {
        let rule = format!("is missing; it must be {}", range());
        return Err(InputError::new(name, Value::Null, rule));
    };
    read(value).ok_or_else(|| InputError::new(name, value.clone(), format!("must be {}", range())))
}

fn dispatch(value: &Value) -> Option<Dispatch> {
    dispatch_by_name(value.as_str()?)
}

/// The rule that files call `name`.
pub(super) fn dispatch_by_name(name: &str) -> Option<Dispatch> {
    Dispatch::ALL.into_iter().find(|dispatch| dispatch.as_str() == name)
}

pub(super) fn dispatch_names() -> String {
    let names = Dispatch::ALL.map(Dispatch::as_str);
    format!("one of {}", names.join(", "))
}

fn dispatch_name<S: Serializer>(dispatch: &Dispatch, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(dispatch.as_str())
}

/// What stands in the way of a scenario or a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InputError {
    /// The field; `scenario` or `plan` for the whole of it.
    pub field: String,
    /// What was given; null if nothing was. A long text is cut.
    pub value: Value,
    /// What is allowed.
    pub rule: String,
}

impl InputError {
    /// The longest text that an error repeats, in characters.
    const SHOWN: usize = 80;

    pub(crate) fn new(field: &str, value: Value, rule: String) -> InputError {
        let value = match value {
            short @ (Value::Null | Value::Bool(_) | Value::Number(_)) => short,
            Value::String(text) => cut(&text).into(),
            long => cut(&long.to_string()).into(),
        };
        InputError { field: cut(field), value, rule }
    }

    /// A text that is no JSON.
    pub(crate) fn not_json(text: &str, error: &serde_json::Error) -> InputError {
        InputError::new("scenario", text.trim().into(), format!("must be JSON: {error}"))
    }

    fn because(mut self, reason: &str) -> InputError {
        self.rule = format!("{}: {reason}", self.rule);
        self
    }
}

/// `text`, or as much of it as is worth repeating.
fn cut(text: &str) -> String {
    match text.char_indices().nth(InputError::SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::Null => write!(f, "{}: {}", self.field, self.rule),
            value => write!(f, "{} = {value}: {}", self.field, self.rule),
        }
    }
}

impl Error for InputError {}

/// A JSON value that is meant to be a scenario. Unlike a map, it knows which field came twice.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Given {
    Object(Object),
    Other(Value),
}

impl Given {
    pub(crate) fn parse(text: &str) -> Result<Given, InputError> {
        serde_json::from_str(text).map_err(|error| InputError::not_json(text, &error))
    }

    fn into_fields(self) -> Result<Map<String, Value>, InputError> {
        let given = match self {
            Given::Object(Object(given)) => given,
            Given::Other(value) => {
                let rule = "must be a JSON object".to_owned();
                return Err(InputError::new("scenario", value, rule));
            }
        };
        let mut fields = Map::new();
        for (name, value) in given {
            if !FIELDS.contains(&name.as_str()) {
                let rule = format!("is none of the fields: {}", FIELDS.join(", "));
                return Err(InputError::new(&name, value, rule));
            }
            if fields.contains_key(&name) {
                let rule = "must be given once".to_owned();
                return Err(InputError::new(&name, value, rule));
            }
            fields.insert(name, value);
        }
        Ok(fields)
    }
}

/// The fields of an object, as often and in the order in which they were given.
#[derive(Debug)]
pub(crate) struct Object(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Object, D::Error> {
        from.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Object(fields))
    }
}
