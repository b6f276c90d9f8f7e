//! The simulated cloud: an S3 server behind 20 ms and 20 MB/s a connection, by toxiproxy.
//!
//! The rate is so low that 16 connections stay well below the capacity of two cores: the reader is
//! measured, not the machine. Writes wait for the 20 ms, but their rate is not limited.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use crate::child::{Server, find_program, free_addr};

/// The usual distance to the bucket.
const USUAL: Distance = Distance::new(20, 0, 20_000);

/// The way to a bucket.
#[derive(Debug, Clone, Copy)]
pub struct Distance {
    latency_ms: u64,
    jitter_ms: u64,
    kilobytes_per_second: u64,
}

impl Distance {
    /// Returns a distance at which answers are delayed by `latency_ms`, give or take `jitter_ms`, and held to
    /// `kilobytes_per_second` a connection.
    #[must_use]
    pub const fn new(latency_ms: u64, jitter_ms: u64, kilobytes_per_second: u64) -> Self {
        Self {
            latency_ms,
            jitter_ms,
            kilobytes_per_second,
        }
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.latency_ms)?;
        if self.jitter_ms > 0 {
            write!(f, "±{}", self.jitter_ms)?;
        }
        write!(f, " ms, {} MB/s", self.kilobytes_per_second / 1000)
    }
}

/// A description for reports.
pub const CONFIG: &str = "toxiproxy: answers delayed by 20 ms and held to 20 MB/s a connection";

/// A running toxiproxy in front of an S3 server.
#[derive(Debug)]
pub struct Cloud {
    addr: SocketAddr,
    _server: Server,
}

impl Cloud {
    /// Starts a proxy in front of `upstream` at the usual distance.
    ///
    /// # Errors
    /// If it is not installed or does not start.
    pub async fn start(dir: &Path, upstream: SocketAddr) -> Result<Self> {
        Self::at(dir, upstream, USUAL).await
    }

    /// Starts a proxy in front of `upstream` at a distance.
    ///
    /// # Errors
    /// As [`Cloud::start`].
    pub async fn at(dir: &Path, upstream: SocketAddr, distance: Distance) -> Result<Self> {
        let program = find_program("TIDEGATE_TOXIPROXY", &["toxiproxy-server"])
            .context("toxiproxy is missing; `loadtest setup` installs it")?;
        let (control, addr) = (free_addr(), free_addr());
        let mut command = Command::new(program);
        command.args([
            "-host",
            &control.ip().to_string(),
            "-port",
            &control.port().to_string(),
        ]);
        let server = Server::start(command, &dir.join("toxiproxy.log"), control)?;
        let proxy = serde_json::json!({
            "name": "cloud", "listen": addr, "upstream": upstream, "enabled": true
        });
        post(control, "/proxies", &proxy).await?;
        for (kind, attributes) in [
            (
                "latency",
                serde_json::json!({ "latency": distance.latency_ms, "jitter": distance.jitter_ms }),
            ),
            (
                "bandwidth",
                serde_json::json!({ "rate": distance.kilobytes_per_second }),
            ),
        ] {
            let toxic = serde_json::json!({
                "name": kind, "type": kind, "stream": "downstream", "attributes": attributes
            });
            post(control, "/proxies/cloud/toxics", &toxic).await?;
        }
        Ok(Self {
            addr,
            _server: server,
        })
    }

    /// Returns the address of the bucket behind the proxy.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }
}

async fn post(control: SocketAddr, path: &str, body: &serde_json::Value) -> Result<()> {
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("http://{control}{path}"))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body.to_string())))?;
    let client = Client::builder(TokioExecutor::new()).build_http();
    let answer = client
        .request(request)
        .await
        .context("toxiproxy does not answer")?;
    ensure!(
        answer.status().is_success(),
        "toxiproxy refused {path}: {}",
        answer.status()
    );
    Ok(())
}
