//! Planning: any demand, any partitions, in virtual time.
//!
//! A [`Plan`] says which partitions there are, what calls are made of them, how long those take,
//! and what goes wrong when. [`run`] plays it through the partitions' own
//! [`Scheduler`](crate::admission::Scheduler)s and [`Reserve`](crate::admission::Reserve), their
//! breakers and their retry budgets as fast as the machine can, and reports what became of the calls. The same plan always has the same
//! report: all chance comes from its seed, and each load has a share of its own, so that two plans
//! that differ in their partitions alone meet the very same calls.
//!
//! ```
//! use watertight::simulate::plan::{Plan, run};
//!
//! let plan = Plan::from_json(r#"{
//!     "duration_ms": 60000,
//!     "partitions": [{"name": "search", "slots": 4}, {"name": "tickets", "slots": 2}],
//!     "loads": [
//!         {"partition": "search", "arrivals": {"poisson_per_s": 2},
//!          "service": {"lognormal": {"p50_ms": 40, "p99_ms": 400}}},
//!         {"partition": "tickets", "arrivals": {"poisson_per_s": 20}, "service": {"fixed_ms": 5}}
//!     ],
//!     "faults": [{"partition": "search", "from_ms": 10000, "until_ms": 50000, "hang": true}]
//! }"#)?;
//! let report = run(&plan)?;
//! let [search, tickets] = &report.partitions[..] else { unreachable!() };
//! assert!(search.counts.busy() > 0, "a hanging backend fills its own partition");
//! assert_eq!(tickets.counts.busy(), 0, "and no other");
//! # Ok::<(), watertight::simulate::InputError>(())
//! ```

mod agenda;
mod arrivals;
mod call;
mod chance;
mod engine;
mod input;
mod lane;
mod partition;
mod protection;
mod report;
mod trace;

pub use arrivals::Arrivals;
pub use call::End;
pub use chance::Distribution;
pub use engine::{Event, Happening, run, run_observed};
pub use input::{Fault, Load, Plan};
pub use partition::PartitionPlan;
pub use protection::{BreakerPlan, BudgetPlan, RetryPlan};
pub use report::{
    BusyCounts, Counts, GroupReport, PartitionReport, Quantiles, Report, ReserveReport,
};
pub use trace::TraceRow;
