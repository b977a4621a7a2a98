//! Measures the wheel against others: ten million timers spread over thirty minutes.
//!
//! `cargo run --release -p duebook-wheel --example measure -- [--quick] [timers] [structure ...]`
//!
//! Structures: `wheel`, `delay-queue` (tokio-util), `hash-wheel` (`hierarchical_hash_wheel_timer`), `heap`
//! (`BinaryHeap`) and `btree` (`BTreeMap`); all of them if none is named. `--quick` takes a million timers, fewer
//! ticks and two runs. The full run takes about six minutes and a gigabyte.
//!
//! Each figure comes from a process of its own, so that no structure finds memory that another one has left behind:
//!
//! - insert: arming all timers, first into memory fresh from the system (its page faults included), then into memory
//!   that the structure or its allocator holds already;
//! - cancel: disarming all timers in random order;
//! - bytes: what the resident memory (`VmRSS`) of the process grew by during the first fill, per timer;
//! - tick: steps by 1 ms. Each fired timer is armed again 1 to 30 minutes ahead, outside of the measured time. The
//!   same history is run several times: what the structure itself costs at a tick is there each time, what the
//!   machine adds (preemption, a stolen core) is not. So the worst tick is the largest of the least of each tick.
//!   Reading the clock is part of every tick: about 20 to 50 ns.
//!
//! Insert and cancel are the least of several processes. Every tick ends with the fired items in a list.
//!
//! # What is not quite alike
//!
//! - **`DelayQueue`** takes its time from a tokio runtime. Here that is a paused one of a single thread: moving its
//!   clock on, and with it the runtime's own work on the one `Sleep` that the queue keeps there, is *not* part of the
//!   tick. Polling the queue until it has no more is: its levels coming down, its slab, and the new `Sleep` that it
//!   boxes for each fired timer. A timer that lies behind on its slot's list is reached through its neighbours, and
//!   `remove` keeps the `Sleep` at the earliest deadline.
//! - **`hierarchical_hash_wheel_timer`** is its cancellable `QuadWheelWithOverflow`, and each timer an `Rc` of a bare
//!   id (the crate's own entry, with its delay inside, would take 16 bytes more). A tick is its `tick()`: levels
//!   coming down, and for each fired timer the removal from its hash map and the release of its `Rc`. `cancel` is the
//!   removal from the map only; what is left in the slots, and its memory, goes when that slot comes down. It cannot
//!   be cleared, so for "memory held" it is ticked until it is empty, and keeps what the map and the allocator keep.
//! - **`BinaryHeap`** cancels by one flag per item, which the caller must keep dense and never re-use: a bound from
//!   below. A cancelled timer stays in the heap until it is due.
//! - **Allocator**: glibc's, told by `MALLOC_TRIM_THRESHOLD_` to keep what is freed; else "memory held" would be fresh
//!   again for those that allocate each timer or node by itself.
#![allow(clippy::disallowed_methods, reason = "measuring needs the clock; the crate itself reads none")]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::process::Command;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use duebook_wheel::{Handle, Wheel};
use hierarchical_hash_wheel_timer::wheels::Skip;
use hierarchical_hash_wheel_timer::wheels::cancellable::{CancellableTimerEntry, QuadWheelWithOverflow};
use tokio::runtime::Runtime;
use tokio_util::time::{DelayQueue, delay_queue};

const START_MS: u64 = 1_760_000_000_000;
const SPAN_MS: u64 = 30 * 60 * 1000;

/// What a structure has to offer to be measured.
trait Queue {
    type Key: Copy;
    fn insert(&mut self, due_ms: u64, item: u64) -> Self::Key;
    fn cancel(&mut self, key: Self::Key) -> bool;
    /// Lets the clock that the structure reads reach `now_ms`; not measured.
    fn pass_time(&mut self, _now_ms: u64) {}
    fn advance(&mut self, now_ms: u64, fired: &mut Vec<u64>);
    /// Empties the structure, which keeps what memory it can, and sets its time back to the start.
    fn clear(&mut self);
    /// References moved in the last tick; only the wheel counts them.
    fn moved(&self) -> Option<usize> {
        None
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
    fn moved(&self) -> Option<usize> {
        Some(self.moved_last_advance())
    }
}

/// tokio-util's queue, in a runtime whose clock is paused.
struct Delays<'r> {
    runtime: &'r Runtime,
    queue: DelayQueue<u64>,
    start: tokio::time::Instant,
    now_ms: u64,
}

impl<'r> Delays<'r> {
    fn new(runtime: &'r Runtime) -> Self {
        let _entered = runtime.enter();
        Self { runtime, queue: DelayQueue::new(), start: tokio::time::Instant::now(), now_ms: START_MS }
    }
}

impl Queue for Delays<'_> {
    type Key = delay_queue::Key;
    fn insert(&mut self, due_ms: u64, item: u64) -> delay_queue::Key {
        self.queue.insert_at(item, self.start + Duration::from_millis(due_ms - START_MS))
    }
    fn cancel(&mut self, key: delay_queue::Key) -> bool {
        self.queue.try_remove(&key).is_some()
    }
    fn pass_time(&mut self, now_ms: u64) {
        self.runtime.block_on(tokio::time::advance(Duration::from_millis(now_ms - self.now_ms)));
        self.now_ms = now_ms;
    }
    fn advance(&mut self, _now_ms: u64, fired: &mut Vec<u64>) {
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(expired)) = self.queue.poll_expired(&mut context) {
            fired.push(expired.into_inner());
        }
    }
    fn clear(&mut self) {
        self.queue.clear();
    }
}

/// A timer of the hash wheel: its id alone.
#[derive(Debug)]
struct Entry(u64);

impl CancellableTimerEntry for Entry {
    type Id = u64;
    fn id(&self) -> &u64 {
        &self.0
    }
}

/// The wheel of `hierarchical_hash_wheel_timer`, which counts time from the last tick.
struct HashWheel {
    wheel: QuadWheelWithOverflow<Entry>,
    now_ms: u64,
}

impl HashWheel {
    fn new() -> Self {
        Self { wheel: QuadWheelWithOverflow::new(), now_ms: START_MS }
    }
}

impl Queue for HashWheel {
    type Key = u64;
    fn insert(&mut self, due_ms: u64, item: u64) -> u64 {
        let delay = Duration::from_millis(due_ms - self.now_ms);
        self.wheel.insert_ref_with_delay(Rc::new(Entry(item)), delay).expect("it is due later");
        item
    }
    fn cancel(&mut self, item: u64) -> bool {
        self.wheel.cancel(&item).is_ok()
    }
    fn advance(&mut self, now_ms: u64, fired: &mut Vec<u64>) {
        while self.now_ms < now_ms {
            self.now_ms += 1;
            fired.extend(self.wheel.tick().into_iter().map(|entry| entry.0));
        }
    }
    fn clear(&mut self) {
        while self.wheel.can_skip() != Skip::Empty {
            self.wheel.tick();
        }
        self.now_ms = START_MS;
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

// ------------------------------------------------------------------ in a child process: one structure

fn nanos_each(since: Instant, count: usize) -> f64 {
    since.elapsed().as_nanos() as f64 / count as f64
}

/// Bytes of this process that are in memory; 0 where `/proc` does not tell.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
    kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn fill<Q: Queue>(queue: &mut Q, dues: &[u64], keys: &mut Vec<Q::Key>) -> f64 {
    let since = Instant::now();
    for (item, due_ms) in dues.iter().enumerate() {
        keys.push(queue.insert(*due_ms, item as u64));
    }
    nanos_each(since, dues.len())
}

/// Measures what the child was asked for and prints it, a `key=value` for each figure.
fn measure<Q: Queue>(part: Part, timers: usize, new: impl Fn() -> Q) {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let dues: Vec<u64> = (0..timers).map(|_| random.due_ms(START_MS, 1)).collect();
    // Written once before the clock runs, so that the list of keys costs no page faults in the measured time.
    let mut keys: Vec<Q::Key> = Vec::with_capacity(dues.len());
    let mut warm = new();
    let key = warm.insert(dues[0], 0);
    keys.resize(dues.len(), key);
    keys.clear();
    drop(warm);
    match part {
        Part::Fill => measure_fill(random, &dues, &mut keys, new),
        Part::Ticks { runs, ticks } => measure_ticks(runs, ticks, &dues, &mut keys, new),
    }
}

fn measure_fill<Q: Queue>(mut random: Random, dues: &[u64], keys: &mut Vec<Q::Key>, new: impl Fn() -> Q) {
    let before = resident_bytes();
    let mut queue = new();
    let fresh_ns = fill(&mut queue, dues, keys);
    let bytes = resident_bytes().saturating_sub(before) as f64 / dues.len() as f64;
    queue.clear();
    keys.clear();
    let held_ns = fill(&mut queue, dues, keys);
    random.shuffle(keys);
    let since = Instant::now();
    let cancelled = keys.iter().filter(|key| queue.cancel(**key)).count();
    let cancel_ns = nanos_each(since, dues.len());
    assert_eq!(cancelled, dues.len());
    println!("fresh_ns={fresh_ns} held_ns={held_ns} cancel_ns={cancel_ns} bytes={bytes}");
}

/// The least that a tick took in any run, and what it did.
#[derive(Clone, Copy)]
struct Tick {
    nanos: u32,
    fired: u32,
}

fn measure_ticks<Q: Queue>(
    runs: usize,
    ticks: u64,
    dues: &[u64],
    keys: &mut Vec<Q::Key>,
    new: impl Fn() -> Q,
) {
    let mut least = vec![Tick { nanos: u32::MAX, fired: 0 }; ticks as usize];
    let (mut average_ns, mut fired_total, mut moved_most) = (f64::MAX, 0, None);
    for _ in 0..runs {
        let mut random = Random(0x2545_F491_4F6C_DD1D);
        let mut queue = new();
        keys.clear();
        fill(&mut queue, dues, keys);
        let mut total = Duration::ZERO;
        let mut fired = Vec::new();
        fired_total = 0;
        for (now_ms, least) in (START_MS + 1..).zip(&mut least) {
            fired.clear();
            queue.pass_time(now_ms);
            let since = Instant::now();
            queue.advance(now_ms, &mut fired);
            let took = since.elapsed();
            total += took;
            fired_total += fired.len();
            moved_most = moved_most.max(queue.moved());
            *least = Tick { nanos: least.nanos.min(took.as_nanos() as u32), fired: fired.len() as u32 };
            for item in &fired {
                queue.insert(random.due_ms(now_ms, 60_000), *item);
            }
        }
        average_ns = average_ns.min(total.as_nanos() as f64 / ticks as f64);
    }
    let worst = least.iter().max_by_key(|tick| tick.nanos).expect("a tick");
    print!(
        "average_ns={average_ns} worst_ns={} worst_fired={} fired={fired_total}",
        worst.nanos, worst.fired
    );
    println!("{}", moved_most.map_or(String::new(), |moved| format!(" moved={moved}")));
}

/// What a child process measures.
#[derive(Clone, Copy)]
enum Part {
    Fill,
    Ticks { runs: usize, ticks: u64 },
}

fn child(name: &str, part: Part, timers: usize) {
    match name {
        "wheel" => measure(part, timers, || Wheel::<u64>::new(START_MS)),
        "delay-queue" => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .expect("a runtime");
            let _entered = runtime.enter();
            measure(part, timers, || Delays::new(&runtime));
        }
        "hash-wheel" => measure(part, timers, HashWheel::new),
        "heap" => measure(part, timers, Heap::default),
        "btree" => measure(part, timers, Map::default),
        _ => panic!("no structure is called {name}"),
    }
}

// ------------------------------------------------------------------ in the parent: all of them, and the table

/// A structure, and how often its figures are taken: the slow ones less often, to keep the whole run short.
struct Plan {
    name: &'static str,
    title: &'static str,
    fills: usize,
    tick_runs: usize,
}

const PLANS: [Plan; 5] = [
    Plan { name: "wheel", title: "duebook-wheel", fills: 3, tick_runs: 3 },
    Plan { name: "delay-queue", title: "tokio-util `DelayQueue`", fills: 3, tick_runs: 2 },
    Plan { name: "hash-wheel", title: "`hierarchical_hash_wheel_timer`", fills: 2, tick_runs: 2 },
    Plan { name: "heap", title: "`BinaryHeap`, lazy cancel", fills: 3, tick_runs: 2 },
    Plan { name: "btree", title: "`BTreeMap`", fills: 1, tick_runs: 2 },
];

type Figures = HashMap<String, f64>;

/// Runs this program again to measure one structure.
fn run_child(arguments: &[String]) -> Figures {
    let program = std::env::current_exe().expect("the path of this program");
    let output = Command::new(program)
        .arg("--child")
        .args(arguments)
        .env("MALLOC_TRIM_THRESHOLD_", (1_u64 << 40).to_string())
        .stderr(std::process::Stdio::inherit())
        .output()
        .expect("a child process");
    assert!(output.status.success(), "measuring {arguments:?} failed: {}", output.status);
    let line = String::from_utf8_lossy(&output.stdout);
    let figures = line.split_whitespace().filter_map(|pair| pair.split_once('='));
    figures.map(|(key, value)| (key.to_owned(), value.parse().expect("a number"))).collect()
}

fn measure_plan(plan: &Plan, timers: usize, ticks: u64, quick: bool) -> (Vec<String>, f64) {
    let (fills, tick_runs) = if quick { (plan.fills.min(2), 2) } else { (plan.fills, plan.tick_runs) };
    let mut least = Figures::new();
    for _ in 0..fills {
        for (key, value) in run_child(&[plan.name.into(), timers.to_string(), "fill".into()]) {
            least.entry(key).and_modify(|least| *least = least.min(value)).or_insert(value);
        }
    }
    let tick = run_child(&[
        plan.name.into(),
        timers.to_string(),
        "ticks".into(),
        tick_runs.to_string(),
        ticks.to_string(),
    ]);
    let nanos = |key| format!("{:.1}", least[key]);
    let cells = vec![
        plan.title.to_owned(),
        nanos("fresh_ns"),
        nanos("held_ns"),
        nanos("cancel_ns"),
        format!("{:.1}", least["bytes"]),
        format!("{:.2} us", tick["average_ns"] / 1e3),
        format!("{:.1} us (fired {})", tick["worst_ns"] / 1e3, tick["worst_fired"]),
        tick.get("moved").map_or("-".to_owned(), f64::to_string),
        format!("{fills}, {tick_runs}"),
    ];
    (cells, tick["fired"])
}

fn print_table(rows: &[Vec<String>]) {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    for (nth, row) in rows.iter().enumerate() {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        println!("| {} |", cells.join(" | "));
        if nth == 0 {
            let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
            println!("| {} |", rules.join(" | "));
        }
    }
}

fn load_average() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split_whitespace().next().unwrap_or("unknown").to_owned()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments[at].parse::<usize>().expect("a number");
    if arguments.first().is_some_and(|first| first == "--child") {
        let part = match arguments[3].as_str() {
            "fill" => Part::Fill,
            _ => Part::Ticks { runs: number(4), ticks: number(5) as u64 },
        };
        return child(&arguments[1], part, number(2));
    }

    let (mut quick, mut timers, mut names) = (false, None, Vec::new());
    for argument in &arguments {
        if argument == "--quick" {
            quick = true;
        } else if let Ok(count) = argument.parse::<usize>() {
            timers = Some(count.max(1));
        } else if PLANS.iter().any(|plan| plan.name == argument) {
            names.push(argument.as_str());
        } else {
            let known: Vec<&str> = PLANS.iter().map(|plan| plan.name).collect();
            eprintln!("usage: measure [--quick] [timers] [{} ...]", known.join(" | "));
            std::process::exit(2);
        }
    }
    let timers = timers.unwrap_or(if quick { 1_000_000 } else { 10_000_000 });
    let ticks = if quick { 20 } else { 25 } * 60 * 1000;

    let (since, load_before) = (Instant::now(), load_average());
    let mut rows = vec![
        [
            "structure",
            "insert ns (fresh)",
            "insert ns (memory held)",
            "cancel ns (random order)",
            "bytes a timer (RSS)",
            "average tick",
            "worst tick",
            "most moved per tick",
            "runs (fills, ticks)",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    let mut fired = Vec::new();
    for plan in PLANS.iter().filter(|plan| names.is_empty() || names.contains(&plan.name)) {
        eprintln!("measuring {} ({} s so far)", plan.name, since.elapsed().as_secs());
        let (row, count) = measure_plan(plan, timers, ticks, quick);
        rows.push(row);
        fired.push(count);
    }
    assert!(fired.iter().all(|count| *count == fired[0]), "they did not fire the same timers: {fired:?}");

    println!(
        "{timers} timers over 30 minutes; {ticks} ticks of 1 ms, in which each structure fired {}",
        fired[0]
    );
    println!(
        "worst tick: the largest, over all ticks, of the least of the runs; load average {load_before} before, {} after; {} s\n",
        load_average(),
        since.elapsed().as_secs()
    );
    print_table(&rows);
}
