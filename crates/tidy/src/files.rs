//! Every file: size, trailing spaces, paths of somebody's machine.

use crate::tree::FILE_BYTES_MAX;
use crate::{Finding, Tree};

/// First folders of paths that exist on one machine only. Paths like `/tmp` and `/var/lib/duebook` are everybody's.
const PRIVATE_DIRS: [&str; 4] = ["work", "root", "home", "Users"];

/// Endings of files whose spaces are not ours to choose: snapshots hold output as it came.
const SPACES_FREE: [&str; 2] = [".snap", ".jsonl"];

pub(crate) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in tree.files().filter(|file| file.bytes > FILE_BYTES_MAX) {
        let what =
            format!("has {} bytes, more than {FILE_BYTES_MAX}: keep data out of the repository", file.bytes);
        findings.push(Finding::new(&file.path, 0, what));
    }
    for (path, text) in tree.texts() {
        let spaces_matter = !SPACES_FREE.iter().any(|ending| path.ends_with(ending));
        for (at, line) in text.lines().enumerate() {
            if spaces_matter && line.ends_with([' ', '\t', '\r']) {
                findings.push(Finding::new(path, at + 1, "ends with a space"));
            }
            if let Some(dir) = PRIVATE_DIRS.iter().find(|dir| has_private_path(line, dir)) {
                let what = format!("a path of one machine, below /{dir}: nobody else has it");
                findings.push(Finding::new(path, at + 1, what));
            }
        }
    }
}

/// Whether `line` has an absolute path below `/dir`, not just a longer path or address with a part of that name.
fn has_private_path(line: &str, dir: &str) -> bool {
    line.match_indices(&format!("/{dir}/")).any(|(at, _)| {
        let before = &line[..at];
        let goes_on = |char: char| char.is_alphanumeric() || "_-./}~$*)]".contains(char);
        before.ends_with("file://") || !before.ends_with(goes_on)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::found;

    #[test]
    fn a_large_file_is_found() {
        let text = "x".repeat(usize::try_from(FILE_BYTES_MAX).unwrap());
        assert!(found(check, &[("data", &text)]).is_empty());
        assert!(found(check, &[("data", &format!("{text}x"))])[0].contains("has 1048577 bytes"));
    }

    #[test]
    fn trailing_spaces_are_found() {
        for bad in ["a\nb \nc\n", "a\nb\t\nc\n", "a\nb \r\nc\n", "a\nb "] {
            assert_eq!(found(check, &[("README.md", bad)]), ["README.md:2: ends with a space"], "{bad:?}");
        }
        assert!(found(check, &[("README.md", "a\n\n b\n"), ("tests/a.snap", "a \n")]).is_empty());
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        for dir in PRIVATE_DIRS {
            for before in ["", "see ", "\"", "(", "file://", "PATH=/bin:"] {
                let line = format!("{before}/{dir}/main/x.rs\n");
                assert_eq!(found(check, &[("a.md", &line)]).len(), 1, "{line}");
            }
            for before in ["/v1/queues", "http://host", "~", "{base}", "$HOME", "crates"] {
                let line = format!("{before}/{dir}/lease\n");
                assert!(found(check, &[("a.md", &line)]).is_empty(), "{line}");
            }
        }
    }
}
