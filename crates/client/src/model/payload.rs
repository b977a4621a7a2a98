//! A task's payload: JSON text, kept as it came and read only when asked.

use crate::{Error, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::value::RawValue;

/// Any JSON value; the default is `null`.
#[derive(Debug, Clone, Default)]
pub struct Payload(Option<Box<RawValue>>);

impl Payload {
    /// No payload: `null`.
    #[must_use]
    pub const fn null() -> Self {
        Self(None)
    }

    /// `value` as JSON.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `value` cannot be written as JSON (a map with keys that are no strings, say).
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self> {
        let raw = serde_json::value::to_raw_value(value)
            .map_err(|why| Error::Invalid(format!("the payload cannot be written as JSON: {why}")))?;
        Ok(Self((raw.get() != "null").then_some(raw)))
    }

    /// The JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_ref().map_or("null", |raw| raw.get())
    }

    /// Whether it is `null`.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        self.0.is_none()
    }

    /// Reads the payload as a `T`.
    ///
    /// # Errors
    /// What `serde_json` says if the payload is no `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.as_str())
    }
}

impl PartialEq for Payload {
    /// Equal as texts.
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl From<serde_json::Value> for Payload {
    fn from(value: serde_json::Value) -> Self {
        // A `Value` has string keys and finite numbers only: it can always be written.
        Self::json(&value).unwrap_or_default()
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let raw = <Box<RawValue>>::deserialize(deserializer)?;
        Ok(Self((raw.get() != "null").then_some(raw)))
    }
}
