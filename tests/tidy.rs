//! The shape of the code: which module may use which, how long a file and a function may be, and
//! what nobody may call.

use std::fs;
use std::path::{Path, PathBuf};

/// From the top down: a module may use what stands on a later line, and its own line.
const LAYERS: &[&[&str]] = &[
    &["main", "shim"],
    &["cli", "inspect"],
    &["config"],
    &["testing"],
    &["runtime"],
    &["driver"],
    &["simulate"],
    &["telemetry"],
    &["admission", "resilience"],
    &["outcome"],
    &["call"],
    &["error", "time"],
];

/// Lines of code in a file and in a function, doc comments and tests left out.
const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 60;

struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    /// The module below `src/` that the file belongs to.
    fn module(&self) -> &str {
        let below = self.path.strip_prefix(root().join("src")).unwrap();
        let first = below.iter().next().unwrap().to_str().unwrap();
        first.strip_suffix(".rs").unwrap_or(first)
    }

    /// The text without its unit tests.
    fn code(&self) -> &str {
        let end = self.text.find("#[cfg(test)]\nmod tests {").unwrap_or(self.text.len());
        &self.text[..end]
    }

    fn name(&self) -> String {
        self.path.strip_prefix(root()).unwrap().display().to_string()
    }

    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code().lines().enumerate().map(|(at, line)| (at + 1, line))
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push(Source { path, text });
            }
        }
    }
    assert!(!found.is_empty(), "{folder} holds no source");
    found
}

fn assert_none(faults: &[String], rule: &str) {
    assert!(faults.is_empty(), "{rule}:\n{}", faults.join("\n"));
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

/// Whether `word` stands in `line` by itself, not as a part of a longer name.
fn has_word(line: &str, word: &str) -> bool {
    let joins = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let open = word.ends_with(|c: char| c.is_alphanumeric());
    let begins = word.starts_with(|c: char| c.is_alphanumeric());
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !(begins && joins(before) || open && joins(after))
    })
}

#[test]
fn arrows_between_modules_point_down_only() {
    let layer = |module: &str| LAYERS.iter().position(|layer| layer.contains(&module));
    let mut faults = Vec::new();
    for source in sources("src").iter().filter(|source| source.module() != "lib") {
        let Some(from) = layer(source.module()) else {
            faults.push(format!("{}: this module is in no layer", source.name()));
            continue;
        };
        for (at, line) in source.lines().filter(|(_, line)| !is_comment(line)) {
            for used in line.split("crate::").skip(1) {
                let used: String = used.chars().take_while(|c| c.is_alphanumeric()).collect();
                if layer(&used).is_some_and(|to| to < from) {
                    faults.push(format!("{}:{at}: {line}", source.name()));
                }
            }
        }
    }
    assert_none(&faults, "a module uses one above it");
}

#[test]
fn drivers_know_nothing_of_admission() {
    let above = ["crate::admission", "crate::resilience", "crate::runtime", "crate::telemetry"];
    let mut faults = Vec::new();
    for source in sources("src").iter().filter(|source| source.module() == "driver") {
        for (at, line) in source.lines() {
            if above.iter().any(|module| line.contains(module)) {
                faults.push(format!("{}:{at}: {line}", source.name()));
            }
        }
    }
    assert_none(&faults, "a driver only knows the call it runs");
}

#[test]
fn the_pure_modules_have_no_clock_thread_lock_channel_or_log() {
    const IMPURE: &[&str] = &[
        "Instant",
        "SystemTime",
        "std::thread",
        "Mutex",
        "Condvar",
        "RwLock",
        "AtomicU64",
        "AtomicUsize",
        "AtomicBool",
        "crossbeam",
        "parking_lot",
        "tracing",
        "println!",
        "fastrand",
        "Clock",
    ];
    let mut faults = Vec::new();
    for source in sources("src") {
        if !["admission", "resilience", "simulate"].contains(&source.module()) {
            continue;
        }
        for (at, line) in source.lines().filter(|(_, line)| !is_comment(line)) {
            if IMPURE.iter().any(|word| has_word(line, word)) {
                faults.push(format!("{}:{at}: {line}", source.name()));
            }
        }
    }
    assert_none(&faults, "decisions take `now` and random numbers as arguments");
}

#[test]
fn nobody_calls_what_is_banned() {
    let mut faults = Vec::new();
    let mut ban = |folder: &str, words: &[&str], free: &dyn Fn(&str) -> bool| {
        for source in sources(folder).iter().filter(|source| !free(&source.name())) {
            for (at, line) in source.lines().filter(|(_, line)| !is_comment(line)) {
                if let Some(word) = words.iter().find(|word| has_word(line, word)) {
                    faults.push(format!("{}:{at}: {word}", source.name()));
                }
            }
        }
    };
    let tells_time = |name: &str| name == "src/time.rs" || name.starts_with("src/testing/");
    let none = |_: &str| false;
    let this = |name: &str| name == "tests/tidy.rs";
    ban("src", &["Instant::now", "SystemTime::now"], &tells_time);
    ban("src", &["unbounded(", "unbounded::<", "mpsc::channel("], &none);
    ban("src", &["todo!(", "unimplemented!(", "async fn", ".await"], &none);
    ban("src", &["thread::sleep"], &|name| name.starts_with("src/testing/"));
    ban("tests", &["thread::sleep", "#[ignore"], &this);
    assert_none(&faults, "banned calls");
}

#[test]
fn files_and_functions_fit_the_eye() {
    let mut faults = Vec::new();
    for source in sources("src") {
        let code = source.lines().filter(|(_, line)| !is_comment(line)).count();
        if code > FILE_LINES_MAX {
            faults.push(format!("{}: {code} lines of code", source.name()));
        }
        let mut started = None;
        for (at, line) in source.lines() {
            let indent = line.len() - line.trim_start().len();
            let is_fn =
                line.contains("fn ") && !is_comment(line) && !line.trim_end().ends_with(';');
            if is_fn && started.is_none() {
                started = Some((at, indent));
            }
            if let Some((from, depth)) = started
                && indent == depth
                && line.trim_end() == format!("{}}}", " ".repeat(depth))
            {
                if at - from > FUNCTION_LINES_MAX {
                    faults.push(format!("{}:{from}: {} lines", source.name(), at - from));
                }
                started = None;
            }
        }
    }
    assert_none(&faults, "longer than fits the eye");
}

#[test]
fn the_rules_can_fail() {
    let source = |text: &str| Source { path: root().join("src/admission/x.rs"), text: text.into() };
    assert_eq!(source("").module(), "admission");
    assert!(has_word("let t = Instant::now();", "Instant"));
    assert!(!has_word("clock: TimeoutClock,", "Clock") && !has_word("x.await_permit()", ".await"));
    let tested = source("fn a() {}\n#[cfg(test)]\nmod tests {\n    Instant::now();\n}\n");
    assert_eq!(tested.lines().count(), 1);
    assert!(sources("src").iter().any(|source| source.code().contains("crate::")));
}
