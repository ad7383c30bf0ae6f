//! One outcome line a call, whatever the line is.

use serde_json::json;
use watertight::testing::{Behaviour, Reply, Vendor};

use crate::cli_support::Folder;

const SQL: &str = r#"
[partition.tickets.sql]
url = "sqlite:tickets.db"
[tool.read_ticket]
partition = "tickets"
sql = "select id, title from tickets where id = $1"
params = ["{id}"]
args = { id = "integer" }
"#;

/// A folder with a database of one ticket.
fn tickets() -> Folder {
    let folder = Folder::new(SQL);
    let database = rusqlite::Connection::open(folder.path().join("tickets.db")).unwrap();
    let make =
        "create table tickets (id integer, title text); insert into tickets values (7, 'leak')";
    database.execute_batch(make).unwrap();
    folder
}

#[test]
fn an_outcome_says_everything_and_carries_the_calls_id() {
    let folder = tickets();
    let ended = folder.run(&[], "{\"id\":\"a\",\"tool\":\"read_ticket\",\"args\":{\"id\":7}}");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let outcome = &ended.outcomes[0];
    let keys: Vec<_> = outcome.as_object().unwrap().keys().collect();
    let expected =
        ["id", "status", "tool", "partition", "executed", "result", "waited_ms", "ran_ms"];
    assert_eq!(keys, expected);
    assert_eq!(outcome["status"], "ok");
    assert_eq!(outcome["partition"], "tickets");
    assert_eq!(outcome["executed"], "yes");
    assert_eq!(outcome["result"], json!([{"id": 7, "title": "leak"}]));
    assert_eq!(ended.stderr, "", "nothing to say when nobody watches");
}

#[test]
fn calls_come_from_a_file_or_from_standard_input() {
    let folder = tickets();
    let calls = "{\"id\":1,\"tool\":\"read_ticket\",\"args\":{\"id\":7}}\n";
    folder.file("calls.jsonl", calls);
    for (args, input) in [(vec!["calls.jsonl"], ""), (vec!["-"], calls), (vec![], calls)] {
        let ended = folder.run(&args, input);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(ended.outcomes[0]["id"], 1);
        assert_eq!(ended.outcomes[0]["status"], "ok");
    }
    let nothing = folder.run(&[], "");
    assert_eq!((nothing.code, nothing.stdout.as_str()), (Some(0), ""));
}

#[test]
fn a_line_that_is_no_call_fails_by_its_number_and_the_rest_goes_on() {
    let folder = tickets();
    let lines = [
        "not json",
        "",
        "   \t",
        "{\"id\":\"typo\",\"tol\":\"read_ticket\"}",
        "{\"id\":5}",
        "[1]",
        "{\"id\":7,\"tool\":\"read_ticket\",\"args\":[7]}",
        "{\"tool\":\"read_ticket\",\"turn\":-1}",
        "{\"tool\":\"read_ticket\",\"at_ms\":1.5}",
        "{\"tool\":\"read_ticket\"} trailing",
        "{\"tool\":\"a\",\"tool\":\"b\"}",
        "{\"id\":\"last\",\"tool\":\"read_ticket\",\"args\":{\"id\":7}}",
    ];
    let ended = folder.run(&[], &lines.join("\r\n"));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let invalid: Vec<_> = ended.outcomes.iter().filter(|o| o["status"] == "failed").collect();
    let numbers: Vec<_> = invalid.iter().map(|o| o["line"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 4, 5, 6, 7, 8, 9, 10, 11]);
    for outcome in &invalid {
        assert_eq!(outcome["reason"], "invalid_call");
        assert_eq!(outcome["executed"], "no");
        let detail = outcome["detail"].as_str().unwrap();
        assert!(detail.starts_with(&format!("line {}, column ", outcome["line"])), "{detail}");
    }
    assert_eq!(invalid[1]["id"], "typo", "the id is told where it can be read");
    assert!(invalid[1]["detail"].as_str().unwrap().contains("unknown field `tol`"));
    assert_eq!(invalid[4]["id"], 7);
    assert_eq!(ended.outcome("last")["status"], "ok");
}

#[test]
fn a_line_that_is_too_long_fails_by_its_number() {
    let folder = tickets();
    let long = |length: usize| {
        let frame = "{\"tool\":\"read_ticket\",\"args\":{\"id\":\"\"}}".len();
        format!(
            "{{\"tool\":\"read_ticket\",\"args\":{{\"id\":\"{}\"}}}}",
            "x".repeat(length - frame)
        )
    };
    let lines = [long((1 << 20) + 1), long(1 << 20), long(5 << 20)].join("\n");
    let ended = folder.run(&[], &lines);
    let details: Vec<_> = ended.outcomes.iter().map(|o| o["detail"].as_str().unwrap()).collect();
    assert_eq!(details.len(), 3);
    let told = |line: u32, what: &str| {
        let outcome = ended.outcomes.iter().find(|outcome| outcome["line"] == line).unwrap();
        assert!(outcome["detail"].as_str().unwrap().contains(what), "{outcome}");
    };
    told(1, "line 1 is longer than 1048576 bytes");
    told(2, "argument `id` must be a whole number");
    told(3, "line 3 is longer than 1048576 bytes");
}

#[test]
fn a_call_that_cannot_be_made_takes_no_slot_and_says_why() {
    let folder = tickets();
    let calls = "{\"id\":\"tool\",\"tool\":\"gone\"}\n\
                 {\"id\":\"arg\",\"tool\":\"read_ticket\",\"args\":{\"id\":7,\"x\":1}}\n\
                 {\"tool\":\"read_ticket\",\"args\":{}}";
    let ended = folder.run(&["--strict"], calls);
    assert_eq!(ended.code, Some(1), "--strict");
    let tool = ended.outcome("tool");
    assert_eq!((&tool["status"], &tool["reason"]), (&json!("failed"), &json!("unknown_tool")));
    assert!(tool.get("line").is_none() && tool.get("partition").is_none(), "{tool}");
    assert_eq!(ended.outcome("arg")["reason"], "invalid_call");
    let nameless = ended.outcomes.iter().find(|outcome| outcome.get("id").is_none()).unwrap();
    assert_eq!(nameless["line"], 3, "a call without an id is told by its line");
}

#[test]
fn outcomes_are_written_as_they_come_and_not_in_the_order_of_the_calls() {
    let vendor = Vendor::start().unwrap();
    vendor.set_path("/hang", Behaviour::Hang);
    vendor.set_path("/quick", Behaviour::Answer(Reply::json("1")));
    let folder = Folder::new(&format!(
        "[partition.search.http]\nbase_url = \"{}\"\n[tool.get]\npartition = \"search\"\n\
         path = \"/{{path}}\"\n",
        vendor.url()
    ));
    let mut run = folder.start(&[]);
    run.send("{\"id\":\"slow\",\"tool\":\"get\",\"args\":{\"path\":\"hang\"}}");
    run.send("{\"id\":\"quick\",\"tool\":\"get\",\"args\":{\"path\":\"quick\"}}");
    assert_eq!(run.next().unwrap()["id"], "quick", "while the other hangs and the input is open");
    vendor.release();
    assert_eq!(run.next().unwrap()["id"], "slow");
    assert_eq!(run.end().code, Some(0));
}

#[test]
fn a_deadline_is_kept_from_the_first_offer() {
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Hang);
    let folder = Folder::new(&format!(
        "[partition.search.http]\nbase_url = \"{}\"\n[tool.get]\npartition = \"search\"\npath = \"/\"\n",
        vendor.url()
    ));
    let ended = folder.run(
        &[],
        "{\"id\":\"short\",\"tool\":\"get\",\"deadline_ms\":100}\n\
         {\"id\":\"none\",\"tool\":\"get\",\"deadline_ms\":0}",
    );
    let (short, none) = (ended.outcome("short"), ended.outcome("none"));
    assert_eq!((&short["status"], &short["clock"]), (&json!("timeout"), &json!("deadline")));
    assert_eq!(short["executed"], "unknown");
    assert!(short["ran_ms"].as_f64().unwrap() >= 99.0, "{short}");
    assert_eq!((&none["status"], &none["executed"]), (&json!("timeout"), &json!("no")));
    assert_eq!(vendor.counts().requests, 1);
}

#[test]
fn a_secret_from_the_environment_is_in_no_output() {
    let vendor = Vendor::start().unwrap();
    let echo = Reply::json("{}").with_status(500);
    vendor.set(Behaviour::Answer(echo));
    let folder = Folder::new(&format!(
        "[partition.search.http]\nbase_url = \"{}\"\nheaders = {{ Authorization = \"Bearer ${{TOKEN}}\" }}\n\
         [tool.get]\npartition = \"search\"\npath = \"/\"\n",
        vendor.url()
    ));
    let mut command = assert_cmd::Command::from_std(folder.command(&["run", "--summary=always"]));
    let output = command.env("TOKEN", "s3cret-token").write_stdin("{\"tool\":\"get\"}").output();
    let output = output.unwrap();
    let all = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(all.contains("http_status") && !all.contains("s3cret"), "{all}");
    assert_eq!(vendor.seen()[0].header("authorization"), Some("Bearer s3cret-token"));

    let missing = folder.run(&[], "");
    assert_eq!(missing.code, Some(2));
    assert!(missing.stderr.contains("no variable `TOKEN`"), "{}", missing.stderr);
}

#[test]
fn bad_usage_is_told_and_is_2() {
    let folder = tickets();
    for (args, said) in [
        (vec!["--config", "gone.toml"], "gone.toml: cannot be opened"),
        (vec!["gone.jsonl"], "gone.jsonl: No such file"),
        (vec!["--retry-busy", "x"], "invalid value 'x'"),
        (vec!["--summary", "loud"], "invalid value 'loud'"),
        (vec!["--nonsense"], "unexpected argument '--nonsense'"),
        (vec!["."], "the calls cannot be read on"),
    ] {
        let ended = folder.run(&args, "");
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{args:?}: {}", ended.stderr);
        assert_eq!(ended.stdout, "");
    }
    folder.file("watertight.toml", "[partition.p]\nslots = 0\nqueue = -1\n");
    let ended = folder.run(&[], "{\"tool\":\"x\"}");
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("watertight.toml:2:1: partition.p.slots = 0: must be"));
    assert!(ended.stderr.contains("2 faults in the configuration; nothing was started"));
}

#[test]
fn a_calls_own_idempotency_key_reaches_the_backend() {
    let folder = Folder::new(
        r#"
[partition.orders.process]
[tool.order]
partition = "orders"
command = ["sh", "-c", "printf %s \"$ORDER_KEY\""]
idempotency_env = "ORDER_KEY"
"#,
    );
    let calls = "{\"id\":\"own\",\"tool\":\"order\",\"idempotency_key\":\"order-7\"}\n\
                 {\"id\":\"minted\",\"tool\":\"order\"}\n";
    let ended = folder.run(&[], calls);
    assert_eq!(ended.outcome("own")["result"]["stdout"], "order-7", "{}", ended.stdout);
    let minted = ended.outcome("minted")["result"]["stdout"].as_str().unwrap();
    assert_eq!(minted.len(), 36, "{minted}");
}
