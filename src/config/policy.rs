//! Knobs of one policy: each is applied if the policy is still allowed with it.

use super::fault::Faults;
use super::raw::{Field, Read, Table};
use crate::error::PolicyError;
use crate::resilience::{breaker, budget, retry};

/// A policy that says whether its knobs are allowed.
pub(super) trait Checked: Clone {
    fn check(&self) -> Result<(), PolicyError>;
}

impl Checked for breaker::Policy {
    fn check(&self) -> Result<(), PolicyError> {
        breaker::Policy::check(self)
    }
}

impl Checked for retry::Policy {
    fn check(&self) -> Result<(), PolicyError> {
        retry::Policy::check(self)
    }
}

impl Checked for budget::Policy {
    fn check(&self) -> Result<(), PolicyError> {
        budget::Policy::check(self)
    }
}

/// Reads a policy from `table`.
pub(super) struct Knobs<'k, 't, 'f, P> {
    pub(super) policy: P,
    pub(super) table: &'k mut Table<'t>,
    pub(super) faults: &'k mut Faults<'f>,
}

impl<P: Checked> Knobs<'_, '_, '_, P> {
    /// Reads one knob and applies it, if it is allowed.
    pub(super) fn take<T: Read>(&mut self, key: &'static str, apply: impl Fn(&mut P, T)) {
        let Some(Field { value, place }) = self.table.take::<T>(key, self.faults) else {
            return;
        };
        let mut policy = self.policy.clone();
        apply(&mut policy, value);
        match policy.check() {
            Ok(()) => self.policy = policy,
            Err(error) => self.faults.add(&place, error.rule, error.fix),
        }
    }
}
