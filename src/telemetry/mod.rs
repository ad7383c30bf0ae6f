//! What a partition has done and how full it is, as numbers.

mod histogram;
mod snapshot;

pub use histogram::Latency;
pub use snapshot::{Counts, PartitionSnapshot, ReserveSnapshot, RunningCall, Snapshot};
