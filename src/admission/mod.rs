//! Who starts, who waits, who is turned away: the one scheduler of live calls and the inspector.
//!
//! Pure: `now` is an argument, and there is no clock, thread, lock or log in here. A [`Scheduler`]
//! holds the caller's payload (live: the call; in a simulation: a request's number) and hands it
//! back in a [`Decision`] or in [`Effects`].

mod counts;
mod decision;
mod dispatch;
mod estimate;
mod hint;
mod offer;
mod policy;
mod scheduler;
mod slots;
mod tenant;
mod waiting;

pub use counts::{Gauges, Totals};
pub use decision::{Decision, Effects, Offer, Overdue, Rejected, Rejection, Started};
pub use policy::{Dispatch, Policy, PolicyError};
pub use scheduler::{Finished, Scheduler};
pub use slots::SlotId;
pub use waiting::WaiterId;
