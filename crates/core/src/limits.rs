//! Every limit that a user can run into, with its unit in its name.

/// Bytes of a task's payload (JSON text).
pub const PAYLOAD_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a request body.
pub const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes of a task's key.
pub const KEY_BYTES_MAX: usize = 256;
/// Characters of a queue's or a recurring schedule's name.
pub const NAME_CHARS_MAX: usize = 64;
/// Queues in one store.
pub const QUEUES_MAX: usize = 1_000;
/// Recurring schedules in one store.
pub const RECURRING_MAX: usize = 10_000;
/// Tasks in one `POST /v1/tasks/batch`.
pub const BATCH_ITEMS_MAX: usize = 5_000;
/// Tasks in one lease, results in one settle, leases in one extend.
pub const LEASE_ITEMS_MAX: usize = 1_000;
/// Longest wait of a lease request in milliseconds.
pub const LEASE_WAIT_MAX_MS: u64 = 60_000;
/// Bounds of a pulled lease's length in milliseconds.
pub const LEASE_MS_MIN: u64 = 100;
/// See [`LEASE_MS_MIN`].
pub const LEASE_MS_MAX: u64 = 12 * 3_600_000;
/// Items in one page of a listing.
pub const PAGE_ITEMS_MAX: usize = 1_000;
/// Bytes of an error text kept with a task; longer ones are cut.
pub const ERROR_BYTES_MAX: usize = 2_000;
/// Bytes of a worker's name and of an actor.
pub const ACTOR_BYTES_MAX: usize = 128;
/// The latest due time that is taken: 9999-12-31T23:59:59.999Z, the last that RFC 3339 can write.
pub const DUE_MS_MAX: i64 = 253_402_300_799_999;
/// The earliest due time that is taken.
pub const DUE_MS_MIN: i64 = 0;

/// Whether `name` can name a queue or a recurring schedule: 1 to 64 of `a-z A-Z 0-9 . _ - :`.
#[must_use]
pub fn is_name(name: &str) -> bool {
    (1..=NAME_CHARS_MAX).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b':'))
}

/// `text` cut to at most `bytes_max` bytes at a character's border.
#[must_use]
pub fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
