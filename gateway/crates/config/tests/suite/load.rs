//! The sources of a configuration, and the settings that result from them.

use std::path::Path;
use std::time::Duration;

use tidegate_config::{Config, Environment, LoadError, LoadedConfig, Secret};
use tidegate_plan::profile::DiskUse;
use tidegate_plan::{ByteSize, Profile};

mod warnings;

fn parsed(text: &str, variables: &[(&str, &str)]) -> LoadedConfig {
    let env = variables.iter().copied().collect::<Environment>();
    match tidegate_config::parse("t.toml", text, &env) {
        Ok(loaded) => loaded,
        Err(problems) => panic!("{problems}"),
    }
}

/// The example from the design.
const CONTRACT: &str = r#"
[http]
listen = ["127.0.0.1:8080", "unix:/run/tidegate/http.sock"]
[admin]
token = { file = "/etc/tidegate/token" }
[cache]
budget = "256MiB"
[state]
path = "/var/lib/tidegate"
[[cache.disk]]
path = "/var/cache/tidegate"
capacity = "100GiB"
min_free = "5GiB"
[[origin]]
name = "media"
bucket = "media"
endpoint = "http://127.0.0.1:9000"
path_style = true
access_key_id = "minioadmin"
secret_access_key = { env = "MINIO_SECRET" }
[[route]]
path = "/"
origin = "media"
profile = "audiobooks"
[profile.audiobooks]
extends = "stream"
read_ahead = "64MiB"
disk = "second"
ttl = "30s"
negative_ttl = 0
"#;

#[test]
fn the_contract_is_read() {
    let loaded = parsed(CONTRACT, &[]);
    assert_eq!(loaded.warnings, []);
    let config = &loaded.config;
    assert_eq!(
        config.http.listen.0[1].to_string(),
        "unix:/run/tidegate/http.sock"
    );
    assert_eq!(config.cache.disk[0].capacity, ByteSize(100 << 30));
    assert_eq!(
        config.origin[0].secret_access_key,
        Some(Secret::Env("MINIO_SECRET".into()))
    );
    assert_eq!(
        config.state_path().as_deref(),
        Some(Path::new("/var/lib/tidegate"))
    );
    let wanted = Profile {
        name: "audiobooks",
        read_ahead: 64 << 20,
        disk: DiskUse::Second,
        ttl: Duration::from_secs(30),
        negative_ttl: Duration::ZERO,
        ..Profile::stream()
    };
    assert_eq!(config.profile("audiobooks"), Some(wanted));
    assert_eq!(config.profile("video"), None);
}

#[test]
fn state_lies_beside_the_first_disk() {
    let disk = "[[cache.disk]]\npath = \"/d\"\ncapacity = \"1GiB\"\n";
    assert_eq!(
        parsed(disk, &[]).config.state_path().as_deref(),
        Some(Path::new("/d/state"))
    );
    assert_eq!(Config::default().state_path(), None);
}

#[test]
fn a_single_origin_needs_no_route() {
    let origin = "[[origin]]\nname = \"a\"\nbucket = \"a\"\n";
    let routes = parsed(origin, &[]).config.routes();
    assert_eq!(routes.len(), 1);
    assert_eq!(
        (routes[0].path.as_str(), routes[0].origin.as_str()),
        ("/", "a")
    );
}

#[test]
fn variables_lie_over_the_file() {
    let variables = [
        ("TIDEGATE_CACHE__MEMORY", "1GiB"),
        ("TIDEGATE_HTTP__LISTEN", "0.0.0.0:80"),
        ("TIDEGATE_HTTP__MAX_CONNECTIONS", "7"),
        ("TIDEGATE_HTTP__TRUSTED_PROXIES", "[\"10.0.0.0/8\"]"),
        ("TIDEGATE_LOG__ACCESS", "true"),
        ("TIDEGATE_ORIGIN__0__ENDPOINT", "http://minio:9000"),
        ("TIDEGATE_ORIGIN__0__SECRET_ACCESS_KEY", "12345"),
        ("TIDEGATE_ORIGIN__1__NAME", "true"),
        ("TIDEGATE_ORIGIN__1__BUCKET", "2026"),
        ("TIDEGATE_PROFILE__AUDIOBOOKS__TTL", "5s"),
        // Variables of other programs are ignored.
        ("TIDEGATE_PORT", "tcp://10.0.0.1:80"),
        ("TIDEGATE_TOKEN", "s3cret"),
    ];
    let config = parsed(CONTRACT, &variables).config;
    assert_eq!(config.cache.memory, ByteSize(1 << 30));
    assert_eq!(config.http.listen.0.len(), 1);
    assert_eq!(config.http.max_connections, 7);
    assert_eq!(config.http.trusted_proxies[0].to_string(), "10.0.0.0/8");
    assert!(config.log.access);
    assert_eq!(
        config.origin[0].endpoint.as_deref(),
        Some("http://minio:9000")
    );
    assert_eq!(config.origin[0].name, "media");
    let secret = config.origin[0].secret_access_key.clone();
    assert_eq!(secret, Some(Secret::Literal("12345".into())));
    assert_eq!(config.origin[1].name, "true");
    assert_eq!(config.origin[1].bucket, "2026");
    assert_eq!(
        config.profile("audiobooks").map(|p| p.ttl),
        Some(Duration::from_secs(5))
    );
}

#[test]
fn variables_need_no_file() {
    let variables = [
        ("TIDEGATE_ORIGIN__0__NAME", "media"),
        ("TIDEGATE_ORIGIN__0__BUCKET", "media"),
        ("TIDEGATE_CACHE__DISK__0__PATH", "/d"),
        ("TIDEGATE_CACHE__DISK__0__CAPACITY", "1GiB"),
    ];
    let config = parsed("", &variables).config;
    assert_eq!(config.origin[0].bucket, "media");
    assert_eq!(config.cache.disk[0].capacity, ByteSize(1 << 30));
    assert!(config.require_origin().is_ok());
    let none = Config::default()
        .require_origin()
        .expect_err("nothing to serve");
    assert_eq!(
        none.to_string(),
        "`origin`: there is no origin, so there is nothing to serve; \
         an [[origin]] needs a name and a bucket"
    );
}

#[test]
fn secrets_are_shown_nowhere() {
    let text = "[admin]\ntoken = \"s3cret-s3cret-s3cret\"\n[[origin]]\nname = \"a\"\nbucket = \"a\"\n\
                access_key_id = \"id\"\nsecret_access_key = \"s3cret\"\nsession_token = \"s3cret\"\n";
    let loaded = parsed(text, &[]);
    assert!(!format!("{loaded:?}").contains("s3cret"));
    let env = Environment::from_iter([("TIDEGATE_ADMIN__TOKEN", "s3cret")]);
    assert!(!format!("{env:?}").contains("s3cret"));
    let variables = [
        ("TIDEGATE_ADMIN__TOKEN__ENV", "s3cret"),
        ("TIDEGATE_ORIGIN__0__X", "s3cret"),
    ];
    let env = Environment::from_iter(variables);
    let told = tidegate_config::parse("t.toml", text, &env).expect_err("it is wrong");
    assert!(!format!("{told} {told:?}").contains("s3cret"), "{told}");
}

#[test]
fn the_file_is_the_one_that_was_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, memory: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("[cache]\nmemory = \"{memory}\"\n")).expect("written");
        path
    };
    let (asked, named) = (file("asked.toml", "1GiB"), file("named.toml", "2GiB"));
    let env = Environment::from_iter([("TIDEGATE_CONFIG", named.to_str().expect("text"))]);
    let memory =
        |loaded: Result<LoadedConfig, LoadError>| loaded.expect("it is right").config.cache.memory;
    assert_eq!(
        memory(tidegate_config::load(Some(&asked), &env)),
        ByteSize(1 << 30)
    );
    assert_eq!(memory(tidegate_config::load(None, &env)), ByteSize(2 << 30));
    let nowhere = folder.path().join("nowhere.toml");
    let error = tidegate_config::load(Some(&nowhere), &env).expect_err("it is not there");
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("cannot read {}: ", nowhere.display())),
        "{text}"
    );
}

#[test]
fn a_command_that_asks_leaves_out_wrong_overrides_and_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, state) = (folder.path().join("t.toml"), folder.path().join("state"));
    let text = format!("[state]\npath = {state:?}\n[cache]\nmemory = \"1GiB\"\n");
    std::fs::write(&file, text).expect("written");
    std::fs::create_dir(&state).expect("made");
    let env = Environment::default();
    let overrides = state.join("overrides.toml");
    for (wrong, why) in [
        (
            "\"route[/gone/].profile\" = \"audio\"",
            "`route` has no entry",
        ),
        ("not TOML", "mend or delete that file"),
    ] {
        std::fs::write(&overrides, wrong).expect("written");
        tidegate_config::load(Some(&file), &env).expect_err("it is wrong");
        let (loaded, warning) = tidegate_config::load_to_ask(Some(&file), &env).expect(wrong);
        assert_eq!(loaded.config.cache.memory, ByteSize(1 << 30));
        let warning = warning.expect("a warning");
        let file = overrides.to_str().expect("text");
        assert!(warning.contains(why) && warning.contains(file), "{warning}");
    }
    std::fs::write(&overrides, "\"cache.memory\" = \"2GiB\"").expect("written");
    let (loaded, warning) = tidegate_config::load_to_ask(Some(&file), &env).expect("right");
    assert_eq!(
        (loaded.config.cache.memory, warning),
        (ByteSize(2 << 30), None)
    );

    std::fs::remove_dir_all(&state).expect("removed");
    std::fs::write(&state, "a file").expect("written");
    let error = tidegate_config::load(Some(&file), &env).expect_err("no folder");
    assert!(
        error.to_string().contains("`state.path` is no folder"),
        "{error}"
    );
    std::fs::write(&file, "[cache]\nmemory = \"much\"\n").expect("written");
    tidegate_config::load_to_ask(Some(&file), &env).expect_err("the file itself is wrong");
}

#[test]
fn the_files_that_people_copy_are_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../config");
    let entries = std::fs::read_dir(&folder).expect("the folder is there");
    let mut seen = Vec::new();
    for entry in entries {
        let path = entry.expect("readable").path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("text")
            .to_owned();
        let loaded = tidegate_config::load(Some(&path), &Environment::default());
        let loaded = loaded.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(loaded.warnings, [], "{name}");
        assert_eq!(
            loaded.config.origin.is_empty(),
            name == "tidegate.toml",
            "{name}"
        );
        seen.push(name);
    }
    for name in [
        "tidegate.toml",
        "wordpress-mount.toml",
        "wordpress-offload.toml",
        "audiobookshelf.toml",
        "audiobookshelf-mount.toml",
        "documents.toml",
        "fleet.toml",
        "hooks.toml",
        "jellyfin.toml",
        "navidrome.toml",
        "paperless.toml",
        "private-library.toml",
    ] {
        assert!(seen.iter().any(|one| one == name), "{name} is missing");
    }
}
