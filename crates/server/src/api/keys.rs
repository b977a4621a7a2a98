//! API keys.

use super::schema;
use crate::access::Admin;
use crate::access::keys::{self, BadKey, KEY_QUEUES_MAX, KEYS_MAX, Scope, Scopes};
use crate::answer::{Answer, PathPart, json, nothing, ok};
use crate::app::App;
use crate::body::JsonBody;
use crate::code::Code;
use crate::input::{self, AtMost};
use crate::problem::Problem;
use crate::stamp::Stamp;
use axum::extract::State;
use duebook_store::{KeyRow, Unit, Write, Written};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Serialize)]
struct View<'a> {
    id: &'a str,
    name: &'a str,
    scopes: Vec<&'a str>,
    queues: Vec<&'a str>,
    created_at: Stamp,
    revoked_at: Option<Stamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
}

impl<'a> View<'a> {
    fn of(row: &'a KeyRow, key: Option<&'a str>) -> Self {
        let words = |text: &'a str| text.split(',').filter(|word| !word.is_empty()).collect();
        Self {
            id: &row.id,
            name: &row.name,
            scopes: words(&row.scopes),
            queues: words(&row.queues),
            created_at: Stamp(row.created_ms),
            revoked_at: row.revoked_ms.map(Stamp),
            key,
        }
    }
}

#[derive(Serialize)]
struct Items<'a> {
    items: Vec<View<'a>>,
}

/// List keys
///
/// Revoked ones included. The keys themselves are not kept.
#[utoipa::path(get, path = "/v1/keys", operation_id = "list_keys", tag = "keys", responses(
    (status = 200, description = "The keys", body = schema::Keys)))]
pub(super) async fn list(State(app): State<Arc<App>>, Admin(_caller): Admin) -> Answer {
    let rows = app.engine.store().keys().await?;
    ok(&Items { items: rows.iter().map(|row| View::of(row, None)).collect() })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    name: String,
    scopes: AtMost<String, 16>,
    queues: Option<AtMost<String, KEY_QUEUES_MAX>>,
}

async fn refresh(app: &App) -> Result<(), Problem> {
    app.access.refresh(&app.engine.store().keys().await?);
    Ok(())
}

/// Make a key
///
/// The answer holds the key itself; it is shown this once. As soon as a store has a key, every request needs one.
#[utoipa::path(post, path = "/v1/keys", operation_id = "create_key", tag = "keys", request_body = schema::NewKey, responses(
    (status = 201, description = "The key", body = schema::MadeKey)))]
pub(super) async fn create(State(app): State<Arc<App>>, Admin(_caller): Admin, body: JsonBody) -> Answer {
    let wanted: Wanted = input::read(&body.bytes)?;
    let mut scopes = Vec::new();
    for (at, name) in wanted.scopes.0.iter().enumerate() {
        let scope = Scope::parse(name)
            .ok_or_else(|| Problem::bad(format!("/scopes/{at}"), "must be produce, work, read or admin"))?;
        scopes.push(scope);
    }
    if app.engine.store().keys().await?.len() >= KEYS_MAX {
        return Err(Problem::new(Code::TooMany, format!("there are {KEYS_MAX} keys already")));
    }
    let queues = wanted.queues.map_or_else(Vec::new, |queues| queues.0);
    let scopes: Scopes = scopes.into_iter().collect();
    let (row, key) = keys::make(&wanted.name, scopes, &queues, app.engine.now_ms()).map_err(|bad| {
        let pointer = match bad {
            BadKey::Name => "/name",
            BadKey::Scopes => "/scopes",
            BadKey::Queues => "/queues",
            BadKey::Random => return Problem::new(Code::Internal, bad.to_string()),
        };
        Problem::bad(pointer, bad.to_string())
    })?;
    app.engine.store().submit(Unit::one(Write::PutKey(row.clone()))).await?;
    refresh(&app).await?;
    json(StatusCode::CREATED, &View::of(&row, Some(&key)))
}

/// Revoke a key
///
/// From the answer on, it opens nothing.
#[utoipa::path(delete, path = "/v1/keys/{id}", operation_id = "revoke_key", tag = "keys",
    params(("id" = String, Path, description = "The key's public id")),
    responses((status = 204, description = "It is revoked"),
        (status = 404, description = "`not_found`", body = schema::Problem, content_type = "application/problem+json")))]
pub(super) async fn revoke(
    State(app): State<Arc<App>>,
    Admin(_caller): Admin,
    PathPart(id): PathPart,
) -> Answer {
    let write = Write::RevokeKey { id: id.clone(), now_ms: app.engine.now_ms() };
    let written = app.engine.store().submit(Unit::one(write)).await?;
    refresh(&app).await?;
    match written.first() {
        Some(Ok(Written::Count(1))) => nothing(),
        _ => Err(Problem::no_such("key", &id)),
    }
}
