//! The operator, who purges over one connection to the admin listener.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::peers::Peer;
use crate::peers::tidegate::ADMIN_TOKEN;

/// A connection that stays.
pub(in crate::scenario) struct Operator {
    sender: SendRequest<Full<Bytes>>,
}

impl Operator {
    pub(in crate::scenario) async fn connect(peer: &Peer) -> Result<Self> {
        let admin = peer.admin().context("it has an admin listener")?;
        let stream = TcpStream::connect(admin).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { sender })
    }

    /// Purges; returns the milliseconds from the request to the whole answer, and the answer.
    pub(in crate::scenario) async fn purge(&mut self, names: &Value) -> Result<(f64, Value)> {
        let request = Request::post("/purge")
            .header(header::HOST, "localhost")
            .header(header::AUTHORIZATION, format!("Bearer {ADMIN_TOKEN}"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::from(names.to_string()))?;
        self.sender.ready().await?;
        let since = Instant::now();
        let answer = self.sender.send_request(request).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        let took = since.elapsed().as_secs_f64() * 1e3;
        let text = String::from_utf8_lossy(&body);
        ensure!(status.is_success(), "{status}: {text}");
        Ok((took, serde_json::from_slice(&body)?))
    }
}
