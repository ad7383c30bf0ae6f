//! The scheduler against a naive model, and the faults other bulkheads are known for.

mod compare;
mod exhaustive;
mod extremes;
mod fairness;
mod faults;
mod model;
mod model_ends;
mod observed;
mod random;
mod reserve;
mod script;
mod tenants;
