//! Fuzz targets of the configuration and the overrides: a document that is accepted is sound, and one that is not is told in bounded words.
//!
//! They run as tests, [`RUNS`] inputs each; `just fuzz` gives it time.

#[path = "../../plan/tests/support/spliced.rs"]
mod spliced;

use bolero::check;
use spliced::spliced;
use tidegate_config::{Config, Environment, Overrides, Secret, parse};
use tidegate_plan::template::Template;

/// The inputs of a target in a plain test run: each reads a whole document.
const RUNS: usize = 1_000;

/// A document of all kinds of sections, which the target changes.
const DOCUMENT: &str = r#"[http]
listen = ["127.0.0.1:8080", "unix:/run/t.sock"]
max_connections = 100
[cache]
memory = "64MiB"
[[cache.disk]]
path = "/var/cache/t"
capacity = "1GiB"
[[origin]]
name = "media"
bucket = "media"
endpoint = "http://127.0.0.1:9000"
total_timeout = "5m"
[[route]]
path = "/"
host = "a.example"
origin = "media"
profile = "films"
access = "members"
limits = "public"
headers = { x-a = "b" }
[access.members]
networks = ["10.0.0.0/8"]
signed = { keys = { k1 = { env = "K1" } } }
[limits.public]
requests = "50/s"
[profile.films]
extends = "stream"
ttl = "1h"
[[hook]]
url = "http://r/{key}?p={path}"
path_prefix = "/mnt/"
body = '{"k":"{key}"}'
"#;

const WORDS: &[&str] = &[
    "\"",
    "'",
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "=",
    "\n",
    ",",
    ".",
    "#",
    "\\u0000",
    "\"\"\"",
    "0",
    "-1",
    "1e999",
    "nan",
    "true",
    "99999999999999999999",
    "1979-05-27",
    "\"1GiB\"",
    "\"0s\"",
    "[[route]]\n",
    "[[origin]]\n",
    "[profile.x]\nextends = \"x\"\n",
    "extends = \"films\"\n",
    "origin = \"o\"\n",
    "[access.a]\n",
    "path = \"/../\"\n",
    "{key}",
    "[hook]\n",
    "[[mount]]\npath = \"/\"\n",
    "é",
];

/// Replaces parts of the document, each named by its place, its length and a word.
fn changed(changes: &[(u16, u8, u8)]) -> String {
    spliced(DOCUMENT, WORDS, 40, &changes[..changes.len().min(8)])
}

/// Checks what the composition of a gateway relies on.
fn check_sound(config: &Config) {
    for route in config.routes() {
        assert!(
            config
                .origin
                .iter()
                .any(|origin| origin.name == route.origin)
                || config.origin.is_empty()
        );
        assert!(
            config.profile(&route.profile).is_some(),
            "{}",
            route.profile
        );
        assert!(
            route
                .access
                .is_none_or(|name| config.access.contains_key(&name))
        );
        assert!(
            route
                .limits
                .0
                .iter()
                .all(|name| config.limits.contains_key(name))
        );
        for (name, value) in &route.headers {
            assert!(
                http::HeaderName::try_from(name).is_ok()
                    && http::HeaderValue::try_from(value).is_ok()
            );
        }
    }
    for access in config.access.values() {
        let keys = access.signed.iter().flat_map(|signed| &signed.keys);
        for (id, secret) in keys {
            assert!(tidegate_access::SigningKey::check_id(id).is_ok());
            assert!(!matches!(secret, Secret::Literal(text) if text.len() < 16));
        }
    }
    for hook in &config.hook {
        let url = Template::parse(&hook.url).expect("it was checked");
        assert!(
            ["http://", "https://"]
                .iter()
                .any(|scheme| url.head().starts_with(scheme))
        );
        assert!(
            hook.body
                .as_deref()
                .is_none_or(|body| Template::parse(body).is_ok())
        );
        assert!(!hook.on.is_empty() && hook.debounce <= hook.max_delay);
    }
    for mount in &config.mount {
        assert!(config.origin.is_empty() || config.route_of(mount).is_some());
    }
}

#[test]
fn a_document_is_sound_or_its_faults_are_told() {
    let env = Environment::default();
    let whole = parse("t.toml", DOCUMENT, &env).expect("it is right");
    check_sound(&whole.config);
    check!()
        .with_iterations(RUNS)
        .with_type::<Vec<(u16, u8, u8)>>()
        .for_each(|changes| {
            let text = changed(changes);
            match parse("t.toml", &text, &env) {
                Ok(loaded) => check_sound(&loaded.config),
                Err(problems) => {
                    let problems = problems.0;
                    assert!(!problems.is_empty() && problems.len() <= text.len());
                    for problem in problems {
                        let told = problem.to_string();
                        assert!(told.starts_with("t.toml:"), "{told}");
                        assert!(!told.contains(char::is_control), "{told:?}");
                    }
                }
            }
        });
}

#[test]
fn any_text_and_any_variable_is_read_or_refused() {
    check!()
        .with_iterations(RUNS)
        .with_type::<(Vec<u8>, Vec<u8>, String)>()
        .for_each(|(text, name, value)| {
            let words = |bytes: &[u8]| -> String {
                let word = |byte: &u8| match WORDS.get(usize::from(*byte) % (WORDS.len() * 3 / 2)) {
                    Some(word) => (*word).to_owned(),
                    None => char::from(*byte).to_string(),
                };
                bytes.iter().map(word).collect()
            };
            let name = format!("TIDEGATE_{}", words(name).to_ascii_uppercase());
            let env = Environment::from_iter([(name.as_str(), value.as_str())]);
            if let Ok(loaded) = parse("t.toml", &words(text), &env) {
                check_sound(&loaded.config);
            }
        });
}

const KEYS: &[&str] = &[
    "cache.memory",
    "route[0].profile",
    "route[/].profile",
    "origin[media].endpoint",
    "profile.films.ttl",
    "access.members.signed.keys.k1",
    "hook[0].body",
    "log.level",
    "cache.disk[0].path",
    "[",
    "]",
    ".",
    "0",
    "18446744073709551616",
    "\"",
    "\n",
    "=",
    "route",
    "x",
];

/// Returns text of the words of keys and of documents.
fn words(of: &[&str], bytes: &[u8]) -> String {
    let all: Vec<_> = of.iter().chain(WORDS).collect();
    let word = |byte: &u8| match all.get(usize::from(*byte) % (all.len() * 3 / 2)) {
        Some(word) => (**word).to_owned(),
        None => char::from(*byte).to_string(),
    };
    bytes.iter().take(12).map(word).collect()
}

#[test]
fn an_override_is_kept_as_it_was_set_and_checked_as_the_file_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("t.toml");
    std::fs::write(&file, DOCUMENT).expect("written");
    let env = Environment::default();
    check!()
        .with_iterations(RUNS)
        .with_type::<Vec<(Vec<u8>, Vec<u8>)>>()
        .for_each(|changes| {
            let mut overrides = Overrides::default();
            let mut has_table = false;
            for (index, (key, value)) in changes.iter().take(4).enumerate() {
                // Half of the keys are ones that are there.
                let key = match key.split_first() {
                    Some((first, _)) if index % 2 == 0 => {
                        KEYS[usize::from(*first) % KEYS.len()].to_owned()
                    }
                    _ => words(KEYS, key),
                };
                let value = words(&[], value);
                has_table |= value.trim_start().starts_with('{');
                if let Ok(with) = overrides.with(&key, Some(&value)) {
                    assert!(with.with(&key, None).is_ok(), "{key}");
                    overrides = with;
                }
            }
            let kept = Overrides::file(folder.path());
            std::fs::write(kept, overrides.to_string()).expect("written");
            let read = Overrides::read(folder.path()).expect("it was written by us");
            // A table is read as one override for each of its keys.
            assert!(read == overrides || has_table, "{overrides}\n{read}");
            match tidegate_config::load_with(Some(&file), Some(&read), &env) {
                Ok(loaded) => check_sound(&loaded.config),
                Err(error) => {
                    let told = error.to_string();
                    assert!(!told.is_empty() && told.len() < 16 << 10, "{told}");
                }
            }
        });
}

#[test]
fn any_file_of_overrides_is_read_or_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let env = Environment::default();
    let file = folder.path().join("t.toml");
    std::fs::write(&file, DOCUMENT).expect("written");
    check!()
        .with_iterations(RUNS)
        .with_type::<Vec<u8>>()
        .for_each(|bytes| {
            let text = bytes.chunks(12).map(|bytes| words(KEYS, bytes));
            let text: String = text.collect();
            let kept = Overrides::file(folder.path());
            std::fs::write(kept, text).expect("written");
            let Ok(read) = Overrides::read(folder.path()) else {
                return;
            };
            if let Ok(loaded) = tidegate_config::load_with(Some(&file), Some(&read), &env) {
                check_sound(&loaded.config);
            }
        });
}
