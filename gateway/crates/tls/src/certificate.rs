//! A certificate with its chain and its key, from files in PEM.

use std::fmt;
use std::path::{Path, PathBuf};
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
    /// Whether an authority has yet to issue it, so that missing or broken files are no error: it is not shown until they
    /// can be read.
    pub is_awaited: bool,
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
    pub(crate) certified: Arc<CertifiedKey>,
    /// The names of servers that it is for, in lower case; `*.` at the beginning stands for one label.
    pub(crate) names: Vec<String>,
    /// The times when it begins and ends, in seconds since 1970.
    pub(crate) validity: (i64, i64),
}

/// The names and times of a certificate that was issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedCertificate {
    /// The names of servers, in lower case.
    pub names: Vec<String>,
    /// The time when it begins, in seconds since 1970.
    pub begin: i64,
    /// The time when it ends, in seconds since 1970.
    pub end: i64,
}

impl IssuedCertificate {
    /// Reads a file that has a certificate with its chain, and its key.
    ///
    /// # Errors
    /// If the file cannot be read, or listeners could not show what it has.
    pub fn read(path: &Path) -> Result<Self, TlsError> {
        Self::parse(path, &files::read(path)?)
    }

    /// Reads the content of such a file; errors name `path`.
    ///
    /// # Errors
    /// If listeners could not show it.
    pub fn parse(path: &Path, pem: &[u8]) -> Result<Self, TlsError> {
        let provider = rustls::crypto::ring::default_provider();
        let read = Certificate::parse(path, (pem, pem), &provider)?;
        let (begin, end) = read.validity;
        Ok(Self {
            names: read.names,
            begin,
            end,
        })
    }
}

impl Certificate {
    /// Reads a certificate and its key.
    pub(crate) fn read(
        files: &CertificateFiles,
        provider: &CryptoProvider,
    ) -> Result<Self, TlsError> {
        let path = &files.certificate;
        let chain = files::read(path)?;
        let key = match &files.key {
            KeySource::Pem(text) => text.as_bytes().to_vec(),
            KeySource::File(path) => files::read(path)?,
        };
        Self::parse(path, (&chain, &key), provider)
    }

    /// Reads a chain and a key in PEM; errors name `path`.
    fn parse(
        path: &Path,
        (chain, key): (&[u8], &[u8]),
        provider: &CryptoProvider,
    ) -> Result<Self, TlsError> {
        let unreadable = || TlsError::Certificate(path.to_owned());
        let chain = parse_chain(path, chain)?;
        let first = chain.first().ok_or_else(unreadable)?;
        let (_, parsed) = X509Certificate::from_der(first).map_err(|_| unreadable())?;
        let names = server_names(&parsed);
        let times = parsed.validity();
        let validity = (times.not_before.timestamp(), times.not_after.timestamp());
        let unusable = || TlsError::Key(path.to_owned());
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| unusable())?;
        let key = provider.key_provider.load_private_key(key);
        let certified = CertifiedKey::new(chain, key.map_err(|_| unusable())?);
        certified
            .keys_match()
            .map_err(|_| TlsError::Mismatch(path.to_owned()))?;
        Ok(Self {
            certified: Arc::new(certified),
            names,
            validity,
        })
    }
}

/// A certificate of the settings: its files, and what was read of them.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    pub(crate) files: CertificateFiles,
    /// The stamps of its files before they were read.
    stamps: [Option<FileStamp>; 2],
    /// `None`: it is awaited.
    pub(crate) certificate: Option<Certificate>,
}

impl Slot {
    /// Reads the files for the first time.
    pub(crate) fn read(
        files: &CertificateFiles,
        provider: &CryptoProvider,
    ) -> Result<Self, TlsError> {
        // Before the files are read: a change in between is seen by the next look.
        let mut stamps = files.stamps();
        let certificate = match Certificate::read(files, provider) {
            Ok(read) => Some(read),
            Err(error) if files.is_awaited => {
                tracing::debug!(%error, "a certificate is awaited");
                if error.may_pass() {
                    stamps = [None, None];
                }
                None
            }
            Err(error) => return Err(error),
        };
        Ok(Self {
            files: files.clone(),
            stamps,
            certificate,
        })
    }

    /// Reads the files again if they have changed; what cannot be read leaves the certificate as it was. Returns the result
    /// if they were read.
    pub(crate) fn refresh(
        &self,
        provider: &CryptoProvider,
    ) -> (Self, Option<Result<PathBuf, TlsError>>) {
        let stamps = self.files.stamps();
        if stamps == self.stamps {
            return (self.clone(), None);
        }
        let read = Certificate::read(&self.files, provider);
        let path = self.files.certificate.clone();
        let (result, certificate) = match read {
            Ok(new) => (Ok(path), Some(new)),
            // The next look finds other stamps still, and reads again.
            Err(error) if error.may_pass() => return (self.clone(), Some(Err(error))),
            // Broken files are not read again before they change once more.
            Err(error) => (Err(error), self.certificate.clone()),
        };
        let slot = Self {
            files: self.files.clone(),
            stamps,
            certificate,
        };
        (slot, Some(result))
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
pub(crate) fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    parse_chain(path, &files::read(path)?)
}

fn parse_chain(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
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
