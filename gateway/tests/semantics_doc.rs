//! The tests that SEMANTICS.md names exist.

use std::path::{Path, PathBuf};

#[test]
fn every_test_that_the_document_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("docs/SEMANTICS.md")).expect("the document");
    let (_, table) = text
        .split_once("## Which test holds what")
        .expect("the section");
    let named: Vec<_> = table
        .split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|span| span.split_once("::"))
        .collect();
    assert!(named.len() > 20, "{named:?}");
    for (suite, test) in named {
        let path = file_of(root, suite);
        let code = std::fs::read_to_string(&path).unwrap_or_default();
        let there = code.contains(&format!("fn {test}()"));
        assert!(there, "{suite}::{test}, which SEMANTICS.md names");
    }
}

/// Returns the file of a suite: `X/Y` is `Y` of the crate X where that crate has suites, `app/Y` one of the gateway's source,
/// and else one of the gateway's tests.
fn file_of(root: &Path, suite: &str) -> PathBuf {
    let of_crate = suite.split_once('/').and_then(|(name, rest)| {
        let suites = root.join("crates").join(name).join("tests/suite");
        suites.is_dir().then(|| suites.join(rest))
    });
    let folder = if suite.starts_with("app/") {
        "src"
    } else {
        "tests"
    };
    let path = of_crate.unwrap_or_else(|| root.join(folder).join(suite));
    path.with_extension("rs")
}
