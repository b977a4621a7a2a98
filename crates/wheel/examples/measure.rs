//! Measures the wheel against `BinaryHeap` and `BTreeMap`: ten million timers spread over thirty minutes.
//!
//! `cargo run --release -p duebook-wheel --example measure [wheel|heap|btree] [timers]`
//!
//! - insert: arming all of them, first into memory fresh from the system, then into memory held already;
//! - cancel: disarming all of them in random order;
//! - bytes: what the structure reserves per timer (for the map: an estimate by its node size and two thirds fill);
//! - worst tick: the longest single step by 1 ms during 40 minutes of ticks, least of three runs; each fired timer
//!   is armed again 1 to 30 minutes ahead, outside the measured time.
//!
//! `BinaryHeap` cancels by one flag per item, which the caller must keep dense and never re-use: a bound from below.
#![allow(clippy::disallowed_methods, reason = "measuring needs the clock; the crate itself reads none")]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};

use duebook_wheel::{Handle, Wheel};

const START_MS: u64 = 1_760_000_000_000;
const SPAN_MS: u64 = 30 * 60 * 1000;
const TICKS: u64 = 40 * 60 * 1000;

/// What a structure has to offer to be measured.
trait Queue {
    type Key: Copy;
    fn insert(&mut self, due_ms: u64, item: u64) -> Self::Key;
    fn cancel(&mut self, key: Self::Key) -> bool;
    fn advance(&mut self, now_ms: u64, fired: &mut Vec<u64>);
    fn clear(&mut self);
    fn bytes(&self) -> usize;
    fn moved(&self) -> usize {
        0
    }
}

impl Queue for Wheel<u64> {
    type Key = Handle;
    fn insert(&mut self, due_ms: u64, item: u64) -> Handle {
        Wheel::insert(self, due_ms, item)
    }
    fn cancel(&mut self, key: Handle) -> bool {
        Wheel::cancel(self, key).is_some()
    }
    fn advance(&mut self, now_ms: u64, fired: &mut Vec<u64>) {
        Wheel::advance(self, now_ms, usize::MAX, |_, item| fired.push(item));
    }
    fn clear(&mut self) {
        Wheel::clear(self);
    }
    fn bytes(&self) -> usize {
        self.memory_bytes()
    }
    fn moved(&self) -> usize {
        self.moved_last_advance()
    }
}

/// A heap with lazy cancellation: one flag per item.
#[derive(Default)]
struct Heap {
    heap: BinaryHeap<Reverse<(u64, u64)>>,
    cancelled: Vec<bool>,
}

impl Queue for Heap {
    type Key = u64;
    fn insert(&mut self, due_ms: u64, item: u64) -> u64 {
        if self.cancelled.len() <= item as usize {
            self.cancelled.resize(item as usize + 1, false);
        }
        self.heap.push(Reverse((due_ms, item)));
        item
    }
    fn cancel(&mut self, item: u64) -> bool {
        !std::mem::replace(&mut self.cancelled[item as usize], true)
    }
    fn advance(&mut self, now_ms: u64, fired: &mut Vec<u64>) {
        while let Some(Reverse((due_ms, item))) = self.heap.peek().copied() {
            if due_ms > now_ms {
                return;
            }
            self.heap.pop();
            if !self.cancelled[item as usize] {
                fired.push(item);
            }
        }
    }
    fn clear(&mut self) {
        self.heap.clear();
        self.cancelled.fill(false);
    }
    fn bytes(&self) -> usize {
        self.heap.capacity() * 16 + self.cancelled.capacity()
    }
}

/// A map by due time and item.
#[derive(Default)]
struct Map(BTreeMap<(u64, u64), ()>);

impl Queue for Map {
    type Key = (u64, u64);
    fn insert(&mut self, due_ms: u64, item: u64) -> (u64, u64) {
        self.0.insert((due_ms, item), ());
        (due_ms, item)
    }
    fn cancel(&mut self, key: (u64, u64)) -> bool {
        self.0.remove(&key).is_some()
    }
    fn advance(&mut self, now_ms: u64, fired: &mut Vec<u64>) {
        while let Some(first) = self.0.first_entry() {
            if first.key().0 > now_ms {
                return;
            }
            fired.push(first.remove_entry().0.1);
        }
    }
    fn clear(&mut self) {
        self.0.clear();
    }
    fn bytes(&self) -> usize {
        self.0.len() * (11 * 16 + 16) / 11 * 3 / 2
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn due_ms(&mut self, now_ms: u64, least_ms: u64) -> u64 {
        now_ms + least_ms + self.next() % (SPAN_MS - least_ms)
    }
    fn shuffle<E>(&mut self, list: &mut [E]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.next() as usize % (at + 1));
        }
    }
}

fn nanos_each(since: Instant, count: u64) -> f64 {
    since.elapsed().as_nanos() as f64 / count as f64
}

fn fill<Q: Queue>(queue: &mut Q, dues: &[u64], keys: &mut Vec<Q::Key>) -> f64 {
    let since = Instant::now();
    for (item, due_ms) in dues.iter().enumerate() {
        keys.push(queue.insert(*due_ms, item as u64));
    }
    nanos_each(since, dues.len() as u64)
}

fn measure<Q: Queue>(name: &str, timers: u64, new: impl Fn() -> Q) {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let dues: Vec<u64> = (0..timers).map(|_| random.due_ms(START_MS, 1)).collect();
    // Written once before the clock runs, so that the list of keys costs no page faults in the measured time.
    let mut keys: Vec<Q::Key> = Vec::with_capacity(dues.len());
    let mut warm = new();
    let key = warm.insert(dues[0], 0);
    keys.resize(dues.len(), key);
    keys.clear();
    drop(warm);

    let mut queue = new();
    let insert_ns = fill(&mut queue, &dues, &mut keys);
    let bytes = queue.bytes() as f64 / timers as f64;
    queue.clear();
    keys.clear();
    let again_ns = fill(&mut queue, &dues, &mut keys);
    random.shuffle(&mut keys);
    let (first, second) = keys.split_at(keys.len() / 2);
    let since = Instant::now();
    let mut cancelled = first.iter().filter(|key| queue.cancel(**key)).count() as u64;
    let cancel_half_ns = nanos_each(since, first.len() as u64);
    cancelled += second.iter().filter(|key| queue.cancel(**key)).count() as u64;
    let cancel_ns = nanos_each(since, timers);
    assert_eq!(cancelled, timers);
    println!(
        "{name}: insert {insert_ns:.1} ns (again after clear {again_ns:.1} ns), cancel {cancel_ns:.1} ns (first half {cancel_half_ns:.1} ns), {bytes:.2} bytes a timer"
    );
    drop(queue);

    measure_ticks(name, &dues, &mut keys, new);
}

/// The same history of ticks is run three times. What the structure itself costs at a tick is there each time; what
/// the machine adds (preemption, a stolen core) is not: so the worst tick is the largest of the smallest of three.
fn measure_ticks<Q: Queue>(name: &str, dues: &[u64], keys: &mut Vec<Q::Key>, new: impl Fn() -> Q) {
    let mut least: Vec<(u32, u32, u32)> = vec![(u32::MAX, 0, 0); TICKS as usize];
    for run in 1..=3 {
        let mut random = Random(0x2545_F491_4F6C_DD1D);
        let mut queue = new();
        keys.clear();
        fill(&mut queue, dues, keys);
        let (mut worst, mut total, mut fired_total) = (Duration::ZERO, Duration::ZERO, 0);
        let mut fired = Vec::new();
        for (tick, least) in (1..).zip(&mut least) {
            fired.clear();
            let since = Instant::now();
            queue.advance(START_MS + tick, &mut fired);
            let took = since.elapsed();
            worst = worst.max(took);
            total += took;
            fired_total += fired.len();
            *least = (least.0.min(took.as_nanos() as u32), fired.len() as u32, queue.moved() as u32);
            for item in &fired {
                queue.insert(random.due_ms(START_MS + tick, 60_000), *item);
            }
        }
        println!(
            "{name}: ticks run {run}: worst {worst:?}, {:.0} ns on average, {fired_total} fired in {TICKS} ticks",
            total.as_nanos() as f64 / TICKS as f64
        );
    }
    let moved_most = least.iter().map(|sample| sample.2).max().unwrap_or(0);
    let mut order: Vec<_> = least.iter().zip(1..).collect();
    order.sort_unstable_by_key(|(sample, _)| Reverse(sample.0));
    for ((nanos, fired, moved), tick) in order.iter().take(3) {
        println!(
            "{name}: worst tick {:.1} us (tick {tick}, fired {fired}, moved {moved})",
            f64::from(*nanos) / 1000.0
        );
    }
    println!("{name}: at most {moved_most} moved in a tick");
}

fn main() {
    let which = std::env::args().nth(1).unwrap_or_default();
    let timers = std::env::args().nth(2).and_then(|count| count.parse().ok()).unwrap_or(10_000_000);
    if which.is_empty() || which == "wheel" {
        measure("wheel", timers, || Wheel::<u64>::new(START_MS));
    }
    if which.is_empty() || which == "heap" {
        measure("BinaryHeap", timers, Heap::default);
    }
    if which.is_empty() || which == "btree" {
        measure("BTreeMap", timers, Map::default);
    }
}
