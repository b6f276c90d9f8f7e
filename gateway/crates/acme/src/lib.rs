//! Certificates that an authority issues and renews by itself (ACME, RFC 8555).
//!
//! [`Acme`] has one task. It orders a certificate for each name, proves that the name leads here by TLS-ALPN-01 (RFC 8737)
//! on the listeners that stand, and puts certificate and key into one file of its folder, which [`Tls`] shows. It orders the
//! next one at two thirds of a certificate's lifetime. A failure leaves the certificate that is there, and is tried again
//! after a time that doubles: the directory is never asked in a hurry, also by a process that is started again and again.
//!
//! Keys are made here, and lie in the folder with mode 0600. They are in no log, no error and no request. ADR 0047 has the
//! reasons.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

mod directory;
mod external_account;
mod failure;
mod files;
mod metrics;
mod schedule;
mod transport;
mod worker;

use directory::{AcmeDirectory, Directory};
pub use external_account::{ExternalAccount, ExternalKeyError};
use files::Files;
use metrics::Metrics;
use tidegate_outbound::{Addresses, Client, ClientError, ClientSettings, Roots};
use tidegate_tls::{CertificateFiles, KeySource, Tls};
use worker::Worker;

/// The time within which a connection to the directory stands.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The names that get a certificate, and the authority that issues them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeSettings {
    /// The URL of the authority's directory, `https://`.
    pub directory: String,
    /// The file with the authorities that sign the directory's own certificate; `None`: those of the machine.
    pub directory_ca: Option<PathBuf>,
    /// The URLs under which the authority reaches the operator, as `mailto:admin@example.org`.
    pub contact: Vec<String>,
    /// The account that the authority has made for the operator, if it wants one.
    pub external_account: Option<ExternalAccount>,
    /// The names of servers, in lower case; each gets a certificate of its own.
    pub names: Vec<String>,
    /// The folder for keys and certificates.
    pub folder: PathBuf,
}

impl AcmeSettings {
    /// Returns the files of the certificates, which may not be there yet.
    #[must_use]
    pub fn certificates(&self) -> Vec<CertificateFiles> {
        let files = Files::new(self);
        let names = self.names.iter();
        let one = |name: &String| {
            let path = files.certificate(name);
            CertificateFiles {
                certificate: path.clone(),
                key: KeySource::File(path),
                is_awaited: true,
            }
        };
        names.map(one).collect()
    }
}

/// Settings that can be put in force: their directory can be asked.
#[derive(Clone)]
pub struct PreparedAcme {
    settings: AcmeSettings,
    directory: Arc<dyn Directory>,
}

impl fmt::Debug for PreparedAcme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}

impl PreparedAcme {
    /// Prepares to ask a directory. It reads the authorities, and so may block.
    ///
    /// # Errors
    /// There are no certificates to verify the directory with.
    pub fn new(settings: AcmeSettings) -> Result<Self, ClientError> {
        let (roots, addresses) = match &settings.directory_ca {
            // An authority of the operator's own, which may stand beside the gateway.
            Some(path) => (Roots::File(path.clone()), Addresses::Any),
            // Its answers name the URLs that are asked next: none of them leads inward.
            None => (Roots::System, Addresses::Outward),
        };
        let client = Client::new(&ClientSettings {
            roots,
            addresses,
            https_only: true,
            connect: CONNECT_TIMEOUT,
            max_idle: 1,
            ..ClientSettings::default()
        })?;
        let directory = AcmeDirectory::new(&settings, client);
        Ok(Self {
            settings,
            directory: Arc::new(directory),
        })
    }
}

/// The time of day.
type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// The task that keeps the certificates of a process.
#[derive(Debug)]
pub struct Acme {
    present: watch::Sender<Option<PreparedAcme>>,
    metrics: Metrics,
}

impl Acme {
    /// Starts the task, which ends with `stop`. Certificates are shown by `tls`, whose settings name their files.
    #[must_use]
    pub fn start(prepared: Option<PreparedAcme>, tls: Arc<Tls>, stop: CancellationToken) -> Self {
        let (present, settings) = watch::channel(prepared);
        let metrics = Metrics::default();
        let worker = Worker {
            tls,
            metrics: metrics.clone(),
            clock: Arc::new(SystemTime::now),
        };
        tokio::spawn(async move {
            stop.run_until_cancelled(worker.run(settings)).await;
        });
        Self { present, metrics }
    }

    /// Registers the metrics in `registry`.
    pub fn register(&self, registry: &mut Registry) {
        self.metrics.register(registry);
    }

    /// Puts other settings in force; `None`: no certificate is ordered. An order under way is given up, failures before are
    /// forgotten, and what is missing is ordered at once. If the settings are the same, only the next order differs: it
    /// verifies the directory with the authorities that were read last.
    pub fn replace(&self, prepared: Option<PreparedAcme>) {
        self.present.send_if_modified(|present| {
            let settings =
                |one: &Option<PreparedAcme>| one.as_ref().map(|one| one.settings.clone());
            let is_other = settings(present) != settings(&prepared);
            *present = prepared;
            is_other
        });
    }
}

#[cfg(test)]
mod tests;
