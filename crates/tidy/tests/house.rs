//! The repository is as it should be.

use duebook_tidy::{Tree, check};
use std::path::Path;

#[test]
fn the_house_is_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tree = Tree::read(&root).expect("the repository can be read");
    assert!(tree.text("crates/tidy/tests/house.rs").is_some(), "the listing misses this very file");
    let findings: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{} findings:\n  {}", findings.len(), findings.join("\n  "));
}
