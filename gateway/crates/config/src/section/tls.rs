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
    /// Certificates that an authority issues and renews by itself; left out: none.
    ///
    /// The authority looks on port 443 of each name whether it leads to this gateway (ACME with TLS-ALPN-01): to one of the
    /// addresses of `http.listen` that say `tls = true`. They are shown beside `certificates`.
    #[schemars(extend("x-section" = true))]
    pub acme: Option<Acme>,
}

/// The certificates that an authority issues and renews by itself.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["names", "terms_agreed"]))]
pub struct Acme {
    /// The names of servers; each gets a certificate of its own.
    #[schemars(extend("examples" = [["media.example.org"]]))]
    pub names: Vec<String>,
    /// Whether you agree to the authority's terms of service; it issues nothing without.
    #[schemars(extend("examples" = [true]))]
    pub terms_agreed: bool,
    /// The URL of the authority's directory.
    pub directory: String,
    /// The addresses under which the authority reaches you.
    #[schemars(extend("examples" = [["mailto:admin@example.org"]]))]
    pub contact: Vec<String>,
    /// The account that the authority has made for you, if it wants one; left out: it makes accounts by itself.
    ///
    /// Another `key_id` is another account.
    #[schemars(extend("examples" = [{ "key_id": "kid-1", "key": { "file": "/etc/tidegate/acme-key" } }]))]
    pub external_account: Option<ExternalAccount>,
    /// The folder for keys and certificates; left out: `acme` in the state folder.
    #[schemars(extend("examples" = ["/var/lib/tidegate/acme"]))]
    pub path: Option<PathBuf>,
    /// A file with the authorities (PEM) that sign the directory's own certificate; left out: the system's.
    ///
    /// With it the directory may stand at an address that is not on the public internet.
    #[schemars(extend("examples" = ["/etc/tidegate/acme-ca.pem"]))]
    pub directory_ca: Option<PathBuf>,
}

impl Default for Acme {
    /// The names have to be given: an empty list stands for missing.
    fn default() -> Self {
        Self {
            names: Vec::new(),
            terms_agreed: false,
            directory: "https://acme-v02.api.letsencrypt.org/directory".to_owned(),
            contact: Vec::new(),
            external_account: None,
            path: None,
            directory_ca: None,
        }
    }
}

/// An account that the authority has made for the operator (external account binding).
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["key_id", "key"]))]
pub struct ExternalAccount {
    /// Its number, as the authority shows it.
    #[schemars(extend("examples" = ["kid-1"]))]
    pub key_id: String,
    /// Its key (HMAC), in base64url.
    #[serde(skip_serializing)]
    #[schemars(extend("examples" = [{ "file": "/etc/tidegate/acme-key" }]))]
    pub key: Secret,
}

impl Default for ExternalAccount {
    /// Number and key have to be given: empty stands for missing.
    fn default() -> Self {
        Self {
            key_id: String::new(),
            key: Secret::Literal(String::new()),
        }
    }
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
