//! The description of the API, made of the code; and what every route can answer besides what it says itself.

use super::{routes, schema};
use utoipa::OpenApi as _;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, ResponseBuilder};

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Duebook",
        description = "Every deadline fires. Times are RFC 3339 in UTC; `due_at` also takes epoch milliseconds. \
            Refusals are problem documents (RFC 9457) with a stable `code`; unknown fields are refused.",
        license(name = "Apache-2.0 OR MIT"),
    ),
    security(("key" = [])),
    components(schemas(schema::Problem, schema::Fault)),
    tags(
        (name = "tasks", description = "Schedule tasks, look at them, change their course"),
        (name = "leases", description = "Pull due tasks and settle them"),
        (name = "queues", description = "Settings and standing of queues"),
        (name = "schedules", description = "Recurring schedules"),
        (name = "dead letters", description = "Tasks that used up their attempts"),
        (name = "keys", description = "API keys"),
        (name = "system", description = "Health, metrics, descriptions"),
    ),
)]
struct Base;

/// The OpenAPI 3.1 document of the whole API.
#[must_use]
pub fn document() -> OpenApi {
    let mut all = Base::openapi();
    all.merge(routes().into_openapi());
    if let Some(components) = &mut all.components {
        let bearer = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("An API key, `dbk_…`. Not needed on a loopback address while there is no key."))
            .build();
        components.security_schemes.insert("key".to_owned(), SecurityScheme::Http(bearer).into());
    }
    for (path, item) in &mut all.paths.paths {
        let keyed = path.starts_with("/v1/") || path == "/metrics";
        let operations =
            [&mut item.get, &mut item.put, &mut item.post, &mut item.delete].into_iter().flatten();
        for operation in operations {
            add_problems(operation, keyed, path.starts_with("/v1/"));
        }
    }
    all
}

fn add_problems(operation: &mut Operation, keyed: bool, api: bool) {
    let mut add = |status: &str, codes: &str| {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        let response =
            ResponseBuilder::new().description(codes).content("application/problem+json", content).build();
        operation.responses.responses.entry(status.to_owned()).or_insert_with(|| response.into());
    };
    if keyed {
        add("401", "`unauthorized`");
        add("403", "`forbidden`");
    }
    if api {
        add("400", "`bad_json` or `unreadable`");
        add("408", "`request_timeout`");
        add("413", "`body_too_large` or `payload_too_large`");
        add("415", "`unsupported_media_type`");
        add("422", "`unknown_field`, `missing_field`, `bad_field`, `bad_query` or `too_many`");
    }
    add("429", "`busy`, with `Retry-After`");
    add("500", "`internal`");
    add("503", "`store_full`, `store_corrupt`, `store_failed`, `stopping` or `timed_out`");
}

/// The document as it is served.
pub(crate) fn text() -> Vec<u8> {
    serde_json::to_vec(&document()).unwrap_or_default()
}
