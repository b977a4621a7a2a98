//! The caller of a request, as handlers take it: [`Produce`], [`Work`], [`Read`] or [`Admin`] in a handler's
//! signature is the scope that it needs.

use super::Grant;
use super::keys::Scope;
use crate::app::App;
use crate::code::Code;
use crate::problem::Problem;
use crate::trace;
use axum::extract::FromRequestParts;
use duebook_core::{Task, TaskId};
use duebook_engine::Engine;
use http::request::Parts;
use std::sync::Arc;

/// Who asks.
#[derive(Debug)]
pub(crate) struct Caller {
    grant: Grant,
    /// Trace id that came with the request.
    pub(crate) trace_id: Option<String>,
}

impl Caller {
    fn of(parts: &Parts, app: &App, scope: Scope) -> Result<Self, Problem> {
        let grant = app.access.grant(&parts.headers)?;
        if !grant.scopes.allow(scope) {
            let why = format!("the key has no scope {:?}", scope.as_str());
            return Err(Problem::new(Code::Forbidden, why));
        }
        Ok(Self { grant, trace_id: trace::id_of(&parts.headers) })
    }

    /// Who it is, for the trail.
    pub(crate) fn actor(&self) -> Arc<str> {
        Arc::clone(&self.grant.actor)
    }

    /// Whether the key is limited to some queues.
    pub(crate) fn queues(&self) -> Option<&[String]> {
        self.grant.queues.as_deref()
    }

    pub(crate) fn may(&self, queue: &str) -> bool {
        self.queues().is_none_or(|queues| queues.iter().any(|allowed| allowed == queue))
    }

    /// Refuses a queue that the key is not for.
    pub(crate) fn check_queue(&self, queue: &str) -> Result<(), Problem> {
        if self.may(queue) {
            return Ok(());
        }
        Err(Problem::new(Code::Forbidden, format!("the key is not for the queue {queue:?}")))
    }

    /// Refuses a task of a queue that the key is not for. Costs a read, for limited keys only.
    pub(crate) async fn check_task(&self, engine: &Engine, id: TaskId) -> Result<(), Problem> {
        if self.queues().is_none() {
            return Ok(());
        }
        match engine.store().task(id).await? {
            Some(task) => self.check_queue_of(engine, &task),
            None => Ok(()),
        }
    }

    /// The same for a task that was read already.
    pub(crate) fn check_queue_of(&self, engine: &Engine, task: &Task) -> Result<(), Problem> {
        if self.queues().is_none() {
            return Ok(());
        }
        self.check_queue(&engine.queue_name(task.queue).unwrap_or_default())
    }

    /// The queue that a listing is limited to: the one asked for, or a limited key's only one.
    pub(crate) fn queue_of_listing(&self, asked: Option<String>) -> Result<Option<String>, Problem> {
        match (asked, self.queues()) {
            (Some(queue), _) => self.check_queue(&queue).map(|()| Some(queue)),
            (None, None) => Ok(None),
            (None, Some([only])) => Ok(Some(only.clone())),
            (None, Some(queues)) => {
                let why = format!("the key is limited to queues: name one of {}", queues.join(", "));
                Err(Problem::new(Code::Forbidden, why))
            }
        }
    }
}

macro_rules! scopes {
    ($($name:ident $doc:literal;)*) => {$(
        #[doc = $doc]
        #[derive(Debug)]
        pub(crate) struct $name(pub(crate) Caller);

        impl FromRequestParts<Arc<App>> for $name {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
                Caller::of(parts, app, Scope::$name).map(Self)
            }
        }
    )*};
}

scopes! {
    Produce "A caller who may schedule tasks and change their course.";
    Work "A caller who may lease and settle tasks.";
    Read "A caller who may look.";
    Admin "A caller who may do everything.";
}
