//! The HTTP client of a collector.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::time::timeout;

use tidegate_telemetry::trace::export::Collector;

/// The longest time of one request. Spans that come meanwhile wait, or are dropped.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The most bytes of an answer's head, and of its body.
const MAX_ANSWER: usize = 32 << 10;

type Body = Full<Bytes>;

#[derive(Debug)]
enum HttpClient {
    Plain(Client<HttpConnector, Body>),
    Tls(Client<HttpsConnector<HttpConnector>, Body>),
}

/// A collector that is reached by HTTP.
#[derive(Debug)]
pub(super) struct HttpCollector {
    client: HttpClient,
    uri: Uri,
    headers: HeaderMap,
    /// Whether the last batch was not taken: the log has the first failure of several.
    fails: AtomicBool,
}

impl HttpCollector {
    /// Returns the collector at `uri`. One that is not encrypted needs no certificates of the machine.
    pub(super) fn new(uri: Uri, headers: HeaderMap) -> anyhow::Result<Self> {
        let mut builder = Client::builder(TokioExecutor::new());
        builder
            .http1_max_buf_size(MAX_ANSWER)
            .pool_max_idle_per_host(1);
        let client = match uri.scheme_str() {
            Some("https") => {
                let connector = HttpsConnectorBuilder::new().with_native_roots();
                let connector = connector.context("the certificates of this machine")?;
                HttpClient::Tls(builder.build(connector.https_only().enable_http1().build()))
            }
            _ => HttpClient::Plain(builder.build_http()),
        };
        Ok(Self {
            client,
            uri,
            headers,
            fails: AtomicBool::new(false),
        })
    }

    async fn send(&self, batch: Vec<u8>) -> Result<StatusCode, String> {
        let mut request = Request::new(Full::from(batch));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        request.headers_mut().clone_from(&self.headers);
        let protobuf = HeaderValue::from_static("application/x-protobuf");
        request.headers_mut().insert(CONTENT_TYPE, protobuf);
        let answer = match &self.client {
            HttpClient::Plain(client) => client.request(request).await,
            HttpClient::Tls(client) => client.request(request).await,
        };
        let answer = answer.map_err(|error| error.to_string())?;
        let status = answer.status();
        // Read to its end, so that the connection serves the next batch.
        drain(answer.into_body()).await;
        Ok(status)
    }
}

async fn drain(body: Incoming) {
    let _ = Limited::new(body, MAX_ANSWER).collect().await;
}

impl Collector for HttpCollector {
    async fn deliver(&self, batch: Vec<u8>) -> bool {
        let sent = timeout(TIMEOUT, self.send(batch)).await;
        let failure = match sent {
            Ok(Ok(status)) if status.is_success() => None,
            Ok(Ok(status)) => Some(format!("the answer was {}", status.as_u16())),
            Ok(Err(error)) => Some(error),
            Err(_) => Some(format!("no answer within {TIMEOUT:?}")),
        };
        let failed_before = self.fails.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(reason) if !failed_before => {
                tracing::warn!(
                    reason,
                    "the collector of traces takes no spans; they are dropped"
                );
                false
            }
            Some(_) => false,
            None => true,
        }
    }
}
