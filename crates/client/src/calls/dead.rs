//! Dead letters.

use super::Pages;
use crate::model::{DeadFilter, DeadRetry, ListDead, Page, Task};
use crate::{Client, Result};

impl Client {
    /// One page of dead letters.
    ///
    /// # Errors
    /// Those of every call.
    pub async fn dead(&self, filter: &ListDead) -> Result<Page<Task>> {
        self.ask(self.get(&["v1", "dead"])?.query(&filter.0.query)).await
    }

    /// All pages of dead letters from the filter's cursor on, fetched as they are asked for.
    #[must_use]
    pub fn dead_all(&self, filter: ListDead) -> Pages<Task> {
        Pages::new(self.clone(), &["v1", "dead"], filter.0)
    }

    /// Gives dead letters a new life. Repeated by itself only if the server has not heard it.
    ///
    /// # Errors
    /// Those of every call.
    pub async fn dead_retry(&self, filter: &DeadFilter) -> Result<DeadRetry> {
        self.ask(self.post(&["v1", "dead", "retry"])?.body(filter)?.if_unheard()).await
    }
}
