//! What is only read when somebody asks: depths, ages, sizes.

use super::{Metrics, gauge, names, seconds_of_ms};
use crate::app::App;
use duebook_core::State;
use metrics::Label;

impl Metrics {
    /// All metrics in Prometheus' text format. What the store does not tell right now keeps its last value.
    pub(crate) async fn scrape(&self, app: &App) -> String {
        let set = |name, labels, value: f64| gauge(&self.inner.recorder, name, labels).set(value);
        let now_ms = app.engine.now_ms();
        match app.engine.queue_views().await {
            Ok(views) => {
                for view in views {
                    for (state, depth) in State::ALL.iter().zip(view.depth) {
                        let labels =
                            vec![Label::new("queue", view.name.clone()), Label::new("state", state.as_str())];
                        set(names::DEPTH, labels, depth as f64);
                    }
                    let age = view.oldest_due_ms.map_or(0.0, |due_ms| seconds_of_ms(now_ms - due_ms));
                    set(names::OLDEST_DUE, vec![Label::new("queue", view.name)], age);
                }
            }
            Err(error) => tracing::warn!(%error, "depths cannot be read"),
        }
        if let Ok(bytes) = app.engine.store().size_bytes().await {
            set(names::STORE_BYTES, Vec::new(), bytes as f64);
        }
        let (workers, busy, waiting) = app.engine.pool_sizes();
        duebook_engine::Observer::pool(self, workers, busy, waiting);
        set(names::STORE_WAITING, Vec::new(), app.engine.store().waiting() as f64);
        set(names::HTTP_IN_FLIGHT, Vec::new(), app.in_flight.get() as f64);
        set(names::HTTP_CONNECTIONS, Vec::new(), app.connections.get() as f64);
        set(names::HTTP_BODY_BYTES, Vec::new(), app.body_bytes.get() as f64);
        self.inner.handle.render()
    }
}
