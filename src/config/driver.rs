//! What stands behind a partition, whatever its kind: read from the file, checked, opened.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::env::{self, Lookup};
use super::fault::{Faults, Place};
use super::raw::{Field, Table};
use crate::driver::{Sizing, Tool};

/// A partition's driver with its tools, as the file has them. Opening it touches no backend.
pub(super) trait Driver: fmt::Debug + Send + Sync {
    /// `http`, `sqlite`, `postgres` or `process`.
    fn kind(&self) -> &'static str;
    /// Reads the keys of one of its tools.
    fn read_tool(
        &mut self,
        name: &Arc<str>,
        table: &mut Table<'_>,
        context: &Context<'_>,
        faults: &mut Faults<'_>,
    );
    /// Opens it and makes its tools.
    fn open(&self, sizing: &Sizing, opened: &mut Opened);
    /// The same again.
    fn copy(&self) -> Box<dyn Driver>;
    /// What is allowed and probably not meant.
    fn advice(&self) -> Vec<String>;
}

impl Clone for Box<dyn Driver> {
    fn clone(&self) -> Self {
        self.copy()
    }
}

/// What came of opening a driver.
#[derive(Default)]
pub(super) struct Opened {
    pub(super) tools: Vec<(Arc<str>, Arc<dyn Tool>)>,
    pub(super) complaints: Vec<Complaint>,
}

/// What a driver says is wrong.
#[derive(Debug)]
pub(super) struct Complaint {
    /// Of which tool; of the driver itself, if none.
    pub(super) tool: Option<Arc<str>>,
    pub(super) key: String,
    pub(super) rule: String,
    pub(super) fix: String,
}

impl Opened {
    pub(super) fn add(&mut self, name: &Arc<str>, tool: Result<Arc<dyn Tool>, impl fmt::Display>) {
        match tool {
            Ok(tool) => self.tools.push((Arc::clone(name), tool)),
            Err(error) => self.complain(Some(name), &error),
        }
    }

    /// Takes a driver's error apart: `key: rule; fix`, the key as it is or in backticks.
    pub(super) fn complain(&mut self, tool: Option<&Arc<str>>, error: &impl fmt::Display) {
        let text = error.to_string();
        let (key, rule) = match text.split_once(": ") {
            Some((key, rule)) if is_key(key.trim_matches('`')) => (key.trim_matches('`'), rule),
            _ => ("", text.as_str()),
        };
        let (rule, fix) = rule.split_once("; ").unwrap_or((rule, ""));
        self.complaints.push(Complaint {
            tool: tool.cloned(),
            key: key.to_owned(),
            rule: rule.to_owned(),
            fix: fix.to_owned(),
        });
    }
}

fn is_key(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase()) && !text.contains(' ')
}

/// What the values of a file are read with.
pub(super) struct Context<'c> {
    /// The folder that relative paths start from.
    pub(super) dir: &'c Path,
    pub(super) lookup: Lookup<'c>,
}

impl Context<'_> {
    /// The value with its variables replaced.
    pub(super) fn expand(&self, field: &Field<String>, faults: &mut Faults<'_>) -> Option<String> {
        self.expand_as(field, str::to_owned, faults)
    }

    /// The same for a template: braces in a variable's value stand for themselves.
    pub(super) fn expand_template(
        &self,
        field: &Field<String>,
        faults: &mut Faults<'_>,
    ) -> Option<String> {
        let quote = |value: &str| value.replace('{', "{{").replace('}', "}}");
        self.expand_as(field, quote, faults)
    }

    fn expand_as(
        &self,
        field: &Field<String>,
        quote: impl Fn(&str) -> String,
        faults: &mut Faults<'_>,
    ) -> Option<String> {
        env::expand(&field.value, &field.place, self.lookup, quote, faults)
    }

    /// `path` from the file's folder, as text.
    pub(super) fn path(
        &self,
        path: &str,
        place: &Place,
        faults: &mut Faults<'_>,
    ) -> Option<String> {
        let full = self.dir.join(path).into_os_string();
        full.into_string()
            .map_err(|_: OsString| {
                let rule = "is relative to a folder whose name is no UTF-8 text";
                faults.add(place, rule, "give the whole path, or rename the folder");
            })
            .ok()
    }
}

/// The kinds there are: their table, and the keys that tell their tools.
const KINDS: [(&str, &[&str]); 3] = [
    ("http", &["method", "path", "query", "headers", "body", "accept", "idempotency_header"]),
    ("sql", &["sql", "params", "max_rows", "max_bytes", "idempotency_param"]),
    ("process", &["command", "stdin", "ok_exit_codes", "idempotency_env"]),
];

/// Whether a partition's table has a driver's in it.
pub(super) fn is_wanted(table: &Table<'_>) -> bool {
    KINDS.iter().any(|(kind, _)| table.has(kind))
}

/// Reads the driver's table of a partition, if there is one.
pub(super) fn read<'t>(
    table: &mut Table<'t>,
    context: &Context<'_>,
    faults: &mut Faults<'_>,
) -> Option<(Box<dyn Driver>, Table<'t>)> {
    let mut found: Option<(&str, Table<'t>)> = None;
    for (kind, _) in KINDS {
        let Some(driver) = table.table(kind, faults) else {
            continue;
        };
        match &found {
            Some((first, _)) => {
                let rule =
                    format!("is a second driver beside `{first}`: a partition is one backend");
                faults.add(&driver.place, rule, "make it a partition of its own");
            }
            None => found = Some((kind, driver)),
        }
    }
    let (kind, mut driver) = found?;
    let plan: Option<Box<dyn Driver>> = match kind {
        #[cfg(feature = "http")]
        "http" => super::http::read(&mut driver, context, faults),
        #[cfg(any(feature = "postgres", feature = "sqlite"))]
        "sql" => super::sql::read(&mut driver, context, faults),
        #[cfg(all(feature = "process", unix))]
        "process" => super::process::read(&mut driver, context, faults),
        _ => {
            let rule = "has no driver in this build";
            let fix = format!("build with the feature for it, such as `{kind}`");
            faults.add(&driver.place, rule, fix);
            driver.skip();
            None
        }
    };
    driver.finish(faults);
    Some((plan?, driver))
}

/// Takes out of a tool's table the keys that belong to another kind than `kind`, with a fault that
/// says so.
pub(super) fn foreign_keys(kind: &str, table: &mut Table<'_>, faults: &mut Faults<'_>) {
    let family = match kind {
        "sqlite" | "postgres" => "sql",
        other => other,
    };
    for (other, keys) in KINDS.iter().filter(|(other, _)| *other != family) {
        for key in *keys {
            if let Some(node) = table.remove(key) {
                let rule = format!("belongs to {other} tools, and this tool's partition is {kind}");
                let fix = format!("remove it, or name a partition with a {other} driver");
                faults.add(&node.place.secret(), rule, fix);
            }
        }
    }
}
