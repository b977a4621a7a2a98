//! Health, metrics, descriptions, and the page that links them.

use super::schema;
use crate::access::Read;
use crate::answer::{Answer, ok};
use crate::app::App;
use crate::code::Code;
use crate::problem::Problem;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use duebook_store::sqlite::SCHEMA_VERSION;
use http::{HeaderValue, header};
use serde::Serialize;
use std::sync::Arc;

fn page(kind: &'static str, text: impl Into<Body>) -> Response {
    let mut response = Response::new(text.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[derive(Serialize)]
struct Status<'a> {
    status: &'a str,
}

/// Whether it lives
#[utoipa::path(get, path = "/healthz", operation_id = "get_health", tag = "system", security(()), responses(
    (status = 200, description = "It lives", body = schema::Status)))]
pub(super) async fn healthz() -> Answer {
    ok(&Status { status: "ok" })
}

#[derive(Serialize)]
struct Ready {
    status: &'static str,
    schema_version: u32,
}

/// Whether it is ready
///
/// The store can be read, its schema is this program's, and the server is not stopping.
#[utoipa::path(get, path = "/readyz", operation_id = "get_readiness", tag = "system", security(()), responses(
    (status = 200, description = "It is ready", body = schema::Ready),
    (status = 503, description = "`not_ready`", body = schema::Problem, content_type = "application/problem+json")))]
pub(super) async fn readyz(State(app): State<Arc<App>>) -> Answer {
    let not_ready = |why: String| Problem::new(Code::NotReady, why);
    if app.engine.is_stopping() {
        return Err(not_ready("the server is stopping".into()));
    }
    let found = app.engine.store().check().await.map_err(|error| not_ready(error.to_string()))?;
    if found != SCHEMA_VERSION {
        return Err(not_ready(format!(
            "the store has schema version {found}, this program {SCHEMA_VERSION}"
        )));
    }
    ok(&Ready { status: "ready", schema_version: found })
}

/// Metrics
///
/// In Prometheus' text format; `docs/metrics.md` explains each.
#[utoipa::path(get, path = "/metrics", operation_id = "get_metrics", tag = "system", responses(
    (status = 200, description = "The metrics", body = String, content_type = "text/plain")))]
pub(super) async fn metrics(State(app): State<Arc<App>>, Read(_caller): Read) -> Response {
    page("text/plain; version=0.0.4; charset=utf-8", app.metrics.scrape(&app).await)
}

/// This description
#[utoipa::path(get, path = "/openapi.json", operation_id = "get_openapi", tag = "system", security(()), responses(
    (status = 200, description = "OpenAPI 3.1", content_type = "application/json")))]
pub(super) async fn openapi(State(app): State<Arc<App>>) -> Response {
    page("application/json", app.openapi.clone())
}

/// The error codes
#[utoipa::path(get, path = "/errors", operation_id = "get_errors", tag = "system", security(()), responses(
    (status = 200, description = "A page that explains each code", body = String, content_type = "text/html")))]
pub(super) async fn errors() -> Response {
    page("text/html; charset=utf-8", Code::html())
}

/// The front page
#[utoipa::path(get, path = "/", operation_id = "get_root", tag = "system", security(()), responses(
    (status = 200, description = "A page with links", body = String, content_type = "text/html")))]
pub(super) async fn root() -> Response {
    page(
        "text/html; charset=utf-8",
        concat!(
            "<!doctype html><html lang=en><meta charset=utf-8><title>Duebook</title><h1>Duebook ",
            env!("CARGO_PKG_VERSION"),
            "</h1><p>Every deadline fires.<ul><li><a href=/openapi.json>OpenAPI 3.1</a>\
             <li><a href=/v1/queues>Queues</a><li><a href=/v1/dead>Dead letters</a><li><a href=/metrics>Metrics</a>\
             <li><a href=/healthz>Lives?</a><li><a href=/readyz>Ready?</a><li><a href=/errors>Error codes</a></ul></html>\n"
        ),
    )
}
