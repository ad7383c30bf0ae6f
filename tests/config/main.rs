//! Partitions and tools from TOML: what is read, and what is said of what cannot be.
#![cfg(feature = "cli")]

mod door;
mod env;
mod families;
mod faults;
mod knobs;
mod quota;
mod reserve;
mod retry;
mod tools;

use std::ffi::OsString;

use watertight::config::{Config, ConfigError};

/// Reads `text` as `watertight.toml` in an environment with one secret.
fn read(text: &str) -> Result<Config, ConfigError> {
    Config::from_str_with(text, "watertight.toml", |name| {
        (name == "SEARCH_TOKEN").then(|| OsString::from(SECRET))
    })
}

const SECRET: &str = "s3cret-of-the-search-vendor";

/// The errors of `text`, one line each, without the file's name.
fn errors(text: &str) -> Vec<String> {
    let error = match read(text) {
        Ok(config) => panic!("accepted: {config:?}"),
        Err(error) => error,
    };
    let lines: Vec<_> = error.to_string().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), error.faults().len());
    let strip = |line: &String| {
        let stripped = line.strip_prefix("watertight.toml:");
        stripped.unwrap_or(line).to_owned()
    };
    lines.iter().map(strip).collect()
}

/// The only error of `text`.
fn error(text: &str) -> String {
    let mut errors = errors(text);
    assert_eq!(errors.len(), 1, "{errors:#?}");
    errors.remove(0)
}
