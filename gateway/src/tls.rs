//! The certificates of the configuration: read at the start and by `tidegate check`, and watched while it serves.

use std::sync::Arc;

use anyhow::Context as _;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use tidegate_config::{Certificate, Config, Environment, SecretError};
use tidegate_socket::Listener;
use tidegate_tls::{CertificateFiles, KeySource, Prepared, Side, Tls, TlsSettings};

/// Returns the settings of TLS.
///
/// # Errors
/// If the key of a certificate stands in a variable that is not set.
pub(crate) fn settings(config: &Config, env: &Environment) -> Result<TlsSettings, SecretError> {
    let files = |certificate: &Certificate| {
        let key = match certificate.key.path(env)? {
            Some(path) => KeySource::File(path),
            None => KeySource::Pem(certificate.key.resolve(env)?),
        };
        let certificate = certificate.certificate.clone();
        Ok(CertificateFiles { certificate, key })
    };
    let certificates = config.tls.certificates.iter().map(files);
    Ok(TlsSettings {
        certificates: certificates.collect::<Result<_, _>>()?,
        client_ca: config.tls.client_ca.clone(),
    })
}

/// Reads the certificates of a configuration; `None` if it has none.
///
/// # Errors
/// If one cannot be read, or does not fit its key.
pub(crate) fn prepare(config: &Config, env: &Environment) -> anyhow::Result<Option<Prepared>> {
    if config.tls.certificates.is_empty() {
        return Ok(None);
    }
    let settings = settings(config, env).context("`tls.certificates`")?;
    let prepared = Prepared::read(settings).context("`tls`")?;
    Ok(Some(prepared))
}

/// Encrypts the listeners that the configuration says: `http` in its order, and `admin`. Returns the certificates; `None`
/// if there are none.
///
/// # Errors
/// If a certificate cannot be read, or does not fit its key.
pub(crate) fn encrypt(
    config: &Config,
    env: &Environment,
    http: &mut [Listener],
    admin: &mut Listener,
) -> anyhow::Result<Option<Arc<Tls>>> {
    let Some(prepared) = prepare(config, env)? else {
        return Ok(None);
    };
    let tls = Tls::new(prepared);
    let public = http.iter_mut().zip(&config.http.listen.0);
    for (listener, _) in public.filter(|(_, one)| one.tls) {
        listener.set_tls(tls.acceptor(Side::Public));
    }
    if config.admin.listen.tls {
        admin.set_tls(tls.acceptor(Side::Admin));
    }
    Ok(Some(tls))
}

/// Registers the metrics, and looks at the files until `stop`, if a listener has TLS.
pub(crate) fn watch(tls: Option<&Arc<Tls>>, registry: &mut Registry, stop: CancellationToken) {
    if let Some(tls) = tls {
        tls.register(registry);
        tokio::spawn(tls.clone().watch(stop));
    }
}
