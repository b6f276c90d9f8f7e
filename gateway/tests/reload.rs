//! The real program takes another configuration while it serves: by request, by signal, by its own command.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use rustix::process::Signal;
use serde_json::{Value, json};

#[path = "reload/access.rs"]
mod access;
#[path = "reload/admin.rs"]
mod admin;
#[path = "tls/authority.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod authority;
#[path = "reload/changing.rs"]
mod changing;
#[path = "support/door.rs"]
#[expect(dead_code, reason = "other suites let it hang")]
mod door;
#[path = "reload/events.rs"]
mod events;
#[path = "../crates/origin/tests/support/fake_s3.rs"]
mod fake_s3;
#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
#[path = "reload/gone.rs"]
mod gone;
#[path = "reload/hooks.rs"]
mod hooks;
#[path = "reload/listeners.rs"]
mod listeners;
#[path = "reload/load.rs"]
mod load;
#[path = "support/mount.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod mount;
#[path = "reload/names.rs"]
mod names;
#[path = "reload/often.rs"]
mod often;
#[path = "support/ports.rs"]
mod ports;
#[path = "hooks/receiver.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod receiver;
#[path = "reload/secrets.rs"]
mod secrets;
#[path = "support/serving.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod serving;
#[path = "reload/sizes.rs"]
mod sizes;
#[path = "support/store_events.rs"]
mod store_events;
#[path = "support/world.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod world;

use gateway::{Got, ask};
use mount::TOKEN;
use serving::Serving;
use world::{World, sample};

const SIZE: usize = 100_000;

/// Whether a bucket is mounted as well: that takes root and /dev/fuse.
const MOUNTS: bool = cfg!(feature = "real-parts");

/// Timeout of a test's waits; only a failure waits so long.
const LONG: Duration = Duration::from_secs(300);

/// A route for all, and what else the test says.
fn configuration(world: &World, more: &str) -> String {
    let own = format!("token = \"{TOKEN}\"");
    let config = world.config("ttl = \"1h\"");
    let config = config.replace("token = \"t0ken-of-the-tests\"", &own);
    format!("{config}[[route]]\npath = \"/\"\norigin = \"media\"\n{more}")
}

const MORE: &str = "[[route]]\npath = \"/more/\"\norigin = \"media\"\nkey_prefix = \"o/\"\n\
                    headers = { x-more = \"yes\" }\n";

async fn serving(world: &World) -> Serving {
    for n in 0..4 {
        world.put(&format!("o/{n}"), &sample(SIZE, n)).await;
    }
    let mut serving = Serving::configured(&configuration(world, ""));
    serving.start().await;
    serving
}

fn report(got: &Got) -> Value {
    assert_eq!(got.status, 200, "{}", got.text());
    serde_json::from_slice(&got.body).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_come_and_go_and_sizes_change() {
    let world = World::new().await;
    let serving = serving(&world).await;
    assert_eq!(serving.get("/more/1").await.status, 404);
    let other = configuration(&world, MORE);
    let other = other.replace("memory = \"64MiB\"", "memory = \"32MiB\"");
    serving.configure(&other.replace("ttl = \"1h\"", "ttl = \"2h\""));
    let told = report(&serving.post("/reload").await);
    let keys = |keys: &[&str]| json!(keys);
    let added = ["headers.x-more", "key_prefix", "origin", "path"];
    let added = added.map(|key| format!("route[1].{key}"));
    let added: Vec<_> = added.iter().map(String::as_str).collect();
    let expected = [&["cache.memory", "profile.web.ttl"], &added[..]].concat();
    assert_eq!(told["changed"], keys(&expected));
    assert_eq!(told["needs_restart"], keys(&[]));
    let got = serving.get("/more/1").await;
    assert_eq!((got.status, &*got.body), (200, &*sample(SIZE, 1)));
    assert_eq!(got.header("x-more"), "yes");
    let tiers = report(&serving.look("/cache").await);
    assert_eq!(tiers["memory"]["capacity"], json!(32 << 20));
    let routes = report(&serving.look("/routes").await);
    assert_eq!(routes["routes"].as_array().map(Vec::len), Some(2));
    assert_eq!(routes["routes"][0]["now"]["ttl"], "2h");

    let again = report(&serving.post("/reload").await);
    assert_eq!(again, json!({ "changed": [], "needs_restart": [] }));
    serving.configure(&configuration(&world, ""));
    report(&serving.post("/reload").await);
    assert_eq!(serving.get("/more/1").await.status, 404);
    assert_eq!(serving.get("/o/1").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_configuration_changes_nothing_and_says_where() {
    let world = World::new().await;
    let serving = serving(&world).await;
    let right = configuration(&world, MORE);
    for (wrong, said) in [
        (right.replace("key_prefix", "key_perfix"), "route[1]"),
        (
            right.replace("min_free = \"1MiB\"", "min_free = \"x\""),
            "min_free",
        ),
        (format!("{right}["), "tidegate.toml:"),
        (
            right.replace("name = \"media\"", "name = \"other\""),
            "route[0].origin",
        ),
        (
            right.replace("endpoint = \"http://", "endpoint = \"ftp://"),
            "endpoint",
        ),
        (
            format!("{right}write_token = {{ file = \"/not/there\" }}\nwritable = true\n"),
            "`route[1].write_token`: cannot read the secret in /not/there",
        ),
        (
            format!("{right}[access.a]\njwt.jwks = \"/not/there.json\"\n"),
            "`access.a.jwt.jwks`: /not/there.json",
        ),
        (
            right.replace("capacity = \"128MiB\"", "capacity = \"8EiB\""),
            "cache",
        ),
    ] {
        serving.configure(&wrong);
        let got = serving.post("/reload").await;
        assert_eq!(got.status, 422, "{wrong}\n{}", got.text());
        assert!(got.text().contains(said), "{said}: {}", got.text());
        assert!(got.text().contains("tidegate.toml:"), "{}", got.text());
        assert_eq!(serving.get("/more/1").await.status, 404, "{said}");
        assert_eq!(serving.get("/o/1").await.status, 200, "{said}");
    }
    serving.configure(&right);
    report(&serving.post("/reload").await);
    assert_eq!(serving.get("/more/1").await.status, 200);
    let unasked = ask(serving.admin, Method::POST, "/reload", &[]).await;
    assert_eq!(unasked.status, 401);
    assert_eq!(
        serving.look("/reload").await.status,
        405,
        "a GET changes nothing"
    );
}

/// A second origin for the same bucket, whose requests carry the secret in `file`.
fn other_origin(world: &World, file: &std::path::Path) -> String {
    let config = world.config("");
    let section = config.split("[[origin]]").nth(1).expect("an origin");
    let section = section.split("[profile.").next().expect("a section");
    let secret = section.lines().find(|line| line.starts_with("secret"));
    let of_file = format!("secret_access_key = {{ file = \"{}\" }}", file.display());
    let section = section.replace(secret.expect("a secret"), &of_file);
    let section = section.replace("\"media\"", "\"other\"").replace(
        "bucket = \"other\"",
        &format!("bucket = \"{}\"", world.origin.bucket()),
    );
    format!(
        "[[origin]]{section}identity = \"other\"\n\
         [[route]]\npath = \"/other/\"\norigin = \"other\"\nkey_prefix = \"o/\"\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn an_origin_comes_and_takes_other_settings_and_secrets() {
    let world = World::new().await;
    let serving = serving(&world).await;
    let secret = world.origin.credentials().secret_access_key.clone();
    let file = world.disk().with_file_name("secret");
    std::fs::write(&file, "wrong").expect("written");
    let with_other = configuration(&world, &other_origin(&world, &file));
    serving.configure(&with_other);
    let told = report(&serving.post("/reload").await);
    assert_eq!(told["needs_restart"], json!([]), "{told}");
    assert_eq!(serving.get("/other/1").await.status, 403);
    assert_eq!(
        serving.look("/readyz").await.status,
        503,
        "the new one is looked at"
    );

    // The file has the right secret by now; a reload reads it although no key has changed.
    std::fs::write(&file, &secret).expect("written");
    let told = report(&serving.post("/reload").await);
    assert_eq!(told["changed"], json!([]));
    let got = serving.get("/other/1").await;
    assert_eq!((got.status, &*got.body), (200, &*sample(SIZE, 1)));

    // Other settings of the same bucket keep what is cached: the bucket is out of reach.
    let shorter = with_other.replace("path_style = true", "path_style = true\nmax_requests = 3");
    serving.configure(&shorter);
    let told = report(&serving.post("/reload").await);
    assert_eq!(
        told["changed"],
        json!(["origin[0].max_requests", "origin[1].max_requests"])
    );
    world.door.shut();
    assert_eq!(serving.get("/other/1").await.status, 200);
    world.door.open();
    serving.configure(&configuration(&world, ""));
    report(&serving.post("/reload").await);
    assert_eq!(serving.get("/other/1").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_restart_is_named_until_there_is_one() {
    let world = World::new().await;
    let mut serving = serving(&world).await;
    let other = configuration(&world, MORE).replace("[cache]\n", "[cache]\nchunk = \"512KiB\"\n");
    serving.configure(&other);
    for changed in [4, 0] {
        let told = report(&serving.post("/reload").await);
        assert_eq!(told["changed"].as_array().map(Vec::len), Some(changed));
        assert_eq!(told["needs_restart"], json!(["cache.chunk"]));
    }
    assert_eq!(serving.get("/more/1").await.status, 200);
    serving.end().await;
    serving.start().await;
    let told = report(&serving.post("/reload").await);
    assert_eq!(told["needs_restart"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_and_the_command_do_the_same() {
    let world = World::new().await;
    let serving = serving(&world).await;
    serving.configure(&configuration(&world, MORE));
    serving.signal(Signal::HUP);
    while serving.get("/more/1").await.status != 200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    serving.configure(&configuration(&world, ""));
    let text = run(&serving, &["reload"]).await.expect("reloaded");
    assert!(text.contains("changed: route[1].path\n"), "{text}");
    assert_eq!(serving.get("/more/1").await.status, 404);
}

/// Runs a command with the configuration, and returns its output, or its errors.
async fn run(serving: &Serving, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command
        .arg("--config")
        .arg(serving.config())
        .args(arguments);
    let output = tokio::task::spawn_blocking(move || command.output());
    let output = output.await.expect("no panic").expect("it runs");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_set_kept_and_unset() {
    let world = World::new().await;
    let mut serving = serving(&world).await;
    let memory = async |serving: &Serving| {
        let tiers = report(&serving.look("/cache").await);
        tiers["memory"]["capacity"].as_u64().expect("a number") >> 20
    };
    let set = run(&serving, &["set", "cache.memory", "48MiB"]).await;
    assert_eq!(set.as_deref(), Ok("changed: cache.memory\n"));
    let set = run(&serving, &["set", "route[/].headers.x-set", "yes"]).await;
    assert_eq!(set.as_deref(), Ok("changed: route[0].headers.x-set\n"));
    let set = run(&serving, &["set", "log.level", "debug"]).await;
    assert_eq!(set.as_deref(), Ok("changed: log.level\n"));
    let set = run(&serving, &["set", "cache.chunk", "512KiB"]).await;
    assert_eq!(set.as_deref(), Ok("needs a restart: cache.chunk\n"));
    assert_eq!(memory(&serving).await, 48);
    assert_eq!(serving.get("/o/1").await.header("x-set"), "yes");
    // The log has its level at once.
    serving.logged(&["DEBUG"]).await;

    for (wrong, said) in [
        (["cache.memory", "much"], "the override `cache.memory`"),
        (["cache.memmory", "1GiB"], "did you mean"),
        (["route[/none/].profile", "audio"], "no entry"),
        (["log.level", "loud=very"], "is no level"),
        (["state.path", "/elsewhere"], "configuration file alone"),
        (
            ["cache.disk[0].path", "/elsewhere"],
            "configuration file alone",
        ),
    ] {
        let refused = run(&serving, &[&["set"], &wrong[..]].concat()).await;
        let error = refused.expect_err(wrong[0]);
        assert!(error.contains(said), "{error}");
    }
    // A reload and a restart keep them.
    serving.configure(&configuration(&world, MORE));
    report(&serving.post("/reload").await);
    assert_eq!(memory(&serving).await, 48);
    serving.end().await;
    serving.start().await;
    assert_eq!(memory(&serving).await, 48);
    let listed = report(&serving.look("/overrides").await);
    let keys = [
        "cache.chunk",
        "cache.memory",
        "log.level",
        "route[/].headers.x-set",
    ];
    assert_eq!(listed, json!({ "overridden": keys }));
    let checked = run(&serving, &["check"]).await.expect("it is right");
    for key in keys {
        assert!(checked.contains(&format!("set    {key}\n")), "{checked}");
    }
    let unset = run(&serving, &["unset", "cache.memory"]).await;
    assert_eq!(unset.as_deref(), Ok("changed: cache.memory\n"));
    assert_eq!(memory(&serving).await, 64);
    let twice = run(&serving, &["unset", "cache.memory"]).await;
    assert!(twice.expect_err("it is not set").contains("not overridden"));
    let unasked = ask(serving.admin, Method::POST, "/overrides", &[]).await;
    assert_eq!(unasked.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn overrides_of_an_entry_that_is_gone_are_undone_one_by_one() {
    let world = World::new().await;
    let serving = serving(&world).await;
    for key in ["route[/].headers.x-a", "route[/].headers.x-b"] {
        run(&serving, &["set", key, "yes"]).await.expect(key);
    }
    let gone = configuration(&world, MORE).replace("path = \"/\"\n", "path = \"/o/\"\n");
    serving.configure(&gone);
    run(&serving, &["reload"]).await.expect_err("no such route");
    let first = run(&serving, &["unset", "route[/].headers.x-a"]).await;
    let error = first.expect_err("the other is wrong too");
    assert!(error.contains("is undone, but"), "{error}");
    let second = run(&serving, &["unset", "route[/].headers.x-b"]).await;
    second.expect("all is right now");
    run(&serving, &["reload"]).await.expect("all is right now");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_override_that_names_its_entry_by_number_stays_with_it() {
    let world = World::new().await;
    let serving = serving(&world).await;
    let key = "route[0].headers.x-set";
    run(&serving, &["set", key, "yes"]).await.expect("set");
    let first = "[[route]]\npath = \"/first/\"\norigin = \"media\"\n";
    let before =
        configuration(&world, MORE).replacen("[[route]]\n", &format!("{first}[[route]]\n"), 1);
    serving.configure(&before);
    run(&serving, &["reload"]).await.expect("it is right");
    assert_eq!(serving.get("/o/1").await.header("x-set"), "yes");
    let listed = report(&serving.look("/overrides").await);
    assert_eq!(listed, json!({ "overridden": ["route[/].headers.x-set"] }));
    let unset = run(&serving, &["unset", "route[1].headers.x-set"]).await;
    assert_eq!(unset.as_deref(), Ok("changed: route[1].headers.x-set\n"));
    let refused = run(&serving, &["set", "route[9].profile", "audio"]).await;
    let error = refused.expect_err("no entry");
    assert!(error.contains("is no entry"), "{error}");
}

/// Reads until it is told to stop; returns how often.
async fn read_on(http: SocketAddr, stop: Arc<AtomicBool>, reader: usize) -> usize {
    let mut read = 0;
    while !stop.load(Ordering::Relaxed) {
        let n = (reader + read) % 4;
        let got = ask(http, Method::GET, &format!("/o/{n}"), &[]).await;
        assert!(got.status == 200 && got.body == sample(SIZE, n), "{n}");
        read += 1;
    }
    read
}
