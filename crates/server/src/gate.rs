//! What stands before every route: limits, time-outs, caught panics. One function instead of a stack of
//! layers, because it is on the way of every request.

use crate::app::App;
use crate::code::Code;
use crate::metrics::TurnedAway;
use crate::problem::Problem;
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
    let routed = AssertUnwindSafe(router.call(request.map(Body::new))).catch_unwind();
    let limit_ms = app.config.request_timeout_ms
        + if long_poll { duebook_core::limits::LEASE_WAIT_MAX_MS } else { 0 };
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
