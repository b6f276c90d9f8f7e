//! mpv without sound and picture, asked through its socket (JSON IPC).

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::{LAST, Playback, TIMEOUT, places, share};
use crate::child::{Server, find_program};

const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The property that is true while mpv waits for bytes.
const WAITS: &str = "paused-for-cache";

/// Its command line, but for the socket. A slow machine may look at a short film only after its end: mpv stays there then,
/// and plays on after a seek.
pub const ARGUMENTS: [&str; 9] = [
    "--no-config",
    "--no-ytdl",
    "--no-terminal",
    "--idle",
    "--keep-open=yes",
    "--keep-open-pause=no",
    "--ao=null",
    "--vo=null",
    "--msg-level=all=error",
];

/// Tells whether it is installed.
#[must_use]
pub fn is_there() -> bool {
    find_program("TIDEGATE_MPV", &["mpv"]).is_some()
}

/// Plays a URL or a file for `seconds` in all, in a process of its own with its files in `dir`.
///
/// # Errors
/// If it does not start, reports an error, or does not reach a place or the end.
pub async fn play(dir: &Path, source: &str, seconds: f64) -> Result<Playback> {
    let program = find_program("TIDEGATE_MPV", &["mpv"]).context("mpv is missing")?;
    let socket = dir.join("mpv.sock");
    let _ = std::fs::remove_file(&socket);
    let mut command = Command::new(program);
    command.args(ARGUMENTS);
    command.arg(format!("--input-ipc-server={}", socket.display()));
    let ready = || std::os::unix::net::UnixStream::connect(&socket).is_ok();
    let server = Server::start_when(command, &dir.join("mpv.log"), ready)?;
    let (from, to) = UnixStream::connect(&socket).await?.into_split();
    let lines = BufReader::new(from).lines();
    let mut player = Player {
        lines,
        to,
        asked: 0,
        stalls: 0,
        is_playing: false,
    };
    let played = player.play(source, seconds).await;
    played.with_context(|| format!("mpv: {}", server.log_tail()))
}

struct Player {
    lines: Lines<BufReader<OwnedReadHalf>>,
    to: OwnedWriteHalf,
    asked: u64,
    stalls: u64,
    is_playing: bool,
}

impl Player {
    async fn play(&mut self, source: &str, seconds: f64) -> Result<Playback> {
        self.ask(json!(["observe_property", 1, WAITS])).await?;
        let ready = self
            .timed(json!(["loadfile", source]), "playback-restart")
            .await?;
        let duration = self.property("duration").await?;
        let duration = duration.as_f64().context("no duration")?;
        let share = share(seconds);
        self.pass(share).await?;
        let mut seeks = vec![];
        for at in places(duration) {
            let seek = json!(["seek", at, "absolute"]);
            seeks.push(self.timed(seek, "playback-restart").await?);
            self.pass(at + share).await?;
        }
        let last = json!(["seek", duration - share.max(LAST), "absolute"]);
        self.timed(last, "playback-restart").await?;
        let leave = json!(["set_property", "keep-open", "no"]);
        self.timed(leave, "end-file").await?;
        Ok(Playback {
            ready,
            seeks,
            stalls: self.stalls,
            seconds,
        })
    }

    /// Plays until a time of the medium is reached.
    async fn pass(&mut self, until: f64) -> Result<()> {
        self.is_playing = true;
        let since = Instant::now();
        loop {
            let at = self.property("time-pos").await?;
            if at.as_f64().is_some_and(|at| at >= until) {
                break;
            }
            ensure!(since.elapsed() < TIMEOUT, "it stands at {at}");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        self.is_playing = false;
        Ok(())
    }

    /// Sends a command and waits for an event; returns the milliseconds until then.
    async fn timed(&mut self, command: Value, event: &str) -> Result<f64> {
        let begun = Instant::now();
        self.send(command).await?;
        loop {
            let said = self.next().await?;
            if said["event"] == event {
                let is_over = event != "end-file" || said["reason"] == "eof";
                ensure!(is_over, "it ended with {said}");
                return Ok(begun.elapsed().as_secs_f64() * 1000.0);
            }
        }
    }

    async fn property(&mut self, name: &str) -> Result<Value> {
        self.ask(json!(["get_property", name])).await
    }

    /// Sends a command and returns the data of its answer.
    async fn ask(&mut self, command: Value) -> Result<Value> {
        self.send(command).await?;
        loop {
            let mut said = self.next().await?;
            if said["request_id"] == self.asked && said["event"].is_null() {
                return Ok(said["data"].take());
            }
        }
    }

    async fn send(&mut self, command: Value) -> Result<()> {
        self.asked += 1;
        let line = json!({ "command": command, "request_id": self.asked }).to_string() + "\n";
        Ok(self.to.write_all(line.as_bytes()).await?)
    }

    /// Returns the next line, and counts waits.
    async fn next(&mut self) -> Result<Value> {
        let line = tokio::time::timeout(TIMEOUT, self.lines.next_line()).await;
        let Some(line) = line.context("mpv says nothing")?? else {
            bail!("mpv ended");
        };
        let said: Value = serde_json::from_str(&line)?;
        let failed = said["event"] == "end-file" && said["reason"] == "error";
        ensure!(!failed, "{said}");
        if self.is_playing && said["name"] == WAITS && said["data"] == true {
            self.stalls += 1;
        }
        Ok(said)
    }
}
