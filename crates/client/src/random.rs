//! Random numbers for jitter and trace ids: SplitMix64 per process, seeded by the operating system through
//! the standard library's hash keys. Not for secrets.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

static STATE: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(RandomState::new().hash_one(0_u64)));

/// The next random number.
pub(crate) fn next() -> u64 {
    mix(STATE.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed))
}

/// Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014), as published with Java 8.
const fn mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A random number from 0 to `most`, both included.
pub(crate) fn up_to(most: u64) -> u64 {
    if most == u64::MAX { next() } else { next() % (most + 1) }
}
