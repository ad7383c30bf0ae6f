//! `[partition.…]`: the knobs of one partition.

use std::time::Duration;

use super::fault::{Faults, Place};
use super::raw::{Field, Read, Table, nearest};
use crate::admission::Dispatch;
use crate::runtime::PartitionSpec;

/// Everybody who is not listed in `tenant_slots`.
const REST: &str = "*";

const DISPATCHES: [(&str, Dispatch); 4] = [
    ("fifo", Dispatch::Fifo),
    ("round_robin", Dispatch::RoundRobin),
    ("strict", Dispatch::Strict),
    ("borrow", Dispatch::Borrow),
];

/// Reads the knobs of the partition called `name`; its driver's table is left in `table`.
pub(super) fn read(name: &str, table: &mut Table<'_>, faults: &mut Faults<'_>) -> PartitionSpec {
    let mut knobs = Knobs { spec: PartitionSpec::new(name), table, faults };
    if let Err(fault) = knobs.spec.check() {
        let place = knobs.table.place.clone();
        knobs.faults.add(&place, fault.error.rule, fault.error.fix);
        knobs.spec = nameless();
    }
    knobs.take("slots", PartitionSpec::slots);
    knobs.take("queue", PartitionSpec::queue);
    knobs.take::<Duration>("max_wait", PartitionSpec::max_wait);
    knobs.take::<Duration>("run_limit", PartitionSpec::run_limit);
    knobs.take::<Duration>("cancel_grace", PartitionSpec::cancel_grace);
    knobs.take("replace_overdue", PartitionSpec::replace_overdue);
    knobs.take("reserve_max", PartitionSpec::reserve_max);
    knobs.take("tenant_max", PartitionSpec::tenant_max);
    knobs.take("tenant_queue", PartitionSpec::tenant_queue);
    knobs.take::<Duration>("throttle_max", PartitionSpec::throttle_max);
    let dispatch = knobs.dispatch();
    knobs.tenant_slots(dispatch);
    knobs.tenant_weights(dispatch);
    let mut spec = knobs.spec;
    super::door::read(&mut spec, table, faults);
    super::retry::read_budget(&mut spec, table, faults);
    spec
}

/// A partition to try single knobs on.
fn nameless() -> PartitionSpec {
    PartitionSpec::new("partition")
}

struct Knobs<'k, 't, 'f> {
    spec: PartitionSpec,
    table: &'k mut Table<'t>,
    faults: &'k mut Faults<'f>,
}

impl Knobs<'_, '_, '_> {
    /// Reads one knob and applies it, if it is allowed by itself.
    fn take<T: Read + Copy>(
        &mut self,
        key: &'static str,
        apply: impl Fn(PartitionSpec, T) -> PartitionSpec,
    ) {
        let Some(Field { value, place }) = self.table.take::<T>(key, self.faults) else {
            return;
        };
        match apply(nameless(), value).check() {
            Ok(()) => self.spec = apply(self.spec.clone(), value),
            Err(fault) => self.faults.add(&place, fault.error.rule, fault.error.fix),
        }
    }

    fn dispatch(&mut self) -> Dispatch {
        let Some(Field { value, place }) = self.table.take::<String>("dispatch", self.faults)
        else {
            return Dispatch::default();
        };
        if let Some((_, dispatch)) = DISPATCHES.iter().find(|(name, _)| *name == value) {
            self.spec = self.spec.clone().dispatch(*dispatch);
            return *dispatch;
        }
        let names = DISPATCHES.map(|(name, _)| name);
        let fix = match nearest(&value, &names) {
            Some(name) => format!("did you mean `{name}`?"),
            None => "take \"fifo\" unless tenants must be kept apart".to_owned(),
        };
        let rule = "must be \"fifo\", \"round_robin\", \"strict\" or \"borrow\"";
        self.faults.add(&place, rule, fix);
        Dispatch::Strict
    }

    fn tenant_slots(&mut self, dispatch: Dispatch) {
        let place = self.table.place_of("tenant_slots");
        let Some(entries) = self.table.entries("tenant_slots", self.faults) else {
            return;
        };
        if !matches!(dispatch, Dispatch::Strict | Dispatch::Borrow) {
            let rule = "means nothing here: no slot is anybody's home";
            let fix = "set dispatch = \"strict\" or \"borrow\", or leave tenant_slots out";
            self.faults.add(&place, rule, fix);
        }
        let mut rest = None;
        let mut homes = 0;
        for (tenant, node) in entries {
            let Some(slots) = node.read::<u32>(self.faults) else {
                continue;
            };
            if tenant == REST {
                rest = Some(slots);
            } else {
                homes += u64::from(slots.value);
                self.spec = self.spec.clone().tenant_slots(tenant, slots.value);
            }
        }
        if let Err(fault) = self.spec.check() {
            self.faults.add(&place, fault.error.rule, fault.error.fix);
            return;
        }
        let left = u64::from(self.spec.policy().slots) - homes;
        self.check_rest(left, rest, &place);
    }

    fn tenant_weights(&mut self, dispatch: Dispatch) {
        let place = self.table.place_of("tenant_weights");
        let Some(entries) = self.table.entries("tenant_weights", self.faults) else {
            return;
        };
        if dispatch != Dispatch::RoundRobin {
            let rule = "means nothing here: only round robin goes by weights";
            let fix = "set dispatch = \"round_robin\", or leave tenant_weights out";
            self.faults.add(&place, rule, fix);
        }
        for (tenant, node) in entries {
            if let Some(weight) = node.read::<u32>(self.faults) {
                let weigh = |spec: PartitionSpec| spec.tenant_weight(tenant.as_str(), weight.value);
                match weigh(nameless()).check() {
                    Ok(()) => self.spec = weigh(self.spec.clone()),
                    Err(fault) => {
                        self.faults.add(&weight.place, fault.error.rule, fault.error.fix);
                    }
                }
            }
        }
    }

    /// What is left for everybody else must be as stated; that nothing is left must be stated.
    fn check_rest(&mut self, left: u64, rest: Option<Field<u32>>, place: &Place) {
        match rest {
            Some(stated) if u64::from(stated.value) != left => {
                let rule = format!("must be what the others leave of slots, which is {left}");
                let fix = "correct it, or leave it out unless it is 0";
                self.faults.add(&stated.place, rule, fix);
            }
            None if left == 0 => {
                let rule = "leaves no slot to tenants that are not listed";
                let fix = "say so with `\"*\" = 0`, or raise slots";
                self.faults.add(place, rule, fix);
            }
            Some(_) | None => {}
        }
    }
}
