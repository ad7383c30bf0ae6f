//! The scheduler against a naive model, and the faults other bulkheads are known for.

mod tenants;
