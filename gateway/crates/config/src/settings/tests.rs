use super::*;
use crate::{Environment, LoadedConfig, Overrides, parse_with};

fn loaded(text: &str) -> LoadedConfig {
    let overrides = Overrides::default();
    let overrides = overrides.with("cache.memory", Some("2GiB")).expect("a key");
    let env = Environment::from_iter([("TIDEGATE_LOG__LEVEL", "debug")]);
    parse_with("t.toml", text, &overrides, &env).expect("it is right")
}

#[test]
fn an_override_names_an_entry_by_its_own_name() {
    let text = "[[origin]]\nname = \"o\"\nbucket = \"b\"\n\
                [[origin]]\nname = \"7\"\nbucket = \"c\"\n\
                [[route]]\npath = \"/a/\"\norigin = \"o\"\n\
                [[route]]\npath = \"/twice/\"\norigin = \"o\"\nhost = \"x.example\"\n\
                [[route]]\npath = \"/twice/\"\norigin = \"o\"\nhost = \"y.example\"\n\
                [[route]]\npath = \"/d/\"\norigin = \"o\"\n";
    let overrides = Overrides::default();
    let overrides = overrides.with("route[3].profile", Some("stream"));
    let overrides = overrides.expect("a key");
    let loaded = parse_with("t.toml", text, &overrides, &Environment::default());
    let all = loaded.expect("it is right").settings;
    for (key, name) in [
        ("cache.memory", "cache.memory"),
        ("origin[0].bucket", "origin[o].bucket"),
        ("origin[1].bucket", "origin[1].bucket"),
        ("route[0].profile", "route[/a/].profile"),
        ("route[1].profile", "route[x.example/twice/].profile"),
        ("route[3].profile", "route[3].profile"),
        ("route[3].origin", "route[/d/].origin"),
    ] {
        let found = all.iter().find(|one| one.key == key).expect(key);
        assert_eq!(found.name, name);
    }
}

#[test]
fn each_key_has_its_value_and_the_place_that_wrote_it() {
    let text = "[[origin]]\nname = \"o\"\nbucket = \"b\"\nsecret_access_key = \"s3cret\"\naccess_key_id = \"id\"\n\
                [admin]\ntoken = \"0123456789abcdef0123456789abcdef\"\n[profile.films]\nttl = \"5m\"\n\
                [[hook]]\non = [\"created\"]\nurl = \"http://r/\"\nheaders = { X-Key = \"s3cret\" }\n";
    let all = loaded(text).settings;
    let of = |key: &str| {
        let found = all.iter().find(|one| one.key == key);
        found.unwrap_or_else(|| panic!("{key} is there"))
    };
    let value = |key: &str| of(key).value.as_deref();
    assert_eq!(value("cache.memory"), Some("2GiB"));
    let over = ValueLocation::Override("cache.memory".to_owned());
    assert_eq!(of("cache.memory").source, Some(over));
    let variable = ValueLocation::Variable("TIDEGATE_LOG__LEVEL".to_owned());
    assert_eq!(of("log.level").source, Some(variable));
    assert_eq!(value("cache.chunk"), Some("256KiB"));
    assert_eq!(of("cache.chunk").source, None);
    assert_eq!(value("origin[0].bucket"), Some("b"));
    assert_eq!(value("profile.films.ttl"), Some("5m"));
    assert_eq!(value("profile.films.streams"), Some("4"), "as `web` has it");
    assert_eq!(of("profile.films.streams").source, None);
    assert_eq!(value("profile.films.extends"), None);
    // A built-in one that no place wrote.
    assert_eq!(value("profile.stream.read_ahead"), Some("128MiB"));
    assert_eq!(value("profile.backup.bulk"), Some("true"));
    assert_eq!(value("hook[0].on"), Some("[\"created\"]"));
    for secret in [
        "admin.token",
        "origin[0].secret_access_key",
        "hook[0].headers.X-Key",
    ] {
        let secret = of(secret);
        assert!(secret.secret && secret.value.is_none(), "{secret:?}");
        assert!(secret.source.is_some(), "{secret:?}");
    }
    assert!(!format!("{all:?}").contains("s3cret"));
    assert!(all.iter().all(|one| !one.kind.is_empty()));
    assert!(of("admin.console").choices.len() == 3);
}
