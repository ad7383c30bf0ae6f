//! Idempotency keys: what tells a backend that two requests are one logical call.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use crate::time::wall_clock;

/// A new key: a UUID of version 7 (RFC 9562), of the time of day in milliseconds and 74 random bits.
/// They come from SipHash under keys that the system draws for each process, so that nobody can
/// tell one key from another.
pub(super) fn mint() -> Arc<str> {
    let since = wall_clock().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = since.as_millis() as u64;
    let random = RandomState::new();
    uuid(millis, random.hash_one((0_u8, since)), random.hash_one((1_u8, since)))
}

fn uuid(millis: u64, a: u64, b: u64) -> Arc<str> {
    let (high, low) = (millis >> 16 & 0xffff_ffff, millis & 0xffff);
    let (version, variant) = (0x7000 | a & 0x0fff, 0x8000 | b >> 48 & 0x3fff);
    format!("{high:08x}-{low:04x}-{version:04x}-{variant:04x}-{:012x}", b & 0xffff_ffff_ffff).into()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{mint, uuid};

    #[test]
    fn the_example_of_the_standard() {
        let example = uuid(0x017f_22e2_79b0, 0xcc3, 0x18c4_dc0c_0c07_398f);
        assert_eq!(&*example, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
    }

    #[test]
    fn no_two_are_the_same_on_any_thread() {
        let mint_some = || (0..2000).map(|_| mint()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(mint_some)).collect();
        let keys: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert!(keys.iter().all(|key| key.len() == 36 && &key[14..15] == "7"));
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
    }
}
