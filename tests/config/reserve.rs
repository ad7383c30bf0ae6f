//! `[reserve]` and who may use it, and the weights of tenants.

use super::{error, read};

const BORROWER: &str = "[partition.p]\nslots = 2\nreserve_max = 3\n";

#[test]
fn a_reserve_is_the_runtimes_and_sizes_its_borrowers() {
    let config = read(&format!("[reserve]\nslots = 4\n{BORROWER}")).unwrap();
    let runtime = config.build().unwrap();
    assert_eq!(runtime.snapshot().reserve.slots, 4);
    let spec = runtime.partition("p").unwrap().spec();
    assert_eq!((spec.policy().reserve_max, spec.capacity()), (3, 5));

    let none = read("[reserve]\nslots = 0\n[partition.p]\nreserve_max = 0\n").unwrap();
    assert_eq!(none.build().unwrap().snapshot().reserve.slots, 0);
    read("[reserve]\nslots = 4096\n[partition.p]\nreserve_max = 4096\n").unwrap();
}

#[test]
fn a_reserve_that_makes_no_sense_is_refused() {
    let nothing_to_lend = "3:1: partition.p.reserve_max: has no reserve to borrow from; add \
                           `[reserve]` with `slots`, or leave reserve_max out";
    assert_eq!(error(BORROWER), nothing_to_lend);
    let empty = error(&format!("{BORROWER}[reserve]\nslots = 0\n"));
    assert_eq!(empty, nothing_to_lend);

    for (reserve, said) in [
        ("slots = 4097", "reserve.slots = 4097: must be 0 to 4096"),
        ("slots = -1", "reserve.slots = -1: must be a whole number"),
        ("", "reserve.slots: is missing; say how many slots may be lent"),
        ("slots = 1\nslot = 1", "reserve.slot"),
    ] {
        let refused = error(&format!("[reserve]\n{reserve}\n[partition.p]\n"));
        assert!(refused.contains(said), "{refused}");
    }
    let refused = error("[reserve]\nslots = 1\n[partition.p]\nreserve_max = 4097\n");
    assert!(refused.contains("partition.p.reserve_max = 4097: must be 0 to 4096"), "{refused}");
}

#[test]
fn weights_are_round_robins_and_within_their_range() {
    let knobs = |dispatch: &str, weights: &str| {
        format!("[partition.p]\ndispatch = {dispatch:?}\ntenant_weights = {{ {weights} }}\n")
    };
    let config = read(&knobs("round_robin", "gold = 3, silver = 1000")).unwrap();
    let runtime = config.build().unwrap();
    let weights = &runtime.partition("p").unwrap().spec().policy().weights;
    let weights: Vec<_> =
        weights.iter().map(|(tenant, weight)| (tenant.as_str(), *weight)).collect();
    assert_eq!(weights, [("gold", 3), ("silver", 1000)]);

    for (dispatch, weights, said) in [
        ("fifo", "gold = 3", "tenant_weights: means nothing here: only round robin goes by"),
        ("round_robin", "gold = 0", "tenant_weights.gold = 0: must be 1 to 1000"),
        ("round_robin", "gold = 1001", "tenant_weights.gold = 1001: must be 1 to 1000"),
        ("round_robin", "gold = \"x\"", "tenant_weights.gold"),
    ] {
        let refused = error(&knobs(dispatch, weights));
        assert!(refused.contains(said), "{refused}");
    }
}
