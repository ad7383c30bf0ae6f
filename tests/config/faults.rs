//! All faults of a file are told at once, each with its place, and none with a secret.

use watertight::config::Config;

use super::{error, errors, read};

#[test]
fn all_faults_are_told_in_order_of_place() {
    let text = r#"[partition.search]
slots = 0
max_wai = "50ms"
run_limit = "29"
[partition.search.http]
base_url = "search.example"
header = { A = "b" }

[partition.lint.process]
dir = 7
[partition.lint.sql]
url = "sqlite:x.db"

[tool.search_docs]
partition = "serach"
path = "/search"

[tool.read]
partition = "search"
path = "search"

[tols.x]
"#;
    let places: Vec<_> = errors(text)
        .iter()
        .map(|line| line.split(": ").take(2).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        places,
        [
            "2:1 partition.search.slots = 0",
            "3:1 partition.search.max_wai",
            "4:1 partition.search.run_limit = \"29\"",
            "6:1 partition.search.http.base_url",
            "7:1 partition.search.http.header",
            "9:17 partition.lint.process",
            "15:1 tool.search_docs.partition = \"serach\"",
            "22:2 tols",
        ],
    );
}

#[test]
fn unknown_keys_are_told_with_the_nearest_known_one() {
    for (text, said) in [
        (
            "[partition.p]\nslot = 1\n",
            "2:1: partition.p.slot: is no known key; did you mean `slots`?",
        ),
        (
            "[partition.p]\nqueue_size = 1\n",
            "is no known key; known here: by, slots, queue, max_wait",
        ),
        (
            "[partition.p]\n[partitions.q]\n",
            "partitions: is no known key; did you mean `partition`?",
        ),
        (
            "[partition.p.http]\nbase_url = \"http://x.example\"\nredirect = 1\n",
            "partition.p.http.redirect: is no known key; did you mean `redirects`?",
        ),
        (
            "[partition.p]\n[partition.p.htp]\n",
            "partition.p.htp: is no known key; did you mean `http`?",
        ),
    ] {
        let refused = error(text);
        assert!(refused.contains(said), "{refused}");
    }
}

#[test]
fn what_is_no_toml_is_told_without_its_line() {
    let refused = errors("[partition.p.http]\nheaders = { Key = \"s3cret\n\n[tool.x\n");
    assert!(refused[0].starts_with("2:"), "{refused:#?}");
    assert!(refused.iter().any(|line| line.starts_with("4:")), "{refused:#?}");
    assert!(refused.iter().all(|line| !line.contains("s3cret")), "{refused:#?}");
    let twice = errors("[partition.p]\nslots = 1\nslots = 2\n");
    assert!(twice[0].starts_with("3:1: is no TOML here: duplicate key"), "{twice:#?}");
}

#[test]
fn a_file_without_partitions_is_refused() {
    for text in ["", "# nothing\n", "[partition]\n"] {
        let refused = error(text);
        assert!(refused.contains("names no partition; begin with `[partition.NAME]`"), "{refused}");
    }
    assert!(error("partition = 1\n").contains("partition = 1: must be a table"));
    assert!(error("[partition]\np = 1\n").contains("partition.p = 1: must be a table"));
}

#[test]
fn a_partition_has_one_driver() {
    let refused =
        error("[partition.p.process]\n[partition.p.http]\nbase_url = \"http://x.example\"\n");
    assert_eq!(
        refused,
        "1:14: partition.p.process: is a second driver beside `http`: a partition is one backend; \
         make it a partition of its own"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gone.toml");
    let refused = Config::from_file(&path).unwrap_err();
    let fault = &refused.faults()[0];
    assert_eq!(fault.file, path.display().to_string());
    assert_eq!((fault.line, fault.column), (None, None));
    assert!(fault.rule.starts_with("cannot be opened: "), "{fault}");

    let large = folder.path().join("large.toml");
    std::fs::write(&large, "#".repeat((1 << 20) + 1)).unwrap();
    let refused = Config::from_file(&large).unwrap_err();
    assert!(refused.to_string().contains("is larger than 1 MiB"), "{refused}");
    let largest = format!("[partition.p]\n{}", "#".repeat((1 << 20) - 14));
    assert_eq!(largest.len(), 1 << 20);
    std::fs::write(&large, largest).unwrap();
    Config::from_file(&large).unwrap();

    std::fs::write(&large, [b'#', 0xff]).unwrap();
    let refused = Config::from_file(&large).unwrap_err();
    assert!(refused.to_string().contains("cannot be read: "), "{refused}");
}

#[test]
fn warnings_tell_what_is_probably_not_meant() {
    let config = read(
        r#"
[partition.idle]
max_wait = "40s"
[partition.search.http]
base_url = "http://search.example"
headers = { Authorization = "Bearer ${SEARCH_TOKEN}" }
[partition.tickets.sql]
url = "sqlite:no-such-folder/tickets.db"
[partition.lint.process]
dir = "no-such-folder"
[tool.search]
partition = "search"
path = "/"
[tool.ticket]
partition = "tickets"
sql = "select 1"
[tool.lint]
partition = "lint"
command = ["true"]
"#,
    );
    let warnings = config.unwrap().warnings();
    let expected = [
        "partition.idle: no tool uses it",
        "partition.idle: calls may wait as long as they may run (40s)",
        "partition.search: headers are sent over plain http",
        "partition.tickets: there is no file `no-such-folder/tickets.db`",
        "partition.lint: there is no folder `no-such-folder`",
    ];
    assert_eq!(warnings.len(), expected.len(), "{warnings:#?}");
    for (warning, expected) in warnings.iter().zip(expected) {
        assert!(warning.starts_with(expected), "{warning}");
    }
}

#[test]
fn a_partition_larger_than_its_backend_allows_is_a_warning() {
    let warnings = |knobs: &str| {
        let text = format!("[partition.p]\n{knobs}\n");
        let warnings = read(&text).unwrap_or_else(|error| panic!("{error}")).warnings();
        let about = warnings.into_iter().filter(|warning| warning.contains("backend_max"));
        about.collect::<Vec<_>>()
    };
    assert_eq!(
        warnings("slots = 12\nbackend_max = 10"),
        ["watertight.toml:3:1: partition.p.backend_max = 10: is less than the 12 calls that the \
             partition may make at once (slots 12); lower them to 10 in all, or correct it: the \
             backend will refuse the rest"]
    );
    let [spares] = &warnings("backend_max = 10\nslots = 9\nreplace_overdue = 2")[..] else {
        panic!("spares call it as well");
    };
    assert!(spares.contains("the 11 calls") && spares.contains("(slots 9 + replace_overdue 2)"));
    assert!(warnings("slots = 10\nbackend_max = 10").is_empty());
    assert!(warnings("slots = 4096").is_empty());
    let refused = error("[partition.p]\nbackend_max = 0\n");
    assert!(refused.contains("2:1: partition.p.backend_max = 0: must be at least 1"), "{refused}");

    let members = "by = \"shard\"\nslots = 4\nbackend_max = 3\n[partition.p.members]\n\
                   a.sql.url = \"sqlite::memory:\"\nb.sql.url = \"sqlite::memory:\"";
    assert_eq!(warnings(members).len(), 1, "told once for the family");
}
