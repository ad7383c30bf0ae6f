//! JSON bodies with placeholders.

use serde_json::{Map, Value};

use crate::driver::args::{Args, Template};

/// A JSON value whose strings may hold placeholders.
#[derive(Debug)]
pub(super) enum BodyTemplate {
    Plain(Value),
    /// A string that is one placeholder: the argument with its type.
    Whole(String),
    Text(Template),
    List(Vec<BodyTemplate>),
    Object(Vec<(String, BodyTemplate)>),
}

impl BodyTemplate {
    pub(super) fn parse(value: &Value) -> Result<BodyTemplate, String> {
        Ok(match value {
            Value::String(text) => {
                let template = Template::parse(text).map_err(|error| format!("`body`: {error}"))?;
                match template.whole() {
                    Some(name) => BodyTemplate::Whole(name.to_owned()),
                    None => BodyTemplate::Text(template),
                }
            }
            Value::Array(items) => {
                BodyTemplate::List(items.iter().map(BodyTemplate::parse).collect::<Result<_, _>>()?)
            }
            Value::Object(fields) => BodyTemplate::Object(
                (fields.iter())
                    .map(|(key, value)| Ok((key.clone(), BodyTemplate::parse(value)?)))
                    .collect::<Result<_, String>>()?,
            ),
            plain => BodyTemplate::Plain(plain.clone()),
        })
    }

    /// Adds what is text to `text`, and the names of whole arguments to `whole`.
    pub(super) fn templates<'t>(&'t self, text: &mut Vec<&'t Template>, whole: &mut Vec<&'t str>) {
        match self {
            BodyTemplate::Plain(_) => {}
            BodyTemplate::Whole(name) => whole.push(name),
            BodyTemplate::Text(template) => text.push(template),
            BodyTemplate::List(items) => {
                items.iter().for_each(|item| item.templates(text, whole));
            }
            BodyTemplate::Object(fields) => {
                fields.iter().for_each(|(_, field)| field.templates(text, whole));
            }
        }
    }

    /// The value with `args` (checked before) in it.
    pub(super) fn fill(&self, args: &Args) -> Value {
        match self {
            BodyTemplate::Plain(value) => value.clone(),
            BodyTemplate::Whole(name) => args[name.as_str()].clone(),
            BodyTemplate::Text(template) => Value::String(template.fill(args, str::to_owned)),
            BodyTemplate::List(items) => items.iter().map(|item| item.fill(args)).collect(),
            BodyTemplate::Object(fields) => Value::Object(
                fields
                    .iter()
                    .map(|(key, field)| (key.clone(), field.fill(args)))
                    .collect::<Map<_, _>>(),
            ),
        }
    }
}
