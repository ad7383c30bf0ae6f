//! Random bits for jitter.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use crate::resilience::Random;

/// Seeded by the system's randomness.
pub(super) fn random() -> Random {
    Random::seeded(RandomState::new().build_hasher().finish())
}
