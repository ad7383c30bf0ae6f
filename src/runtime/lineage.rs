//! Which partitions this thread is already inside of.

use std::cell::RefCell;
use std::sync::Arc;

/// Tells partitions of one process apart.
pub(crate) type PartitionId = u64;

thread_local! {
    static INSIDE: RefCell<Vec<PartitionId>> = const { RefCell::new(Vec::new()) };
}

/// Whether this thread works inside `partition`.
#[inline]
pub(crate) fn contains(partition: PartitionId) -> bool {
    INSIDE.with_borrow(|inside| inside.contains(&partition))
}

/// The partitions this thread is inside of, for a call it makes; `None`: none.
#[inline]
pub(crate) fn current() -> Option<Arc<[PartitionId]>> {
    INSIDE.with_borrow(|inside| (!inside.is_empty()).then(|| inside.as_slice().into()))
}

/// Puts this thread inside `partition`, with what is `above` it, until the guard is dropped.
#[inline]
pub(crate) fn enter(above: Option<&[PartitionId]>, partition: PartitionId) -> Inside {
    INSIDE.with_borrow_mut(|inside| {
        let entered = above.map_or(0, <[_]>::len) + 1;
        inside.extend_from_slice(above.unwrap_or_default());
        inside.push(partition);
        Inside { partition, entered }
    })
}

/// Leaves when dropped.
#[derive(Debug)]
pub(crate) struct Inside {
    partition: PartitionId,
    entered: usize,
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.with_borrow_mut(|inside| {
            // Permits may be released in any order: it is this partition's last entry that goes.
            if let Some(at) = inside.iter().rposition(|&id| id == self.partition) {
                inside.drain(at + 1 - self.entered..=at);
            }
        });
    }
}
