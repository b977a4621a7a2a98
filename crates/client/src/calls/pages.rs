//! Listings fetched page by page.

use crate::model::{ListTasks, Page};
use crate::{Client, Result};
use futures_util::stream::{self, Stream, TryStreamExt};
use serde::de::DeserializeOwned;

/// A listing that is fetched page by page as it is read. It sees what changes meanwhile, but nothing twice.
#[derive(Debug)]
pub struct Pages<T> {
    client: Client,
    path: &'static [&'static str],
    filter: ListTasks,
    finished: bool,
    items: std::marker::PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + Send + 'static> Pages<T> {
    pub(crate) const fn new(client: Client, path: &'static [&'static str], filter: ListTasks) -> Self {
        Self { client, path, filter, finished: false, items: std::marker::PhantomData }
    }

    /// The next page's items; `None` after the last. After an error, the same page can be asked for again.
    ///
    /// # Errors
    /// Those of every call.
    pub async fn next_page(&mut self) -> Result<Option<Vec<T>>> {
        if self.finished {
            return Ok(None);
        }
        let call = self.client.get(self.path)?.query(&self.filter.query);
        let page: Page<T> = self.client.ask(call).await?;
        match page.next_cursor {
            Some(cursor) => self.filter = std::mem::take(&mut self.filter).cursor(cursor),
            None => self.finished = true,
        }
        Ok(Some(page.items))
    }

    /// The items one by one; ends after the first error.
    pub fn into_stream(self) -> impl Stream<Item = Result<T>> + Send {
        stream::try_unfold(self, |mut pages| async move {
            let page = pages.next_page().await?;
            Ok(page.map(|items| (stream::iter(items.into_iter().map(Ok)), pages)))
        })
        .try_flatten()
    }
}
