//! SplitMix64, the one generator of everything that needs spread and not secrecy: jitter, planted faults,
//! simulations. Pure: whoever draws keeps the state.

/// What to add to the state after each draw.
pub const SPLIT_MIX_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64 (Steele, Lea, Flood 2014): the next output for a state. Neighbouring states give unrelated
/// numbers.
#[must_use]
pub const fn split_mix(state: u64) -> u64 {
    let z = state.wrapping_add(SPLIT_MIX_STEP);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
