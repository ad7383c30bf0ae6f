//! Which partitions this thread is already inside of.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::sync::thread_local;

/// Tells partitions of one process apart; none is 0.
pub(crate) type PartitionId = u64;

const NONE: PartitionId = 0;

thread_local! {
    /// The latest it went into, if it has not left that one: most threads are in one at most.
    static INNERMOST: Cell<PartitionId> = const { Cell::new(NONE) };
    /// How many of the others there are.
    static OTHERS: Cell<usize> = const { Cell::new(0) };
    /// The others, in no order, and as often as the thread is inside.
    static REST: RefCell<Vec<PartitionId>> = const { RefCell::new(Vec::new()) };
}

#[inline]
fn innermost() -> PartitionId {
    INNERMOST.with(Cell::get)
}

#[inline]
fn others() -> usize {
    OTHERS.with(Cell::get)
}

#[inline]
fn set_innermost(partition: PartitionId) -> PartitionId {
    INNERMOST.with(|innermost| innermost.replace(partition))
}

/// Changes the others, or an empty list if the thread is so far at its end that it has none any
/// more.
fn with_rest<R>(f: impl Fn(&mut Vec<PartitionId>) -> R) -> R {
    let change = |rest: &mut Vec<PartitionId>| {
        let answer = f(rest);
        OTHERS.with(|others| others.set(rest.len()));
        answer
    };
    let mine = REST.try_with(|rest| change(&mut rest.borrow_mut()));
    mine.unwrap_or_else(|_| change(&mut Vec::new()))
}

/// Whether this thread works inside `partition`.
#[inline]
pub(crate) fn contains(partition: PartitionId) -> bool {
    innermost() == partition || (others() > 0 && with_rest(|rest| rest.contains(&partition)))
}

/// The partitions this thread is inside of, for a call it makes; `None`: none.
#[inline]
pub(crate) fn current() -> Option<Arc<[PartitionId]>> {
    let innermost = Some(innermost()).filter(|&id| id != NONE);
    if innermost.is_none() && others() == 0 {
        return None;
    }
    Some(with_rest(|rest| rest.iter().copied().chain(innermost).collect()))
}

/// Puts this thread inside `partition` until the guard is dropped.
#[inline]
pub(crate) fn enter(partition: PartitionId) -> Inside {
    let before = set_innermost(partition);
    if before != NONE {
        with_rest(|rest| rest.push(before));
    }
    Inside { partition }
}

/// The same with what is `above` it, for a worker's thread: it is inside of nothing else.
pub(crate) fn descend(above: Option<&[PartitionId]>, partition: PartitionId) -> Below {
    if let Some(above) = above {
        with_rest(|rest| rest.extend_from_slice(above));
    }
    set_innermost(partition);
    Below
}

/// Leaves when dropped; in any order, since permits may be released so.
#[derive(Debug)]
pub(crate) struct Inside {
    partition: PartitionId,
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        if innermost() == self.partition {
            set_innermost(NONE);
        } else {
            with_rest(|rest| {
                if let Some(at) = rest.iter().rposition(|&id| id == self.partition) {
                    rest.swap_remove(at);
                }
            });
        }
    }
}

/// Leaves everything when dropped.
pub(crate) struct Below;

impl Drop for Below {
    fn drop(&mut self) {
        set_innermost(NONE);
        if others() > 0 {
            with_rest(Vec::clear);
        }
    }
}
