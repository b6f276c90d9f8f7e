//! The names in a client's certificate.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

/// The most names of a certificate that count.
const MAX_NAMES: usize = 64;

/// The names in a certificate that a client has shown, and that an authority of ours has signed: the common names of its
/// subject, and its alternative names that are host names or addresses of e-mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientNames {
    names: Arc<[String]>,
    /// The last second of the certificate, since 1970.
    not_after: i64,
}

impl ClientNames {
    /// Returns the names, `now` seconds after 1970. A certificate whose time is over has none: a connection may last longer,
    /// and a client that resumes a session shows the certificate of then.
    #[must_use]
    pub fn at(&self, now: i64) -> &[String] {
        match now <= self.not_after {
            true => &self.names,
            false => &[],
        }
    }

    /// Reads the names of a verified certificate.
    pub(crate) fn read(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let common = parsed.subject().iter_common_name();
        let common = common.filter_map(|name| name.as_str().ok());
        let extension = parsed.subject_alternative_name().ok().flatten();
        let alternative = extension
            .iter()
            .flat_map(|found| &found.value.general_names);
        let alternative = alternative.filter_map(|name| match name {
            GeneralName::DNSName(name) | GeneralName::RFC822Name(name) => Some(*name),
            _ => None,
        });
        let names = common.chain(alternative).take(MAX_NAMES).map(str::to_owned);
        Some(Self {
            names: names.collect(),
            not_after: parsed.validity().not_after.timestamp(),
        })
    }
}
