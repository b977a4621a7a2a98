//! What the engine takes from the outside: time, waiting, spawning and randomness. A simulator gives its own
//! and then runs the whole engine in one thread under a seed.

use duebook_core::random::{SPLIT_MIX_STEP, split_mix};
use duebook_core::{Clock, SystemClock};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The engine's surroundings.
pub trait Runtime: Send + Sync + 'static {
    /// Wall-clock time.
    fn clock(&self) -> &dyn Clock;
    /// Waits for `us` microseconds, as exactly as it can. Dropping the future ends the wait.
    fn sleep_us(&self, us: u64) -> BoxFuture<'static, ()>;
    /// Runs a future beside the others.
    fn spawn(&self, future: BoxFuture<'static, ()>);
    /// 64 random bits.
    fn random(&self) -> u64;
}

/// The real surroundings: the machine's clock, a thread for exact waits, the current Tokio runtime.
pub struct SystemRuntime {
    clock: SystemClock,
    alarms: Arc<Alarms>,
    tokio: tokio::runtime::Handle,
    random: AtomicU64,
}

impl SystemRuntime {
    /// Surroundings within the Tokio runtime that calls this.
    ///
    /// # Errors
    /// When the system gives no thread.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn new() -> std::io::Result<Self> {
        let mut seed = [0u8; 8];
        // A predictable jitter is harmless; ids and secrets do not come from here.
        let _ = getrandom::fill(&mut seed);
        Ok(Self {
            clock: SystemClock,
            alarms: Alarms::start()?,
            tokio: tokio::runtime::Handle::current(),
            random: AtomicU64::new(u64::from_le_bytes(seed)),
        })
    }
}

impl Runtime for SystemRuntime {
    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    fn sleep_us(&self, us: u64) -> BoxFuture<'static, ()> {
        Box::pin(Alarm::after(&self.alarms, Duration::from_micros(us)))
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) {
        self.tokio.spawn(future);
    }

    fn random(&self) -> u64 {
        split_mix(self.random.fetch_add(SPLIT_MIX_STEP, Ordering::Relaxed))
    }
}

/// Waits exact to some tens of microseconds. The timers of async runtimes round up to whole milliseconds,
/// which alone would use up the lateness budget; a thread that parks does not.
struct Alarms {
    waiting: Mutex<Waiting>,
    thread: Thread,
}

#[derive(Default)]
struct Waiting {
    wakers: BTreeMap<(Instant, u64), Waker>,
    next_id: u64,
}

impl Alarms {
    fn start() -> std::io::Result<Arc<Self>> {
        let (send, receive) = std::sync::mpsc::channel::<Weak<Self>>();
        let thread = std::thread::Builder::new().name("alarms".into()).spawn(move || {
            while let Ok(alarms) = receive.recv() {
                Self::run(&alarms);
            }
        })?;
        let alarms = Arc::new(Self { waiting: Mutex::default(), thread: thread.thread().clone() });
        let _ = send.send(Arc::downgrade(&alarms));
        Ok(alarms)
    }

    #[allow(clippy::disallowed_methods)] // waits are measured on the monotonic clock
    fn run(alarms: &Weak<Self>) {
        let mut ripe = Vec::new();
        loop {
            let Some(alarms) = alarms.upgrade() else { return };
            let now = Instant::now();
            let pause = {
                let mut waiting = alarms.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                while let Some(first) = waiting.wakers.first_entry() {
                    if first.key().0 > now {
                        break;
                    }
                    ripe.push(first.remove());
                }
                waiting.wakers.first_key_value().map(|((at, _), _)| at.saturating_duration_since(now))
            };
            drop(alarms);
            if !ripe.is_empty() {
                ripe.drain(..).for_each(Waker::wake);
                continue;
            }
            // A second at most, so that the thread ends soon after its owner.
            std::thread::park_timeout(pause.unwrap_or(Duration::MAX).min(Duration::from_secs(1)));
        }
    }
}

struct Alarm {
    alarms: Arc<Alarms>,
    at: Instant,
    id: Option<u64>,
}

impl Alarm {
    #[allow(clippy::disallowed_methods)] // waits are measured on the monotonic clock
    fn after(alarms: &Arc<Alarms>, wait: Duration) -> Self {
        // Some years are as good as for ever, and cannot overflow.
        let at = Instant::now() + wait.min(Duration::from_secs(1 << 30));
        Self { alarms: Arc::clone(alarms), at, id: None }
    }
}

impl Future for Alarm {
    type Output = ();

    #[allow(clippy::disallowed_methods)] // waits are measured on the monotonic clock
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if Instant::now() >= self.at {
            return Poll::Ready(());
        }
        let (earliest, id) = {
            let mut waiting = self.alarms.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let id = self.id.unwrap_or_else(|| {
                waiting.next_id += 1;
                waiting.next_id
            });
            waiting.wakers.insert((self.at, id), context.waker().clone());
            let earliest = waiting.wakers.first_key_value().is_some_and(|((_, first), _)| *first == id);
            (earliest, id)
        };
        self.id = Some(id);
        if earliest {
            self.alarms.thread.unpark();
        }
        Poll::Pending
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let mut waiting = self.alarms.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.wakers.remove(&(self.at, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_alarm_waits_at_least_as_long_as_asked_and_leaves_nothing_behind() {
        let runtime = SystemRuntime::new().unwrap();
        let start = runtime.clock().now_us();
        runtime.sleep_us(3_000).await;
        assert!(runtime.clock().now_us() - start >= 2_900);
        let mut dropped = runtime.sleep_us(60_000_000);
        let polled = futures_util::poll!(&mut dropped);
        assert!(polled.is_pending());
        drop(dropped);
        assert!(runtime.alarms.waiting.lock().unwrap().wakers.is_empty());
    }
}
