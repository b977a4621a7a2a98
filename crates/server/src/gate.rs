//! What stands before every route: limits, time-outs, caught panics. One function instead of a stack of
//! layers, because it is on the way of every request.

use crate::app::App;
use crate::code::Code;
use crate::metrics::TurnedAway;
use crate::problem::Problem;
use crate::trace;
use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt as _;
use http::Request;
use hyper::body::Incoming;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tower::Service as _;

/// Answers one request, whatever happens.
pub(crate) async fn answer(
    app: Arc<App>,
    mut router: Router,
    request: Request<Incoming>,
) -> Result<Response, Infallible> {
    let long_poll = request.uri().path().ends_with("/lease");
    let share = if long_poll { None } else { app.in_flight.take(1, app.config.in_flight_max) };
    if share.is_none() && !long_poll {
        app.metrics.turned_away(TurnedAway::Request);
        let busy = Problem::new(Code::Busy, "too many requests are worked on").into_response();
        app.metrics.answered(busy.status().as_u16());
        return Ok(busy);
    }
    // Kept for the log of what goes wrong; most requests have none, and a copy only counts references.
    let (path, trace) = (request.uri().clone(), request.headers().get("traceparent").cloned());
    let routed = AssertUnwindSafe(router.call(request.map(Body::new))).catch_unwind();
    let limit_ms =
        app.config.request_timeout_ms + if long_poll { duebook_core::limits::LEASE_WAIT_MAX_MS } else { 0 };
    let response = match tokio::time::timeout(Duration::from_millis(limit_ms), routed).await {
        Ok(Ok(Ok(response))) => response,
        Ok(Ok(Err(never))) => match never {},
        Ok(Err(panic)) => {
            tracing::error!(panic = words(panic.as_ref()), "a handler of the server panicked");
            Problem::new(Code::Internal, "the server made a mistake; its log says more").into_response()
        }
        Err(_) => {
            Problem::new(Code::TimedOut, format!("there was no answer within {limit_ms} ms")).into_response()
        }
    };
    drop(share);
    if response.status().is_server_error() {
        let status = response.status().as_u16();
        let trace_id = trace.as_ref().and_then(trace::id_in);
        tracing::warn!(status, path = path.path(), trace_id, "a request failed");
    }
    app.metrics.answered(response.status().as_u16());
    Ok(response)
}

fn words(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("of an unknown kind")
}

#[cfg(test)]
mod tests {
    use crate::{Metrics, Server, ServerConfig};
    use axum::routing::get;
    use duebook_core::SystemClock;
    use duebook_engine::{Engine, EngineConfig, SystemRuntime};
    use duebook_store::faulty::{Faults, Faulty};
    use duebook_store::memory::MemoryStore;
    use serde_json::Value;
    use std::sync::Arc;

    async fn status_and_code(client: &reqwest::Client, url: String) -> (u16, String) {
        let response = client.get(url).send().await.unwrap();
        let status = response.status().as_u16();
        let value: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap_or_default();
        (status, value["code"].as_str().unwrap_or_default().to_owned())
    }

    #[tokio::test]
    async fn panics_time_outs_and_a_failing_store_are_answered_and_the_server_lives() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let clock = Arc::new(SystemClock);
        let metrics = Metrics::new(clock.clone()).unwrap();
        let memory = Arc::new(MemoryStore::new(clock));
        let sleep: duebook_store::faulty::Sleep = Arc::new(|_| Box::pin(std::future::ready(())));
        let store = Arc::new(Faulty::new(memory, 1, Faults::default(), sleep));
        let runtime = Arc::new(SystemRuntime::new().unwrap());
        let engine =
            Engine::start(store.clone(), runtime, EngineConfig::default(), metrics.observer()).await.unwrap();
        let config = ServerConfig {
            listen: "127.0.0.1:0".parse().unwrap(),
            request_timeout_ms: 200,
            grace_ms: 0,
            ..ServerConfig::default()
        };
        let server = Server::start_with(engine, metrics, config, |router| {
            router
                .route(
                    "/panic",
                    get(|| async {
                        if true {
                            panic!("on purpose")
                        }
                    }),
                )
                .route("/slow", get(std::future::pending::<()>))
        })
        .await
        .unwrap();
        let client = reqwest::Client::new();
        let url = |path: &str| format!("http://{}{path}", server.local_addr());
        assert_eq!(status_and_code(&client, url("/panic")).await, (500, "internal".into()));
        assert_eq!(status_and_code(&client, url("/slow")).await, (503, "timed_out".into()));
        store.set_faults(Faults { fail_read: 1000, ..Faults::default() });
        assert_eq!(status_and_code(&client, url("/v1/queues")).await, (503, "store_failed".into()));
        assert_eq!(status_and_code(&client, url("/readyz")).await, (503, "not_ready".into()));
        store.set_faults(Faults::default());
        assert_eq!(status_and_code(&client, url("/v1/queues")).await.0, 200);
        assert_eq!(status_and_code(&client, url("/healthz")).await.0, 200);
        server.shutdown().await;
    }
}
