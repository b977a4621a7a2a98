//! Keys, health, refusals.

use serde::Serialize;
use utoipa::ToSchema;

/// What a key is good for.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    Produce,
    Work,
    Read,
    Admin,
}

/// A key to be made.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewKey {
    /// What it is for; the trail shows it.
    name: String,
    scopes: Vec<Scope>,
    /// The only queues it is for; none means all.
    #[schema(max_items = 100)]
    queues: Option<Vec<String>>,
}

/// An API key, without the key itself.
#[derive(Serialize, ToSchema)]
pub(crate) struct Key {
    id: String,
    name: String,
    scopes: Vec<Scope>,
    queues: Vec<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    revoked_at: Option<String>,
}

/// An API key with the key itself.
#[derive(Serialize, ToSchema)]
pub(crate) struct MadeKey {
    #[serde(flatten)]
    row: Key,
    /// The key, shown this once.
    key: String,
}

/// API keys.
#[derive(Serialize, ToSchema)]
pub(crate) struct Keys {
    items: Vec<Key>,
}

/// It lives.
#[derive(Serialize, ToSchema)]
pub(crate) struct Status {
    status: String,
}

/// It is ready.
#[derive(Serialize, ToSchema)]
pub(crate) struct Ready {
    status: String,
    schema_version: u32,
}

/// A refusal (RFC 9457).
#[derive(Serialize, ToSchema)]
pub(crate) struct Problem {
    r#type: String,
    title: String,
    status: u16,
    /// Stable; see `docs/errors.md`.
    code: String,
    detail: String,
    /// JSON pointer of the field at fault.
    #[schema(nullable = false)]
    pointer: Option<String>,
}

/// Why one item of several was refused.
#[derive(Serialize, ToSchema)]
pub(crate) struct Fault {
    code: String,
    detail: String,
    /// JSON pointer of the field at fault.
    #[schema(nullable = false)]
    pointer: Option<String>,
}
