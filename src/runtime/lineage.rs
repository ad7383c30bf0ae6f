//! Which partitions this thread is already inside of.

use std::cell::RefCell;
use std::sync::Arc;

use super::sync::thread_local;

/// Tells partitions of one process apart.
pub(crate) type PartitionId = u64;

thread_local! {
    static INSIDE: RefCell<Lineage> = const { RefCell::new(Lineage::new()) };
}

/// What a thread is inside of, by entry.
struct Lineage {
    entries: u64,
    inside: Vec<(u64, PartitionId)>,
}

impl Lineage {
    const fn new() -> Lineage {
        Lineage { entries: 0, inside: Vec::new() }
    }
}

/// Looks at this thread's lineage, or at an empty one if the thread is so far at its end that it
/// has none any more.
fn with<R>(f: impl Fn(&mut Lineage) -> R) -> R {
    let mine = INSIDE.try_with(|inside| f(&mut inside.borrow_mut()));
    mine.unwrap_or_else(|_| f(&mut Lineage::new()))
}

/// Whether this thread works inside `partition`.
#[inline]
pub(crate) fn contains(partition: PartitionId) -> bool {
    with(|lineage| lineage.inside.iter().any(|&(_, id)| id == partition))
}

/// The partitions this thread is inside of, for a call it makes; `None`: none.
#[inline]
pub(crate) fn current() -> Option<Arc<[PartitionId]>> {
    with(|lineage| {
        let ids = lineage.inside.iter().map(|&(_, id)| id);
        (!lineage.inside.is_empty()).then(|| ids.collect())
    })
}

/// Puts this thread inside `partition`, with what is `above` it, until the guard is dropped.
#[inline]
pub(crate) fn enter(above: Option<&[PartitionId]>, partition: PartitionId) -> Inside {
    with(|lineage| {
        lineage.entries += 1;
        let entry = lineage.entries;
        let ids = above.unwrap_or_default().iter().chain([&partition]);
        lineage.inside.extend(ids.map(|&id| (entry, id)));
        Inside { entry }
    })
}

/// Leaves when dropped; in any order, since permits may be released so.
#[derive(Debug)]
pub(crate) struct Inside {
    entry: u64,
}

impl Drop for Inside {
    fn drop(&mut self) {
        with(|lineage| lineage.inside.retain(|&(entry, _)| entry != self.entry));
    }
}
