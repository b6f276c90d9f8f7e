//! TLS of the listeners: certificates by name, read again when their files change, and the names in clients' certificates.
//!
//! [`Tls`] has the certificates in force. An [`Acceptor`] of it turns an accepted connection into a [`TlsStream`], within
//! bounds of time and bytes: a client that opens connections and sends nothing, or a hello without end, costs no more than
//! a connection. TLS is rustls on ring, versions 1.2 and 1.3.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use prometheus_client::registry::Registry;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

mod certificate;
mod challenge;
mod client_names;
mod error;
mod files;
mod handshake;
mod metrics;
mod names;
pub mod pinned;
mod server;

pub use certificate::{CertificateFiles, IssuedCertificate, KeySource};
pub use challenge::{ChallengeAnswer, Challenges};
pub use client_names::ClientNames;
pub use error::TlsError;
pub use handshake::{Acceptor, BoundedSocket, HandshakeError, TlsStream};

use metrics::Metrics;
use server::Server;
use tidegate_telemetry::locks::Recover as _;

/// The time between two looks at the files.
const WATCH_PERIOD: Duration = Duration::from_secs(5);

/// The certificates of the gateway, and the authority whose clients they admit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// The certificates. The first is for clients that name no server, or one that no certificate has.
    pub certificates: Vec<CertificateFiles>,
    /// The file with the certificates of the authorities that sign clients' certificates; `None`: clients are not asked
    /// for one.
    pub client_ca: Option<PathBuf>,
}

/// The listeners that differ in the protocols that they speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The public listeners: HTTP/2 and HTTP/1.1; clients are asked for a certificate if there is an authority.
    Public,
    /// The operator's listener: HTTP/1.1.
    Admin,
}

/// The certificates in force, which may be exchanged while connections are open. A connection keeps those that it began
/// with.
pub struct Tls {
    present: ArcSwap<Server>,
    /// The errors of the last look that may pass. Held while the certificates are exchanged.
    exchange: Mutex<BTreeSet<String>>,
    metrics: Metrics,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("settings", self.present.load().settings())
            .finish_non_exhaustive()
    }
}

/// Certificates that were read and fit their keys, ready to be put in force.
#[derive(Debug)]
pub struct PreparedCertificates(Server);

impl PreparedCertificates {
    /// Reads the certificates and keys, to be shown beside the answers to `challenges`. It reads files, and so may block.
    ///
    /// # Errors
    /// If a file cannot be read, has no certificate or key, or the two do not belong together.
    pub fn read(settings: TlsSettings, challenges: &Arc<Challenges>) -> Result<Self, TlsError> {
        Server::read(settings, challenges).map(Self)
    }
}

impl Tls {
    /// Puts the certificates in force.
    #[must_use]
    pub fn new(prepared: PreparedCertificates) -> Arc<Self> {
        let metrics = Metrics::default();
        metrics.set_expiries(&prepared.0);
        Arc::new(Self {
            present: ArcSwap::from_pointee(prepared.0),
            exchange: Mutex::default(),
            metrics,
        })
    }

    /// Registers the metrics in `registry`.
    pub fn register(&self, registry: &mut Registry) {
        self.metrics.register(registry);
    }

    /// Puts other certificates in force for connections from now on.
    pub fn replace(&self, prepared: PreparedCertificates) {
        let _held = self.exchange.lock().recover();
        self.metrics.set_expiries(&prepared.0);
        self.present.store(Arc::new(prepared.0));
    }

    /// Reads the files again that have changed. A certificate whose new files are broken, or cannot be read, stays as it
    /// was: that is logged and counted. What cannot be read is tried by each call, and told once for as long as the error
    /// is the same. It reads files, and so may block.
    pub fn refresh(&self) {
        let mut known = self.exchange.lock().recover();
        let present = self.present.load_full();
        let (server, results) = present.refresh();
        let before = std::mem::take(&mut *known);
        for result in &results {
            if let Err(error) = result
                && error.may_pass()
            {
                let text = error.to_string();
                let is_known = before.contains(&text);
                known.insert(text);
                if is_known {
                    continue;
                }
            }
            self.metrics.count_reload(result.is_ok());
            match result {
                Ok(path) => tracing::info!(path = %path.display(), "certificate read again"),
                Err(error) => {
                    tracing::error!(%error, "a certificate was not read again: the old one stays");
                }
            }
        }
        if let Some(server) = server {
            self.metrics.set_expiries(&server);
            self.present.store(Arc::new(server));
        }
    }

    /// Looks at the files every 5 s until `stop`, and reads those again that have changed.
    pub async fn watch(self: Arc<Self>, stop: CancellationToken) {
        let mut ticks = interval(WATCH_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let look = async {
            loop {
                ticks.tick().await;
                if self.present.load().is_empty() {
                    continue;
                }
                let own = self.clone();
                // One at a time, on a thread that may block: a file system that hangs keeps one thread, no more.
                let refreshed = tokio::task::spawn_blocking(move || own.refresh()).await;
                if let Err(error) = refreshed {
                    tracing::error!(%error, "the certificates were not looked at");
                }
            }
        };
        stop.run_until_cancelled(look).await;
    }

    /// Returns the answers to the challenges of an authority.
    #[must_use]
    pub fn challenges(&self) -> Arc<Challenges> {
        self.present.load().challenges().clone()
    }

    /// Returns an acceptor for the listeners of a side.
    #[must_use]
    pub fn acceptor(self: &Arc<Self>, side: Side) -> Acceptor {
        Acceptor::new(self.clone(), side)
    }
}

#[cfg(test)]
mod tests;
