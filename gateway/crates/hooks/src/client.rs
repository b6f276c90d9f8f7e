//! The HTTP client of hooks, and the outcome of a request.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures_core::future::BoxFuture;
use http::{Request, StatusCode};
use http_body_util::Full;
use tokio::time::timeout;

use tidegate_outbound::{Client, ClientError, ClientSettings, RequestError, Roots, read_body};

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
    /// The labels of all.
    pub(crate) const LABELS: [&str; 6] = [
        "done",
        "redirected",
        "refused",
        "failed",
        "timeout",
        "unreachable",
    ];

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
        let at = match self {
            Self::Done => 0,
            Self::Redirected(_) => 1,
            Self::Refused(_) => 2,
            Self::Failed(_) => 3,
            Self::Timeout => 4,
            Self::Unreachable => 5,
        };
        Self::LABELS[at]
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
pub(crate) struct HttpClient(Client);

impl HttpClient {
    /// Makes a client for receivers whose certificates these authorities sign.
    ///
    /// # Errors
    /// The system has no certificates, and they are needed.
    pub(crate) fn new(roots: Roots) -> Result<Self, ClientError> {
        let settings = ClientSettings {
            roots,
            ..ClientSettings::default()
        };
        Client::new(&settings).map(Self)
    }
}

impl Transport for HttpClient {
    fn send(&self, request: Request<Full<Bytes>>, limit: Duration) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let answer = match self.0.send(request, limit).await {
                Ok(answer) => answer,
                Err(RequestError::Timeout) => return Outcome::Timeout,
                Err(_) => return Outcome::Unreachable,
            };
            let outcome = Outcome::of(answer.status());
            // A receiver that ends its answer in order sees no error.
            let body = read_body(answer.into_body(), MAX_BODY);
            let _ = timeout(limit.min(BODY_TIMEOUT), body).await;
            outcome
        })
    }
}

#[cfg(test)]
mod tests;
