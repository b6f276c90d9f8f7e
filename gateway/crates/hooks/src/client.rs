//! The HTTP client of hooks, and the outcome of a request.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures_core::future::BoxFuture;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout;

use crate::HookError;

/// The time within which a connection stands.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The largest head of an answer.
const MAX_HEAD: usize = 64 << 10;

/// The bytes of an answer's body that are read, and dropped. A receiver that sends more is cut off.
const MAX_BODY: usize = 64 << 10;

/// The time after which a body that still comes is cut off.
const BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// 2xx.
    Done,
    /// 3xx: no redirect is followed, because it would carry the secrets elsewhere.
    Redirected(StatusCode),
    /// 4xx: the same request would be refused again.
    Refused(StatusCode),
    /// 5xx, 408, 429.
    Failed(StatusCode),
    /// No answer in time.
    Timeout,
    /// No connection, or no answer that is HTTP.
    Unreachable,
}

impl Outcome {
    pub(crate) fn of(status: StatusCode) -> Self {
        let may_pass = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
        match status {
            _ if status.is_success() => Self::Done,
            _ if status.is_redirection() => Self::Redirected(status),
            _ if status.is_client_error() && !may_pass.contains(&status) => Self::Refused(status),
            _ => Self::Failed(status),
        }
    }

    /// Returns the label of its metric.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Redirected(_) => "redirected",
            Self::Refused(_) => "refused",
            Self::Failed(_) => "failed",
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
        }
    }

    /// Returns whether the same request may succeed later.
    pub(crate) fn may_pass(self) -> bool {
        self.is_silent() || matches!(self, Self::Failed(_))
    }

    /// Returns whether the receiver gave no answer.
    pub(crate) fn is_silent(self) -> bool {
        matches!(self, Self::Timeout | Self::Unreachable)
    }

    /// Returns the status for the log; 0 without an answer.
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::Redirected(status) | Self::Refused(status) | Self::Failed(status) => {
                status.as_u16()
            }
            Self::Done | Self::Timeout | Self::Unreachable => 0,
        }
    }
}

/// The way to a receiver: HTTP, or a double in tests of time.
pub(crate) trait Transport: Send + Sync + fmt::Debug {
    /// Sends a request. The head of its answer has to come within `limit`; the body is read or cut off.
    fn send(&self, request: Request<Full<Bytes>>, limit: Duration) -> BoxFuture<'_, Outcome>;
}

/// The client: one connection a request, so that a receiver that is gone holds nothing.
#[derive(Debug)]
pub(crate) struct HttpClient(Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

impl HttpClient {
    /// Makes a client. The system's certificates are read only if a hook needs TLS.
    ///
    /// # Errors
    /// There are none.
    pub(crate) fn new(has_tls: bool) -> Result<Self, HookError> {
        let provider = rustls::crypto::ring::default_provider();
        let builder = ClientConfig::builder_with_provider(provider.into());
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|_| HookError::Tls)?;
        let tls = match has_tls {
            true => builder.with_native_roots().map_err(HookError::Roots)?,
            false => builder.with_root_certificates(RootCertStore::empty()),
        };
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls.with_no_client_auth())
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .http1_max_buf_size(MAX_HEAD)
            .build(connector);
        Ok(Self(client))
    }
}

impl Transport for HttpClient {
    fn send(&self, request: Request<Full<Bytes>>, limit: Duration) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let answer = match timeout(limit, self.0.request(request)).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => return Outcome::Unreachable,
                Err(_) => return Outcome::Timeout,
            };
            let outcome = Outcome::of(answer.status());
            // A receiver that ends its answer in order sees no error.
            let _ = timeout(limit.min(BODY_TIMEOUT), drop_body(answer.into_body())).await;
            outcome
        })
    }
}

/// Reads a body up to [`MAX_BODY`], and drops it.
async fn drop_body(mut body: Incoming) {
    let mut read = 0;
    while read < MAX_BODY
        && let Some(Ok(frame)) = body.frame().await
    {
        read += frame.data_ref().map_or(1, Bytes::len);
    }
}

#[cfg(test)]
mod tests;
