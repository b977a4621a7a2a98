//! A hierarchical timing wheel with ticks of one millisecond, built for tens of millions of timers in one
//! process: each is armed, moved or cancelled in constant time, and no tick pays for the others.
//!
//! # What it promises
//!
//! - **Never early.** [`Wheel::advance`] hands out a timer only if its due time is at or before the `now_ms` of
//!   that very call, even after the caller's clock has been set back.
//! - **Never lost, never twice.** Everything due at or before `now_ms` fires, up to the `max` of the call; what is
//!   left stays due and fires at the next call, also with the same `now_ms`.
//! - **In order.** The timers fired by one call come in ascending order of due time, to the millisecond. Among
//!   timers due in the same millisecond the order is unspecified.
//! - **Stale handles are harmless.** A [`Handle`] of a fired or cancelled timer never touches another timer: its
//!   slot carries a generation, and a slot whose generations are used up is retired instead of wrapping round.
//! - **No tick that stalls.** A slot of an upper level comes down bit by bit during the whole turn before it is
//!   needed, at least [`DRAIN_BATCH`] references a tick and otherwise `left / ticks left`.
//! - **No wasted wake-ups.** [`Wheel::next_wake_ms`] names the next instant at which there is work.
//! - **Bounded memory.** Storage grows in fixed segments (no doubling, no copying) and is re-used; references left
//!   behind by cancelled timers are swept, so endless arming and cancelling does not grow it.
//!
//! Time is a parameter: the crate reads no clock. A jump forward, by a millisecond or by centuries, visits only the
//! slots that hold something. A jump backwards moves nothing: the wheel's own time (the *cursor*) never goes back,
//! and timers armed for the span between the new time and the cursor wait in the overdue heap for their
//! millisecond.
//!
//! # How it is laid out
//!
//! ```text
//! timers   24 bytes each (for a u64 item): due, item, generation, position of its one valid reference
//! slots    7 levels of 2048 slots of 1 ms, 1 s, 17 min, 12 days, 35 years, ...: a stack of references each
//! blocks   128 bytes: link, length, 30 references (u32 indexes of timers); a slot's stack is a chain of these
//! overdue  a 4-ary heap of the timers that were armed for a time before the cursor
//! ```
//!
//! A reference is *valid* while its timer says that it lies at this position; otherwise it is a leftover of a
//! cancelled or moved timer. So cancelling touches one cache line, the timer's own: it neither unlinks neighbours
//! nor needs a mark in the slot. And because a slot is a run of indexes, not a linked list of timers, bringing it
//! down is a series of independent loads that the processor overlaps, not a pointer chase.
//!
//! # Invariants
//!
//! With *unit* = time shifted right by the level's bits, and *current* = unit of the cursor:
//!
//! 1. A timer goes to the lowest level at whose upper neighbour it is at most one unit ahead of the cursor. Hence a
//!    level holds less than two turns (2048 slots, each standing for one unit only), and at level 1 and above
//!    nothing is ever put into the current unit or the one after it.
//! 2. At level 1 and above the current unit's slot is empty, and the next unit's slot (if it holds something) is
//!    being drained: it is empty before the cursor gets there.
//! 3. A valid reference in level 0 has `due == tick`. Above it has `due >= start of its slot`: moving a timer to a
//!    later time only writes the new time, and the slot sorts it out when it comes down.
//! 4. A timer not in the overdue heap has exactly one valid reference, and `due >= cursor`; one in the heap has
//!    none, and `due < cursor`. Invalid references number at most a constant factor of the valid ones plus a
//!    constant, whenever the wheel has been used since (see `sweep`).
//!
//! # Cost
//!
//! | operation | cost |
//! |---|---|
//! | `insert`, `reschedule` | O(1); O(log k) if already overdue, k = overdue timers waiting (O(1) when they come in order) |
//! | `cancel` | O(1), one cache line; O(log k) for an overdue one |
//! | `advance` by one tick | what fires + per draining level max([`DRAIN_BATCH`], left / ticks left) |
//! | `next_wake_ms` | O(levels), bitmaps only |
//!
//! An insert into a place that was freed long ago waits for that place's cache line; one freed just now, or a new
//! one, is at hand. Each timer is brought down at most once per level, so at most six times in its life; twice for one that is hours
//! away.
//!
//! # Sources
//!
//! G. Varghese and A. Lauck, "Hashed and Hierarchical Timing Wheels" (SOSP 1987), scheme 7, is the structure. The
//! Linux kernel's timer wheel (`kernel/time/timer.c`) showed what bringing a level down at once costs; since 2015 it
//! avoids it by giving up precision, which a deadline may not. The double-width levels, which let the next slot come
//! down while the present one is still in use, are the incremental rehashing of hash tables (Redis, `dict.c`)
//! applied to time. Generation-checked handles are those of slot maps.

mod advance;
mod blocks;
mod buckets;
mod geometry;
mod occupancy;
mod overdue;
mod segments;
mod sweep;
mod timers;
mod wheel;

pub use advance::DRAIN_BATCH;
pub use timers::Handle;
pub use wheel::Wheel;

/// No index, no block, no position.
const NONE: u32 = u32::MAX;
