//! Which crate may depend on which: dependencies only point down.

use crate::{Finding, Tree};

/// A crate's folder, and the crates of this workspace that it may depend on, tests and build scripts included.
const MAY_USE: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("wheel", &[]),
    ("store", &["core"]),
    ("engine", &["core", "wheel", "store"]),
    ("server", &["core", "store", "engine"]),
    ("client", &[]),
    ("bench", &["core", "wheel", "store", "engine", "client"]),
    ("duebook", &["core", "wheel", "store", "engine", "server", "client", "bench"]),
    ("tidy", &[]),
];

const PREFIX: &str = "duebook-";

pub(crate) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let mut seen = Vec::new();
    for (path, text) in tree.texts() {
        let Some(name) = path.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml"))
        else {
            continue;
        };
        seen.push(name);
        let manifest = Manifest::read(text);
        if !manifest.shares_lints {
            findings.push(Finding::new(path, 0, "lacks `[lints] workspace = true`"));
        }
        let Some((_, may_use)) = MAY_USE.iter().find(|(crate_, _)| *crate_ == name) else {
            findings.push(Finding::new(
                path,
                0,
                "a new crate: say in crates/tidy/src/edges.rs what it may depend on",
            ));
            continue;
        };
        for (line, other) in manifest.uses {
            // A crate may name itself, to switch on a feature for its own tests.
            if other != name && !may_use.contains(&other.as_str()) {
                let what = format!("`{name}` must not depend on `{other}`: dependencies only point down");
                findings.push(Finding::new(path, line, what));
            }
        }
    }
    for (name, _) in MAY_USE.iter().filter(|(name, _)| !seen.contains(name)) {
        let what = format!("there is no crate `{name}`: take it out of crates/tidy/src/edges.rs");
        findings.push(Finding::new("crates", 0, what));
    }
}

/// What of a manifest concerns us. Reads the TOML that people write by hand, line by line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Manifest {
    shares_lints: bool,
    /// Line, and folder of a crate of this workspace.
    uses: Vec<(usize, String)>,
}

impl Manifest {
    fn read(text: &str) -> Self {
        let mut manifest = Self::default();
        let mut section = String::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if let Some(header) = line.strip_prefix('[') {
                section = header.trim_end_matches(']').to_owned();
                // `[dependencies.duebook-core]`
                if let Some((_, name)) = section.split_once("dependencies.") {
                    manifest.note(at, name);
                }
                continue;
            }
            let Some((key, value)) = line.split_once('=') else { continue };
            let (key, value) = (key.trim().trim_matches('"'), value.trim());
            let renamed = value.split_once("package").and_then(|(_, rest)| rest.split('"').nth(1));
            if section == "lints" && key == "workspace" && value == "true" {
                manifest.shares_lints = true;
            } else if section.ends_with("dependencies") {
                manifest.note(at, renamed.unwrap_or(key.split('.').next().unwrap_or(key)));
            } else if section.contains("dependencies.") && key == "package" {
                manifest.note(at, value.trim_matches('"'));
            }
        }
        manifest
    }

    fn note(&mut self, at: usize, package: &str) {
        let name = if package == "duebook" { Some(package) } else { package.strip_prefix(PREFIX) };
        if let Some(name) = name {
            self.uses.push((at + 1, name.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::found;

    const LINTS: &str = "[lints]\nworkspace = true\n";

    /// A workspace that is as it should be, but for one manifest.
    fn with(name: &str, manifest: &str) -> Vec<String> {
        let paths: Vec<String> =
            MAY_USE.iter().map(|(name, _)| format!("crates/{name}/Cargo.toml")).collect();
        let own = format!("crates/{name}/Cargo.toml");
        let mut files: Vec<(&str, &str)> =
            paths.iter().filter(|path| **path != own).map(|path| (path.as_str(), LINTS)).collect();
        files.push((&own, manifest));
        found(check, &files)
    }

    #[test]
    fn an_edge_upwards_is_found_however_it_is_written() {
        for edge in [
            "[dependencies]\nduebook-server.workspace = true\n",
            "[dev-dependencies]\nduebook-server = { workspace = true, features = [\"x\"] }\n",
            "[build-dependencies]\n\"duebook-server\" = { path = \"../server\" }\n",
            "[dependencies.duebook-server]\nworkspace = true\n",
            "[target.'cfg(unix)'.dependencies]\nduebook-server.workspace = true\n",
            "[dependencies]\nup = { path = \"../server\", package = \"duebook-server\" }\n",
        ] {
            let findings = with("engine", &format!("{LINTS}{edge}"));
            assert_eq!(findings.len(), 1, "{edge}: {findings:?}");
            assert!(findings[0].contains("`engine` must not depend on `server`"), "{findings:?}");
        }
    }

    #[test]
    fn edges_downwards_and_other_sections_are_fine() {
        let fine = "[dependencies]\nduebook-core.workspace = true\nserde = \"1\"\n[dev-dependencies]\n\
                    duebook-engine.workspace = true # itself\n[features]\nduebook-server = []\n";
        assert_eq!(with("engine", &format!("{LINTS}{fine}")), Vec::<String>::new());
    }

    #[test]
    fn a_crate_without_the_shared_lints_is_found() {
        assert_eq!(with("core", "[package]\n"), ["crates/core/Cargo.toml: lacks `[lints] workspace = true`"]);
    }

    #[test]
    fn the_table_and_the_folders_agree() {
        let new = with("novel", LINTS);
        assert!(new.len() == 1 && new[0].contains("a new crate"), "{new:?}");
        let gone = found(check, &[]);
        assert_eq!(gone.len(), MAY_USE.len());
        assert!(gone[0].contains("there is no crate `core`"), "{gone:?}");
    }

    #[test]
    fn no_edge_of_the_table_points_in_a_circle() {
        // A topological order exists exactly if taking out what depends on nothing left ends with nothing.
        let mut left: Vec<_> = MAY_USE.to_vec();
        while let Some(at) =
            left.iter().position(|(_, uses)| uses.iter().all(|one| left.iter().all(|(name, _)| name != one)))
        {
            left.remove(at);
        }
        assert!(left.is_empty(), "{left:?}");
    }
}
