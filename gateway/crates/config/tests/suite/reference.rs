//! Checks the generated files about the configuration against the code; `UPDATE=1` rewrites them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tidegate_config::{Config, Environment, LoadedConfig, reference};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn parse(name: &str, text: &str) -> LoadedConfig {
    match tidegate_config::parse(name, text, &Environment::default()) {
        Ok(loaded) => loaded,
        Err(problems) => panic!("{problems}"),
    }
}

fn same(path: &str, wanted: &str) {
    let file = root().join(path);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        std::fs::write(&file, wanted).expect("written");
    }
    let there = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        there == wanted,
        "{path} is not what the code says: run `just docs`"
    );
}

#[test]
fn the_files_are_what_the_code_says() {
    same("config/tidegate.toml", &reference::toml());
    same("config/schema.json", &reference::schema());
    same("gateway/docs/CONFIGURATION.md", &reference::page());
}

#[test]
fn the_example_is_the_defaults() {
    let loaded = parse("config/tidegate.toml", &reference::toml());
    assert_eq!(loaded.config, Config::default());
    assert_eq!(loaded.warnings, []);
}

/// Returns the example with every commented-out setting put in force.
fn everything() -> String {
    let in_force = |line: &str| match line.strip_prefix('#') {
        Some(rest) if !rest.starts_with(' ') => rest.to_owned(),
        _ => line.to_owned(),
    };
    let lines: Vec<_> = reference::toml().lines().map(in_force).collect();
    lines.join("\n")
}

#[test]
fn what_is_commented_out_can_be_put_in_force() {
    let loaded = parse("config/tidegate.toml", &everything());
    assert_eq!(loaded.config.origin.len(), 1);
    assert_eq!(loaded.config.route.len(), 1);
    assert_eq!(loaded.config.cache.disk.len(), 1);
    assert!(loaded.config.profile("audiobooks").is_some());
}

/// Collects every key below a schema: `http.listen`, `origin.bucket`, `profile.*.ttl`.
fn keys_of_schema(schema: &Value, path: &str, all: &mut BTreeSet<String>) {
    if !schema.is_object() {
        return;
    }
    for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
        let below = format!("{path}{key}");
        keys_of_schema(inner, &format!("{below}."), all);
        all.insert(below);
    }
    keys_of_schema(&schema["items"], path, all);
    keys_of_schema(&schema["additionalProperties"], &format!("{path}*."), all);
    // An optional table. A value with a kind of its own, such as an address, is described as one value.
    if schema["x-kind"].is_string() {
        return;
    }
    let any = schema["anyOf"].as_array().into_iter().flatten();
    let mut tables = any.filter(|one| one["properties"].is_object());
    if let (Some(only), None) = (tables.next(), tables.next()) {
        keys_of_schema(only, path, all);
    }
}

fn keys_of_file(value: &toml::Value, path: &str, all: &mut BTreeSet<String>) {
    match value {
        toml::Value::Table(table) => {
            for (key, inner) in table {
                let key = if ["access.", "limits.", "profile."].contains(&path) {
                    "*"
                } else {
                    key
                };
                let below = format!("{path}{key}");
                keys_of_file(inner, &format!("{below}."), all);
                all.insert(below);
            }
        }
        toml::Value::Array(list) => {
            for inner in list {
                keys_of_file(inner, path, all);
            }
        }
        _ => {}
    }
}

#[test]
fn the_example_has_every_key_of_the_schema() {
    let (mut wanted, mut there) = (BTreeSet::new(), BTreeSet::new());
    keys_of_schema(&tidegate_config::json_schema(), "", &mut wanted);
    let file: toml::Value = toml::from_str(&everything()).expect("it is TOML");
    keys_of_file(&file, "", &mut there);
    for key in [
        "http.listen",
        "cache.disk.path",
        "route.cors.max_age",
        "access.*.signed.skew",
        "limits.*.per",
        "profile.*.ttl",
    ] {
        assert!(wanted.contains(key), "{key} is none of {wanted:?}");
    }
    let missing: Vec<_> = wanted.difference(&there).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_key_has_one_line() {
    let text = reference::toml();
    let mut before = "";
    for line in text.lines() {
        assert!(line.chars().count() <= 110, "too long: {line}");
        if line.contains(" = ") && !line.starts_with("# ") {
            assert!(
                before.starts_with("# ") && before.len() > 10,
                "undocumented: {line}"
            );
        }
        before = line;
    }
}
