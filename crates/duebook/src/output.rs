//! Standard output, which may be a closed pipe: that is no failure of the command.

use std::io::Write;

/// Prints a line and flushes it.
pub(crate) fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}
