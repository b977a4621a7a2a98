//! Queues: a named kind of task with its tier, handler, retry policy, concurrency and pause switch.

use crate::signature::WebhookSecret;
use serde::{Deserialize, Serialize};

/// A queue's number within its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u32);

/// What finds the due tasks of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// A timing wheel over a horizon paged in from the store: the most exact, the default.
    #[default]
    Wheel,
    /// Polling the store with an adaptive wait: no memory per task.
    Db,
}

/// Who runs the tasks of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum HandlerSpec {
    /// Workers pull leases over HTTP.
    #[default]
    Lease,
    /// Duebook calls this URL.
    Webhook(WebhookSpec),
    /// A handler registered in the process that embeds the engine.
    Inprocess,
}

/// Where and how to call a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookSpec {
    /// `http://` or `https://` address.
    pub url: String,
    /// Standard Webhooks secret, `whsec_` and base 64; without one the calls are not signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// The settings of a queue, as `PUT /v1/queues/{queue}` takes them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueSettings {
    /// What finds due tasks.
    pub tier: Tier,
    /// Who runs them.
    pub handler: HandlerSpec,
    /// Name of a retry policy that replaces the one of the failure's class.
    pub retry: Option<String>,
    /// Most tasks of this queue that run at once (handed-out leases count).
    pub concurrency: u32,
    /// Deadline of one attempt in milliseconds.
    pub timeout_ms: u64,
    /// Most starts per second; none means no limit.
    pub rate_per_second: Option<f64>,
    /// A paused queue takes tasks but starts none.
    pub paused: bool,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            tier: Tier::Wheel,
            handler: HandlerSpec::Lease,
            retry: None,
            concurrency: 1_000,
            timeout_ms: 30_000,
            rate_per_second: None,
            paused: false,
        }
    }
}

/// A setting that cannot be used: which one (as a JSON pointer) and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {why}")]
pub struct BadSetting {
    /// JSON pointer of the setting.
    pub pointer: &'static str,
    /// What it must be.
    pub why: String,
}

fn bad(pointer: &'static str, why: impl Into<String>) -> Result<(), BadSetting> {
    Err(BadSetting { pointer, why: why.into() })
}

impl QueueSettings {
    /// Checks every bound. `policy_known` tells whether a retry policy of that name exists.
    ///
    /// # Errors
    /// The first setting that is out of bounds.
    pub fn check(&self, policy_known: impl Fn(&str) -> bool) -> Result<(), BadSetting> {
        if let Some(policy) = &self.retry
            && !policy_known(policy)
        {
            return bad("/retry", format!("no retry policy is called {policy:?}"));
        }
        if !(1..=100_000).contains(&self.concurrency) {
            return bad("/concurrency", "must be from 1 to 100000");
        }
        if !(1..=86_400_000).contains(&self.timeout_ms) {
            return bad("/timeout_ms", "must be from 1 to 86400000 milliseconds");
        }
        if let Some(rate) = self.rate_per_second
            && !(rate.is_finite() && (0.001..=1_000_000.0).contains(&rate))
        {
            return bad("/rate_per_second", "must be from 0.001 to 1000000");
        }
        if let HandlerSpec::Webhook(webhook) = &self.handler {
            let rest = webhook.url.strip_prefix("http://").or_else(|| webhook.url.strip_prefix("https://"));
            match rest {
                Some(rest) if !rest.is_empty() && webhook.url.len() <= 2_000 => {}
                _ => {
                    return bad(
                        "/handler/webhook/url",
                        "must be an http:// or https:// address of at most 2000 bytes",
                    );
                }
            }
            if let Some(secret) = &webhook.secret
                && let Err(why) = WebhookSecret::parse(secret)
            {
                return bad("/handler/webhook/secret", why.to_string());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_checked_field_by_field() {
        let good = QueueSettings::default();
        assert_eq!(good.check(|_| true), Ok(()));
        let cases: Vec<(QueueSettings, &str)> = vec![
            (QueueSettings { concurrency: 0, ..good.clone() }, "/concurrency"),
            (QueueSettings { timeout_ms: 0, ..good.clone() }, "/timeout_ms"),
            (QueueSettings { rate_per_second: Some(f64::NAN), ..good.clone() }, "/rate_per_second"),
            (QueueSettings { retry: Some("nope".into()), ..good.clone() }, "/retry"),
            (
                QueueSettings {
                    handler: HandlerSpec::Webhook(WebhookSpec { url: "ftp://x".into(), secret: None }),
                    ..good.clone()
                },
                "/handler/webhook/url",
            ),
            (
                QueueSettings {
                    handler: HandlerSpec::Webhook(WebhookSpec {
                        url: "http://x".into(),
                        secret: Some("whsec_!".into()),
                    }),
                    ..good.clone()
                },
                "/handler/webhook/secret",
            ),
        ];
        for (settings, pointer) in cases {
            assert_eq!(settings.check(|_| false).unwrap_err().pointer, pointer);
        }
    }

    #[test]
    fn handler_json_has_the_documented_shape() {
        let text = r#"{"handler":{"webhook":{"url":"http://127.0.0.1:1/x"}},"concurrency":5}"#;
        let read: QueueSettings = serde_json::from_str(text).unwrap();
        assert!(matches!(read.handler, HandlerSpec::Webhook(_)));
        let lease: QueueSettings = serde_json::from_str(r#"{"handler":"lease"}"#).unwrap();
        assert_eq!(lease.handler, HandlerSpec::Lease);
        assert!(serde_json::from_str::<QueueSettings>(r#"{"handlr":"lease"}"#).is_err());
    }
}
