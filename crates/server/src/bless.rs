//! Documents that are made of the code: compared in tests, written anew with `DUEBOOK_BLESS=1`.

use std::path::Path;

/// Fails if the file is not this text.
pub(crate) fn check(file: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    if std::env::var_os("DUEBOOK_BLESS").is_some() {
        std::fs::write(&path, expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{file} is not what the code says: run the tests once with DUEBOOK_BLESS=1");
}

#[test]
fn the_list_of_errors_is_the_code() {
    check("docs/errors.md", &crate::Code::markdown());
}
