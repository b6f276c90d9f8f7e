//! Fetches one document by HTTPS, on a connection of its own: no redirects, bounded size and time.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_core::future::BoxFuture;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::{AwsUrl, Fetch, FetchError};

/// The whole fetch ends within this time.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest document: a certificate has two thousand bytes, a confirmation less.
const MAX_DOCUMENT: usize = 64 << 10;

const HTTPS_PORT: u16 = 443;

/// A client that trusts the authorities of the system.
#[derive(Clone)]
pub struct HttpsClient {
    tls: TlsConnector,
    /// The address that every host has; tests name their own server.
    address: Option<std::net::SocketAddr>,
}

impl std::fmt::Debug for HttpsClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpsClient").finish_non_exhaustive()
    }
}

impl HttpsClient {
    /// Reads the authorities of the system, which may block.
    ///
    /// # Errors
    /// There is none.
    pub fn new() -> Result<Self, FetchError> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(found.certs);
        match added {
            0 => Err(FetchError("the system has no certificates".to_owned())),
            _ => Self::trusting(roots, None),
        }
    }

    fn trusting(
        roots: RootCertStore,
        address: Option<std::net::SocketAddr>,
    ) -> Result<Self, FetchError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            tls: TlsConnector::from(Arc::new(config)),
            address,
        })
    }

    async fn get(&self, url: &AwsUrl) -> Result<Bytes, FetchError> {
        let stream = match self.address {
            Some(address) => TcpStream::connect(address).await,
            None => TcpStream::connect((url.host(), HTTPS_PORT)).await,
        };
        let name = ServerName::try_from(url.host().to_owned()).map_err(failed)?;
        let stream = self.tls.connect(name, stream.map_err(failed)?).await;
        let io = TokioIo::new(stream.map_err(failed)?);
        let (mut sender, connection) = http1::handshake(io).await.map_err(failed)?;
        let request = Request::get(url.target())
            .header(header::HOST, url.host())
            .header(header::CONNECTION, "close")
            .body(Empty::<Bytes>::new())
            .map_err(failed)?;
        let answer = async {
            let answer = sender.send_request(request).await.map_err(failed)?;
            if answer.status() != StatusCode::OK {
                return Err(FetchError(format!("the answer is {}", answer.status())));
            }
            let body = Limited::new(answer.into_body(), MAX_DOCUMENT)
                .collect()
                .await;
            let body = body.map_err(|error| FetchError(error.to_string()))?;
            Ok(body.to_bytes())
        };
        let mut connection = std::pin::pin!(connection);
        let mut answer = std::pin::pin!(answer);
        tokio::select! {
            answer = answer.as_mut() => answer,
            ended = connection.as_mut() => {
                ended.map_err(failed)?;
                answer.await
            }
        }
    }
}

fn failed(error: impl std::fmt::Display) -> FetchError {
    FetchError(error.to_string())
}

impl Fetch for HttpsClient {
    fn fetch<'a>(&'a self, url: &'a AwsUrl) -> BoxFuture<'a, Result<Bytes, FetchError>> {
        Box::pin(async move {
            let fetched = timeout(FETCH_TIMEOUT, self.get(url)).await;
            fetched.unwrap_or_else(|_| Err(FetchError("no answer came in time".to_owned())))
        })
    }
}

#[cfg(test)]
mod tests;
