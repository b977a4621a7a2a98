//! Plays recorded order events and reports the late ones.
fn main() {}
