//! VLC without sound and picture, told through its standard input; its log says when it plays.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::sync::mpsc::{Receiver, channel};

use super::{LAST, Playback, TIMEOUT, places, share};
use crate::child::find_program;
use crate::wordpress::as_php_user;

/// Its command line. VLC refuses to be root: another user runs it.
pub const ARGUMENTS: [&str; 9] = [
    "-I",
    "oldrc",
    "--rc-fake-tty",
    "--no-color",
    "-vv",
    "-A",
    "dummy",
    "-V",
    "dummy",
];
/// The line of its log after it has started.
const STARTED: &str = "using interface module \"oldrc\"";
/// The lines of its log after enough bytes have come, and when sound and picture begin.
const BUFFERED: &str = "Stream buffering done";
const BEGINS: &str = "Decoder wait done";
const ENDED: &str = "EOF reached";
/// The lines that are kept for an error, and those that may wait to be looked at.
const KEPT: usize = 15;
const WAITING: usize = 4096;

/// Tells whether it is installed.
#[must_use]
pub fn is_there() -> bool {
    find_program("TIDEGATE_VLC", &["vlc"]).is_some()
}

/// Plays a URL or a file of `length` seconds for `seconds` in all, in a process of its own with its files in `dir`, which
/// another user may enter.
///
/// # Errors
/// If it does not start, or does not reach a place or the end.
pub async fn play(dir: &Path, source: &str, length: f64, seconds: f64) -> Result<Playback> {
    let mut player = Player::start(dir)?;
    let played = player.play(source, length, seconds).await;
    played.with_context(|| format!("VLC:\n{}", player.last.join("\n")))
}

struct Player {
    child: Child,
    to: ChildStdin,
    lines: Receiver<String>,
    last: Vec<String>,
    stalls: u64,
}

impl Player {
    fn start(dir: &Path) -> Result<Self> {
        let program = find_program("TIDEGATE_VLC", &["vlc"]).context("VLC is missing")?;
        let mut command = as_php_user(&program.display().to_string());
        command.args(ARGUMENTS).current_dir(dir);
        // It neither finds nor leaves settings.
        command.env("HOME", "/nonexistent");
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn().context("vlc")?;
        let to = child.stdin.take().context("a pipe")?;
        let from = BufReader::new(child.stderr.take().context("a pipe")?);
        let (sender, lines) = channel(WAITING);
        std::thread::spawn(move || {
            for line in from.lines().map_while(Result::ok) {
                if sender.blocking_send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            child,
            to,
            lines,
            last: vec![],
            stalls: 0,
        })
    }

    async fn play(&mut self, source: &str, length: f64, seconds: f64) -> Result<Playback> {
        self.until(STARTED).await?;
        let ready = self.timed(&format!("add {source}"), BEGINS).await?;
        let share = share(seconds);
        self.pass(share).await?;
        let mut seeks = vec![];
        for place in places(length) {
            // It takes whole seconds only.
            let seek = format!("seek {:.0}", place.floor());
            seeks.push(self.timed(&seek, BEGINS).await?);
            self.pass(share).await?;
        }
        let last = format!("seek {:.0}", (length - share.max(LAST)).floor());
        self.timed(&last, ENDED).await?;
        Ok(Playback {
            ready,
            seeks,
            stalls: self.stalls,
            seconds,
        })
    }

    /// Lets it play for some seconds, and counts how often it runs out of bytes.
    async fn pass(&mut self, seconds: f64) -> Result<()> {
        let end = tokio::time::Instant::now() + Duration::from_secs_f64(seconds);
        while let Ok(line) = tokio::time::timeout_at(end, self.next()).await {
            self.stalls += u64::from(line?.contains(BUFFERED));
        }
        Ok(())
    }

    /// Sends an order and waits for a line of the log; returns the milliseconds until then.
    async fn timed(&mut self, order: &str, line: &str) -> Result<f64> {
        let begun = Instant::now();
        self.to.write_all(format!("{order}\n").as_bytes())?;
        self.until(line).await?;
        Ok(begun.elapsed().as_secs_f64() * 1000.0)
    }

    async fn until(&mut self, wanted: &str) -> Result<()> {
        let found = async {
            while !self.next().await?.contains(wanted) {}
            anyhow::Ok(())
        };
        let found = tokio::time::timeout(TIMEOUT, found).await;
        found.with_context(|| format!("it never says \"{wanted}\""))?
    }

    async fn next(&mut self) -> Result<String> {
        let line = self.lines.recv().await.context("it ended")?;
        self.last.push(line.clone());
        if self.last.len() > KEPT {
            self.last.remove(0);
        }
        Ok(line)
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
