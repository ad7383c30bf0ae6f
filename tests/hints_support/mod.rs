//! Loads on virtual time for the test and the benchmark of hints.

pub(crate) mod compare;
pub(crate) mod door;
pub(crate) mod load;
pub(crate) mod loads;
