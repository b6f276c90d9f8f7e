//! A certificate with its chain and its key, from files in PEM.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use crate::TlsError;
use crate::files::{self, FileStamp};

/// The files of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, and behind it those of the authorities between it and the root, in PEM.
    pub certificate: PathBuf,
    /// Its key.
    pub key: KeySource,
}

/// The place of a private key. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub enum KeySource {
    /// The key itself, in PEM.
    Pem(String),
    /// The path of its file.
    File(PathBuf),
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[key]")
    }
}

/// A certificate that was read.
#[derive(Debug, Clone)]
pub(crate) struct Certificate {
    pub(crate) files: CertificateFiles,
    /// The stamps of its files before they were read.
    pub(crate) stamps: [Option<FileStamp>; 2],
    pub(crate) certified: Arc<CertifiedKey>,
    /// The names of servers that it is for, in lower case; `*.` at the beginning stands for one label.
    pub(crate) names: Vec<String>,
    /// The time when it ends, in seconds since 1970.
    pub(crate) expiry: i64,
}

impl Certificate {
    /// Reads a certificate and its key.
    pub(crate) fn read(
        files: &CertificateFiles,
        provider: &CryptoProvider,
    ) -> Result<Self, TlsError> {
        // Before the files are read: a change in between is seen by the next look.
        let stamps = files.stamps();
        let path = &files.certificate;
        let unreadable = || TlsError::Certificate(path.clone());
        let chain = read_chain(path)?;
        let first = chain.first().ok_or_else(unreadable)?;
        let (_, parsed) = X509Certificate::from_der(first).map_err(|_| unreadable())?;
        let (names, expiry) = (
            server_names(&parsed),
            parsed.validity().not_after.timestamp(),
        );
        let key = match &files.key {
            KeySource::Pem(text) => text.as_bytes().to_vec(),
            KeySource::File(path) => files::read(path)?,
        };
        let unusable = |_| TlsError::Key(path.clone());
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(unusable)?;
        let key = provider.key_provider.load_private_key(key);
        let certified = CertifiedKey::new(chain, key.map_err(|_| TlsError::Key(path.clone()))?);
        certified
            .keys_match()
            .map_err(|_| TlsError::Mismatch(path.clone()))?;
        Ok(Self {
            files: files.clone(),
            stamps,
            certified: Arc::new(certified),
            names,
            expiry,
        })
    }
}

impl CertificateFiles {
    /// Returns the stamps of the files as they are now.
    pub(crate) fn stamps(&self) -> [Option<FileStamp>; 2] {
        let key = match &self.key {
            KeySource::Pem(_) => None,
            KeySource::File(path) => FileStamp::of(path),
        };
        [FileStamp::of(&self.certificate), key]
    }
}

/// Reads the certificates of a file, in their order.
pub(crate) fn read_chain(path: &std::path::Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = files::read(path)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    chain.map_err(|_| TlsError::Certificate(path.to_owned()))
}

/// Returns the DNS names of a certificate's subject.
fn server_names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let extension = certificate.subject_alternative_name().ok().flatten();
    let names = extension
        .iter()
        .flat_map(|found| &found.value.general_names);
    let of_servers = names.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        _ => None,
    });
    of_servers.collect()
}
