//! Whether the server lives and is ready.

use crate::retry::RetryPolicy;
use crate::{Client, Result};

impl Client {
    /// Whether the server lives. Asked once, whatever the retry policy.
    ///
    /// # Errors
    /// Those of every call.
    pub async fn healthz(&self) -> Result<()> {
        let once = self.with_retry(RetryPolicy::off());
        once.done(once.get(&["healthz"])?).await
    }

    /// Whether the server is ready: its store reachable, its schema current. Asked once, whatever the retry policy.
    ///
    /// # Errors
    /// 503 if it is not, and those of every call.
    pub async fn readyz(&self) -> Result<()> {
        let once = self.with_retry(RetryPolicy::off());
        once.done(once.get(&["readyz"])?).await
    }
}
