//! The HTTP API: one module per resource, one function per route.

mod acts;
mod batch;
mod dead;
mod keys;
mod leases;
mod listing;
mod openapi;
mod queues;
mod schedules;
pub(crate) mod schema;
mod system;
mod tasks;

pub use openapi::document;
pub(crate) use openapi::text;

use crate::app::App;
use crate::code::Code;
use crate::problem::Problem;
use axum::Router;
use http::Uri;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Every route, with its description.
fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(tasks::schedule, listing::list))
        .routes(routes!(batch::schedule_batch))
        .routes(routes!(tasks::get))
        .routes(routes!(tasks::trail))
        .routes(routes!(acts::cancel))
        .routes(routes!(acts::reschedule))
        .routes(routes!(acts::run))
        .routes(routes!(acts::retry))
        .routes(routes!(acts::cancel_key))
        .routes(routes!(acts::reschedule_key))
        .routes(routes!(leases::lease))
        .routes(routes!(leases::settle))
        .routes(routes!(leases::extend))
        .routes(routes!(queues::list))
        .routes(routes!(queues::get, queues::put))
        .routes(routes!(queues::pause))
        .routes(routes!(queues::resume))
        .routes(routes!(schedules::list))
        .routes(routes!(schedules::get, schedules::put, schedules::delete))
        .routes(routes!(dead::list))
        .routes(routes!(dead::retry))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::revoke))
        .routes(routes!(system::healthz))
        .routes(routes!(system::readyz))
        .routes(routes!(system::metrics))
        .routes(routes!(system::openapi))
        .routes(routes!(system::errors))
        .routes(routes!(system::root))
}

/// The router over its state.
pub(crate) fn router(app: Arc<App>) -> Router {
    let (router, _) = routes().split_for_parts();
    router.fallback(unknown_route).method_not_allowed_fallback(method_not_allowed).with_state(app)
}

async fn unknown_route(uri: Uri) -> Problem {
    Problem::new(Code::UnknownRoute, format!("nothing answers at {:?}", uri.path()))
}

async fn method_not_allowed(method: http::Method, uri: Uri) -> Problem {
    Problem::new(Code::MethodNotAllowed, format!("{:?} does not take {method}", uri.path()))
}
