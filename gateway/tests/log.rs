//! The real program, and a standard error that takes no lines: neither a request nor the process waits for it or ends.

use std::fs::File;
use std::process::Stdio;

use rustix::process::Signal;

#[path = "support/door.rs"]
#[expect(dead_code, reason = "other suites let it hang")]
mod door;
#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
#[path = "support/mount.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod mount;
#[path = "support/ports.rs"]
mod ports;
#[path = "support/serving.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod serving;
#[path = "support/world.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod world;

use serving::Serving;
use world::{World, sample};

/// Runs the program with the log of requests switched on, and this standard error. Returns the lines that were dropped,
/// once they are at `least` so many.
async fn serve_with(stderr: impl Into<Stdio>, least: u64) -> u64 {
    let world = World::new().await;
    world.put("a.bin", &sample(1000, 1)).await;
    let mut serving = Serving::configured(&world.config("[log]\naccess = true\n"));
    serving.launch_with(&[], stderr.into());
    serving.ready().await;
    for at in 0..500 {
        let answer = serving.get("/a.bin").await;
        assert_eq!(answer.status, 200, "{at}");
        if at % 100 == 0 {
            serving.signal(Signal::HUP);
            assert_eq!(serving.look("/healthz").await.status, 200);
        }
    }
    let metric = ["tidegate_log_lines_dropped_total"];
    // The thread of the log may be behind. Without an end this hangs, and says so.
    let mut dropped = serving.metric(&metric).await;
    while dropped < least {
        dropped = serving.metric(&metric).await;
    }
    serving.end().await;
    dropped
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_whose_reader_is_gone_ends_nothing() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    serve_with(writer, 490).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_on_a_full_disk_ends_nothing() {
    let full = File::options().write(true).open("/dev/full");
    serve_with(full.expect("a device"), 490).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_whose_reader_stands_still_stops_nothing() {
    let (_unread, writer) = std::io::pipe().expect("a pipe");
    // They are more than a pipe holds, and less than may wait.
    assert_eq!(serve_with(writer, 0).await, 0);
}

/// The exit code says why it ended, also if the message cannot be written.
#[test]
fn an_error_that_cannot_be_written_keeps_its_exit_code() {
    for command in ["serve", "check"] {
        let full = File::options().write(true).open("/dev/full");
        let mut tidegate = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"));
        tidegate.args([command, "--config", "/nonexistent/tidegate.toml"]);
        tidegate.stderr(full.expect("a device"));
        let ended = tidegate.status().expect("it runs");
        assert_eq!(ended.code(), Some(78), "{command}");
    }
}
