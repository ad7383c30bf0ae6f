//! `${NAME}`: values from the environment, in headers, urls and env values.

use std::ffi::OsString;

use super::fault::{Faults, Place};

/// Tells the value of a variable.
pub(super) type Lookup<'e> = &'e dyn Fn(&str) -> Option<OsString>;

/// What stands between the plain text of a value.
enum Piece<'t> {
    Text(&'t str),
    Variable(&'t str),
}

/// `text` with its variables replaced, each put through `quote`. A missing one is a fault that
/// names it and the key, and never shows a value.
pub(super) fn expand(
    text: &str,
    place: &Place,
    lookup: Lookup<'_>,
    quote: impl Fn(&str) -> String,
    faults: &mut Faults<'_>,
) -> Option<String> {
    let mut full = String::new();
    let mut whole = true;
    for piece in pieces(text) {
        match piece {
            Ok(Piece::Text(plain)) => full.push_str(plain),
            Ok(Piece::Variable(name)) => match value(name, lookup) {
                Ok(value) => full.push_str(&quote(&value)),
                Err((rule, fix)) => {
                    faults.add(&place.clone().secret(), rule, fix);
                    whole = false;
                }
            },
            Err(rule) => {
                let fix = "write `${NAME}`, or `$${` for the two characters themselves";
                faults.add(&place.clone().secret(), rule, fix);
                return None;
            }
        }
    }
    whole.then_some(full)
}

/// `text` without its variables, to look at what is left.
pub(super) fn without_variables(text: &str) -> String {
    let plain = pieces(text).filter_map(|piece| match piece {
        Ok(Piece::Text(plain)) => Some(plain),
        Ok(Piece::Variable(_)) | Err(_) => None,
    });
    plain.collect()
}

fn value(name: &str, lookup: Lookup<'_>) -> Result<String, (String, String)> {
    let Some(value) = lookup(name) else {
        let fix = format!("set it before the start, as in `export {name}=…`");
        return Err((format!("the environment has no variable `{name}`"), fix));
    };
    value.into_string().map_err(|_| {
        let rule = format!("the variable `{name}` is no UTF-8 text");
        (rule, "set it to UTF-8 text".to_owned())
    })
}

/// The pieces of `text`; after an error, which says what is wrong, there are no more.
fn pieces(text: &str) -> impl Iterator<Item = Result<Piece<'_>, String>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some(after) = rest.strip_prefix("$${") {
            rest = after;
            return Some(Ok(Piece::Text("${")));
        }
        if let Some(after) = rest.strip_prefix("${") {
            rest = "";
            let Some((name, after)) = after.split_once('}') else {
                return Some(Err("has a `${` without a `}`".to_owned()));
            };
            if !is_name(name) {
                return Some(Err(format!("`${{{name}}}` names no variable")));
            }
            rest = after;
            return Some(Ok(Piece::Variable(name)));
        }
        let next = rest.char_indices().skip(1).find(|(at, _)| rest[*at..].starts_with('$'));
        let (plain, after) = rest.split_at(next.map_or(rest.len(), |(at, _)| at));
        rest = after;
        Some(Ok(Piece::Text(plain)))
    })
}

fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.chars().all(plain) && !name.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<String, String> {
        let mut faults = Faults::new("f", text);
        let lookup = |name: &str| (name == "TOKEN").then(|| OsString::from("s3{c}ret"));
        let quote = |value: &str| value.replace('{', "{{").replace('}', "}}");
        let full = expand(text, &Place::file(), &lookup, quote, &mut faults);
        match faults.into_result() {
            Ok(()) => Ok(full.unwrap()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn variables_are_replaced_and_quoted() {
        for (text, full) in [
            ("", ""),
            ("plain", "plain"),
            ("Bearer ${TOKEN}", "Bearer s3{{c}}ret"),
            ("${TOKEN}${TOKEN}", "s3{{c}}rets3{{c}}ret"),
            ("$5 $$ $", "$5 $$ $"),
            ("$${TOKEN}", "${TOKEN}"),
            ("$$${TOKEN}", "$${TOKEN}"),
            ("ü${TOKEN}ü", "üs3{{c}}retü"),
        ] {
            assert_eq!(expanded(text).as_deref(), Ok(full), "{text}");
        }
        assert_eq!(without_variables("a ${TOKEN} $${b} c"), "a  ${b} c");
    }

    #[test]
    fn what_is_missing_or_broken_is_named() {
        for (text, named) in [
            ("a ${GONE} b", "no variable `GONE`"),
            ("${", "without a `}`"),
            ("${A", "without a `}`"),
            ("${}", "`${}` names no variable"),
            ("${A B}", "`${A B}` names no variable"),
            ("${1A}", "`${1A}` names no variable"),
        ] {
            let error = expanded(text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
        assert_eq!(expanded("${GONE} ${LOST}").unwrap_err().lines().count(), 2);
    }
}
