//! `tidegate top --once` and `--json`: the real program watches a running gateway, and says what is wrong if there is none.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

#[path = "support/door.rs"]
#[expect(dead_code, reason = "other suites let it hang")]
mod door;
#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
#[path = "support/world.rs"]
mod world;

use gateway::Whole;
use world::{World, sample};

const TOKEN: &str = "t0ken-of-the-tests";

/// Runs `tidegate top` with the configuration of a gateway at `admin`.
async fn top(admin: &str, token: Option<&str>, args: &[&str]) -> Output {
    let folder = TempDir::new().expect("a folder");
    let config = folder.path().join("tidegate.toml");
    let token = token.map_or(String::new(), |token| format!("token = \"{token}\"\n"));
    let text = format!("[admin]\nlisten = \"{admin}\"\n{token}");
    std::fs::write(&config, text).expect("written");
    let mut command = command(&config);
    command.args(args);
    let run = tokio::task::spawn_blocking(move || command.output().expect("it runs"));
    run.await.expect("no panic")
}

fn command(config: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg("top").arg("--config").arg(config);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Starts a gateway that has answered a request from memory.
async fn gateway(world: &World) -> Whole {
    world.put("films/a.bin", &sample(300_000, 1)).await;
    let gateway = world.start("").await;
    gateway.ready().await;
    for _ in 0..2 {
        assert_eq!(gateway.get("/films/a.bin", &[]).await.status, 200);
    }
    gateway
}

#[tokio::test(flavor = "multi_thread")]
async fn one_look_is_text_for_a_pipe_and_json_for_a_program() {
    let world = World::new().await;
    let gateway = gateway(&world).await;
    let admin = gateway.admin.to_string();
    for args in [&["--once"][..], &[]] {
        // Also without `--once`: the output is no terminal.
        let output = top(&admin, Some(TOKEN), args).await;
        let shown = text(&output.stdout);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let version = format!("Tidegate {}", env!("CARGO_PKG_VERSION"));
        for words in [
            &*version,
            "requests",
            "Tiers",
            "memory",
            "128 MiB",
            "Origins",
            "media",
            "no mount is writable",
            "no subscription",
            "this gateway works alone",
            "nothing is measured",
            "the routes",
            "cache.memory",
        ] {
            assert!(shown.contains(words), "no {words} in\n{shown}");
        }
        assert!(!shown.contains('\u{1b}'), "{shown}");
    }
    let output = top(&admin, Some(TOKEN), &["--json"]).await;
    let look: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(look["now"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(look["origins"]["origins"][0]["name"], "media");
    for part in [
        "now", "streams", "tiers", "origins", "writes", "events", "hooks", "fleet", "history",
        "doctor", "routes", "settings",
    ] {
        assert!(look[part].is_object(), "{part}: {look}");
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_look_shows_a_folder_and_what_is_cached_of_it() {
    let world = World::new().await;
    let gateway = gateway(&world).await;
    let admin = gateway.admin.to_string();
    let output = top(&admin, Some(TOKEN), &["--once", "--folder", "/films"]).await;
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let line = shown.lines().find(|line| line.ends_with("a.bin"));
    let line = line.unwrap_or_else(|| panic!("no object in\n{shown}"));
    assert!(
        line.contains("293 KiB") && line.contains("100 %") && line.contains("############"),
        "{line}"
    );
    let output = top(&admin, Some(TOKEN), &["--json", "--folder", "/films/"]).await;
    let look: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(look["objects"]["names"][0]["cached"]["memory"], 300_000);
    let output = top(&admin, Some(TOKEN), &["--once", "--folder", "films/"]).await;
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("does not begin with `/`"), "{error}");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_says_what_is_missing() {
    let output = top("127.0.0.1:1", Some(TOKEN), &["--once"]).await;
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains("cannot watch the gateway through 127.0.0.1:1"),
        "{error}"
    );
    assert!(error.contains("refused"), "{error}");

    let world = World::new().await;
    let gateway = gateway(&world).await;
    let admin = gateway.admin.to_string();
    for token in [None, Some("a-token-of-another")] {
        let output = top(&admin, token, &["--once"]).await;
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("401"), "{error}");
        assert!(error.contains("admin.token"), "{error}");
    }
    gateway.stop().await;
}
