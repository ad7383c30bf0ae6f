//! Who starts, who waits, who is turned away: the one scheduler of live calls and the inspector.
//!
//! Pure: `now` is an argument, and there is no clock, thread, lock or log in here. A [`Scheduler`]
//! holds the caller's payload (live: the call; in a simulation: a request's number) and hands it
//! back in a [`Decision`] or in [`Effects`].

mod decision;
mod estimate;
mod policy;
mod scheduler;
mod slots;
mod tenant;
mod waiting;

pub use decision::{Decision, Effects, Offer, Overdue, Rejected, Rejection, Started};
pub use policy::{Dispatch, Policy, PolicyError};
pub use scheduler::{Finished, Gauges, Scheduler, Totals};
pub use slots::SlotId;
pub use waiting::WaiterId;
