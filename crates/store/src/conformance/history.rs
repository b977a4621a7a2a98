//! The store against the model: the same random history on both must leave the same.

use super::audit::audit;
use super::kit::put_queue;
use super::model::{Player, Turn, histories};
use crate::memory::MemoryStore;
use crate::roles::Store;
use duebook_core::Clock;
use duebook_core::clock::SettableClock;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::sync::Arc;

/// Histories per run, and turns in each.
const HISTORIES: u32 = 24;
const TURNS_MAX: usize = 30;
/// Steps towards a smaller failing history.
const SHRINKS_MAX: usize = 400;
/// Another seed here or in `DUEBOOK_SEED` draws other histories; a failure names the one that it came from.
const SEED: u64 = 17;

/// After every turn the replies agree with those of a [`MemoryStore`], and in the end so do tasks, trails, pages,
/// listings and counts. (On the memory store itself this checks that a history replays; the audit does the rest.)
pub async fn random_histories_agree_with_the_model(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let seed = std::env::var("DUEBOOK_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(SEED);
    for history in 0..HISTORIES {
        let mut bytes = [0u8; 32];
        bytes[..8].copy_from_slice(&u64::to_le_bytes(seed));
        bytes[8..12].copy_from_slice(&history.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let mut tree = histories(TURNS_MAX).new_tree(&mut runner).expect("a history");
        let Err(mut why) = replay(&store, &clock, &tree.current()).await else { continue };
        let mut smallest = tree.current();
        let mut smaller = tree.simplify();
        for _ in 0..SHRINKS_MAX {
            if !smaller {
                break;
            }
            smaller = match replay(&store, &clock, &tree.current()).await {
                Err(this) => {
                    (why, smallest) = (this, tree.current());
                    tree.simplify()
                }
                Ok(()) => tree.complicate(),
            };
        }
        panic!("DUEBOOK_SEED={seed}, history {history}, made smaller: {smallest:#?}\n{why}");
    }
    audit(&*store).await;
}

/// Plays the history in a queue of its own, beside a fresh model.
async fn replay(store: &Arc<dyn Store>, clock: &Arc<SettableClock>, turns: &[Turn]) -> Result<(), String> {
    let model = MemoryStore::new(Arc::clone(clock) as Arc<dyn Clock>);
    let queues = store.queues().await.unwrap().len();
    let queue = put_queue(&**store, &format!("history{queues}")).await;
    let model_queue = put_queue(&model, "history").await;
    let mut subject = Player::new(&**store, queue);
    let mut expected = Player::new(&model, model_queue);
    for (n, turn) in turns.iter().enumerate() {
        clock.advance_ms(turn.advance_ms);
        let now_ms = clock.now_ms();
        let replies = format!("{:#?}", subject.play(turn, now_ms).await);
        let model_replies = format!("{:#?}", expected.play(turn, now_ms).await);
        if replies != model_replies {
            return Err(format!("turn {n} answered {replies}\nthe model {model_replies}"));
        }
    }
    let (picture, model_picture) = (subject.picture().await, expected.picture().await);
    if picture != model_picture {
        return Err(format!("it left {picture:#?}\nthe model {model_picture:#?}"));
    }
    Ok(())
}
