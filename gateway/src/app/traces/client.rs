//! The HTTP client of a collector.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::Full;

use tidegate_outbound::{Client, ClientSettings, Roots};
use tidegate_telemetry::trace::export::Collector;

/// The longest time of one request. Spans that come meanwhile wait, or are dropped.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The most bytes of an answer's body.
const MAX_ANSWER: usize = 32 << 10;

/// A collector that is reached by HTTP.
#[derive(Debug)]
pub(super) struct HttpCollector {
    client: Client,
    uri: Uri,
    headers: HeaderMap,
    /// Whether the last batch was not taken: the log has the first failure of several.
    fails: AtomicBool,
}

impl HttpCollector {
    /// Returns the collector at `uri`. One that is not encrypted needs no certificates of the machine.
    pub(super) fn new(uri: Uri, headers: HeaderMap) -> anyhow::Result<Self> {
        let client = Client::new(&ClientSettings {
            roots: Roots::for_schemes(uri.scheme_str()),
            max_idle: 1,
            ..ClientSettings::default()
        })?;
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
        // Read to its end, so that the connection serves the next batch.
        let answer = self.client.fetch(request, TIMEOUT, MAX_ANSWER).await;
        let answer = answer.map_err(|error| error.to_string())?;
        Ok(answer.status())
    }
}

impl Collector for HttpCollector {
    async fn deliver(&self, batch: Vec<u8>) -> bool {
        let failure = match self.send(batch).await {
            Ok(status) if status.is_success() => None,
            Ok(status) => Some(format!("the answer was {}", status.as_u16())),
            Err(error) => Some(error),
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
