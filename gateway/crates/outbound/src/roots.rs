//! The authorities that sign certificates of servers.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::ClientError;

/// The longest file of authorities.
const MAX_FILE: u64 = 4 << 20;

/// The place of the authorities that sign certificates of servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Roots {
    /// None: no server is asked over TLS.
    None,
    /// Those of the machine.
    System,
    /// Those of a file in PEM, and no others.
    File(PathBuf),
}

impl Roots {
    /// Returns those that servers of these schemes need: the machine's if one is `https`, else none.
    #[must_use]
    pub fn for_schemes<'s>(schemes: impl IntoIterator<Item = &'s str>) -> Self {
        match schemes.into_iter().any(|scheme| scheme == "https") {
            true => Self::System,
            false => Self::None,
        }
    }

    /// Reads the authorities, and forgets them.
    ///
    /// # Errors
    /// They cannot be read, or there are none.
    pub fn check(&self) -> Result<(), ClientError> {
        self.read().map(drop)
    }

    /// Reads the authorities.
    pub(crate) fn read(&self) -> Result<RootCertStore, ClientError> {
        match self {
            Self::None => Ok(RootCertStore::empty()),
            Self::System => system(),
            Self::File(path) => file(path),
        }
    }
}

fn system() -> Result<RootCertStore, ClientError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    match roots.add_parsable_certificates(found.certs) {
        (0, _) => Err(ClientError::Roots(match found.errors.first() {
            Some(error) => error.to_string(),
            None => "there are none".to_owned(),
        })),
        _ => Ok(roots),
    }
}

fn file(path: &Path) -> Result<RootCertStore, ClientError> {
    let mut pem = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE).read_to_end(&mut pem));
    read.map_err(|error| ClientError::File {
        path: path.to_owned(),
        error,
    })?;
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok);
    match roots.add_parsable_certificates(certificates) {
        (0, _) => Err(ClientError::Empty(path.to_owned())),
        _ => Ok(roots),
    }
}
