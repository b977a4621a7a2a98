//! Listings: pages by keyset, and answers that are lists.

use serde::Deserialize;

/// One page of a listing.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Page<T> {
    /// What it holds.
    pub items: Vec<T>,
    /// Where the next page begins; `None` on the last.
    #[serde(default = "none")]
    pub next_cursor: Option<String>,
}

const fn none() -> Option<String> {
    None
}

/// A list that is not paged, bare or under `items`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Listing<T> {
    Items { items: Vec<T> },
    Bare(Vec<T>),
}

impl<T> Listing<T> {
    pub(crate) fn into_items(self) -> Vec<T> {
        match self {
            Self::Items { items } | Self::Bare(items) => items,
        }
    }
}
