//! `${NAME}`: from the environment, in headers, urls and env values, and never shown.

use watertight::config::Config;

use super::{SECRET, error, errors, read};

const SEARCH: &str = r#"
[partition.search.http]
base_url = "http://search.example"
headers = { Authorization = "Bearer ${SEARCH_TOKEN}" }
"#;

#[test]
fn a_missing_variable_is_named_with_its_key() {
    let refused = Config::from_str_with(SEARCH, "f.toml", |_| None).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "f.toml:4:13: partition.search.http.headers.Authorization: the environment has no variable \
         `SEARCH_TOKEN`; set it before the start, as in `export SEARCH_TOKEN=…`"
    );
    for table in [
        "sql]\nurl = \"postgres://agent:${GONE}@db.example/support\"",
        "http]\nbase_url = \"http://${GONE}\"",
        "process]\nenv = { TOKEN = \"${GONE}\" }",
    ] {
        let refused = error(&format!("[partition.p.{table}\n"));
        assert!(refused.contains("no variable `GONE`"), "{refused}");
    }
}

#[test]
fn a_secret_is_in_no_error_and_no_debug_form() {
    let config = read(SEARCH).unwrap();
    assert!(!format!("{config:?}").contains(SECRET), "{config:?}");
    for broken in [
        "[partition.p.http]\nbase_url = \"${SEARCH_TOKEN}\"",
        "[partition.p.http]\nbase_url = \"http://user:${SEARCH_TOKEN}@x.example\"",
        "[partition.p.http]\nbase_url = \"http://x.example\"\nheaders = { A = \"${SEARCH_TOKEN}\\n\" }",
        "[partition.p.http]\nbase_url = \"http://x.example\"\nheaders = { \"a b\" = \"${SEARCH_TOKEN}\" }",
        "[partition.p.http]\nbase_url = \"http://x.example\"\n[tool.t]\npartition = \"p\"\npath = \"/\"\n\
         headers = { A = \"${SEARCH_TOKEN}{\" }",
        "[partition.p.http]\nbase_url = \"http://x.example\"\n[tool.t]\npartition = \"p\"\npath = \"/\"\n\
         headers = { A = \"${SEARCH_TOKEN}\\n\" }",
        "[partition.p.sql]\nurl = \"${SEARCH_TOKEN}\"",
        "[partition.p.sql]\nurl = \"postgres://agent:${SEARCH_TOKEN}@db.example:port/support\"",
        "[partition.p.sql]\nurl = \"sqlite:${SEARCH_TOKEN}?mode=ro\"",
        "[partition.p.process]\nenv = { \"A=\" = \"${SEARCH_TOKEN}\" }",
        "[partition.p.process]\nenv = { A = \"${SEARCH_TOKEN}\\u0000\" }",
    ] {
        for line in errors(broken) {
            assert!(!line.contains("s3cret"), "{broken}: {line}");
        }
    }
}

#[test]
fn a_secret_written_out_in_the_file_is_not_shown_either() {
    for broken in [
        "[partition.p.http]\nbase_url = \"http://user:s3cret@x.example\"",
        "[partition.p.http]\nbase_url = \"http://x.example\"\nheaders = { A = 7, B = [\"s3cret\"] }",
        "[partition.p.http]\nbase_url = \"http://x.example\"\n[tool.t]\npartition = \"p\"\npath = \"/\"\n\
         headers = { A = \"s3cret {\" }",
        "[partition.p.sql]\nurl = \"mysql://agent:s3cret@db.example/support\"",
        "[partition.p.sql]\nurl = [\"s3cret\"]",
        "[partition.p.http]\nbase_url = [\"s3cret\"]",
        "[partition.p.http]\nbase_url = \"http://x.example\"\nheader = { A = \"s3cret\" }",
        "[partition.p.process]\nenv = { A = [\"s3cret\"] }",
    ] {
        for line in errors(broken) {
            assert!(!line.contains("s3cret"), "{broken}: {line}");
        }
    }
}
