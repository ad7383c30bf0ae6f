//! Which variables a tool sees: an allow-list, so that the harness's secrets stay with it.

use std::ffi::{OsStr, OsString};
use std::fmt;

/// What every tool sees if the harness has it: where programs, homes and temporary files are,
/// language and terminal, and what cargo and rustup need to find their tools.
const ALWAYS: [&str; 10] = [
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LC_*",
    "TMPDIR",
    "TERM",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
];

/// The names let through, and the values that are set.
#[derive(Clone, Default)]
pub(super) struct Environment {
    allowed: Vec<String>,
    fixed: Vec<(String, String)>,
}

impl Environment {
    pub(super) fn allow<S: Into<String>>(&mut self, names: impl IntoIterator<Item = S>) {
        self.allowed.extend(names.into_iter().map(Into::into));
    }

    /// Sets a variable; the last value counts.
    pub(super) fn fix(&mut self, name: String, value: String) {
        self.fixed.retain(|(known, _)| *known != name);
        self.fixed.push((name, value));
    }

    /// This environment on top of `partition`'s.
    pub(super) fn over(self, partition: &Environment) -> Environment {
        let mut both = partition.clone();
        both.allow(self.allowed);
        self.fixed.into_iter().for_each(|(name, value)| both.fix(name, value));
        both
    }

    /// # Errors
    ///
    /// A name that no variable can have, or a pattern that lets everything through.
    pub(super) fn check(&self) -> Result<(), String> {
        for name in &self.allowed {
            let stem = name.strip_suffix('*').unwrap_or(name);
            if stem.is_empty() || stem.contains(['*', '=', '\0']) {
                return Err(format!(
                    "env_allow: `{name}` is no name of a variable; give a name, or its beginning \
                     and a `*`"
                ));
            }
        }
        for (name, value) in &self.fixed {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(format!("env: `{name}` is no name of a variable"));
            }
            if value.contains('\0') {
                return Err(format!("env: the value of `{name}` must not hold a NUL"));
            }
        }
        Ok(())
    }

    /// Checks the variable that a call's idempotency key is given in.
    ///
    /// # Errors
    ///
    /// A name that no variable can have, or that has a value already.
    pub(super) fn check_key(&self, name: &str) -> Result<(), String> {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(format!(
                "idempotency_env: `{name}` is no name of a variable; write it as in \
                 \"IDEMPOTENCY_KEY\""
            ));
        }
        if self.fixed.iter().any(|(fixed, _)| fixed == name) {
            return Err(format!(
                "idempotency_env: `{name}` is set by `env`; leave one of them out"
            ));
        }
        if Environment::default().admits(OsStr::new(name)) {
            return Err(format!(
                "idempotency_env: `{name}` is what programs find their way by; take a name of its \
                 own, such as \"IDEMPOTENCY_KEY\""
            ));
        }
        Ok(())
    }

    /// The variables a tool sees, taken from `ours`; a fixed value comes before one let through.
    pub(super) fn of(
        &self,
        ours: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Vec<(OsString, OsString)> {
        let mut seen: Vec<_> = ours
            .into_iter()
            .filter(|(name, _)| self.admits(name))
            .filter(|(name, _)| !self.fixed.iter().any(|(fixed, _)| name == OsStr::new(fixed)))
            .collect();
        seen.extend(self.fixed.iter().map(|(name, value)| (name.into(), value.into())));
        seen
    }

    fn admits(&self, name: &OsStr) -> bool {
        let Some(name) = name.to_str() else {
            return false;
        };
        let patterns = ALWAYS.into_iter().chain(self.allowed.iter().map(String::as_str));
        patterns.into_iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == pattern,
        })
    }
}

/// Names only: a value may be a credential.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fixed: Vec<_> = self.fixed.iter().map(|(name, _)| name).collect();
        f.debug_struct("Environment")
            .field("allowed", &self.allowed)
            .field("fixed", &fixed)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(environment: &Environment, ours: &[(&str, &str)]) -> Vec<String> {
        let ours = ours.iter().map(|(name, value)| (name.into(), value.into()));
        let seen = environment.of(ours.collect::<Vec<_>>());
        seen.iter().map(|(n, v)| format!("{}={}", n.display(), v.display())).collect()
    }

    #[test]
    fn only_what_is_listed_gets_through() {
        let ours = [("PATH", "/bin"), ("LC_ALL", "C"), ("API_TOKEN", "s3cret"), ("CI_JOB", "7")];
        assert_eq!(names(&Environment::default(), &ours), ["PATH=/bin", "LC_ALL=C"]);
        let wider = Environment {
            allowed: vec!["CI_*".into()],
            fixed: vec![("LC_ALL".into(), "de_DE".into()), ("MODE".into(), "x".into())],
        };
        assert_eq!(names(&wider, &ours), ["PATH=/bin", "CI_JOB=7", "LC_ALL=de_DE", "MODE=x"]);
        let mut tool = Environment::default();
        tool.allow(["API_TOKEN"]);
        tool.fix("MODE".into(), "y".into());
        let seen = names(&tool.over(&wider), &ours);
        assert_eq!(seen, ["PATH=/bin", "API_TOKEN=s3cret", "CI_JOB=7", "LC_ALL=de_DE", "MODE=y"]);
    }

    #[test]
    fn no_value_is_shown() {
        let mut environment = Environment::default();
        environment.fix("API_TOKEN".into(), "s3cret".into());
        let shown = format!("{environment:?}");
        assert!(shown.contains("API_TOKEN") && !shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        for name in ["", "*", "A=B", "A*B", "A\0"] {
            let environment = Environment { allowed: vec![name.into()], fixed: Vec::new() };
            assert!(environment.check().unwrap_err().starts_with("env_allow: "), "{name:?}");
        }
        for (name, value) in [("", "x"), ("A=", "x"), ("A", "x\0")] {
            let fixed = vec![(name.into(), value.into())];
            let refused = Environment { allowed: Vec::new(), fixed }.check().unwrap_err();
            assert!(refused.starts_with("env: "), "{refused}");
        }
        let fine = Environment { allowed: vec!["A".into(), "B_*".into()], fixed: Vec::new() };
        assert_eq!(fine.check(), Ok(()));
    }
}
