//! What is wrong with a configuration: the place, the key, its value, the rule and the fix.

use std::fmt;
use std::ops::Range;

/// Everything that is wrong with a configuration, in order of place. There is at least one fault.
///
/// ```
/// use watertight::config::Config;
///
/// let text = "[partition.search]\nslots = 0\nmax_wai = \"50ms\"\n";
/// let error = Config::from_str(text, "watertight.toml").unwrap_err();
/// let lines: Vec<_> = error.faults().iter().map(|fault| fault.line).collect();
/// assert_eq!(lines, [Some(2), Some(3)]);
/// assert!(error.to_string().contains("did you mean `max_wait`?"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    pub(super) faults: Vec<Fault>,
}

/// One thing that is wrong. Its value is as it stands in the file, `${NAME}` included, and is left
/// out where a credential may stand.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The file.
    pub file: String,
    /// The line, from 1; none if the fault is the whole file's.
    pub line: Option<usize>,
    /// The column in characters, from 1.
    pub column: Option<usize>,
    /// The key, such as `partition.search.slots`; empty if the fault is no key's.
    pub key: String,
    /// The value.
    pub value: Option<String>,
    /// What is wrong, or what is allowed.
    pub rule: String,
    /// What to do.
    pub fix: String,
}

impl ConfigError {
    /// All of them.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }
}

/// One line a fault.
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.faults.iter().enumerate() {
            let before = if at == 0 { "" } else { "\n" };
            write!(f, "{before}{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, ":{line}:{column}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        if let Some(value) = &self.value {
            write!(f, " = {value}")?;
        }
        write!(f, ": {}", self.rule)?;
        if !self.fix.is_empty() {
            write!(f, "; {}", self.fix)?;
        }
        Ok(())
    }
}

/// Where a key stands, and where its value does.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) key: String,
    /// The key's first byte; none for what stands nowhere.
    pub(super) at: Option<usize>,
    /// The value's bytes; none where the value must not be shown.
    pub(super) shown: Option<Range<usize>>,
}

impl Place {
    /// The whole file.
    pub(super) fn file() -> Place {
        Place { key: String::new(), at: None, shown: None }
    }

    /// The same place, of a value that no error shows.
    pub(super) fn secret(mut self) -> Place {
        self.shown = None;
        self
    }
}

/// The longest value an error shows, in characters.
const SHOWN_MAX: usize = 60;

/// Collects what is wrong with one file.
#[derive(Debug)]
pub(super) struct Faults<'t> {
    file: &'t str,
    text: &'t str,
    found: Vec<(usize, Fault)>,
}

impl<'t> Faults<'t> {
    pub(super) fn new(file: &'t str, text: &'t str) -> Faults<'t> {
        Faults { file, text, found: Vec::new() }
    }

    /// Adds a fault, unless it has been told: the members of a family share what stands in the file.
    pub(super) fn add(&mut self, place: &Place, rule: impl Into<String>, fix: impl Into<String>) {
        let (line, column) = place.at.map(|at| self.position(at)).unzip();
        let fault = Fault {
            file: self.file.to_owned(),
            line,
            column,
            key: place.key.clone(),
            value: place.shown.clone().map(|shown| self.show(shown)),
            rule: rule.into(),
            fix: fix.into(),
        };
        let found = (place.at.unwrap_or(0), fault);
        if !self.found.contains(&found) {
            self.found.push(found);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    /// # Errors
    ///
    /// What was collected, if anything was.
    pub(super) fn into_result(self) -> Result<(), ConfigError> {
        let faults = self.into_found();
        if faults.is_empty() { Ok(()) } else { Err(ConfigError { faults }) }
    }

    /// What was collected, in order of place.
    pub(super) fn into_found(mut self) -> Vec<Fault> {
        self.found.sort_by_key(|(at, _)| *at);
        self.found.into_iter().map(|(_, fault)| fault).collect()
    }

    /// Line and column, from 1.
    fn position(&self, at: usize) -> (usize, usize) {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.matches('\n').count() + 1;
        (line, before[line_start..].chars().count() + 1)
    }

    /// The value as it stands in the file, on one line and not too long.
    fn show(&self, shown: Range<usize>) -> String {
        let value = self.text.get(shown).unwrap_or_default();
        let mut words = value.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some((end, _)) = words.char_indices().nth(SHOWN_MAX) {
            words.truncate(end);
            words.push('…');
        }
        words
    }
}
