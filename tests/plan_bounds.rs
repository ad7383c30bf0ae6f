//! Plans at their bounds: the most of everything is taken, one more is refused, and what is beyond
//! the names that are told apart is summed up.
#![cfg(feature = "json")]

use serde_json::{Value, json};
use watertight::simulate::plan::{Plan, run};

fn partition(name: &str, slots: u32) -> Value {
    json!({"name": name, "slots": slots})
}

fn load(partition: &str) -> Value {
    json!({"partition": partition, "arrivals": {"at_ms": [0]}, "service": {"fixed_ms": 1}})
}

fn plan(partitions: &[Value], loads: &[Value], faults: &[Value]) -> Value {
    json!({"duration_ms": 10, "partitions": partitions, "loads": loads, "faults": faults})
}

fn refused(json: &Value) -> String {
    Plan::from_json(&json.to_string()).expect_err("it is too much").to_string()
}

#[test]
fn partitions_loads_and_faults_are_bounded() {
    let partitions =
        |n: usize| (0..n).map(|at| partition(&format!("p{at}"), 1)).collect::<Vec<_>>();
    let loads = |n: usize| vec![load("p0"); n];
    let fault = json!({"partition": "p0", "from_ms": 0, "until_ms": 1});
    let faults = |n: usize| vec![fault.clone(); n];
    let most = plan(&partitions(1000), &loads(1000), &faults(10_000));
    let report = run(&Plan::from_json(&most.to_string()).unwrap()).unwrap();
    assert_eq!((report.calls, report.partitions.len()), (1000, 1000));
    for (more, field) in [
        (plan(&partitions(1001), &loads(1), &[]), "partitions"),
        (plan(&partitions(1), &loads(1001), &[]), "loads"),
        (plan(&partitions(1), &loads(1), &faults(10_001)), "faults"),
    ] {
        assert!(refused(&more).starts_with(field), "{}", refused(&more));
    }
}

#[test]
fn slots_are_bounded_for_each_partition_and_for_all() {
    let wide = |n: usize| (0..n).map(|at| partition(&format!("p{at}"), 4096)).collect::<Vec<_>>();
    Plan::from_json(&plan(&wide(244), &[load("p0")], &[]).to_string()).unwrap();
    let refused_all = refused(&plan(&wide(245), &[load("p0")], &[]));
    assert!(refused_all.contains("more than 1000000 slots"), "{refused_all}");
    let one = refused(&plan(&[partition("p0", 4097)], &[load("p0")], &[]));
    assert!(one.starts_with("partitions[0].slots"), "{one}");
}

#[test]
fn tenants_beyond_the_first_hundred_are_summed_up() {
    let mut many = load("p");
    many["tenants"] = json!(500);
    many["arrivals"] =
        json!({"at_ms": (0..2000).map(|at| f64::from(at) / 10.0).collect::<Vec<_>>()});
    let mut json = plan(&[partition("p", 64)], &[many], &[]);
    json["duration_ms"] = json!(1000);
    let report = run(&Plan::from_json(&json.to_string()).unwrap()).unwrap();
    assert_eq!(report.tenants.len(), 101);
    assert_eq!(report.tenants[100].name, "(others)");
    let counted: u64 = report.tenants.iter().map(|tenant| tenant.counts.offered).sum();
    assert_eq!((counted, report.calls), (2000, 2000), "nothing that was counted is missing");
}

#[test]
fn a_tenant_too_many_is_refused() {
    let mut many = load("p");
    many["tenants"] = json!(1_000_001);
    let json = plan(&[partition("p", 1)], &[many], &[]);
    assert!(refused(&json).starts_with("loads[0].tenants"), "{}", refused(&json));
}
