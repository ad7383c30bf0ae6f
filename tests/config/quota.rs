//! `quota_headers`: what of an answer says that no calls are left.

use watertight::ToolCall;
use watertight::config::Config;
use watertight::outcome::Status;
use watertight::testing::{Behaviour, Reply, Vendor};

use super::error;

fn text(url: &str, quota_headers: &str) -> String {
    format!(
        "[partition.search.http]\nbase_url = \"{url}\"\nquota_headers = {quota_headers}\n\
         [tool.search]\npartition = \"search\"\npath = \"/\"\n"
    )
}

const PAIR: &str = "{ remaining = \"Left\", reset = \"Reset\" }";

#[test]
fn a_pair_one_header_and_a_list_are_read() {
    let vendor = Vendor::start().unwrap();
    for (quota_headers, reply, expected) in [
        (PAIR, Reply::default().header("Left", "0").header("Reset", "60"), Status::Throttled),
        (PAIR, Reply::default().header("Left", "1").header("Reset", "60"), Status::Ok),
        (
            "\"RateLimit\"",
            Reply::default().header("RateLimit", "\"a\";r=0;t=60"),
            Status::Throttled,
        ),
        (
            &format!("[\"RateLimit\", {PAIR}]"),
            Reply::default().header("Left", "0").header("Reset", "1m0s"),
            Status::Throttled,
        ),
        ("[]", Reply::default().header("RateLimit", "\"a\";r=0;t=60"), Status::Ok),
    ] {
        let config = Config::from_str(&text(&vendor.url(), quota_headers), "watertight.toml");
        let runtime = config.unwrap_or_else(|error| panic!("{error}")).build().unwrap();
        vendor.set(Behaviour::Answer(reply));
        assert!(runtime.call(ToolCall::new("search")).is_ok());
        assert_eq!(runtime.call(ToolCall::new("search")).status(), expected, "{quota_headers}");
    }
}

#[test]
fn nonsense_is_refused_with_place_rule_and_fix() {
    let form = "quota_headers = … must be a table with `remaining` and `reset`, the one header that \
                has both, or a list; write it as in `{ remaining = \"x-ratelimit-remaining\"";
    for (quota_headers, said) in [
        ("1", form.replace("= …", "= 1:")),
        ("true", form.replace("= …", "= true:")),
        ("[1]", form.replace("= …", "= [1]:")),
        ("{ remaining = \"a\" }", form.replace(" = …", ":")),
        ("{ remaining = \"a\", resets = \"b\" }", form.replace(" = …", ":")),
        ("{ remaining = \"a\", reset = \"b\", x = \"c\" }", form.replace(" = …", ":")),
        ("\"a b\"", "quota_headers: `a b` is no header name".to_owned()),
    ] {
        let refused = error(&text("http://search.example", quota_headers));
        let place = "3:1: partition.search.http.";
        assert!(refused.starts_with(&format!("{place}{said}")), "{refused}");
    }
}
