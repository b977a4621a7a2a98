//! Every error code has its entry in `docs/errors.md`, and every entry its code.

use crate::{Finding, Tree};

const CODES: &str = "crates/server/src/code.rs";
const PAGE: &str = "docs/errors.md";

pub(crate) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let (Some(source), Some(page)) = (tree.text(CODES), tree.text(PAGE)) else { return };
    let codes: Vec<&str> = source.lines().filter_map(code_of).collect();
    let entries: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("## ")).map(str::trim).collect();
    if codes.is_empty() {
        findings.push(Finding::new(CODES, 0, "no codes can be read: mend crates/tidy/src/errors.rs"));
    }
    for code in codes.iter().filter(|code| !entries.contains(code)) {
        findings.push(Finding::new(PAGE, 0, format!("lacks an entry for `{code}`")));
    }
    for entry in entries.iter().filter(|entry| !codes.contains(entry)) {
        findings.push(Finding::new(PAGE, 0, format!("explains `{entry}`, which is no code")));
    }
}

/// The code of a row `Variant "code" 409 "Title"`.
fn code_of(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let variant = words.next()?;
    let code = words.next()?.strip_prefix('"')?.strip_suffix('"')?;
    let status = words.next()?;
    let is_row =
        variant.chars().all(char::is_alphanumeric) && status.len() == 3 && status.parse::<u16>().is_ok();
    is_row.then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::found;

    const SOURCE: &str = "codes! {\n    BadJson \"bad_json\" 400 \"The body is not JSON\"\n        \"Why.\";\n    \
                          Busy \"busy\" 429 \"Too much\"\n        \"Why.\";\n}\n";

    #[test]
    fn codes_and_entries_agree() {
        let page = "# Errors\n\n## bad_json\n\nWhy.\n\n## busy\n";
        assert_eq!(found(check, &[(CODES, SOURCE), (PAGE, page)]), Vec::<String>::new());
        let missing = found(check, &[(CODES, SOURCE), (PAGE, "## busy\n")]);
        assert_eq!(missing, ["docs/errors.md: lacks an entry for `bad_json`"]);
        let stale = found(check, &[(CODES, SOURCE), (PAGE, "## busy\n## bad_json\n## lazy\n")]);
        assert_eq!(stale, ["docs/errors.md: explains `lazy`, which is no code"]);
    }

    #[test]
    fn a_source_that_cannot_be_read_is_said() {
        let findings = found(check, &[(CODES, "enum Code {}\n"), (PAGE, "# Errors\n")]);
        assert!(findings.len() == 1 && findings[0].contains("no codes can be read"), "{findings:?}");
    }
}
