//! The certificates of the configuration: read at the start and by `tidegate check`, watched while it serves, and ordered
//! from an authority.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use tidegate_acme::{Acme, AcmeSettings, ExternalAccount, PreparedAcme};
use tidegate_config::{Certificate, Config, Environment, SecretError};
use tidegate_socket::Listener;
use tidegate_tls::{
    CertificateFiles, Challenges, KeySource, PreparedCertificates, Side, Tls, TlsSettings,
};

/// Returns the settings of TLS.
///
/// # Errors
/// If the key of a certificate stands in a variable that is not set.
fn settings(config: &Config, env: &Environment) -> Result<TlsSettings, SecretError> {
    let files = |certificate: &Certificate| {
        let key = match certificate.key.path(env)? {
            Some(path) => KeySource::File(path),
            None => KeySource::Pem(certificate.key.resolve(env)?),
        };
        let certificate = certificate.certificate.clone();
        Ok(CertificateFiles {
            certificate,
            key,
            is_awaited: false,
        })
    };
    let certificates = config.tls.certificates.iter().map(files);
    let mut certificates = certificates.collect::<Result<Vec<_>, _>>()?;
    certificates.extend(issued(config));
    Ok(TlsSettings {
        certificates,
        client_ca: config.tls.client_ca.clone(),
    })
}

/// Returns the files of the certificates that a listener may show. One that an authority has yet to issue is shown by none.
pub(crate) fn shown(config: &Config) -> Vec<PathBuf> {
    let own = config.tls.certificates.iter();
    let own = own.map(|one| one.certificate.clone());
    let issued = issued(config).into_iter().map(|one| one.certificate);
    own.chain(issued.filter(|path| path.exists())).collect()
}

/// Returns the certificates that an authority issues.
fn issued(config: &Config) -> Vec<CertificateFiles> {
    let settings = acme_settings(config);
    settings.map_or_else(Vec::new, |settings| settings.certificates())
}

/// Returns the account that the authority has made for the operator, with its key read.
fn external_account(config: &Config, env: &Environment) -> anyhow::Result<Option<ExternalAccount>> {
    let acme = config.tls.acme.as_ref();
    let account = acme.and_then(|acme| acme.external_account.as_ref());
    let read = |account: &tidegate_config::ExternalAccount| {
        let key = account.key.resolve(env)?;
        anyhow::Ok(ExternalAccount::new(&account.key_id, &key)?)
    };
    account.map(read).transpose()
}

/// Returns what an authority issues certificates for, without the external account; `None` if the configuration has none.
fn acme_settings(config: &Config) -> Option<AcmeSettings> {
    let acme = config.tls.acme.as_ref()?;
    Some(AcmeSettings {
        directory: acme.directory.clone(),
        directory_ca: acme.directory_ca.clone(),
        contact: acme.contact.clone(),
        external_account: None,
        names: acme.names.clone(),
        folder: config.acme_path()?,
    })
}

/// The parts of a configuration's TLS: the certificates, and the orders of others.
#[derive(Debug)]
pub(crate) struct PreparedTls {
    certificates: PreparedCertificates,
    acme: Option<PreparedAcme>,
}

impl PreparedTls {
    /// Reads the certificates of a configuration, to be shown beside the answers to `challenges`.
    ///
    /// # Errors
    /// If one cannot be read, or does not fit its key, or a directory cannot be verified.
    pub(crate) fn read(
        config: &Config,
        env: &Environment,
        challenges: &Arc<Challenges>,
    ) -> anyhow::Result<Self> {
        let settings = settings(config, env).context("`tls.certificates`")?;
        let certificates = PreparedCertificates::read(settings, challenges).context("`tls`")?;
        let external_account =
            external_account(config, env).context("`tls.acme.external_account`")?;
        let settings = acme_settings(config).map(|settings| AcmeSettings {
            external_account,
            ..settings
        });
        let acme = settings.map(PreparedAcme::new);
        Ok(Self {
            certificates,
            acme: acme.transpose().context("`tls.acme`")?,
        })
    }

    fn encrypt(
        self,
        config: &Config,
        http: &mut [Listener],
        admin: &mut Listener,
    ) -> (Arc<Tls>, Option<PreparedAcme>) {
        let tls = Tls::new(self.certificates);
        let public = http.iter_mut().zip(&config.http.listen.0);
        for (listener, _) in public.filter(|(_, one)| one.tls) {
            listener.set_tls(tls.acceptor(Side::Public));
        }
        if config.admin.listen.tls {
            admin.set_tls(tls.acceptor(Side::Admin));
        }
        (tls, self.acme)
    }
}

/// Reads the certificates, and encrypts the listeners that the configuration says: `http` in its order, and `admin`. Returns
/// what is left to start.
///
/// # Errors
/// As [`PreparedTls::read`].
pub(crate) fn encrypt(
    config: &Config,
    env: &Environment,
    http: &mut [Listener],
    admin: &mut Listener,
) -> anyhow::Result<(Arc<Tls>, Option<PreparedAcme>)> {
    let prepared = PreparedTls::read(config, env, &Arc::default())?;
    Ok(prepared.encrypt(config, http, admin))
}

/// The TLS of a process: its certificates, and the orders of others. It is there without any listener that needs it, so that
/// a reload can add the first one.
#[derive(Debug)]
pub(crate) struct RunningTls {
    tls: Arc<Tls>,
    acme: Acme,
}

impl RunningTls {
    /// Registers the metrics, and watches files and orders certificates until `stop`.
    pub(crate) fn start(
        (tls, acme): (Arc<Tls>, Option<PreparedAcme>),
        registry: &mut Registry,
        stop: CancellationToken,
    ) -> Self {
        let acme = Acme::start(acme, tls.clone(), stop.clone());
        tls.register(registry);
        acme.register(registry);
        tokio::spawn(tls.clone().watch(stop));
        Self { tls, acme }
    }

    /// Returns the certificates in force.
    pub(crate) fn tls(&self) -> &Arc<Tls> {
        &self.tls
    }

    /// Puts others in force.
    pub(crate) fn replace(&self, prepared: PreparedTls) {
        self.tls.replace(prepared.certificates);
        self.acme.replace(prepared.acme);
    }
}
