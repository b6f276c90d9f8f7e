//! A real S3 without installation: s3s over a folder, on a loopback port of its own.
//!
//! The demo runs on it, and tests speak to it as to any bucket: over HTTP, signed. The folder keeps
//! the objects as plain files under `<folder>/media`, and beside them S3's record of each.
//! [`bucket`] corrects the gaps of s3s-fs; this module is the server around it.
//!
//! It is no origin for measurements: it reads in small pieces, through a thread pool.

mod bucket;
mod condition;
mod operations;
mod seal;

use std::fmt;
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use hyper::server::conn::http1::{Builder, Connection};
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::dto::StreamingBlob;
use s3s::service::{S3Service, S3ServiceBuilder};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

use bucket::Bucket;
use tidegate_origin::{Settings, settings};
use tidegate_plan::hex;

/// The time that connections have to end after a stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The one bucket of an embedded origin.
const BUCKET_NAME: &str = "media";

/// A running S3 origin. Dropping it stops it: it accepts no new connections, and those under way
/// may end within five seconds.
#[derive(Debug)]
pub struct EmbeddedOrigin {
    address: SocketAddr,
    credentials: Credentials,
    bucket: Arc<Bucket>,
    _stop: DropGuard,
}

/// The credentials of requests to an [`EmbeddedOrigin`]. They are made anew at each start, and
/// `Debug` hides them.
#[derive(Clone)]
pub struct Credentials {
    /// The access key id.
    pub access_key_id: String,
    /// The secret access key.
    pub secret_access_key: String,
}

/// The error of an embedded origin that does not start or refuses an object.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// The folder or the loopback port cannot be used.
    #[error("the embedded origin has no folder or port: {0}")]
    Io(io::Error),
    /// The object was refused.
    #[error("the embedded origin refused an object: {0}")]
    Refused(String),
}

impl From<io::Error> for EmbeddedError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl EmbeddedOrigin {
    /// Serves `folder`, which is created if it is missing and otherwise left as it is.
    ///
    /// # Errors
    /// The folder cannot be created or read, or no loopback port is free.
    pub async fn start(folder: &Path) -> Result<Self, EmbeddedError> {
        tokio::fs::create_dir_all(folder.join(BUCKET_NAME)).await?;
        let bucket = Arc::new(Bucket::open(folder)?);
        let credentials = Credentials::random()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let service = service(Arc::clone(&bucket), &credentials);
        let stop = CancellationToken::new();
        tokio::spawn(serve(listener, service, stop.clone()));
        Ok(Self {
            address,
            credentials,
            bucket,
            _stop: stop.drop_guard(),
        })
    }

    /// Returns its endpoint in the form for S3 clients: `http://127.0.0.1:PORT`. Buckets are
    /// addressed by path.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the credentials that requests must be signed with.
    #[must_use]
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Returns the settings of an origin named `name` over it.
    #[must_use]
    pub fn settings(&self, name: &str) -> Settings {
        let mut settings = Settings::new(name, BUCKET_NAME);
        settings.endpoint = Some(self.endpoint());
        settings.path_style = true;
        settings.credentials = settings::Credentials::Static {
            access_key_id: self.credentials.access_key_id.clone(),
            secret_access_key: self.credentials.secret_access_key.clone(),
            session_token: None,
        };
        settings
    }

    /// Returns the bucket's name.
    #[must_use]
    pub fn bucket(&self) -> &'static str {
        BUCKET_NAME
    }

    /// Returns whether the bucket has an object of this key.
    #[must_use]
    pub async fn has(&self, key: &str) -> bool {
        self.bucket.has(BUCKET_NAME, key).await
    }

    /// Puts an object without HTTP. It appears whole or not at all.
    ///
    /// # Errors
    /// The body or the disk fails, or no folder can hold the key.
    pub async fn put(
        &self,
        key: &str,
        content_type: &str,
        body: impl Stream<Item = io::Result<Bytes>> + Send + Sync + 'static,
    ) -> Result<(), EmbeddedError> {
        Arc::clone(&self.bucket)
            .store(BUCKET_NAME, key, content_type, StreamingBlob::wrap(body))
            .await
            .map_err(|error| EmbeddedError::Refused(error.to_string()))
    }
}

impl Credentials {
    fn random() -> io::Result<Self> {
        Ok(Self {
            access_key_id: random_hex::<10>()?,
            secret_access_key: random_hex::<20>()?,
        })
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(…)")
    }
}

/// Returns `N` bytes from the system's random source, in hexadecimal.
pub(crate) fn random_hex<const N: usize>() -> io::Result<String> {
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(hex(&bytes))
}

fn service(bucket: Arc<Bucket>, credentials: &Credentials) -> S3Service {
    let mut builder = S3ServiceBuilder::new(operations::BucketService(bucket));
    builder.set_auth(SimpleAuth::from_single(
        credentials.access_key_id.as_str(),
        credentials.secret_access_key.as_str(),
    ));
    builder.build()
}

async fn serve(listener: TcpListener, service: S3Service, stop: CancellationToken) {
    let http = Builder::new();
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((socket, _)) => {
                let connection = http.serve_connection(TokioIo::new(socket), service.clone());
                tokio::spawn(finish(connection, stop.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "the embedded origin cannot accept a connection");
                // The process is out of descriptors: without a pause this loop would spin until
                // some are free.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Serves one connection until it ends, or until it has shut down gracefully after the stop.
async fn finish(connection: Connection<TokioIo<TcpStream>, S3Service>, stop: CancellationToken) {
    let mut connection = std::pin::pin!(connection);
    // The result of a connection matters only to its client.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = tokio::time::timeout(STOP_TIMEOUT, connection).await;
}
