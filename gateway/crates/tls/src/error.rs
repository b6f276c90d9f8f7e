//! Errors of certificates and keys. None of them shows a part of a file.

use std::io;
use std::path::PathBuf;

/// The reason why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// A file has no certificate, or one that cannot be read.
    #[error("{0} has no certificate in PEM that can be read")]
    Certificate(PathBuf),
    /// The certificate is there, and the key is none.
    #[error("the key of {0} is no private key in PEM that can be used: RSA, ECDSA and Ed25519 can")]
    Key(PathBuf),
    /// Each of the two can be read, and they do not belong together.
    #[error("the key of {0} is that of another certificate")]
    Mismatch(PathBuf),
    /// The authority for clients cannot be used.
    #[error("{0} has no certificate of an authority that can be used")]
    ClientCa(PathBuf),
    /// A part of the TLS library does not start.
    #[error("TLS cannot start: {0}")]
    Library(rustls::Error),
}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> Self {
        Self::Library(error)
    }
}

impl TlsError {
    /// Returns whether the same files may be read later: the error is that of the operating system, not of what they have.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::File { .. })
    }
}
