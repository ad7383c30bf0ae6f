//! Partition families on three PostgreSQL databases: a shard that hangs leaves the others as they
//! were, and each call goes to the shard that it names.
#![cfg(all(feature = "cli", feature = "testing"))]

#[path = "support/postgres.rs"]
#[expect(dead_code, reason = "each test binary uses a part of it")]
mod postgres;

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postgres::Cluster;
use serde_json::{Value, json};
use watertight::config::Config;
use watertight::outcome::{Executed, Status};
use watertight::testing::{Slow, assert_isolated, check_isolated};
use watertight::{Runtime, ToolCall};

const SHARDS: [&str; 3] = ["eu", "us", "ap"];
const FENCE: Duration = Duration::from_millis(500);
const PASSWORD: &str = "shard-s3cret";

const TOOLS: &str = "
[tool.order]
partition = \"orders\"
sql = \"select current_database()::text as shard, $1::int as id\"
params = [\"{id}\"]
args = { id = \"integer\" }
[tool.report]
partition = \"orders\"
sql = \"select pg_sleep(20)\"
";

/// A server with a database for each shard.
fn cluster() -> Arc<Cluster> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let cluster = Cluster::shared();
    let mut client = cluster.client();
    for shard in SHARDS {
        let there = client.query("select 1 from pg_database where datname = $1", &[&shard]);
        if there.unwrap().is_empty() {
            client.batch_execute(&format!("create database {shard}")).unwrap();
        }
    }
    cluster
}

fn url(cluster: &Cluster, database: &str) -> String {
    format!("postgres://postgres:{PASSWORD}@127.0.0.1:{}/{database}", cluster.port())
}

fn runtime(text: &str) -> Runtime {
    let config = Config::from_str(text, "watertight.toml").unwrap_or_else(|e| panic!("{e}"));
    config.build().unwrap()
}

/// Each shard behind its own wall.
fn family(cluster: &Cluster) -> Runtime {
    let mut text = "[partition.orders]\nby = \"shard\"\nslots = 2\n".to_owned();
    text += "[partition.orders.members]\n";
    for shard in SHARDS {
        writeln!(text, "{shard}.sql.url = {:?}", url(cluster, shard)).unwrap();
    }
    runtime(&(text + TOOLS))
}

fn order(shard: impl Into<Value>) -> ToolCall {
    ToolCall::new("order").arg("id", 7).arg("shard", shard)
}

#[test]
fn a_hung_shard_leaves_the_others_as_they_were() {
    let cluster = cluster();
    let runtime = family(&cluster);
    let hung = ToolCall::new("report").arg("shard", "eu");
    for shard in ["us", "ap"] {
        assert!(runtime.call(order(shard)).is_ok(), "its connection is there");
        assert_isolated(&runtime, &Slow::new(hung.clone()), order(shard), FENCE);
    }
    let used = |name: &str| runtime.partition(name).unwrap().snapshot().max_in_flight;
    assert_eq!((used("orders.eu"), used("orders.us"), used("orders.ap")), (2, 1, 1));
}

/// The twin: the same calls, with all shards in one partition.
#[test]
fn without_walls_between_shards_the_others_are_felt() {
    let cluster = cluster();
    let text =
        format!("[partition.orders]\nslots = 2\nsql.url = {:?}\n{TOOLS}", url(&cluster, "eu"));
    let runtime = runtime(&text);
    let order = ToolCall::new("order").arg("id", 7);
    assert!(runtime.call(order.clone()).is_ok());
    let hung = Slow::new(ToolCall::new("report"));
    assert!(check_isolated(&runtime, &hung, order, FENCE).is_err());
}

#[test]
fn each_call_goes_to_the_shard_it_names() {
    let cluster = cluster();
    let runtime = family(&cluster);
    for shard in SHARDS {
        let outcome = runtime.call(order(shard));
        assert_eq!(&*outcome.partition, format!("orders.{shard}"));
        assert_eq!(outcome.ok(), Some(json!([{"shard": shard, "id": 7}])));
    }
}

#[test]
fn a_key_that_is_none_is_said_and_no_other_is() {
    let cluster = cluster();
    let runtime = family(&cluster);
    let long = "x".repeat(100_000);
    for (call, reason) in [
        (order("mars"), "unknown_partition"),
        (order(long), "unknown_partition"),
        (order(3), "unknown_partition"),
        (order(json!(["eu"])), "invalid_call"),
        (ToolCall::new("order").arg("id", 7), "invalid_call"),
    ] {
        let outcome = runtime.call(call);
        assert_eq!((outcome.status(), outcome.executed()), (Status::Failed, Executed::No));
        let json = outcome.to_json();
        assert_eq!(json["reason"], reason, "{json}");
        assert_eq!(json["partition"], "orders");
        let said = json.to_string();
        assert!(said.contains("`shard`") && said.len() < 1000, "{said}");
        for secret in [PASSWORD, "127.0.0.1", "\"us\"", "`us`", "orders.us"] {
            assert!(!said.contains(secret), "{said}");
        }
    }
    // Nothing of this has taken a slot.
    let snapshot = runtime.snapshot();
    assert!(snapshot.partitions.iter().all(|partition| partition.offered == 0));
}

#[test]
fn a_number_is_a_key_like_any_other() {
    let text = "
        [partition.logs]
        by = \"node\"
        [partition.logs.members]
        1.sql.url = \"sqlite::memory:\"
        2.sql.url = \"sqlite::memory:\"
        [tool.count]
        partition = \"logs\"
        sql = \"select 1 as n\"
    ";
    let runtime = runtime(text);
    let outcome = runtime.call(ToolCall::new("count").arg("node", 2));
    assert_eq!((&*outcome.partition, outcome.is_ok()), ("logs.2", true));
}
