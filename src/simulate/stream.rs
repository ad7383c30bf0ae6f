//! Many scenarios from one text: an array, or one after the other.

use std::io::{self, BufRead, Read, Write};

use serde::Serialize;
use serde_json::Value;

use super::run::run;
use super::scenario::{Given, InputError, Scenario};

/// The longest array, and the longest scenario outside of one, in bytes.
const ARRAY_MAX: u64 = 64 * 1024 * 1024;
const SCENARIO_MAX: u64 = 64 * 1024;

/// What came of a text with scenarios.
#[derive(Clone, Debug, PartialEq)]
pub enum Batch {
    /// One scenario, or something that is none.
    Single(Result<(), InputError>),
    /// An array, or several scenarios: how many had an outcome, and how many an error.
    Several {
        /// Scenarios with an outcome.
        outcomes: u64,
        /// Scenarios with an error in its place.
        errors: u64,
    },
}

/// Runs every scenario in `input`, and writes a line of JSON for each to `output` as soon as it is
/// worked out: its [`Outcome`](super::Outcome), or `{"error": {"field", "value", "rule"}}`.
///
/// `input` is an array of scenarios of at most 64 MiB, or any number of scenarios of at most
/// 64 KiB each, one a line or spread over lines. After a scenario that is broken, the next line
/// that begins with `{` is a new one.
///
/// # Errors
///
/// Reading or writing failed.
pub fn run_all(mut input: impl BufRead, output: impl Write) -> io::Result<Batch> {
    let mut batch = Running { output, outcomes: 0, errors: 0, last_error: None };
    if first_byte(&mut input)? == Some(b'[') {
        if run_array(input, &mut batch)? {
            return Ok(batch.several());
        }
    } else {
        run_lines(input, &mut batch)?;
        if batch.outcomes + batch.errors == 0 {
            let rule = "is missing; the text is empty".to_owned();
            batch.fail(InputError::new("scenario", Value::Null, rule))?;
        }
    }
    Ok(match batch {
        Running { outcomes: 1, errors: 0, .. } => Batch::Single(Ok(())),
        Running { outcomes: 0, errors: 1, last_error: Some(error), .. } => {
            Batch::Single(Err(error))
        }
        several => several.several(),
    })
}

/// The first byte that is not white; whatever is before it is read off.
fn first_byte(input: &mut impl BufRead) -> io::Result<Option<u8>> {
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(None);
        }
        match buffer.iter().position(|byte| !byte.is_ascii_whitespace()) {
            Some(at) => {
                let first = buffer[at];
                input.consume(at);
                return Ok(Some(first));
            }
            None => {
                let white = buffer.len();
                input.consume(white);
            }
        }
    }
}

/// Whether it was an array.
fn run_array(input: impl BufRead, batch: &mut Running<impl Write>) -> io::Result<bool> {
    let mut text = Vec::new();
    input.take(ARRAY_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > ARRAY_MAX {
        let rule = "must be an array of at most 64 MiB; a scenario a line has no limit".to_owned();
        batch.fail(InputError::new("scenario", Value::Null, rule))?;
        return Ok(false);
    }
    match serde_json::from_slice::<Vec<Given>>(&text) {
        Ok(scenarios) => {
            for given in scenarios {
                batch.run(given)?;
            }
            Ok(true)
        }
        Err(error) => {
            batch.fail(InputError::not_json(&String::from_utf8_lossy(&text), &error))?;
            Ok(false)
        }
    }
}

fn run_lines(mut input: impl BufRead, batch: &mut Running<impl Write>) -> io::Result<()> {
    let mut document = Document::default();
    loop {
        let mut line = Vec::new();
        let limited = &mut input.by_ref().take(SCENARIO_MAX + 1);
        if limited.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.len() as u64 > SCENARIO_MAX && line.last() != Some(&b'\n') {
            input.skip_until(b'\n')?;
        }
        if line.starts_with(b"{") || !document.0.starts_with(b"{") {
            document.end(batch)?;
        }
        document.go_on(&line, batch)?;
    }
    document.end(batch)
}

/// The lines of a scenario that is not whole yet.
#[derive(Default)]
struct Document(Vec<u8>);

impl Document {
    /// Takes a line in, and runs the scenario if that makes it whole.
    fn go_on(&mut self, line: &[u8], batch: &mut Running<impl Write>) -> io::Result<()> {
        let room = SCENARIO_MAX as usize + 1 - self.0.len();
        self.0.extend_from_slice(&line[..line.len().min(room)]);
        let may_be_whole = line.trim_ascii_end().ends_with(b"}");
        if may_be_whole && let Ok(given) = serde_json::from_slice(&self.0) {
            self.0.clear();
            batch.run(given)?;
        }
        Ok(())
    }

    /// Whatever is left is no scenario.
    fn end(&mut self, batch: &mut Running<impl Write>) -> io::Result<()> {
        let text = std::mem::take(&mut self.0);
        if text.trim_ascii().is_empty() {
            return Ok(());
        }
        if text.len() as u64 > SCENARIO_MAX {
            let rule = "must be at most 64 KiB of JSON".to_owned();
            return batch.fail(InputError::new("scenario", Value::Null, rule));
        }
        match serde_json::from_slice(&text) {
            Ok(given) => batch.run(given),
            Err(error) => {
                let text = String::from_utf8_lossy(&text);
                batch.fail(InputError::not_json(&text, &error))
            }
        }
    }
}

/// What has been written so far.
struct Running<W> {
    output: W,
    outcomes: u64,
    errors: u64,
    last_error: Option<InputError>,
}

impl<W: Write> Running<W> {
    fn run(&mut self, given: Given) -> io::Result<()> {
        match Scenario::try_from(given) {
            Ok(scenario) => {
                self.outcomes += 1;
                self.write(&run(&scenario))
            }
            Err(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: InputError) -> io::Result<()> {
        self.errors += 1;
        self.write(&Failed { error: &error })?;
        self.last_error = Some(error);
        Ok(())
    }

    fn write(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.output.write_all(&text)
    }

    fn several(&self) -> Batch {
        Batch::Several { outcomes: self.outcomes, errors: self.errors }
    }
}

#[derive(Serialize)]
struct Failed<'e> {
    error: &'e InputError,
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"slots": 1, "reserved_a": 0, "arrivals_a": 0, "every_b": 12, "hold_a": 1,
 "hold_b": 1, "stall_a": false, "timeout_a": 1, "timeout_b": 1, "policy": "fifo",
 "max_waiting": 0, "target_percent": 0}"#;

    /// What came of `text`, and for each line written the field of its error, or `ok`.
    fn batch(text: &str) -> (Batch, Vec<String>) {
        let mut written = Vec::new();
        let batch = run_all(text.as_bytes(), &mut written).unwrap();
        let lines = written.split(|&byte| byte == b'\n');
        let told = lines.filter(|line| !line.is_empty()).map(|line| {
            let line: Value = serde_json::from_slice(line).unwrap();
            match &line["error"]["field"] {
                Value::Null => {
                    assert_eq!(line["all"]["offered"], 1);
                    "ok".to_owned()
                }
                field => field.as_str().unwrap().to_owned(),
            }
        });
        (batch, told.collect())
    }

    fn several(outcomes: u64, errors: u64) -> Batch {
        Batch::Several { outcomes, errors }
    }

    #[test]
    fn a_single_scenario_may_be_spread_over_lines() {
        for text in [GOOD.to_owned(), GOOD.replace('\n', ""), format!("\n \n{GOOD}\n\n")] {
            assert_eq!(batch(&text), (Batch::Single(Ok(())), vec!["ok".to_owned()]));
        }
    }

    #[test]
    fn a_single_broken_scenario_is_one_error_however_many_lines_it_has() {
        let broken = [
            GOOD.replace("12", "13"),
            GOOD.replace("12", "twelve"),
            GOOD.replace('}', ""),
            "hello".to_owned(),
            "[1, 2".to_owned(),
            format!("[{GOOD},]"),
        ];
        for text in broken {
            let (batch, told) = batch(&text);
            assert!(matches!(batch, Batch::Single(Err(_))), "{batch:?}");
            assert_eq!(told.len(), 1, "{text}");
        }
    }

    #[test]
    fn in_an_array_an_error_stands_in_its_place() {
        assert_eq!(batch("[]"), (several(0, 0), vec![]));
        let text = format!(" [{GOOD}, 4, {}, {GOOD}]", GOOD.replace("slots", "slot"));
        let told = ["ok", "scenario", "slot", "ok"].map(str::to_owned).to_vec();
        assert_eq!(batch(&text), (several(2, 2), told));
        assert_eq!(batch("[4]").0, several(0, 1));
    }

    #[test]
    fn among_lines_an_error_stands_in_its_place_and_the_rest_goes_on() {
        let line = GOOD.replace('\n', "");
        let cut = &line[..40];
        let text = format!("{cut}\n{line}\n\nhello\n4\n{GOOD}\n{GOOD}\n{cut}");
        let told = ["scenario", "ok", "scenario", "scenario", "ok", "ok", "scenario"];
        let told = told.map(str::to_owned).to_vec();
        assert_eq!(batch(&text), (several(3, 4), told));
    }

    #[test]
    fn what_is_too_long_is_an_error_and_the_rest_goes_on() {
        let line = GOOD.replace('\n', "");
        let long = format!("{{\"x\": \"{}\"}}", "x".repeat(SCENARIO_MAX as usize));
        let spread = format!("{{\n{}}}", "\n".repeat(SCENARIO_MAX as usize));
        let text = format!("{line}\n{long}\n{spread}\n{line}\n");
        let told = ["ok", "scenario", "scenario", "ok"].map(str::to_owned).to_vec();
        assert_eq!(batch(&text), (several(2, 2), told));
    }

    #[test]
    fn nothing_is_an_error() {
        let (batch, told) = batch(" \n");
        assert!(matches!(batch, Batch::Single(Err(_))), "{batch:?}");
        assert_eq!(told, ["scenario"]);
    }
}
