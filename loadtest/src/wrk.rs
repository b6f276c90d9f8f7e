//! Requests per second as counted by `wrk`.

use std::net::SocketAddr;
use std::process::Stdio;

use anyhow::{Context as _, Result, bail, ensure};

use crate::child::find_program;

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

/// The result of one run of `wrk -t2`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    /// Requests answered.
    pub requests: u64,
    /// Requests per second.
    pub rate: f64,
}

/// Requests `path` as fast as possible.
///
/// # Errors
/// If wrk is missing, or any answer was not 2xx, or a connection failed.
pub async fn run(addr: SocketAddr, path: &str, load: Load) -> Result<Found> {
    run_with(addr, path, None, load).await
}

/// Does the same with one more header in each request, its name and its value.
///
/// # Errors
/// As of [`run`].
pub async fn run_with(
    addr: SocketAddr,
    path: &str,
    header: Option<(&str, &str)>,
    load: Load,
) -> Result<Found> {
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

fn parse(text: &str) -> Result<Found> {
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
        (Some(requests), Some(rate)) => Ok(Found { requests, rate }),
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
            Found {
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
