//! Tools: what their partition's driver knows, what it does not, and calls that really run.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use watertight::config::Config;
use watertight::outcome::{CallError, Executed, FailureReason};
use watertight::testing::{Behaviour, Reply, Vendor};
use watertight::{Runtime, ToolCall};

use super::{SECRET, error, errors, read};

const PARTITIONS: &str = r#"
[partition.search.http]
base_url = "http://search.example"
[partition.tickets.sql]
url = "sqlite::memory:"
[partition.lint.process]
[partition.plain]
"#;

/// The only error of a tool in a file with four partitions.
fn tool_error(tool: &str) -> String {
    error(&format!("{PARTITIONS}[tool.t]\n{tool}\n"))
}

#[test]
fn a_tool_belongs_to_a_partition_with_a_driver() {
    for (tool, said) in [
        ("path = \"/\"", "tool.t.partition: is missing; name one of"),
        (
            "partition = \"serch\"\npath = \"/\"",
            "is no partition of this file; did you mean `search`?",
        ),
        ("partition = \"x\"", "add `[partition.x]`, or correct the name"),
        ("partition = 1", "tool.t.partition = 1: must be a string"),
        (
            "partition = \"plain\"",
            "partition `plain` has no driver; add its http, sql or process table",
        ),
    ] {
        let refused = tool_error(tool);
        assert!(refused.contains(said), "{refused}");
    }
    let refused =
        error(&format!("{PARTITIONS}[tool.\"a b\"]\npartition = \"search\"\npath = \"/\"\n"));
    assert!(refused.contains("tool.\"a b\": must be named with 1 to 64 letters"), "{refused}");
}

#[test]
fn keys_of_another_kind_of_tool_are_told_as_such() {
    let refused = tool_error("partition = \"search\"\npath = \"/\"\ncommand = [\"ls\"]");
    assert!(
        refused.contains(
            "tool.t.command: belongs to process tools, and this tool's partition is http; remove it"
        ),
        "{refused}"
    );
    let refused = tool_error("partition = \"tickets\"\nsql = \"select 1\"\npath = \"/\"");
    assert!(
        refused.contains("belongs to http tools, and this tool's partition is sqlite"),
        "{refused}"
    );
    let refused = tool_error("partition = \"lint\"\ncommand = [\"ls\"]\nsql = \"select 1\"");
    assert!(
        refused.contains("belongs to sql tools, and this tool's partition is process"),
        "{refused}"
    );
}

#[test]
fn what_a_driver_refuses_is_told_at_its_key() {
    for (keys, said) in [
        ("search\"\npath = \"search\"", "10:1: tool.t.path: `search` must start with a slash"),
        ("search\"\npath = \"/\"\nmethod = \"GETT\"", "11:1: tool.t.method: `GETT` is none of GET"),
        ("search\"\npath = \"/\"\naccept = [99]", "11:1: tool.t.accept: 99 is no final status"),
        ("search\"\npath = \"/{q\"", "10:1: tool.t.path = \"/{q\": has a brace that is no"),
        (
            "search\"\npath = \"/\"\nquery = { q = \"}\" }",
            "11:11: tool.t.query.q = \"}\": has a brace",
        ),
        ("tickets\"\nsql = \"\"", "10:1: tool.t.sql: "),
        ("tickets\"\nsql = \"select $1\"", "8:7: tool.t.params: the statement has `$1`"),
        ("tickets\"\nsql = \"attach 'x' as y\"", "10:1: tool.t.sql: `ATTACH` is refused"),
        ("lint\"\ncommand = []", "10:1: tool.t.command: is empty"),
        ("lint\"\ncommand = [\"{x}\"]", "10:1: tool.t.command: the program must be fixed"),
        ("lint\"\ncommand = [\"ls\", 1]", "10:18: tool.t.command[1] = 1: must be a string"),
        ("lint\"\ncommand = [\"ls\"]\nok_exit_codes = [256]", "11:1: tool.t.ok_exit_codes: 256"),
        ("lint\"\ncommand = [\"ls\"]\nnice = 20", "11:1: tool.t.nice: 20 is out of range"),
        ("lint\"\ncommand = \"ls\"", "10:1: tool.t.command = \"ls\": must be a list"),
    ] {
        let refused = tool_error(&format!("partition = \"{keys}"));
        assert!(refused.starts_with(said), "{refused}");
    }
    for (tool, said) in [
        ("partition = \"search\"", "tool.t.path: is missing; give the path below base_url"),
        ("partition = \"tickets\"", "tool.t.sql: is missing; give the statement"),
        ("partition = \"lint\"", "tool.t.command: is missing; give the program"),
    ] {
        let refused = errors(&format!("{PARTITIONS}[tool.t]\n{tool}\n"));
        assert!(refused[0].contains(said), "{refused:#?}");
    }
}

#[test]
fn arguments_are_declared_by_type_or_table() {
    let with = |args: &str| {
        format!(
            "{PARTITIONS}[tool.t]\npartition = \"tickets\"\nsql = \"select $1 as id\"\n\
             params = [\"{{id}}\"]\nargs = {args}\n"
        )
    };
    for (args, said) in [
        ("{ id = \"int\" }", "tool.t.args.id = \"int\": must be one of string, integer"),
        ("{ id = \"Integer\" }", "did you mean `integer`?"),
        ("{ id = 3 }", "tool.t.args.id = 3: must be a table"),
        (
            "{ id = { type = \"integer\", default = \"x\" } }",
            "argument `id` must be a whole number",
        ),
        (
            "{ id = { typ = \"integer\" } }",
            "tool.t.args.id.typ: is no known key; did you mean `type`?",
        ),
        (
            "{ id = { default = 1979-05-27 } }",
            "tool.t.args.id.default = 1979-05-27: must be a string",
        ),
        ("{ id = { default = inf } }", "JSON has no dates, no infinity"),
        (
            "{ ids = \"integer\" }",
            "tool.t.args.ids: is used nowhere in this tool; did you mean `id`?",
        ),
        ("{ other = \"integer\" }", "is used nowhere in this tool; use it as `{other}`"),
    ] {
        let refused = error(&with(args));
        assert!(refused.contains(said), "{args}: {refused}");
    }

    let call = |args: &str, given: Value| {
        let runtime = read(&with(args)).unwrap().build().unwrap();
        let given = given.as_object().unwrap().clone();
        runtime.call(ToolCall::new("t").args(given)).result
    };
    let row = |id: Value| json!([{ "id": id }]);
    assert_eq!(call("{ id = \"integer\" }", json!({"id": 7})).unwrap(), row(json!(7)));
    let default = "{ id = { type = \"integer\", default = 10 } }";
    assert_eq!(call(default, json!({})).unwrap(), row(json!(10)));
    let optional = "{ id = { type = \"integer\", optional = true } }";
    assert_eq!(call(optional, json!({})).unwrap(), row(Value::Null));
    for (args, given) in [
        ("{ id = \"integer\" }", json!({"id": "7"})),
        ("{ id = \"integer\" }", json!({})),
        ("{ id = { type = \"integer\", optional = false } }", json!({})),
        ("{ id = \"integer\" }", json!({"id": 7, "x": 1})),
    ] {
        let Err(CallError::Failed(failure)) = call(args, given) else {
            panic!("accepted");
        };
        assert_eq!(failure.reason, FailureReason::InvalidCall);
        assert_eq!(failure.executed, Executed::No);
    }
}

#[test]
fn an_http_tool_sends_what_the_file_says() {
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Answer(
        Reply::json(r#"{"hits": 3}"#).with_status(202).header("ETag", "v1"),
    ));
    let text = format!(
        r#"
[partition.search.http]
base_url = "{}/v1"
headers = {{ Authorization = "Bearer ${{SEARCH_TOKEN}}" }}
connect_timeout = "2s"
body_max = "1KiB"
redirects = 0
[tool.search]
partition = "search"
method = "POST"
path = "/in/{{index}}"
query = {{ q = "{{q}}", limit = "{{limit}}" }}
headers = {{ X-Trace = "$${{q}}", X-Key = "{{q}}-${{SEARCH_TOKEN}}" }}
body = {{ z = "{{q}}", a = {{ deep = ["{{limit}}", 1, 2.5, true] }} }}
accept = [202]
keep_headers = ["etag"]
args = {{ limit = {{ type = "integer", default = 10 }} }}
"#,
        vendor.url()
    );
    let runtime = read(&text).unwrap().build().unwrap();
    let outcome = runtime.call(ToolCall::new("search").arg("q", "a b").arg("index", "x/y"));
    let result = outcome.result.unwrap();
    assert_eq!(result["status"], 202);
    assert_eq!(result["headers"]["etag"], "v1");
    assert_eq!(result["body"], json!({"hits": 3}));
    let seen = &vendor.seen()[0];
    assert_eq!(seen.target, "/v1/in/x%2Fy?q=a%20b&limit=10");
    assert_eq!(seen.header("authorization"), Some(format!("Bearer {SECRET}").as_str()));
    assert_eq!(seen.header("x-trace"), Some("$a b"));
    assert_eq!(seen.header("x-key"), Some(format!("a b-{SECRET}").as_str()));
    let body = r#"{"z":"a b","a":{"deep":[10,1,2.5,true]}}"#;
    assert_eq!(String::from_utf8_lossy(&seen.body), body, "in the order of the file");
}

#[test]
fn paths_start_from_the_files_folder() {
    let folder = tempfile::tempdir().unwrap();
    let database = rusqlite::Connection::open(folder.path().join("tickets.db")).unwrap();
    database
        .execute_batch(
            "create table tickets (id integer, title text); insert into tickets values (7, 'leak')",
        )
        .unwrap();
    std::fs::create_dir(folder.path().join("work")).unwrap();
    let file = folder.path().join("watertight.toml");
    let text = r#"
[partition.tickets.sql]
url = "sqlite:tickets.db"
read_only = true
[partition.local.process]
dir = "work"
env = { MODE = "quick" }
shim = "off"
[tool.read_ticket]
partition = "tickets"
sql = "select id, title from tickets where id = $1"
params = ["{id}"]
[tool.where]
partition = "local"
command = ["sh", "-c", "pwd; echo $MODE $1; exit 3", "sh", "{word}"]
ok_exit_codes = [3]
output_kept = "4KiB"
"#;
    std::fs::write(&file, text).unwrap();
    let runtime = Config::from_file(&file).unwrap().build().unwrap();
    let ticket = runtime.call(ToolCall::new("read_ticket").arg("id", 7));
    assert_eq!(ticket.result.unwrap(), json!([{"id": 7, "title": "leak"}]));
    let here = runtime.call(ToolCall::new("where").arg("word", "a b")).result.unwrap();
    let work = std::fs::canonicalize(folder.path().join("work")).unwrap();
    let expected = format!("{}\nquick a b\n", work.display());
    assert_eq!(here["stdout"], expected.as_str());
    assert_eq!(here["exit_code"], 3);
}

#[test]
fn a_config_can_be_built_more_than_once() {
    let config = read(
        "[partition.tickets]\nslots = 1\n[partition.tickets.sql]\nurl = \"sqlite::memory:\"\n\
         [tool.make]\npartition = \"tickets\"\nsql = \"create table t (x integer)\"\n",
    )
    .unwrap();
    let runtimes: Vec<Runtime> = (0..2).map(|_| config.build().unwrap()).collect();
    for runtime in &runtimes {
        let made = runtime.call(ToolCall::new("make"));
        assert!(made.is_ok(), "each has a database of its own: {:?}", made.result);
        assert!(runtime.shutdown(Duration::from_secs(10)).is_clean());
    }
}

#[test]
fn the_same_file_serves_postgres() {
    let config = read(
        "[partition.tickets.sql]\nurl = \"postgres://agent:${SEARCH_TOKEN}@127.0.0.1:1/support\"\n\
         [tool.read_ticket]\npartition = \"tickets\"\nsql = \"select $1::int8\"\nparams = [\"{id}\"]\n",
    )
    .unwrap();
    assert!(!format!("{config:?}").contains(SECRET));
    let runtime = config.build().unwrap();
    let refused = runtime.call(ToolCall::new("read_ticket").arg("id", 1));
    let text = format!("{:?}", refused.result);
    assert!(
        matches!(refused.result, Err(CallError::Failed(failure)) if failure.reason == FailureReason::Connect)
    );
    assert!(!text.contains(SECRET), "{text}");
    let absolute = "[partition.p.sql]\nurl = \"sqlite:///var/lib/tickets.db\"\n";
    let config = Config::from_str(absolute, "/etc/watertight.toml").unwrap();
    assert!(
        config.warnings().iter().any(|w| w.contains("`/var/lib/tickets.db`"))
            || Path::new("/var/lib/tickets.db").exists()
    );
}

#[test]
fn the_place_of_the_idempotency_key_is_checked() {
    let sql = |params: &str| format!("partition = \"tickets\"\nsql = \"select $1, $2\"\n{params}");
    let process = |knobs: &str| format!("partition = \"lint\"\ncommand = [\"ls\"]\n{knobs}");
    for (tool, said) in [
        (
            sql("params = [\"{a}\", \"{b}\"]\nidempotency_param = 2"),
            "12:1: tool.t.idempotency_param: `$2` is not the placeholder after 2 params; write 3",
        ),
        (
            sql("params = [\"{a}\", \"{b}\"]\nidempotency_param = 3"),
            "there is no `$3` in the statement; use it, or leave this out",
        ),
        (sql("idempotency_param = 1"), "the statement has `$2`"),
        (sql("params = [\"{a}\"]\nidempotency_param = \"2\""), "must be a whole number"),
        (process("idempotency_env = \"A=B\""), "`A=B` is no name of a variable; write it as in"),
        (process("idempotency_env = \"PATH\""), "`PATH` is what programs find their way by"),
        (
            process("idempotency_env = \"KEY\"\nenv = { KEY = \"x\" }"),
            "11:1: tool.t.idempotency_env: `KEY` is set by `env`; leave one of them out",
        ),
        (process("idempotency_param = 1"), "belongs to sql tools"),
        (process("idempotency_header = \"Key\""), "belongs to http tools"),
    ] {
        let refused = tool_error(&tool);
        assert!(refused.contains(said), "{refused}");
    }
}
