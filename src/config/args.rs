//! `args` of a tool: what its arguments must be, and their defaults.

use serde_json::{Map, Value};

use super::fault::{Faults, Place};
use super::raw::{Field, Node, Table, nearest};
use crate::driver::args::{ArgSpec, ArgType, Signature, Template};

const TYPES: [(&str, ArgType); 6] = [
    ("string", ArgType::String),
    ("integer", ArgType::Integer),
    ("number", ArgType::Number),
    ("boolean", ArgType::Boolean),
    ("scalar", ArgType::Scalar),
    ("any", ArgType::Any),
];

/// The arguments that one tool declares, and those its templates name.
#[derive(Debug, Default)]
pub(super) struct Declared {
    args: Vec<Field<ArgSpec>>,
    used: Vec<String>,
}

impl Declared {
    /// Reads `args` of `table`.
    pub(super) fn read(table: &mut Table<'_>, faults: &mut Faults<'_>) -> Declared {
        let entries = table.entries("args", faults).unwrap_or_default();
        let args =
            entries.into_iter().filter_map(|(name, node)| declare(name, node, faults)).collect();
        let used = Vec::new();
        Declared { args, used }
    }

    /// Notes the placeholders of `template`. The fault is in our words, which do not repeat it.
    pub(super) fn template(&mut self, template: &str, place: &Place, faults: &mut Faults<'_>) {
        match Template::parse(template) {
            Ok(template) => self.used.extend(template.names().map(str::to_owned)),
            Err(_) => {
                let fix = "a placeholder is `{name}`, a brace itself is `{{` or `}}`";
                faults.add(place, "has a brace that is no placeholder", fix);
            }
        }
    }

    /// Notes the placeholders of the strings in `value`.
    pub(super) fn templates(&mut self, value: &Value, place: &Place, faults: &mut Faults<'_>) {
        match value {
            Value::String(text) => self.template(text, place, faults),
            Value::Array(items) => {
                items.iter().for_each(|item| self.templates(item, place, faults));
            }
            Value::Object(fields) => {
                fields.values().for_each(|field| self.templates(field, place, faults));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// What is declared; what no template uses is a fault.
    pub(super) fn finish(self, faults: &mut Faults<'_>) -> Vec<ArgSpec> {
        let used: Vec<_> = self.used.iter().map(String::as_str).collect();
        for Field { value, place } in &self.args {
            if used.contains(&value.name.as_str()) {
                continue;
            }
            let fix = match nearest(&value.name, &used) {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("use it as `{{{}}}`, or leave it out", value.name),
            };
            faults.add(&place.clone().secret(), "is used nowhere in this tool", fix);
        }
        self.args.into_iter().map(|arg| arg.value).collect()
    }
}

fn declare(name: String, node: Node<'_>, faults: &mut Faults<'_>) -> Option<Field<ArgSpec>> {
    let place = node.place.clone();
    if node.is_string() {
        let kind = kind(&node.read::<String>(faults)?, faults)?;
        let default = None;
        return Some(Field { value: ArgSpec { name, kind, default }, place });
    }
    let mut table = node.table(faults)?;
    let kind = match table.take::<String>("type", faults) {
        Some(named) => kind(&named, faults)?,
        None => ArgType::Scalar,
    };
    let optional = table.take::<bool>("optional", faults);
    let default = table.take::<Value>("default", faults);
    table.finish(faults);
    if let Some(default) = &default {
        check_default(&name, kind, default, faults);
    }
    let default = match (default, optional) {
        (Some(default), _) => Some(default.value),
        (None, Some(optional)) => optional.value.then_some(Value::Null),
        (None, None) => None,
    };
    Some(Field { value: ArgSpec { name, kind, default }, place })
}

fn kind(named: &Field<String>, faults: &mut Faults<'_>) -> Option<ArgType> {
    let known = TYPES.iter().find(|(name, _)| *name == named.value);
    if known.is_none() {
        let names = TYPES.map(|(name, _)| name);
        let fix = match nearest(&named.value, &names) {
            Some(name) => format!("did you mean `{name}`?"),
            None => "leave it out for a string, a number or a boolean".to_owned(),
        };
        let rule = format!("must be one of {}", names.join(", "));
        faults.add(&named.place, rule, fix);
    }
    known.map(|(_, kind)| *kind)
}

/// A default must be what a call may give.
fn check_default(name: &str, kind: ArgType, default: &Field<Value>, faults: &mut Faults<'_>) {
    let alone = ArgSpec { name: name.to_owned(), kind, default: None };
    let signature = Signature::of([], vec![alone], kind);
    let given = Map::from_iter([(name.to_owned(), default.value.clone())]);
    if let Err(failure) = signature.check(&given) {
        let fix = "correct the default, or the type";
        faults.add(&default.place, failure.message, fix);
    }
}
