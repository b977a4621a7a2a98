//! Checks the house: what a compiler does not see and a reviewer should not have to.
//!
//! Each check is a function from a [`Tree`] to findings, so that its tests can give it a tree that is wrong.
//! `tests/house.rs` runs them all on the repository.
//!
//! Invariant: nothing here depends on another crate, and nothing writes a file.

mod edges;
mod errors;
mod files;
mod readme;
mod source;
mod tree;

use std::fmt;

pub use tree::{FILE_BYTES_MAX, File, Tree};

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path below the repository.
    pub path: String,
    /// Line, counted from 1; 0 means the whole file.
    pub line: usize,
    /// What is wrong and what to do about it.
    pub what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

/// Everything that is not as it should be, by path and line.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    edges::check(tree, &mut findings);
    source::check(tree, &mut findings);
    files::check(tree, &mut findings);
    errors::check(tree, &mut findings);
    readme::check(tree, &mut findings);
    findings.sort();
    findings
}

/// For tests: what a check finds in a tree of these files.
#[cfg(test)]
fn found(check: impl Fn(&Tree, &mut Vec<Finding>), files: &[(&str, &str)]) -> Vec<String> {
    let mut findings = Vec::new();
    check(&Tree::of(files), &mut findings);
    findings.iter().map(ToString::to_string).collect()
}
