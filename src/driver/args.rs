//! A call's arguments, the placeholders they fill, and the check before a slot is taken.

use serde_json::{Map, Value};

use crate::outcome::{Executed, Failure, FailureReason};

/// The arguments of one call, by name.
pub type Args = Map<String, Value>;

/// What an argument must be. Integers are numbers, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgType {
    /// A string, a number or a boolean.
    Scalar,
    /// A string.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// Anything, null, lists and objects included.
    Any,
}

impl ArgType {
    fn admits(self, value: &Value) -> bool {
        match self {
            ArgType::Scalar => value.is_string() || value.is_number() || value.is_boolean(),
            ArgType::String => value.is_string(),
            ArgType::Integer => value.is_i64() || value.is_u64(),
            ArgType::Number => value.is_number(),
            ArgType::Boolean => value.is_boolean(),
            ArgType::Any => true,
        }
    }

    fn rule(self) -> &'static str {
        match self {
            ArgType::Scalar => "a string, a number or a boolean",
            ArgType::String => "a string",
            ArgType::Integer => "a whole number",
            ArgType::Number => "a number",
            ArgType::Boolean => "true or false",
            ArgType::Any => "anything",
        }
    }
}

/// One argument a tool takes.
#[derive(Clone, Debug)]
pub struct ArgSpec {
    /// Its name, as between braces.
    pub name: String,
    /// What it must be.
    pub kind: ArgType,
    /// What stands in for it when the call leaves it out, or says null and its type knows none;
    /// `None`: it must be there. May be null whatever the type.
    pub default: Option<Value>,
}

impl ArgSpec {
    /// What the argument is when a call gives `given` for it.
    fn value<'v>(&'v self, given: Option<&'v Value>) -> Result<&'v Value, Failure> {
        let rule = self.kind.rule();
        match (given, &self.default) {
            (Some(value), _) if self.kind.admits(value) => Ok(value),
            (None | Some(Value::Null), Some(default)) => Ok(default),
            (None, None) => Err(invalid(format!("missing argument `{}` ({rule})", self.name))),
            (Some(value), _) => Err(invalid(format!(
                "argument `{}` must be {rule}, not {}",
                self.name,
                kind_of(value)
            ))),
        }
    }
}

/// All arguments a tool takes.
#[derive(Clone, Debug, Default)]
pub struct Signature {
    specs: Vec<ArgSpec>,
}

impl Signature {
    /// The signature of a tool whose templates are `templates`: every placeholder in them, each of
    /// type `kind` and required unless `declared` says otherwise. Declared arguments without a
    /// placeholder are taken as well.
    pub fn of<'t>(
        templates: impl IntoIterator<Item = &'t Template>,
        declared: Vec<ArgSpec>,
        kind: ArgType,
    ) -> Signature {
        let mut specs = declared;
        for name in templates.into_iter().flat_map(Template::names) {
            if !specs.iter().any(|spec| spec.name == name) {
                specs.push(ArgSpec { name: name.to_owned(), kind, default: None });
            }
        }
        Signature { specs }
    }

    /// The arguments, in order.
    pub fn specs(&self) -> &[ArgSpec] {
        &self.specs
    }

    /// Checks `args` and fills the defaults in.
    ///
    /// # Errors
    ///
    /// [`FailureReason::InvalidCall`] for the first argument that is missing, unknown or of the
    /// wrong type; it names the argument and the rule, and never repeats a value.
    pub fn check(&self, args: &Args) -> Result<Args, Failure> {
        if let Some(name) = args.keys().find(|name| !self.specs.iter().any(|s| s.name == **name)) {
            let known: Vec<_> = self.specs.iter().map(|spec| spec.name.as_str()).collect();
            return Err(invalid(format!(
                "unknown argument `{name}`; this tool takes {}",
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            )));
        }
        let mut full = Args::new();
        for spec in &self.specs {
            full.insert(spec.name.clone(), spec.value(args.get(&spec.name))?.clone());
        }
        Ok(full)
    }
}

/// Text with placeholders: `{name}` stands for an argument, `{{` and `}}` for braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Arg(String),
}

impl Template {
    /// Reads `text`.
    ///
    /// # Errors
    ///
    /// A brace that is not closed or opened, and a name that is not letters, digits, `_` or `-`.
    pub fn parse(text: &str) -> Result<Template, String> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                plain.push_str(brace);
                rest = after;
                continue;
            }
            let Some(end) = rest.find('}').filter(|_| brace == "{") else {
                return Err(format!(
                    "`{text}`: a `{brace}` stands alone; a placeholder is `{{name}}`, a brace is \
                     `{{{{` or `}}}}`"
                ));
            };
            let name = &rest[..end];
            if name.is_empty() || !name.chars().all(|c| c.is_alphanumeric() || "_-".contains(c)) {
                return Err(format!(
                    "`{text}`: `{{{name}}}` is no placeholder; a name is letters, digits, `_` or `-`"
                ));
            }
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(Part::Arg(name.to_owned()));
            rest = &rest[end + 1..];
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Template { parts })
    }

    /// The names of its placeholders, in order, repeats included.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Arg(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// The name, if it is one placeholder and nothing else: the argument then keeps its type.
    pub fn whole(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Arg(name)] => Some(name),
            _ => None,
        }
    }

    /// The text with `args` (checked before) in it, each put through `encode`.
    pub fn fill(&self, args: &Args, encode: impl Fn(&str) -> String) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Arg(name) => text.push_str(&encode(&plain_text(&args[name.as_str()]))),
            }
        }
        text
    }
}

/// A value as it stands in a URL or a command: strings without quotes.
fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a fraction",
        Value::Number(_) => "a whole number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The failure of a call whose arguments are no good.
pub fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(FailureReason::InvalidCall, message).executed(Executed::No)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn args(value: Value) -> Args {
        let Value::Object(args) = value else { panic!("{value} is no object") };
        args
    }

    #[test]
    fn templates_keep_text_and_name_arguments() {
        let template = Template::parse("/repos/{id}/{{x}}?q={q}").unwrap();
        assert_eq!(template.names().collect::<Vec<_>>(), ["id", "q"]);
        let filled = template.fill(&args(json!({"id": 7, "q": "a b"})), |t| t.replace(' ', "%20"));
        assert_eq!(filled, "/repos/7/{x}?q=a%20b");
        assert_eq!(Template::parse("{id}").unwrap().whole(), Some("id"));
        assert_eq!(template.whole(), None);
    }

    #[test]
    fn bad_templates_are_refused() {
        for text in ["{", "}", "{a", "a}", "{}", "{a b}", "{a{b}}"] {
            assert!(Template::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn arguments_are_checked_by_name_and_type() {
        let template = Template::parse("{q} {limit}").unwrap();
        let limit =
            ArgSpec { name: "limit".into(), kind: ArgType::Integer, default: Some(json!(10)) };
        let signature = Signature::of([&template], vec![limit], ArgType::Scalar);
        assert_eq!(signature.check(&args(json!({"q": "x"}))).unwrap()["limit"], 10);
        assert_eq!(signature.check(&args(json!({"q": "x", "limit": null}))).unwrap()["limit"], 10);
        for (given, named) in [
            (json!({}), "missing argument `q`"),
            (json!({"q": "x", "z": 1}), "unknown argument `z`"),
            (json!({"q": ["x"]}), "argument `q` must be"),
            (json!({"q": "x", "limit": "10"}), "argument `limit` must be a whole number"),
        ] {
            let failure = signature.check(&args(given)).unwrap_err();
            assert!(failure.message.contains(named), "{}", failure.message);
            assert_eq!(failure.executed, Executed::No);
        }
    }
}
