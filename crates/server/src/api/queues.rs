//! Queues: settings and standing.

use super::schema;
use super::tasks::check_name_in_path;
use crate::access::{Admin, Read};
use crate::answer::{Answer, PathPart, ok};
use crate::app::App;
use crate::body::JsonBody;
use crate::input::{self, Nothing};
use crate::metrics::Pace;
use crate::problem::Problem;
use crate::stamp::Stamp;
use axum::extract::State;
use duebook_core::{HandlerSpec, QueueSettings, State as TaskState};
use duebook_engine::QueueView;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use std::sync::Arc;

/// Written in the place of a webhook's secret; a request with it keeps the secret that there is.
pub(super) const SECRET_PLACEHOLDER: &str = "whsec_***";

#[derive(Serialize)]
struct View {
    queue: String,
    settings: QueueSettings,
    depth: Depth,
    oldest_due: Option<Stamp>,
    #[serde(flatten)]
    pace: Pace,
}

struct Depth([u64; 5]);

impl Serialize for Depth {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (state, depth) in TaskState::ALL.iter().zip(self.0) {
            map.serialize_entry(state.as_str(), &depth)?;
        }
        map.end()
    }
}

fn view(app: &App, queue: QueueView) -> View {
    let mut settings = queue.settings;
    if let HandlerSpec::Webhook(webhook) = &mut settings.handler
        && let Some(secret) = &mut webhook.secret
    {
        *secret = SECRET_PLACEHOLDER.to_owned();
    }
    View {
        pace: app.metrics.pace(&queue.name, app.engine.now_ms()),
        queue: queue.name,
        settings,
        depth: Depth(queue.depth),
        oldest_due: queue.oldest_due_ms.map(Stamp),
    }
}

#[derive(Serialize)]
struct Items {
    items: Vec<View>,
}

/// List queues
#[utoipa::path(get, path = "/v1/queues", operation_id = "list_queues", tag = "queues", responses(
    (status = 200, description = "The queues that the key is for, by name", body = schema::Queues)))]
pub(super) async fn list(State(app): State<Arc<App>>, Read(caller): Read) -> Answer {
    let views = app.engine.queue_views().await?;
    let items =
        views.into_iter().filter(|queue| caller.may(&queue.name)).map(|queue| view(&app, queue)).collect();
    ok(&Items { items })
}

/// A queue
#[utoipa::path(get, path = "/v1/queues/{queue}", operation_id = "get_queue", tag = "queues",
    params(("queue" = String, Path, description = "The queue")),
    responses((status = 200, description = "Its settings and standing", body = schema::Queue),
        (status = 404, description = "`not_found`", body = schema::Problem, content_type = "application/problem+json")))]
pub(super) async fn get(
    State(app): State<Arc<App>>,
    Read(caller): Read,
    PathPart(queue): PathPart,
) -> Answer {
    caller.check_queue(&queue)?;
    ok(&view(&app, app.engine.queue_view(&queue).await?))
}

/// Put a queue
///
/// Creates it, or replaces its settings; what is left out takes its default. A webhook's secret given as `whsec_***`,
/// as answers write it, stays as it is.
#[utoipa::path(put, path = "/v1/queues/{queue}", operation_id = "put_queue", tag = "queues", request_body = schema::QueueSettings,
    params(("queue" = String, Path, description = "The queue")),
    responses((status = 200, description = "Its settings and standing", body = schema::Queue)))]
pub(super) async fn put(
    State(app): State<Arc<App>>,
    Admin(caller): Admin,
    PathPart(queue): PathPart,
    body: JsonBody,
) -> Answer {
    check_name_in_path(&queue)?;
    caller.check_queue(&queue)?;
    let mut settings: QueueSettings = input::read(&body.bytes)?;
    if let HandlerSpec::Webhook(webhook) = &mut settings.handler
        && webhook.secret.as_deref() == Some(SECRET_PLACEHOLDER)
    {
        webhook.secret = match app.engine.queue_settings(&queue).map(|old| old.handler) {
            Some(HandlerSpec::Webhook(old)) if old.secret.is_some() => old.secret,
            _ => {
                return Err(Problem::bad(
                    "/handler/webhook/secret",
                    "there is no secret yet that could be kept",
                ));
            }
        };
    }
    settings
        .check(|policy| app.engine.config().policies.contains(policy))
        .map_err(|bad| Problem::bad(bad.pointer, bad.why))?;
    ok(&view(&app, app.engine.put_queue(&queue, settings).await?))
}

async fn set_paused(
    app: &App,
    caller: &crate::access::Caller,
    queue: &str,
    body: &[u8],
    paused: bool,
) -> Answer {
    let _: Nothing = input::read_or_default(body)?;
    caller.check_queue(queue)?;
    ok(&view(app, app.engine.set_paused(queue, paused).await?))
}

/// Pause a queue
///
/// It takes tasks but starts none.
#[utoipa::path(post, path = "/v1/queues/{queue}/pause", operation_id = "pause_queue", tag = "queues",
    params(("queue" = String, Path, description = "The queue")),
    responses((status = 200, description = "Its settings and standing", body = schema::Queue),
        (status = 404, description = "`not_found`", body = schema::Problem, content_type = "application/problem+json")))]
pub(super) async fn pause(
    State(app): State<Arc<App>>,
    Admin(caller): Admin,
    PathPart(queue): PathPart,
    body: JsonBody,
) -> Answer {
    set_paused(&app, &caller, &queue, &body.bytes, true).await
}

/// Resume a queue
#[utoipa::path(post, path = "/v1/queues/{queue}/resume", operation_id = "resume_queue", tag = "queues",
    params(("queue" = String, Path, description = "The queue")),
    responses((status = 200, description = "Its settings and standing", body = schema::Queue),
        (status = 404, description = "`not_found`", body = schema::Problem, content_type = "application/problem+json")))]
pub(super) async fn resume(
    State(app): State<Arc<App>>,
    Admin(caller): Admin,
    PathPart(queue): PathPart,
    body: JsonBody,
) -> Answer {
    set_paused(&app, &caller, &queue, &body.bytes, false).await
}
