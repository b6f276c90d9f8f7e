//! An HTTP client that is bounded in bytes: the caller bounds its time.

use std::error::Error as _;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

/// The most bytes of an answer's head.
const MAX_HEAD: usize = 32 << 10;

/// The most connections that are kept open for the next request.
const MAX_IDLE: usize = 16;

type Body = Empty<Bytes>;

/// The error of a client that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is no absolute `http://` or `https://` URL.
    #[error("is no http:// or https:// URL")]
    Url,
    /// The machine has no certificates to verify servers with.
    #[error("the certificates of this machine cannot be read: {0}")]
    Roots(std::io::Error),
}

/// The reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    /// The server cannot be reached, or does not speak HTTP.
    #[error("{0}")]
    Exchange(String),
    /// The body is too long, or breaks off.
    #[error("the body is longer than {0} bytes, or broke off")]
    Body(usize),
}

/// A client of one server, which follows no redirects.
#[derive(Debug, Clone)]
pub(crate) enum Client {
    Plain(legacy::Client<HttpConnector, Body>),
    Tls(legacy::Client<HttpsConnector<HttpConnector>, Body>),
}

impl Client {
    /// Returns a client for this URL. One that is not encrypted needs no certificates of the machine.
    pub(crate) fn new(uri: &Uri) -> Result<Self, ClientError> {
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder
            .http1_max_buf_size(MAX_HEAD)
            .pool_max_idle_per_host(MAX_IDLE)
            .pool_timer(TokioTimer::new());
        match (uri.scheme_str(), uri.host()) {
            (Some("http"), Some(_)) => Ok(Self::Plain(builder.build_http())),
            (Some("https"), Some(_)) => {
                let connector = HttpsConnectorBuilder::new().with_native_roots();
                let connector = connector.map_err(ClientError::Roots)?;
                let connector = connector.https_only().enable_http1().build();
                Ok(Self::Tls(builder.build(connector)))
            }
            _ => Err(ClientError::Url),
        }
    }

    /// Sends a request, and returns the head of the answer.
    pub(crate) async fn send(
        &self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, FetchError> {
        let sent = match self {
            Self::Plain(client) => client.request(request).await,
            Self::Tls(client) => client.request(request).await,
        };
        sent.map_err(|error| {
            let mut text = error.to_string();
            let mut source = error.source();
            while let Some(error) = source {
                text = error.to_string();
                source = error.source();
            }
            FetchError::Exchange(text)
        })
    }
}

/// Reads a body to its end, of at most `max` bytes.
pub(crate) async fn read_body(body: Incoming, max: usize) -> Result<Bytes, FetchError> {
    let read = Limited::new(body, max).collect().await;
    let read = read.map_err(|_| FetchError::Body(max))?;
    Ok(read.to_bytes())
}
