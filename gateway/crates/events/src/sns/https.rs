//! Fetches one document of AWS by HTTPS: bounded size and time.

use std::time::Duration;

use bytes::Bytes;
use futures_core::future::BoxFuture;
use http::{Request, StatusCode};
use http_body_util::Full;

use super::{AwsUrl, Fetch, FetchError};
use tidegate_outbound::{Client, ClientSettings, Roots};

/// The whole fetch ends within this time.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest document: a certificate has two thousand bytes, a confirmation less.
const MAX_DOCUMENT: usize = 64 << 10;

/// A client that trusts the authorities of the system.
#[derive(Debug, Clone)]
pub struct HttpsClient(Client);

impl HttpsClient {
    /// Reads the authorities of the system, which may block.
    ///
    /// # Errors
    /// There is none.
    pub fn new() -> Result<Self, FetchError> {
        Self::with(ClientSettings {
            roots: Roots::System,
            ..ClientSettings::default()
        })
    }

    fn with(settings: ClientSettings) -> Result<Self, FetchError> {
        let client = Client::new(&ClientSettings {
            https_only: true,
            ..settings
        });
        client.map(Self).map_err(failed)
    }

    async fn get(&self, url: &AwsUrl) -> Result<Bytes, FetchError> {
        let request = Request::get(format!("https://{}{}", url.host(), url.target()));
        let request = request.body(Full::default()).map_err(failed)?;
        let answer = self.0.fetch(request, FETCH_TIMEOUT, MAX_DOCUMENT).await;
        let answer = answer.map_err(failed)?;
        match answer.status() {
            StatusCode::OK => Ok(answer.into_body()),
            status => Err(FetchError(format!("the answer is {status}"))),
        }
    }
}

fn failed(error: impl std::fmt::Display) -> FetchError {
    FetchError(error.to_string())
}

impl Fetch for HttpsClient {
    fn fetch<'a>(&'a self, url: &'a AwsUrl) -> BoxFuture<'a, Result<Bytes, FetchError>> {
        Box::pin(self.get(url))
    }
}

#[cfg(test)]
mod tests;
