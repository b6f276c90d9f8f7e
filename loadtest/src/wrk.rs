//! Requests per second as counted by `wrk`, and what they cost the peer.

use std::net::SocketAddr;
use std::process::Stdio;

use anyhow::{Context as _, Result, bail, ensure};

use crate::child::find_program;
use crate::client::Connection;
use crate::pattern::Pattern;
use crate::peers::Peer;

/// The number of checked reads before and after each run: wrk does not check bytes.
const CHECKED_READS: usize = 8;

/// The clients that `wrk` plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Connections at a time, each with one request at a time.
    pub connections: u32,
    /// Whether a connection is used again for the next request.
    pub keep_alive: bool,
    /// The length of the run.
    pub seconds: u64,
}

/// The figures of one run.
#[derive(Debug, Clone, Copy)]
pub struct WrkResult {
    /// Requests per second.
    pub rate: f64,
    /// CPU time of the peer for one request, in microseconds.
    pub cpu_micros: f64,
}

/// The result of one run of `wrk -t2`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct WrkOutput {
    /// Requests answered.
    requests: u64,
    /// Requests per second.
    rate: f64,
}

/// Requests `path` of a peer as fast as possible, each time with this header, if there is one. Reads the object before and
/// after, and checks its bytes.
///
/// # Errors
/// If wrk is missing, any answer was not 2xx, a connection failed, or a byte is wrong.
pub async fn run(
    peer: &Peer,
    path: &str,
    header: Option<(&str, &str)>,
    pattern: Pattern,
    load: Load,
) -> Result<WrkResult> {
    let check = async || {
        let mut connection = Connection::open(peer.addr()).await?;
        let headers: Vec<_> = header.into_iter().collect();
        for _ in 0..CHECKED_READS {
            connection.verify_with(path, &headers, pattern).await?;
        }
        anyhow::Ok(())
    };
    check().await?;
    let before = peer.usage()?;
    let counted = count(peer.addr(), path, header, load).await?;
    let cpu = peer.usage()?.cpu.saturating_sub(before.cpu);
    check().await?;
    let WrkOutput { requests, rate } = counted;
    ensure!(requests > 0, "{} answered nothing", peer.name());
    Ok(WrkResult {
        rate,
        cpu_micros: cpu.as_secs_f64() * 1e6 / requests as f64,
    })
}

async fn count(
    addr: SocketAddr,
    path: &str,
    header: Option<(&str, &str)>,
    load: Load,
) -> Result<WrkOutput> {
    let wrk = find_program("TIDEGATE_WRK", &["wrk"])
        .context("wrk is missing; `loadtest setup` installs it")?;
    let mut command = std::process::Command::new(wrk);
    command.args([
        "-t2",
        &format!("-c{}", load.connections),
        &format!("-d{}s", load.seconds),
    ]);
    if !load.keep_alive {
        command.args(["-H", "Connection: close"]);
    }
    if let Some((name, value)) = header {
        command.args(["-H", &format!("{name}: {value}")]);
    }
    command.arg(format!("http://{addr}{path}"));
    command.stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "wrk: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    parse(&text)
}

fn parse(text: &str) -> Result<WrkOutput> {
    for bad in ["Non-2xx", "Socket errors"] {
        if let Some(line) = text.lines().find(|line| line.contains(bad)) {
            bail!("wrk: {}", line.trim());
        }
    }
    let requests = text
        .lines()
        .find_map(|line| line.trim().split_once(" requests in "))
        .and_then(|(count, _)| count.parse().ok());
    let rate = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("Requests/sec:"))
        .and_then(|rate| rate.trim().parse().ok());
    match (requests, rate) {
        (Some(requests), Some(rate)) => Ok(WrkOutput { requests, rate }),
        _ => bail!("wrk said something else:\n{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Running 5s test @ http://127.0.0.1:80/\n  2 threads and 64 connections\n  \
        Thread Stats   Avg      Stdev     Max   +/- Stdev\n  356 requests in 5.10s, 1.00MB read\n\
        Requests/sec:   69.80\nTransfer/sec:  200KB\n";

    #[test]
    fn count_and_rate_are_read() {
        assert_eq!(
            parse(TEXT).unwrap(),
            WrkOutput {
                requests: 356,
                rate: 69.8
            }
        );
    }

    #[test]
    fn answers_that_are_errors_are_no_figure() {
        let bad = format!("{TEXT}  Non-2xx or 3xx responses: 3\n");
        assert!(parse(&bad).unwrap_err().to_string().contains("Non-2xx"));
    }
}
