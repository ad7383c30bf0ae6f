//! The reserve of a runtime, and the partitions that use it.

use std::sync::{Arc, OnceLock, Weak};

use super::actions::Actions;
use super::partition::Shared;
use super::sync::Mutex;
use crate::admission::Reserve;
use crate::telemetry::ReserveSnapshot;

/// Lends the reserve's slots. Its lock is a leaf: it is taken under any gate, and no other lock is
/// taken under it.
pub(crate) struct Lender {
    reserve: Mutex<Reserve>,
    /// By number; there before any call is.
    members: OnceLock<Vec<Weak<Shared>>>,
}

/// One partition's way to the reserve.
#[derive(Clone)]
pub(super) struct Membership {
    lender: Arc<Lender>,
    number: usize,
}

impl Lender {
    pub(super) fn new(slots: u32) -> Arc<Lender> {
        Arc::new(Lender { reserve: Mutex::new(Reserve::new(slots)), members: OnceLock::new() })
    }

    /// The membership of the partition that will be member `number`.
    pub(super) fn member(self: &Arc<Lender>, number: usize) -> Membership {
        Membership { lender: Arc::clone(self), number }
    }

    /// Says who the members are.
    pub(super) fn open(&self, members: Vec<Weak<Shared>>) {
        let _ = self.members.set(members);
    }

    pub(super) fn snapshot(&self) -> ReserveSnapshot {
        let reserve = self.reserve.lock();
        ReserveSnapshot { slots: reserve.slots(), free: reserve.free(), waiting: reserve.waiting() }
    }

    fn shared(&self, number: usize) -> Option<Arc<Shared>> {
        self.members.get()?.get(number)?.upgrade()
    }
}

impl Membership {
    /// Takes a slot, if one is free.
    pub(super) fn take(&self) -> bool {
        self.lender.reserve.lock().take()
    }

    /// Gives back `returned` slots, each to the `next` in line, and then, if the partition `wants`
    /// one, takes a slot or gets in line; whether it has taken one. One step, so that nobody waits
    /// beside a free slot, and nobody gets in line twice in between.
    pub(super) fn settle(&self, returned: u32, wants: bool, next: impl FnMut(usize)) -> bool {
        if returned == 0 && !wants {
            return false;
        }
        let mut reserve = self.lender.reserve.lock();
        (0..returned).filter_map(|_| reserve.release()).for_each(next);
        wants && reserve.take_or_register(self.number)
    }

    /// Brings slots to the members that were in line for them, each under its own gate and no
    /// other's. What a member has no use for any more goes on to the next.
    pub(super) fn deliver(&self, to: impl IntoIterator<Item = usize>) {
        let mut owed: Vec<usize> = to.into_iter().collect();
        while let Some(number) = owed.pop() {
            let Some(shared) = self.lender.shared(number) else {
                owed.extend(self.lender.reserve.lock().release());
                continue;
            };
            let mut actions = Actions::default();
            shared.gate.grant_reserve(&mut actions);
            owed.append(&mut actions.take_lent());
            shared.act(actions);
        }
    }
}
