//! Authorities that sign certificates of servers and clients, as files.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A root, and an authority below it, which signs.
pub(crate) struct Authority {
    root: Certificate,
    middle: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// Returns the settings of an authority's certificate.
fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new([]).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

impl Authority {
    pub(crate) fn new() -> Self {
        let root_key = key();
        let root = authority("root").self_signed(&root_key).expect("signed");
        let above = Issuer::new(authority("root"), root_key);
        let middle_key = key();
        let signed = authority("middle").signed_by(&middle_key, &above);
        Self {
            root,
            middle: signed.expect("signed"),
            issuer: Issuer::new(authority("middle"), middle_key),
        }
    }

    /// Writes `NAME.pem`, with its chain, and `NAME.key`, for a server of these names.
    pub(crate) fn write(&self, folder: &Path, name: &str, servers: &[&str]) {
        let servers: Vec<_> = servers.iter().map(ToString::to_string).collect();
        let params = CertificateParams::new(servers).expect("names");
        let key = key();
        let own = params.signed_by(&key, &self.issuer).expect("signed");
        let chain = own.pem() + &self.middle.pem();
        let put = |end: &str, text: &str| {
            // As a renewal does: the whole file at once.
            let (new, path) = (folder.join("new"), folder.join(format!("{name}.{end}")));
            fs::write(&new, text).expect("written");
            fs::rename(new, path).expect("replaced");
        };
        put("key", &key.serialize_pem());
        put("pem", &chain);
    }

    /// Writes the certificate of the root.
    #[cfg(feature = "real-parts")]
    pub(crate) fn write_root(&self, path: &Path) {
        fs::write(path, self.root.pem()).expect("written");
    }

    /// Writes those of the root and of the authority below it, as a server takes them for its clients.
    pub(crate) fn write_all(&self, path: &Path) {
        fs::write(path, self.root.pem() + &self.middle.pem()).expect("written");
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.der().clone()).expect("an authority");
        roots
    }

    /// Returns the settings of a client that trusts the root and speaks these protocols.
    pub(crate) fn client(&self, protocols: &[&str]) -> Arc<ClientConfig> {
        let mut config = builder()
            .with_root_certificates(self.roots())
            .with_no_client_auth();
        let names = protocols.iter().map(|name| name.as_bytes().to_vec());
        config.alpn_protocols = names.collect();
        Arc::new(config)
    }

    /// Returns the settings of a client that trusts the root, and shows a certificate of `clients` for this name.
    pub(crate) fn client_as(&self, clients: &Self, name: &str) -> Arc<ClientConfig> {
        let mut params = CertificateParams::new([]).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        let own = key();
        let signed = params.signed_by(&own, &clients.issuer).expect("signed");
        let chain = vec![signed.der().clone(), clients.middle.der().clone()];
        let own = PrivateKeyDer::from_pem_slice(own.serialize_pem().as_bytes()).expect("a key");
        let config = builder().with_root_certificates(self.roots());
        let config = config.with_client_auth_cert(chain, own).expect("a key");
        Arc::new(config)
    }
}

fn builder() -> rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions();
    builder.expect("there are some")
}

/// Returns the first certificate of a file.
pub(crate) fn first_of(path: PathBuf) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path).expect("a certificate")
}

/// Connects, and asks for this server's certificate.
pub(crate) async fn connect(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    name: &str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let connector = TlsConnector::from(config.clone());
    let opened = timeout(Duration::from_secs(300), connector.connect(name, stream)).await;
    opened.expect("in time")
}
