//! The tests that SEMANTICS.md names exist.

use std::path::Path;

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
        let path = root.join("tests").join(suite).with_extension("rs");
        let code = std::fs::read_to_string(&path).unwrap_or_default();
        let there = code.contains(&format!("fn {test}()"));
        assert!(there, "{suite}::{test}, which SEMANTICS.md names");
    }
}
