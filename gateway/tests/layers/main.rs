//! The house: which crate may import from which, where third-party crates are at home, that no modules of a crate run in
//! a circle, that no file is too long, and that no two types of a crate share a name. Read from the manifests and the
//! source text, so that a wrong import fails here before it becomes a habit.

use std::fs;
use std::path::{Path, PathBuf};

mod circles;
mod rust_source;
mod sizes;
mod twins;

use circles::circles;
use rust_source::Source;

/// The crates of ours that each crate may depend on. The binary may depend on all.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("plan", &[]),
    ("telemetry", &[]),
    ("access", &["plan", "telemetry"]),
    ("acme", &["plan", "telemetry", "outbound", "tls"]),
    ("auth", &["plan", "telemetry", "access", "outbound"]),
    ("config", &["plan", "access"]),
    ("events", &["plan", "telemetry", "outbound"]),
    ("outbound", &[]),
    ("tls", &["telemetry"]),
    ("socket", &["plan", "tls"]),
    ("origin", &["plan", "telemetry"]),
    ("cache", &["plan", "telemetry"]),
    ("engine", &["plan", "telemetry", "origin", "cache"]),
    ("write", &["plan", "telemetry", "origin", "cache", "engine"]),
    (
        "http",
        &[
            "plan",
            "telemetry",
            "access",
            "auth",
            "socket",
            "engine",
            "write",
        ],
    ),
    ("admin", &["plan", "telemetry", "socket", "engine", "write"]),
    (
        "console",
        &["plan", "telemetry", "engine", "write", "admin"],
    ),
    ("hooks", &["plan", "telemetry", "outbound"]),
    ("fuse", &["plan", "telemetry", "engine", "write"]),
];

/// The modules in which a third-party crate, or a family with a common beginning, may be named: these and those below
/// them. A path begins with the crate.
const HOMES: &[(&str, &[&str])] = &[
    ("async_nats", &["events::nats"]),
    ("aws_", &["origin::s3"]),
    ("axum", &["admin", "console"]),
    ("brotli", &["engine::variant"]),
    ("flate2", &["engine::variant"]),
    ("foyer", &["cache"]),
    ("fuser", &["fuse"]),
    ("governor", &["access"]),
    ("hmac", &["access"]),
    ("instant_acme", &["acme"]),
    ("rcgen", &["acme::directory"]),
    ("hyper_rustls", &["outbound"]),
    ("jsonwebtoken", &["access::jwt"]),
    ("maud", &["console"]),
    ("ratatui", &["tidegate::cli::top"]),
    ("redb", &["cache"]),
    // Beside the listeners, the client verifies servers by it, and SNS reads a certificate.
    (
        "rustls",
        &["tls", "outbound", "events::sns", "acme::directory"],
    ),
    // Traits must stand beside their types: plan has them behind a feature.
    ("schemars", &["config", "plan"]),
    ("s3s", &["tidegate::embedded", "tidegate::demo"]),
    ("tikv_jemalloc", &["tidegate::app::process::allocator"]),
    ("tokio_rustls", &["tls"]),
    ("toml", &["config"]),
    ("tower_http", &["admin"]),
    ("utoipa", &["console"]),
    ("x509_parser", &["tls"]),
];

/// Names that no rule of `plan` needs: time and chance are its arguments.
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
fn each_crate_depends_only_on_those_below_it() {
    for (name, allowed) in MAY_IMPORT {
        for dependency in dependencies(&crates().join(name)) {
            if let Some(ours) = dependency.strip_prefix("tidegate-") {
                assert!(allowed.contains(&ours), "{name} depends on {ours}");
            }
        }
    }
    let mut found: Vec<_> = children(&crates())
        .iter()
        .map(|path| name_of(path))
        .collect();
    let mut listed: Vec<_> = MAY_IMPORT
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    found.sort();
    listed.sort();
    assert_eq!(found, listed, "each crate has its line in the table");
}

#[test]
fn each_third_party_crate_stays_at_home() {
    let mut found = vec![];
    for folder in children(&crates()).iter().chain([&root()]) {
        let name = crate_name(folder);
        found.extend(unused_homes(&name, &dependencies(folder)));
        found.extend(sources(folder).iter().flat_map(|s| strangers(&name, s)));
    }
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn no_modules_run_in_a_circle() {
    let mut found = vec![];
    for folder in children(&crates()).iter().chain([&root()]) {
        for circle in circles(&sources(folder)) {
            found.push(format!("{}: {}", crate_name(folder), circle.join(", ")));
        }
    }
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn plan_has_no_clock_no_io_and_no_runtime() {
    let found: Vec<_> = sources(&crates().join("plan"))
        .iter()
        .flat_map(impure)
        .collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// ARCHITECTURE names files and folders relative to the gateway.
#[test]
fn what_architecture_points_at_is_there() {
    let text = fs::read_to_string(root().join("docs/ARCHITECTURE.md")).expect("a document");
    let spans = text.split('`').skip(1).step_by(2);
    let paths: Vec<_> = spans.filter(|span| is_path(span)).collect();
    assert!(paths.len() > 20, "{paths:?}");
    let missing: Vec<_> = paths
        .iter()
        .filter(|path| !root().join(path).exists())
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

fn is_path(span: &str) -> bool {
    let begins = ["crates/", "src/", "tests/", "docs/", "../"];
    begins.iter().any(|begin| span.starts_with(begin)) && !span.contains(' ')
}

/// Returns the dependencies of a crate that have their home in another.
fn unused_homes(name: &str, dependencies: &[String]) -> Vec<String> {
    let is_away = |dependency: &&String| {
        let homes = homes_of(&dependency.replace('-', "_"));
        homes.is_some_and(|homes| !homes.iter().any(|home| is_below(name, home)))
    };
    let away = dependencies.iter().filter(is_away);
    away.map(|dependency| format!("{name} depends on `{dependency}`"))
        .collect()
}

/// Returns the third-party crates that a source names away from their home.
fn strangers(name: &str, source: &Source) -> Vec<String> {
    let module = [&[name.to_owned()], &source.module[..]].concat().join("::");
    let is_stranger = |head: &&String| {
        homes_of(head).is_some_and(|homes| !homes.iter().any(|home| is_below(home, &module)))
    };
    let heads = source.heads();
    let strangers = heads.iter().filter(is_stranger);
    strangers
        .map(|head| format!("{module} names `{head}`"))
        .collect()
}

fn homes_of(dependency: &str) -> Option<&'static [&'static str]> {
    let home = HOMES
        .iter()
        .find(|(family, _)| dependency.starts_with(family));
    home.map(|(_, homes)| *homes)
}

/// Returns whether the module `path` is `ancestor` or stands below it.
fn is_below(ancestor: &str, path: &str) -> bool {
    let rest = path.strip_prefix(ancestor);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Returns the names in a source that no rule of `plan` needs.
fn impure(source: &Source) -> Vec<String> {
    let named = |path: &&&str| source.names(path);
    let module = source.module.join("::");
    let found = NOT_IN_PLAN.iter().filter(named);
    found
        .map(|path| format!("{module} names `{path}`"))
        .collect()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn crates() -> PathBuf {
    root().join("crates")
}

fn crate_name(folder: &Path) -> String {
    if *folder == root() {
        "tidegate".to_owned()
    } else {
        name_of(folder)
    }
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned()
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a readable folder");
    entries
        .map(|entry| entry.expect("a readable entry").path())
        .collect()
}

/// Returns the dependencies of a crate in a normal build.
fn dependencies(folder: &Path) -> Vec<String> {
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
    let manifest: toml::Table = manifest.parse().expect("a manifest");
    let mut tables = vec![manifest.get("dependencies")];
    if let Some(targets) = manifest.get("target").and_then(toml::Value::as_table) {
        tables.extend(targets.values().map(|target| target.get("dependencies")));
    }
    let tables = tables
        .into_iter()
        .flatten()
        .filter_map(toml::Value::as_table);
    let names: Vec<_> = tables.flat_map(|table| table.keys().cloned()).collect();
    assert!(!names.is_empty(), "{} was not read", folder.display());
    names
}

/// Returns every source file of a crate, without those that are entirely unit tests.
fn sources(folder: &Path) -> Vec<Source> {
    let root = folder.join("src");
    let mut files = vec![];
    collect(&root, &mut files);
    let all: Vec<Source> = files.iter().map(|file| read(&root, file)).collect();
    let tests: Vec<Vec<String>> = all.iter().flat_map(Source::test_modules).collect();
    assert!(all.len() > 1, "{} was not read", folder.display());
    let is_test = |source: &Source| tests.iter().any(|test| source.module.starts_with(test));
    all.into_iter().filter(|source| !is_test(source)).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for path in children(folder) {
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
    let names = relative
        .iter()
        .map(|part| part.to_string_lossy().into_owned());
    let module: Vec<_> = names
        .filter(|name| name != "lib" && name != "main")
        .collect();
    Source::new(
        module,
        &fs::read_to_string(file).expect("a readable source"),
    )
}

// The rules themselves are tested: each of these is a plausible mistake.

fn source(text: &str) -> Source {
    Source::new(vec!["x".to_owned()], text)
}

#[test]
fn a_crate_away_from_home_is_seen() {
    let strangers = |module: &str, text: &str| {
        let mut path = module.split("::").map(str::to_owned);
        let name = path.next().expect("a crate");
        strangers(&name, &Source::new(path.collect(), text)).len()
    };
    for (module, text) in [
        ("engine", "use aws_sdk_s3::Client;"),
        ("origin::decorators", "use aws_sdk_s3::Client;"),
        ("origin::s30", "use aws_sdk_s3::Client;"),
        ("engine", "use foyer as f;"),
        ("tidegate::app", "fn f() { axum::serve() }"),
        ("tidegate::app", "#[axum::debug_handler] fn f() {}"),
        ("tidegate::app", "use {std::fs, s3s::S3};"),
    ] {
        assert_eq!(strangers(module, text), 1, "{module}: {text}");
    }
    for (module, text) in [
        ("origin::s3::client", "use aws_sdk_s3::Client;"),
        ("origin::s3", "use ::aws_sdk_s3::Client;"),
        ("tidegate::app", "use crate::store::foyer::X;"),
    ] {
        assert_eq!(strangers(module, text), 0, "{module}: {text}");
    }
    let needs = ["toml".to_owned(), "aws-sdk-s3".to_owned()];
    assert_eq!(unused_homes("origin", &needs), ["origin depends on `toml`"]);
}

#[test]
fn a_clock_in_plan_is_seen_in_every_form_it_takes() {
    for text in [
        "use std::time::Instant;",
        "use std::time::{Duration, Instant};",
        "use std::{fs, time::Duration};",
        "let now = SystemTime::now();",
        "#[tokio::test] async fn f() {}",
    ] {
        assert_eq!(impure(&source(text)).len(), 1, "{text}");
    }
}

#[test]
fn what_is_allowed_commented_quoted_or_a_test_is_let_be() {
    for text in [
        "use std::time::{Duration, SystemTime, UNIX_EPOCH};",
        "/// See [`std::fs`].\n// tokio::spawn\n/* std::io::Read */",
        "const X: &str = \"tokio::spawn\"; const Y: char = '\"';",
        "const X: &str = r#\"a \" std::fs::read\"#; fn f<'a>(x: &'a str) {}",
        "#[cfg(test)]\nmod tests { use std::fs; fn f() { {} } }",
    ] {
        assert!(impure(&source(text)).is_empty(), "{text}");
    }
    let after = "#[cfg(test)]\nmod tests { fn f() {} }\nuse std::fs;";
    assert_eq!(impure(&source(after)).len(), 1);
}
