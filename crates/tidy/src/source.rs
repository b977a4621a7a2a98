//! Our own source: sizes, module docs, leftovers.

use crate::{Finding, Tree};

/// Lines of a source file. Tests, examples and benches may be longer.
const LINES_MAX: usize = 900;

/// Files that may be longer: path, lines, and why it is better in one piece.
const LONGER: &[(&str, usize, &str)] = &[];

/// Written so that this file does not find itself.
const LEFTOVERS: [&str; 4] =
    [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("todo", "!("), concat!("unimplemented", "!(")];

pub(crate) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    check_lengths(tree, LONGER, findings);
    for (path, text) in tree.texts().filter(|(path, _)| is_source(path)) {
        if path.ends_with(".rs") && !has_module_doc(text) {
            findings.push(Finding::new(path, 1, "must start with a `//!` that says what it is for"));
        }
        if path.ends_with(".sql") && !text.starts_with("-- ") {
            findings.push(Finding::new(path, 1, "must start with a `-- ` comment that says what it is for"));
        }
        for (at, line) in text.lines().enumerate() {
            if let Some(leftover) = LEFTOVERS.iter().find(|leftover| has_word(line, leftover)) {
                let leftover = leftover.trim_end_matches('(');
                findings.push(Finding::new(path, at + 1, format!("{leftover}: finish it, or file an issue")));
            }
        }
    }
}

/// `crates/X/src/…`
fn is_source(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.next() == Some("crates") && parts.nth(1) == Some("src")
}

fn check_lengths(tree: &Tree, longer: &[(&str, usize, &str)], findings: &mut Vec<Finding>) {
    for (path, text) in tree.texts().filter(|(path, _)| is_source(path)) {
        let allowed = longer.iter().find(|(other, ..)| *other == path);
        let lines_max = allowed.map_or(LINES_MAX, |(_, lines, _)| *lines);
        let lines = text.lines().count();
        if lines > lines_max {
            let what = format!("has {lines} lines, more than {lines_max}: split it by role");
            findings.push(Finding::new(path, 0, what));
        } else if allowed.is_some() && lines <= LINES_MAX {
            findings.push(Finding::new(
                path,
                0,
                "is short enough by now: take it off the list in crates/tidy",
            ));
        }
    }
    for (path, ..) in longer.iter().filter(|(path, ..)| tree.text(path).is_none()) {
        findings.push(Finding::new(path, 0, "does not exist: take it off the list in crates/tidy"));
    }
}

fn has_module_doc(text: &str) -> bool {
    text.lines()
        .find(|line| !line.trim().is_empty() && !line.starts_with("#!["))
        .is_some_and(|line| line.starts_with("//!"))
}

/// Whether `word` stands in `line` and is no part of a longer word.
fn has_word(line: &str, word: &str) -> bool {
    let inner = |char: Option<char>| char.is_some_and(|char| char.is_alphanumeric() || char == '_');
    line.match_indices(word).any(|(at, _)| {
        let open_ended = word.ends_with('(') || !inner(line[at + word.len()..].chars().next());
        !inner(line[..at].chars().next_back()) && open_ended
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::found;

    #[test]
    fn a_source_file_without_module_doc_is_found() {
        let bad = found(check, &[("crates/core/src/a.rs", "use std::fmt;\n//! late\n")]);
        assert!(bad.len() == 1 && bad[0].starts_with("crates/core/src/a.rs:1: must start with"), "{bad:?}");
        assert_eq!(found(check, &[("crates/core/src/a.rs", "")]).len(), 1);
        let fine = [
            ("crates/core/src/a.rs", "//! What it is for.\n"),
            ("crates/core/src/b.rs", "#![forbid(unsafe_code)]\n\n//! What it is for.\n"),
            ("crates/core/tests/c.rs", "use std::fmt;\n"),
        ];
        assert_eq!(found(check, &fine), Vec::<String>::new());
    }

    #[test]
    fn sql_without_a_word_of_what_it_does_is_found() {
        let bad = found(check, &[("crates/store/src/sqlite/sql/find_due.sql", "SELECT 1;\n")]);
        assert!(bad.len() == 1 && bad[0].contains("`-- ` comment"), "{bad:?}");
        assert!(
            found(check, &[("crates/store/src/sqlite/sql/find_due.sql", "-- One.\nSELECT 1;\n")]).is_empty()
        );
    }

    #[test]
    fn leftovers_are_found_as_words() {
        for leftover in LEFTOVERS {
            let text = format!("//! Doc.\n    {leftover}) // later\n");
            let bad = found(check, &[("crates/core/src/a.rs", &text)]);
            assert!(bad.len() == 1 && bad[0].starts_with("crates/core/src/a.rs:2: "), "{bad:?}");
            assert!(found(check, &[("crates/core/tests/a.rs", &text)]).is_empty());
        }
        let fine = format!("//! Doc.\nfn my_{}) {{}} // {}S\n", LEFTOVERS[2], LEFTOVERS[0]);
        assert!(found(check, &[("crates/core/src/a.rs", &fine)]).is_empty());
    }

    #[test]
    fn a_file_that_grows_is_found() {
        let lines = |count: usize| "//! Doc.\n".repeat(count);
        let lengths = |count: usize, longer: &[(&str, usize, &str)]| {
            let text = lines(count);
            found(|tree, findings| check_lengths(tree, longer, findings), &[("crates/core/src/a.rs", &text)])
        };
        assert!(lengths(LINES_MAX, &[]).is_empty());
        assert!(lengths(LINES_MAX + 1, &[])[0].contains("has 901 lines, more than 900"));
        let longer = [("crates/core/src/a.rs", 1_000, "one table")];
        assert!(lengths(1_000, &longer).is_empty());
        assert!(lengths(1_001, &longer)[0].contains("more than 1000"));
        assert!(lengths(LINES_MAX, &longer)[0].contains("take it off the list"));
        assert!(lengths(1, &[("crates/core/src/gone.rs", 1_000, "")])[0].contains("does not exist"));
    }
}
