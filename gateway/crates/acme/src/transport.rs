//! The way to a directory: bounded requests, and the time for which it asks to be left alone.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};

use tidegate_outbound::Client;
use tidegate_plan::retry::retry_after;
use tidegate_telemetry::locks::Recover as _;

/// The time of one request, to the last byte of its answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest answer: a chain of certificates has some thousand bytes.
const MAX_ANSWER: usize = 256 << 10;

/// The requests of one order.
#[derive(Debug, Clone)]
pub(crate) struct Transport {
    client: Client,
    asked: Arc<Mutex<Option<Duration>>>,
}

impl Transport {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            asked: Arc::default(),
        }
    }

    /// Returns the time for which the directory asked to be left alone, if it did.
    pub(crate) fn asked(&self) -> Option<Duration> {
        *self.asked.lock().recover()
    }
}

impl HttpClient for Transport {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let own = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = match body.collect().await {
                Ok(body) => body.to_bytes(),
                Err(never) => match never {},
            };
            let request = Request::from_parts(head, Full::new(body));
            let answer = own.client.fetch(request, REQUEST_TIMEOUT, MAX_ANSWER).await;
            let answer = answer.map_err(|error| Error::Other(Box::new(error)))?;
            let status = answer.status();
            let is_busy = [
                StatusCode::TOO_MANY_REQUESTS,
                StatusCode::SERVICE_UNAVAILABLE,
            ]
            .contains(&status);
            if is_busy {
                let asked = retry_after(answer.headers(), SystemTime::now().into());
                // A directory that is busy and asks for no time has not asked.
                let asked = asked.filter(|asked| !asked.is_zero());
                let mut kept = own.asked.lock().recover();
                *kept = asked.or(*kept);
            }
            // Anything but a problem, which says why, is the page of a proxy.
            if !status.is_success() && !is_problem(answer.headers()) {
                let text = format!("the directory answered {status}");
                return Err(Error::Other(text.into()));
            }
            Ok(BytesResponse::from(answer.map(Full::new)))
        })
    }
}

fn is_problem(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/problem+json"))
}
