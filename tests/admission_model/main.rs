//! The scheduler against a naive model, and the faults other bulkheads are known for.

mod compare;
mod model;
mod model_ends;
mod observed;
mod random;
mod script;
mod tenants;
