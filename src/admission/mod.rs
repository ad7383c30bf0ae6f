//! Who starts, who waits, who is turned away: the one scheduler of live calls and the inspector.
//!
//! Pure: `now` is an argument, and there is no clock, thread, lock or log in here. A [`Scheduler`]
//! holds the caller's payload (live: the call; in a simulation: a request's number) and hands it
//! back in a [`Decision`] or in [`Effects`].

mod bits;
mod counts;
mod decision;
mod dispatch;
mod estimate;
mod hint;
mod ledger;
mod lending;
mod offer;
mod outlook;
mod overdue;
mod policy;
mod reserve;
mod scheduler;
mod slots;
mod snapshot;
mod tenant;
mod turns;
mod waiting;

pub use counts::{Gauges, Totals};
pub use decision::{Decision, Effects, Offer, Overdue, Rejected, Rejection, Started};
pub use policy::{Dispatch, Policy, PolicyError};
pub use reserve::Reserve;
pub use scheduler::{Finished, Scheduler};
pub use slots::SlotId;
pub use snapshot::{TenantCounts, TenantSnapshot};
pub use waiting::WaiterId;
