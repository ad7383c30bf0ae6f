//! The inspector: a page that shows what becomes of every request of a
//! [scenario](crate::simulate::Scenario), served on the loopback interface.
//!
//! The page draws; what happens at each tick is worked out by [`simulate`](crate::simulate), that
//! is by the scheduler that serves live calls. There is no scheduling rule in the page.

mod http;
mod page;
mod server;

pub use server::{Server, Stopper};
