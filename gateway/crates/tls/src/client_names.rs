//! The names in a client's certificate.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

/// The most names of a certificate that count.
const MAX_NAMES: usize = 64;

/// The names in a certificate that a client has shown, and that an authority of ours has signed: the common names of its
/// subject, and its alternative names that are host names or addresses of e-mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientNames(Arc<[String]>);

impl ClientNames {
    /// Returns the names.
    #[must_use]
    pub fn all(&self) -> &[String] {
        &self.0
    }

    /// Reads the names of a verified certificate. `None` if its time is over: a client that resumes a session shows the
    /// certificate of then.
    pub(crate) fn read(certificate: &CertificateDer<'_>, now: SystemTime) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let now = now.duration_since(UNIX_EPOCH).ok()?.as_secs();
        if parsed.validity().not_after.timestamp() < i64::try_from(now).ok()? {
            return None;
        }
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
        Some(Self(names.collect()))
    }
}
