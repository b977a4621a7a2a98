//! What the README shows of the examples is what stands in their files, so that what was tried is what people copy.

use crate::{Finding, Tree};

const README: &str = "README.md";

/// Shown whole.
const SHOWN: [&str; 2] = ["examples/webhook/handler.py", "examples/webhook/handler.mjs"];

pub(crate) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let Some(readme) = tree.text(README) else {
        findings.push(Finding::new(README, 0, "does not exist"));
        return;
    };
    for path in SHOWN {
        match tree.text(path) {
            Some(text) if readme.contains(&format!("\n{text}```\n")) => {}
            Some(_) => findings.push(Finding::new(README, 0, format!("must show {path} word for word"))),
            None => findings.push(Finding::new(path, 0, "does not exist, but README.md should show it")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::found;

    #[test]
    fn a_readme_that_shows_something_else_is_found() {
        let readme = "# X\n\n```python\na = 1\n```\n\n```js\nb = 2;\n```\n";
        let files = |python| [(README, readme), (SHOWN[0], python), (SHOWN[1], "b = 2;\n")];
        assert_eq!(found(check, &files("a = 1\n")), Vec::<String>::new());
        assert_eq!(
            found(check, &files("a = 2\n")),
            ["README.md: must show examples/webhook/handler.py word for word"]
        );
        assert_eq!(found(check, &[(README, readme)]).len(), 2);
        assert_eq!(found(check, &[]), ["README.md: does not exist"]);
    }
}
