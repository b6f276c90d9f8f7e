//! Types of one crate that share a name: a reader who searches for one of them finds the other.

use std::collections::BTreeMap;

use crate::rust_source::Source;
use crate::{children, crate_name, crates, root, sources};

/// The modules that stand in for another one where a feature is off: their types have its names on purpose.
const STAND_INS: &[&str] = &["app::mounts::none"];

#[test]
fn no_two_types_of_a_crate_share_a_name() {
    let mut found = vec![];
    let mut stand_ins = 0;
    for folder in children(&crates()).iter().chain([&root()]) {
        let mut all = sources(folder);
        let before = all.len();
        all.retain(|source| !STAND_INS.contains(&&*source.module.join("::")));
        stand_ins += before - all.len();
        let name = crate_name(folder);
        found.extend(twins(&all).iter().map(|twin| format!("{name}: {twin}")));
    }
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
    assert_eq!(stand_ins, STAND_INS.len(), "each exception is needed");
}

/// Returns each name of several types, with their modules.
fn twins(sources: &[Source]) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for source in sources {
        for name in &source.types {
            let all = places.entry(name).or_default();
            all.push(source.module.join("::"));
        }
    }
    let several = places.iter().filter(|(_, places)| places.len() > 1);
    several
        .map(|(name, places)| format!("{name} in {}", places.join(" and ")))
        .collect()
}

#[test]
fn two_types_of_one_name_are_seen() {
    let source = |module: &str, text: &str| Source::new(vec![module.to_owned()], text);
    let said = |one: &str, other: &str| twins(&[source("a", one), source("b", other)]).join(", ");
    assert_eq!(said("struct Log;", "enum Log {}"), "Log in a and b");
    assert_eq!(
        said("pub(super) trait Log {}", "type Log = u8;"),
        "Log in a and b"
    );
    assert_eq!(said("struct Log;", "struct LogLine; fn f(log: Log) {}"), "");
    // Each implementation of a trait has its own types.
    let associated = "impl Iterator for X { type Item = u8; }";
    assert_eq!(said(associated, associated), "");
    assert_eq!(
        said("struct Log;", "#[cfg(test)]\nmod tests { struct Log; }"),
        ""
    );
    assert_eq!(
        said(
            "struct Log;",
            "// struct Log\nconst X: &str = \"struct Log\";"
        ),
        ""
    );
}
