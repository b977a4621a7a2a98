//! The engine on a faulty in-memory store, in one thread, in virtual time, under a seed: promises 1 to 4.
//!
//! Each seed plays a history: clients schedule, cancel and reschedule; handlers succeed, fail, panic and hang;
//! the store refuses, loses answers, fails reads and dawdles; the node is killed and started again; the wall
//! clock jumps. Then faults stop, everything must come to its end, and the log is checked.
//!
//! A failing seed is replayed with `DUEBOOK_SEED=N cargo nextest run -p duebook-engine simulation`.

mod check;
#[path = "../support/virtual_time.rs"]
mod virtual_time;
mod world;

use world::{History, play};

const SEEDS: u64 = 200;
/// Histories are played side by side; each one has a thread and a virtual time of its own.
const THREADS: usize = 2;

fn run(seed: u64) -> History {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(play(seed))
}

#[test]
fn every_seed_keeps_the_promises() {
    let seeds = match std::env::var("DUEBOOK_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("DUEBOOK_SEED is a number");
            seed..seed + 1
        }
        Err(_) => 0..SEEDS,
    };
    let mut totals = check::Totals::default();
    let (send, histories) = std::sync::mpsc::sync_channel(THREADS);
    std::thread::scope(|scope| {
        for first in 0..THREADS {
            let (send, seeds) = (send.clone(), seeds.clone());
            scope.spawn(move || {
                // Nobody listens any more once a seed has failed.
                for seed in seeds.skip(first).step_by(THREADS) {
                    if send.send((seed, run(seed))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        for (seed, history) in histories {
            if let Err(broken) = check::check(&history, &mut totals) {
                panic!("seed {seed}: {broken}\n{}", history.tail());
            }
        }
    });
    if seeds.end - seeds.start > 1 {
        // A simulation in which nothing goes wrong shows nothing.
        totals.assert_everything_happened();
    }
}

#[test]
fn a_seed_plays_the_same_history_again() {
    for seed in [1, 7, 42] {
        let (first, second) = (run(seed), run(seed));
        assert_eq!(first.lines, second.lines, "seed {seed}");
    }
}
