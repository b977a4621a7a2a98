//! Pulled leases: what [`crate::Worker`] is made of.

use super::tasks::same_length;
use crate::model::{
    ExtendAnswer, ExtendAnswers, LeaseRef, LeaseRequest, LeasedTask, LeasedTasks, SettleAnswer,
    SettleAnswers, Settlement,
};
use crate::{Client, Result};
use serde::Serialize;
use std::time::Duration;

#[derive(Serialize)]
struct Settle<'a> {
    results: &'a [Settlement],
}

#[derive(Serialize)]
struct Extend<'a> {
    leases: &'a [LeaseRef],
    lease_ms: u64,
}

impl Client {
    /// Takes due tasks of a queue, waiting for the first as long as the request says. Repeated by itself only if the
    /// server has not heard it: what a lost answer held comes back when its leases end.
    ///
    /// # Errors
    /// 429 if the queue cannot give more now, and those of every call.
    pub async fn lease(&self, queue: &str, request: &LeaseRequest) -> Result<Vec<LeasedTask>> {
        let timeout = self.total_timeout() + Duration::from_millis(request.wait_ms);
        let call = self.post(&["v1", "queues", queue, "lease"])?.body(request)?.if_unheard().timeout(timeout);
        self.ask::<LeasedTasks>(call).await.map(|answer| answer.tasks)
    }

    /// Settles attempts, answered in order. Safe to repeat: the token makes it so. (A repetition after a lost answer
    /// may be answered `lease_lost` for what the first try settled.)
    ///
    /// # Errors
    /// Those of every call.
    pub async fn settle(&self, results: &[Settlement]) -> Result<Vec<SettleAnswer>> {
        let call = self.post(&["v1", "leases", "settle"])?.body(&Settle { results })?;
        let name = call.name();
        let answer: SettleAnswers = self.ask(call).await?;
        same_length(name, answer.results.into_iter().map(Into::into).collect(), results.len())
    }

    /// Extends leases to `lease_ms` from now, answered in order.
    ///
    /// # Errors
    /// Those of every call.
    pub async fn extend(&self, leases: &[LeaseRef], lease_ms: u64) -> Result<Vec<ExtendAnswer>> {
        let call = self.post(&["v1", "leases", "extend"])?.body(&Extend { leases, lease_ms })?;
        let name = call.name();
        let answer: ExtendAnswers = self.ask(call).await?;
        same_length(name, answer.results.into_iter().map(Into::into).collect(), leases.len())
    }
}
