//! Arguments stay data: none is put into the text of a script.

use std::path::Path;

use crate::driver::args::{Args, Template};

/// Interpreters, and the options that take a script as their value; for a shell also among others,
/// as in `-lc`.
const INTERPRETERS: [(&str, char); 12] = [
    ("sh", 'c'),
    ("ash", 'c'),
    ("bash", 'c'),
    ("dash", 'c'),
    ("fish", 'c'),
    ("ksh", 'c'),
    ("zsh", 'c'),
    ("python", 'c'),
    ("python3", 'c'),
    ("node", 'e'),
    ("perl", 'e'),
    ("ruby", 'e'),
];

/// Refuses an argument inside a script: what it holds would be run. `program` may itself run an
/// interpreter, as `env` does.
pub(super) fn check(program: &str, argv: &[Template]) -> Result<(), String> {
    let mut takes = option_of(program);
    let mut script = false;
    for element in argv {
        if let (true, Some(name)) = (script, element.names().next()) {
            return Err(format!(
                "command: `{{{name}}}` is part of a script, which would run whatever it holds; give \
                 it to the script as an argument, as in [\"sh\", \"-c\", \"ls \\\"$1\\\"\", \
                 \"sh\", \"{{{name}}}\"]"
            ));
        }
        if element.names().next().is_some() {
            script = false;
            continue;
        }
        let text = element.fill(&Args::new(), str::to_owned);
        script = takes.is_some_and(|option| {
            let letters = text.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
            letters.is_some_and(|letters| letters.ends_with(option))
        });
        takes = option_of(&text).or(takes);
    }
    Ok(())
}

/// The option that takes a script, if `program` is an interpreter.
fn option_of(program: &str) -> Option<char> {
    let name = Path::new(program).file_name()?.to_str()?;
    INTERPRETERS.iter().find(|(known, _)| *known == name).map(|(_, option)| *option)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(argv: &[&str]) -> bool {
        let parsed = argv[1..].iter().map(|text| Template::parse(text).unwrap());
        check(argv[0], &parsed.collect::<Vec<_>>()).is_err()
    }

    #[test]
    fn an_argument_inside_a_script_is_refused() {
        assert!(refused(&["sh", "-c", "ls {dir}"]));
        assert!(refused(&["/bin/bash", "-lc", "ls \"{dir}\""]));
        assert!(refused(&["env", "sh", "-c", "{script}"]));
        assert!(refused(&["python3", "-c", "print({q})"]));
        assert!(refused(&["perl", "-e", "{q}"]));
    }

    #[test]
    fn an_argument_beside_it_is_not() {
        assert!(!refused(&["sh", "-c", "ls \"$1\"", "sh", "{dir}"]));
        assert!(!refused(&["sh", "run.sh", "{dir}"]));
        assert!(!refused(&["grep", "-c", "{word}"]));
        assert!(!refused(&["git", "-c", "color.ui={when}", "log"]));
        assert!(!refused(&["python3", "tool.py", "--level", "{level}"]));
    }
}
