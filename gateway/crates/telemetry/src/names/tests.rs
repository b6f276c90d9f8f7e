use std::collections::HashSet;

use super::*;

#[test]
fn no_name_stands_twice() {
    let names: HashSet<_> = ALL.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), ALL.len());
}

#[test]
fn names_and_help_keep_to_the_rules() {
    for Metric {
        name, labels, help, ..
    } in ALL
    {
        let word = |text: &str| {
            text.starts_with(|c: char| c.is_ascii_lowercase())
                && text
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        };
        assert!(
            word(name) && labels.iter().all(|label| word(label)),
            "{name}"
        );
        for wrong in [
            "tidegate_",
            "_total",
            "_info",
            "_ms",
            "_milliseconds",
            "_kib",
        ] {
            assert!(!name.contains(wrong), "{name} has {wrong}");
        }
        assert!(!help.is_empty() && !help.ends_with('.'), "{name}: {help}");
        for secret in ["key", "etag"] {
            assert!(!labels.contains(&secret), "{name}: no {secret} as a label");
        }
    }
}
