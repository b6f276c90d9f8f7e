//! The HTTP client that asks servers of others: receivers of hooks, key sets, `auth_request`, SNS and ACME directories.
//!
//! Every request is bounded: the connection with its TLS handshake by [`ClientSettings::connect`], the head of the answer
//! and its body by the caller's time and bytes. No redirect is followed, because it would carry secrets elsewhere. A
//! caller that asks hosts which others name sets [`Addresses::Outward`]. TLS is rustls on ring, and cannot be switched off
//! for a URL that begins with `https://`.

use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::{Instant, timeout_at};

mod addresses;
mod connector;
mod error;
mod roots;

pub use addresses::Addresses;
pub use error::{ClientError, RequestError};
pub use roots::Roots;

use connector::Connector;

/// The settings of a client.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// The authorities that sign certificates of servers.
    pub roots: Roots,
    /// The addresses that are asked.
    pub addresses: Addresses,
    /// Whether a URL must begin with `https://`.
    pub https_only: bool,
    /// The time within which a connection stands: name, TCP and TLS.
    pub connect: Duration,
    /// The most bytes of an answer's head; at least 8 KiB.
    pub max_head: usize,
    /// The most idle connections to one host that are kept for the next request; 0: a connection a request.
    pub max_idle: usize,
}

impl Default for ClientSettings {
    /// Plain HTTP to any address: no TLS, 5 s to connect, 32 KiB of a head, a connection a request.
    fn default() -> Self {
        Self {
            roots: Roots::None,
            addresses: Addresses::Any,
            https_only: false,
            connect: Duration::from_secs(5),
            max_head: 32 << 10,
            max_idle: 0,
        }
    }
}

/// A client. Clones share its connections.
#[derive(Debug, Clone)]
pub struct Client(legacy::Client<Connector, Full<Bytes>>);

impl Client {
    /// Makes a client. It reads certificates, and so may block.
    ///
    /// # Errors
    /// There are no certificates to verify servers with.
    pub fn new(settings: &ClientSettings) -> Result<Self, ClientError> {
        let client = legacy::Client::builder(TokioExecutor::new())
            .http1_max_buf_size(settings.max_head)
            .pool_max_idle_per_host(settings.max_idle)
            .pool_timer(TokioTimer::new())
            .build(Connector::new(settings)?);
        Ok(Self(client))
    }

    /// Sends a request, and returns the head of the answer. It has to come within `limit`; the caller bounds the body.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn send(
        &self,
        request: Request<Full<Bytes>>,
        limit: Duration,
    ) -> Result<Response<Incoming>, RequestError> {
        self.send_by(request, Instant::now() + limit).await
    }

    /// Sends a request, and returns the whole answer, with a body of at most `max_body` bytes. All of it has to come within
    /// `limit`.
    ///
    /// # Errors
    /// There is no answer, or its body is too long or breaks off.
    pub async fn fetch(
        &self,
        request: Request<Full<Bytes>>,
        limit: Duration,
        max_body: usize,
    ) -> Result<Response<Bytes>, RequestError> {
        let deadline = Instant::now() + limit;
        let (head, body) = self.send_by(request, deadline).await?.into_parts();
        let body = timeout_at(deadline, read_body(body, max_body)).await;
        let body = body.map_err(|_| RequestError::Timeout)?;
        Ok(Response::from_parts(head, body?))
    }

    async fn send_by(
        &self,
        request: Request<Full<Bytes>>,
        deadline: Instant,
    ) -> Result<Response<Incoming>, RequestError> {
        let sent = timeout_at(deadline, self.0.request(request)).await;
        let sent = sent.map_err(|_| RequestError::Timeout)?;
        sent.map_err(|error| {
            let mut text = error.to_string();
            let mut source = error.source();
            // The innermost one says which step failed.
            while let Some(error) = source {
                text = error.to_string();
                source = error.source();
            }
            RequestError::Exchange(text)
        })
    }
}

/// Reads a body to its end, of at most `max` bytes. The caller bounds the time.
///
/// # Errors
/// The body is longer, or breaks off.
pub async fn read_body(body: Incoming, max: usize) -> Result<Bytes, RequestError> {
    let read = Limited::new(body, max).collect().await;
    let read = read.map_err(|_| RequestError::Body(max))?;
    Ok(read.to_bytes())
}

#[cfg(test)]
mod tests;
