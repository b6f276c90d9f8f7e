//! The simulated cloud: an S3 server behind 20 ms and 20 MB/s a connection, by toxiproxy.
//!
//! The rate is so low that 16 connections stay well below the capacity of two cores: the reader is
//! measured, not the machine. Writes wait for the 20 ms, but their rate is not limited.

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

const LATENCY_MS: u64 = 20;
const KILOBYTES_PER_SECOND: u64 = 20_000;

/// A description for reports.
pub const CONFIG: &str = "toxiproxy: answers delayed by 20 ms and held to 20 MB/s a connection";

/// A running toxiproxy in front of an S3 server.
#[derive(Debug)]
pub struct Cloud {
    addr: SocketAddr,
    _server: Server,
}

impl Cloud {
    /// Starts a proxy in front of `upstream`.
    ///
    /// # Errors
    /// If it is not installed or does not start.
    pub async fn start(dir: &Path, upstream: SocketAddr) -> Result<Self> {
        let program = find_program("TIDEGATE_TOXIPROXY", &["toxiproxy-server"])
            .context("toxiproxy is missing; `loadtest setup` installs it")?;
        let (control, addr) = (free_addr()?, free_addr()?);
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
                serde_json::json!({ "latency": LATENCY_MS, "jitter": 0 }),
            ),
            (
                "bandwidth",
                serde_json::json!({ "rate": KILOBYTES_PER_SECOND }),
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
