//! The reasons why there is no client, or no answer. None of them shows a URL, a header or a body.

use std::io;
use std::path::PathBuf;

/// The error of a client that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The machine has no certificates to verify servers with.
    #[error("the certificates of this machine cannot be read: {0}")]
    Roots(String),
    /// A file of authorities cannot be read.
    #[error("cannot read {path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// A file has no authority.
    #[error("{0} has no certificate in PEM that can be used")]
    Empty(PathBuf),
    /// The TLS library does not start.
    #[error("TLS cannot be set up: {0}")]
    Tls(rustls::Error),
}

/// The reason why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It did not come in time.
    #[error("no answer came in time")]
    Timeout,
    /// The server cannot be reached, may not be asked, is not the one that its certificate names, or does not speak HTTP.
    #[error("{0}")]
    Exchange(String),
    /// The body is too long, or breaks off.
    #[error("the body is longer than {0} bytes, or broke off")]
    Body(usize),
}
