//! The files of the repository, read once.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

/// Bytes of one file; a larger one is not read, only reported.
pub const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Folders that are not walked where git cannot be asked.
const SKIPPED_DIRS: [&str; 4] = [".git", "target", "node_modules", "duebook-data"];

/// A file.
#[derive(Debug, Clone)]
pub struct File {
    /// Path below the repository, with `/` between its parts.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Its text; none if it is too large or not UTF-8.
    pub text: Option<String>,
}

/// The files, by path.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    files: Vec<File>,
}

impl Tree {
    /// Reads the repository at `root`: the files that git knows or would add, or without git all but build output.
    ///
    /// # Errors
    /// When a folder or a file cannot be read.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut paths = match listed_by_git(root) {
            Some(paths) => paths,
            None => {
                let mut paths = Vec::new();
                walk(root, "", &mut paths)?;
                paths
            }
        };
        paths.sort();
        paths.dedup();
        let mut files = Vec::with_capacity(paths.len());
        for path in paths {
            let place = root.join(&path);
            // Deleted but not yet committed, or a link to elsewhere.
            let Ok(meta) = fs::symlink_metadata(&place) else { continue };
            if !meta.is_file() {
                continue;
            }
            let text = match meta.len() {
                0..=FILE_BYTES_MAX => String::from_utf8(fs::read(&place)?).ok(),
                _ => None,
            };
            files.push(File { path, bytes: meta.len(), text });
        }
        Ok(Self { files })
    }

    /// A tree of these paths and texts.
    #[must_use]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| File {
            path: (*path).to_owned(),
            bytes: text.len() as u64,
            text: Some((*text).to_owned()),
        });
        Self { files: files.collect() }
    }

    /// Every file.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    /// Path and text of every file that has text.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|file| Some((file.path.as_str(), file.text.as_deref()?)))
    }

    /// The text of the file at `path`.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts().find(|(other, _)| *other == path).map(|(_, text)| text)
    }
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<String> = text.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    (output.status.success() && !paths.is_empty()).then_some(paths)
}

fn walk(root: &Path, below: &str, paths: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() && !SKIPPED_DIRS.contains(&name.as_str()) {
            walk(root, &path, paths)?;
        } else if kind.is_file() {
            paths.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_git_the_folders_are_walked() {
        let mut paths = Vec::new();
        walk(Path::new(env!("CARGO_MANIFEST_DIR")), "", &mut paths).unwrap();
        assert!(
            paths.contains(&"Cargo.toml".to_owned()) && paths.contains(&"src/tree.rs".to_owned()),
            "{paths:?}"
        );
    }
}
