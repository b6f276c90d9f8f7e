//! The allowed imports: `plan <- origin, store <- engine <- http, admin <- app <- main`.
//!
//! The test reads the source text, so that a wrong import fails before it becomes a habit. Comments
//! (links in docs may point anywhere) and strings do not count. Unit tests, behind `#[cfg(test)]`,
//! may combine any modules.

use std::fs;
use std::path::{Path, PathBuf};

#[path = "support/rust_source.rs"]
mod rust_source;

use rust_source::Source;

/// The parts of ours that each part may name. Parts that combine the others are left out: `app`,
/// `cli`, `config` (gathers every section), `demo`, `doctor`, `lib` and `main`.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("plan", &[]),
    ("telemetry", &["plan"]),
    ("socket", &["plan"]),
    ("origin", &["plan", "telemetry"]),
    ("store", &["plan", "telemetry"]),
    ("engine", &["plan", "origin", "store", "telemetry"]),
    ("http", &["plan", "engine", "socket", "telemetry"]),
    ("fuse", &["plan", "engine", "telemetry"]),
    ("admin", &["plan", "engine", "socket", "telemetry"]),
];

/// The modules that may name a third-party crate, or a family of crates with a common prefix. A
/// module includes those below it.
const HOMES: &[(&str, &[&str])] = &[
    ("aws_", &["origin::s3"]),
    ("foyer", &["store"]),
    ("redb", &["store"]),
    ("brotli", &["engine::variant"]),
    ("flate2", &["engine::variant"]),
    ("axum", &["http", "admin"]),
    ("tower_http", &["http", "admin"]),
    ("s3s", &["origin::embedded", "demo"]),
    ("fuser", &["fuse"]),
    ("tikv_jemalloc", &["app::allocator"]),
];

/// Crates and modules that `plan` may not name: it only decides, with time and chance as arguments.
const NOT_IN_PLAN: &[&str] = &[
    "tokio",
    "hyper",
    "futures_util",
    "rand",
    "rustix",
    "std::fs",
    "std::net",
    "std::io",
    "std::env",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "SystemTime::now",
    "Instant::now",
];

#[test]
fn each_layer_imports_only_what_lies_below_it() {
    assert_none(violations(&gateway(), wrong_imports));
}

#[test]
fn each_third_party_crate_stays_at_home() {
    assert_none(violations(&gateway(), strangers));
}

#[test]
fn plan_has_no_clock_no_io_and_no_runtime() {
    assert_none(violations(&gateway(), doings_of_plan));
}

fn assert_none(violations: Vec<String>) {
    assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
}

fn violations(sources: &[Source], rule: fn(&Source) -> Vec<String>) -> Vec<String> {
    let complain = |source: &Source| {
        let module = source.module.join("::");
        rule(source)
            .into_iter()
            .map(move |what| format!("{module}: {what}"))
            .collect::<Vec<_>>()
    };
    sources.iter().flat_map(complain).collect()
}

fn wrong_imports(source: &Source) -> Vec<String> {
    let Some((layer, allowed)) = MAY_IMPORT.iter().find(|(layer, _)| source.is_in(layer)) else {
        return vec![];
    };
    let ours = source.crate_modules();
    let wrong = |name: &&String| name != layer && !allowed.contains(&name.as_str());
    ours.iter()
        .filter(wrong)
        .map(|name| format!("imports `{name}`"))
        .collect()
}

fn strangers(source: &Source) -> Vec<String> {
    let at_home = |homes: &[&str]| homes.iter().any(|home| source.is_in(home));
    let stranger = |name: &&String| {
        let home = HOMES.iter().find(|(family, _)| name.starts_with(family));
        home.is_some_and(|(_, homes)| !at_home(homes))
    };
    source
        .heads()
        .iter()
        .filter(stranger)
        .map(|name| format!("names `{name}`"))
        .collect()
}

fn doings_of_plan(source: &Source) -> Vec<String> {
    if !source.is_in("plan") {
        return vec![];
    }
    let named = |path: &&&str| source.names(path);
    NOT_IN_PLAN
        .iter()
        .filter(named)
        .map(|path| format!("names `{path}`"))
        .collect()
}

/// Returns every source file of the library, without those that are entirely unit tests.
fn gateway() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = vec![];
    collect(&root, &mut files);
    let all: Vec<Source> = files.iter().map(|file| read(&root, file)).collect();
    let tests: Vec<Vec<String>> = all.iter().flat_map(Source::test_modules).collect();
    let is_test = |source: &Source| tests.iter().any(|test| source.module.starts_with(test));
    let kept: Vec<Source> = all.into_iter().filter(|source| !is_test(source)).collect();
    assert!(kept.len() > 15, "the sources were not found");
    kept
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a readable directory") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn read(root: &Path, file: &Path) -> Source {
    let relative = file
        .strip_prefix(root)
        .expect("found below it")
        .with_extension("");
    let module = relative
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    Source::new(
        module,
        &fs::read_to_string(file).expect("a readable source"),
    )
}

// The rule itself is tested: each of these is a plausible mistake.

fn source(module: &str, text: &str) -> Source {
    Source::new(module.split("::").map(str::to_owned).collect(), text)
}

#[test]
fn a_wrong_import_is_seen_in_every_form_it_takes() {
    for (module, text, named) in [
        ("plan::range", "use crate::engine::Engine;", "engine"),
        (
            "store::chunks",
            "use crate::{plan::Key, origin::Get};",
            "origin",
        ),
        (
            "store::chunks",
            "use crate::{self, plan::{A, B}, http};",
            "http",
        ),
        ("store", "use super::origin::Get;", "origin"),
        (
            "http::router",
            "fn f() { super::super::store::x() }",
            "store",
        ),
        ("admin", "fn f(x: crate::http::Router) {}", "http"),
        (
            "engine::flight",
            "pub(crate) use crate::app as other;",
            "app",
        ),
    ] {
        let found = wrong_imports(&source(module, text));
        assert_eq!(found, [format!("imports `{named}`")], "{text}");
    }
}

#[test]
fn what_is_allowed_commented_quoted_or_a_test_is_let_be() {
    for (module, text) in [
        (
            "engine",
            "use crate::{origin::Get, plan::{ByteRange, ETag}, store::Tier};",
        ),
        (
            "plan::range",
            "/// See [`crate::engine`].\n// crate::http::x\n/* crate::app::y */",
        ),
        (
            "plan::key",
            "const X: &str = \"crate::http::x\"; const Y: char = '\"';",
        ),
        ("plan::key", "const X: &str = r#\"a \" crate::http::x\"#;"),
        (
            "plan::key",
            "fn f<'a>(x: &'a str) {} pub(in crate::plan) fn g() {}",
        ),
        (
            "http::x",
            "#[cfg(test)]\nmod tests { use crate::store::Y; fn f() { {} } }",
        ),
        (
            "http::x",
            "use super::super::plan::X; use super::store_layout::Y;",
        ),
    ] {
        assert_eq!(
            wrong_imports(&source(module, text)),
            Vec::<String>::new(),
            "{text}"
        );
    }
    let after = "#[cfg(test)]\nmod tests { fn f() {} }\nuse crate::store::Y;";
    assert_eq!(wrong_imports(&source("http::x", after)).len(), 1);
}

#[test]
fn a_crate_away_from_home_is_seen() {
    assert_eq!(
        strangers(&source("engine", "use aws_sdk_s3::Client;")),
        ["names `aws_sdk_s3`"]
    );
    assert_eq!(
        strangers(&source("engine", "use foyer as f;")),
        ["names `foyer`"]
    );
    assert_eq!(
        strangers(&source("app", "fn f() { axum::serve() }")),
        ["names `axum`"]
    );
    assert_eq!(
        strangers(&source("app", "#[axum::debug_handler] fn f() {}")).len(),
        1
    );
    assert!(strangers(&source("origin::s3::client", "use aws_sdk_s3::Client;")).is_empty());
    assert!(strangers(&source("origin::s3", "use ::aws_sdk_s3::Client;")).is_empty());
    assert!(strangers(&source("app", "use crate::store::foyer::X;")).is_empty());
}

#[test]
fn a_clock_in_plan_is_seen() {
    for text in [
        "use std::time::Instant;",
        "use std::time::{Duration, Instant};",
        "use std::{fs, time::Duration};",
        "let now = SystemTime::now();",
        "#[tokio::test] async fn f() {}",
    ] {
        assert_eq!(doings_of_plan(&source("plan::x", text)).len(), 1, "{text}");
    }
    let allowed = "use std::time::{Duration, SystemTime, UNIX_EPOCH};";
    assert!(doings_of_plan(&source("plan::x", allowed)).is_empty());
}
