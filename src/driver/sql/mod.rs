//! What the SQL drivers share: a statement with its parameters, checked before anything is opened.
//!
//! Placeholders are `$1`, `$2`, … on every engine. Values are only ever bound, never put into the
//! text. A tool runs one statement, in a transaction of its own.

mod pool;
mod scan;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use super::args::{ArgSpec, ArgType, Args, Signature, Template};
use crate::call::Run;
use crate::outcome::{Executed, Failure, FailureReason};

pub(crate) use pool::Pool;
pub(crate) use scan::Dialect;

/// How many rows a call may bring back unless [`Query::max_rows`] says otherwise.
pub const MAX_ROWS: usize = 10_000;
/// How many bytes a call may bring back unless [`Query::max_bytes`] says otherwise: 8 MiB.
pub const MAX_BYTES: usize = 8 << 20;

/// A statement and what is bound to its placeholders.
///
/// The result is a list of rows, each an object with the columns in order; a statement that gives
/// no rows, such as an `update` without `returning`, results in `{"rows_affected": n}`.
///
/// ```
/// use watertight::driver::sql::Query;
///
/// let query = Query::new("select id, title from tickets where id = $1 and title like $2")
///     .param("{id}")
///     .param("%{word}%");
/// # let _ = query;
/// ```
#[derive(Clone, Debug)]
pub struct Query {
    sql: String,
    params: Vec<String>,
    idempotency_param: Option<usize>,
    args: Vec<ArgSpec>,
    max_rows: usize,
    max_bytes: usize,
}

impl Query {
    /// The statement `sql`, without parameters.
    pub fn new(sql: impl Into<String>) -> Query {
        Query {
            sql: sql.into(),
            params: Vec::new(),
            idempotency_param: None,
            args: Vec::new(),
            max_rows: MAX_ROWS,
            max_bytes: MAX_BYTES,
        }
    }

    /// Binds the next placeholder: the first call is `$1`. A template that is one placeholder and
    /// nothing else, `{id}`, binds the argument as it is: null, a boolean, a number, a string, a
    /// list or an object. Any other template binds the text that it makes.
    #[must_use]
    pub fn param(mut self, template: impl Into<String>) -> Query {
        self.params.push(template.into());
        self
    }

    /// Binds the call's idempotency key, as text, to the placeholder `$number`: the caller's own, or
    /// one that is minted for the call. It is the placeholder after those of the params, so that no
    /// argument can stand in for it. Defaults to not at all.
    ///
    /// ```
    /// use watertight::driver::sql::Query;
    ///
    /// let order = "insert into orders (item, key) values ($1, $2) on conflict (key) do nothing";
    /// let query = Query::new(order).param("{item}").idempotency_param(2);
    /// # let _ = query;
    /// ```
    #[must_use]
    pub fn idempotency_param(mut self, number: usize) -> Query {
        self.idempotency_param = Some(number);
        self
    }

    /// Declares an argument: its type, so that a wrong one is refused before a slot is taken, and
    /// its default. An argument that is not declared must be there and may be anything.
    #[must_use]
    pub fn arg(mut self, spec: ArgSpec) -> Query {
        self.args.push(spec);
        self
    }

    /// The most rows that a call may bring back; with one more it fails as `too_large`. Defaults to
    /// [`MAX_ROWS`]; 0 allows none.
    #[must_use]
    pub fn max_rows(mut self, rows: usize) -> Query {
        self.max_rows = rows;
        self
    }

    /// The most bytes that a call may bring back, as the backend sends them; with more it fails as
    /// `too_large`. Defaults to [`MAX_BYTES`]. One row at a time is read whole before it counts.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Query {
        self.max_bytes = bytes;
        self
    }

    /// Checks it and reads its templates.
    pub(crate) fn plan(self, dialect: Dialect) -> Result<Plan, BuildError> {
        let scan = scan::scan(&self.sql, dialect).map_err(|rule| BuildError::new("sql", rule))?;
        if let Some(rule) = refused(&scan.verb) {
            return Err(BuildError::new("sql", format!("`{}` {rule}", scan.verb)));
        }
        self.check_placeholders(&scan.placeholders)?;
        let params: Result<Vec<_>, _> = self.params.iter().map(|p| Template::parse(p)).collect();
        let params = params.map_err(|rule| BuildError::new("params", rule))?;
        let mut declared = self.args;
        // Text can be made of scalars only; null, lists and objects are bound as they are.
        for name in params.iter().filter(|p| p.whole().is_none()).flat_map(Template::names) {
            if !declared.iter().any(|spec| spec.name == name) {
                declared.push(ArgSpec { name: name.into(), kind: ArgType::Scalar, default: None });
            }
        }
        let signature = Signature::of(&params, declared, ArgType::Any);
        Ok(Plan {
            sql: self.sql.into(),
            params,
            takes_key: self.idempotency_param.is_some(),
            signature,
            max_rows: self.max_rows,
            max_bytes: self.max_bytes,
        })
    }

    /// Every placeholder stands for a param or the key, and each of these is used.
    fn check_placeholders(&self, used: &BTreeSet<usize>) -> Result<(), BuildError> {
        let params = self.params.len();
        if let Some(number) = (1..=params).find(|number| !used.contains(number)) {
            let rule = format!(
                "there are {params} params and no `${number}` in the statement: use it or leave the \
                 param out"
            );
            return Err(BuildError::new("params", rule));
        }
        let next = params + 1;
        if let Some(number) = self.idempotency_param.filter(|number| *number != next) {
            let rule =
                format!("`${number}` is not the placeholder after {params} params; write {next}");
            return Err(BuildError::new("idempotency_param", rule));
        }
        if self.idempotency_param.is_some() && !used.contains(&next) {
            let rule = format!("there is no `${next}` in the statement; use it, or leave this out");
            return Err(BuildError::new("idempotency_param", rule));
        }
        let bound = params + usize::from(self.idempotency_param.is_some());
        if let Some(number) = used.iter().find(|number| **number > bound) {
            let rule = format!(
                "the statement has `${number}` and there are {params} params: add what `${number}` \
                 stands for"
            );
            return Err(BuildError::new("params", rule));
        }
        Ok(())
    }
}

/// Statements that outlive their call or need a conversation, and why they are no tool.
fn refused(verb: &str) -> Option<&'static str> {
    match verb {
        "" => Some("is empty: there is no statement"),
        "BEGIN" | "START" | "COMMIT" | "END" | "ROLLBACK" | "ABORT" | "SAVEPOINT" | "RELEASE" => {
            Some("is refused: every call is a transaction of its own")
        }
        "SET" | "RESET" | "DISCARD" | "PREPARE" | "DEALLOCATE" | "DECLARE" | "FETCH" | "CLOSE"
        | "ATTACH" | "DETACH" => Some("is refused: it would change the connection for other calls"),
        "LISTEN" | "UNLISTEN" | "COPY" => Some("is refused: only statements that answer with rows"),
        _ => None,
    }
}

/// A query that has been checked.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) sql: Arc<str>,
    params: Vec<Template>,
    /// Whether the call's idempotency key is bound behind the params.
    takes_key: bool,
    signature: Signature,
    max_rows: usize,
    max_bytes: usize,
}

impl Plan {
    /// The values of `$1`, `$2`, … in order.
    pub(crate) fn bind(&self, args: &Args) -> Result<Vec<Value>, Failure> {
        let args = self.signature.check(args)?;
        let bound = self.params.iter().map(|param| match param.whole() {
            Some(name) => args[name].clone(),
            None => Value::String(param.fill(&args, str::to_owned)),
        });
        Ok(bound.collect())
    }

    /// `values` with the idempotency key of `run` behind them, if the statement has a place for it.
    pub(crate) fn with_key<'v, V>(&self, values: &'v [V], run: &Run) -> Cow<'v, [V]>
    where
        V: Clone + From<String>,
    {
        if !self.takes_key {
            return Cow::Borrowed(values);
        }
        let key = V::from(run.idempotency_key().to_owned());
        values.iter().cloned().chain([key]).collect()
    }

    /// Names what is behind placeholder `index` (from 0), for messages.
    pub(crate) fn argument(&self, index: usize) -> String {
        let Some(param) = self.params.get(index) else {
            return "the idempotency key".to_owned();
        };
        match param.names().next() {
            Some(name) => format!("argument `{name}`"),
            None => format!("parameter ${}", index + 1),
        }
    }

    /// What a call may still bring back.
    pub(crate) fn allowance(&self) -> Allowance {
        Allowance {
            rows: self.max_rows,
            bytes: self.max_bytes,
            of: (self.max_rows, self.max_bytes),
        }
    }
}

/// Counts down what a call may bring back.
#[derive(Debug)]
pub(crate) struct Allowance {
    rows: usize,
    bytes: usize,
    of: (usize, usize),
}

impl Allowance {
    /// Takes one row of `bytes` off.
    pub(crate) fn take_row(&mut self, bytes: usize) -> Result<(), Failure> {
        let (rows_max, bytes_max) = self.of;
        let Some(rows) = self.rows.checked_sub(1) else {
            return Err(too_large(&format!("more than {rows_max} rows")));
        };
        let Some(bytes) = self.bytes.checked_sub(bytes) else {
            return Err(too_large(&format!("more than {bytes_max} bytes")));
        };
        (self.rows, self.bytes) = (rows, bytes);
        Ok(())
    }
}

fn too_large(what: &str) -> Failure {
    Failure::new(
        FailureReason::TooLarge,
        format!("the result has {what}; ask for less, with a narrower condition or a `limit`"),
    )
}

/// The result of a statement that gives no rows.
pub(crate) fn rows_affected(count: u64) -> Value {
    json!({ "rows_affected": count })
}

/// The failure of a call that was ended; `executed` is how far it had come.
pub(crate) fn ended(reason: FailureReason, executed: Executed) -> Failure {
    let message = match reason {
        FailureReason::Cancelled => "the query was cancelled",
        _ => "the query was ended at its run limit",
    };
    let begun = executed != Executed::No;
    Failure::new(reason, message).executed(if begun { Executed::Unknown } else { Executed::No })
}

/// Columns become the keys of an object, so each needs a name of its own.
pub(crate) fn distinct<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<(), Failure> {
    let mut seen = std::collections::HashSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(Failure::new(
                FailureReason::QueryFailed,
                format!("two columns are called `{name}`: give one another name with `as`"),
            )
            .executed(Executed::No));
        }
    }
    Ok(())
}

/// A floating-point number; what JSON has no number for is the string that PostgreSQL writes.
pub(crate) fn float(number: f64) -> Value {
    match serde_json::Number::from_f64(number) {
        Some(number) => Value::Number(number),
        None if number.is_nan() => "NaN".into(),
        None if number > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}

/// Bytes as `\x` and hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> Value {
    use fmt::Write as _;
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("\\x");
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    Value::String(text)
}

/// What is wrong with a database or a query, found when it is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    key: &'static str,
    rule: String,
}

impl BuildError {
    pub(crate) fn new(key: &'static str, rule: impl Into<String>) -> BuildError {
        BuildError { key, rule: rule.into() }
    }

    /// The setting that is wrong: `url`, `sql`, `params`, `connections`, ….
    pub fn key(&self) -> &'static str {
        self.key
    }

    /// What is wrong with it, and how to put it right; never a password.
    pub fn rule(&self) -> &str {
        &self.rule
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.key, self.rule)
    }
}

impl std::error::Error for BuildError {}
