//! `[tls]`: the certificates of the listeners that say `tls = true`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::Secret;

/// The certificates of the listeners that say `tls = true`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    /// A certificate and its key. The first is also for clients that name no server, or an unknown one.
    #[serde(skip_serializing)]
    pub certificates: Vec<Certificate>,
    /// A file with the certificates (PEM) of the authorities that sign clients' certificates.
    ///
    /// If it is set, the public listeners with TLS ask clients for a certificate. A client without one is served as well:
    /// the `clients` of an access say which routes need one. One of another authority ends the handshake.
    #[schemars(extend("examples" = ["/etc/tidegate/clients-ca.pem"]))]
    pub client_ca: Option<PathBuf>,
}

/// A certificate and its key.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["certificate", "key"]))]
pub struct Certificate {
    /// A file with the certificate, and behind it those of the authorities between it and the root (PEM).
    #[schemars(extend("examples" = ["/etc/tidegate/fullchain.pem"]))]
    pub certificate: PathBuf,
    /// Its private key (PEM): RSA, ECDSA or Ed25519.
    #[serde(skip_serializing)]
    #[schemars(extend("examples" = [{ "file": "/etc/tidegate/privkey.pem" }]))]
    pub key: Secret,
}

impl Default for Certificate {
    fn default() -> Self {
        Self {
            certificate: PathBuf::new(),
            key: Secret::Literal(String::new()),
        }
    }
}
