//! Certificates that are made here, and clients in this process.

use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    SanType,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, HandshakeKind, ProtocolVersion, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio_rustls::{TlsConnector, client};

use super::*;

mod challenges;
mod limits;
mod pinning;
mod reloading;
mod retries;

const LIMIT: Duration = Duration::from_secs(600);

/// An authority, and a folder for the files that it signs.
struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new([]).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "authority");
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("signed").pem();
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the certificate of the authority.
    fn ca(&self) -> PathBuf {
        let path = self.path("ca.pem");
        std::fs::write(&path, &self.pem).expect("written");
        path
    }

    /// Writes a certificate for these servers, and its key.
    fn server(&self, file: &str, names: &[&str]) -> CertificateFiles {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let params = CertificateParams::new(names).expect("names");
        let key = KeyPair::generate().expect("a key");
        let signed = params.signed_by(&key, &self.issuer).expect("signed");
        let files = self.files(file);
        std::fs::write(&files.certificate, signed.pem()).expect("written");
        std::fs::write(key_of(&files), key.serialize_pem()).expect("written");
        files
    }

    fn files(&self, file: &str) -> CertificateFiles {
        CertificateFiles {
            certificate: self.path(&format!("{file}.pem")),
            key: KeySource::File(self.path(&format!("{file}.key"))),
            is_awaited: false,
        }
    }

    /// Returns a client's certificate and key.
    fn client(
        &self,
        name: &str,
        email: &str,
    ) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let mut params = CertificateParams::new([]).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        let email = email.to_owned().try_into().expect("ASCII");
        params.subject_alt_names.push(SanType::Rfc822Name(email));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.not_after = rcgen::date_time_ymd(2100, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let signed = params.signed_by(&key, &self.issuer).expect("signed");
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes());
        (vec![signed.der().clone()], key.expect("a key"))
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        let own = CertificateDer::from_pem_slice(self.pem.as_bytes()).expect("a certificate");
        roots.add(own).expect("an authority");
        roots
    }

    /// Returns the settings of a client that trusts this authority.
    fn trusting(&self) -> Arc<ClientConfig> {
        let builder = builder().with_root_certificates(self.roots());
        Arc::new(builder.with_no_client_auth())
    }
}

fn builder() -> rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    builder
        .with_safe_default_protocol_versions()
        .expect("there are some")
}

fn key_of(files: &CertificateFiles) -> &Path {
    match &files.key {
        KeySource::File(path) => path,
        KeySource::Pem(_) => panic!("a file"),
    }
}

fn tls(certificates: &[CertificateFiles], client_ca: Option<PathBuf>) -> Arc<Tls> {
    let settings = TlsSettings {
        certificates: certificates.to_vec(),
        client_ca,
    };
    Tls::new(PreparedCertificates::read(settings, &Arc::default()).expect("right files"))
}

/// A connection of which both ends are here.
struct Connected {
    client: client::TlsStream<DuplexStream>,
    server: TlsStream<DuplexStream>,
    names: Option<ClientNames>,
}

impl Connected {
    /// Returns the certificate that the server has shown.
    fn shown(&self) -> CertificateDer<'static> {
        let (_, connection) = self.client.get_ref();
        connection.peer_certificates().expect("shown")[0].clone()
    }

    /// Sends a byte each way; a client has its tickets after that.
    async fn talk(&mut self) {
        let mut byte = [0];
        self.server.write_all(b"s").await.expect("open");
        self.server.flush().await.expect("open");
        self.client.read_exact(&mut byte).await.expect("open");
        self.client.write_all(b"c").await.expect("open");
        self.client.flush().await.expect("open");
        self.server.read_exact(&mut byte).await.expect("open");
    }
}

async fn connect(
    tls: &Arc<Tls>,
    config: &Arc<ClientConfig>,
    name: &str,
) -> Result<Connected, HandshakeError> {
    let (near, far) = duplex(64 << 10);
    let connector = TlsConnector::from(config.clone());
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let acceptor = tls.acceptor(Side::Public);
    let (client, server) = tokio::join!(connector.connect(name, near), acceptor.accept(far, LIMIT));
    let (server, names) = server?;
    Ok(Connected {
        client: client.map_err(HandshakeError::Failed)?,
        server,
        names,
    })
}

/// Returns the certificate in a file.
fn first_of(files: &CertificateFiles) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(&files.certificate).expect("a certificate")
}

fn metrics(tls: &Tls) -> String {
    let mut registry = Registry::default();
    tls.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("encodes");
    text
}

#[tokio::test]
async fn each_name_gets_its_certificate() {
    let authority = Authority::new();
    let first = authority.server("first", &["example.org"]);
    let wild = authority.server("wild", &["*.example.org", "127.0.0.1"]);
    let exact = authority.server("exact", &["Media.example.org"]);
    let tls = tls(&[first.clone(), wild.clone(), exact.clone()], None);
    let trusting = authority.trusting();
    for (name, files) in [
        ("example.org", &first),
        ("films.example.org", &wild),
        ("media.example.org", &exact),
    ] {
        let connected = connect(&tls, &trusting, name).await.expect(name);
        assert!(connected.shown() == first_of(files), "{name}");
        assert!(connected.names.is_none(), "{name}");
    }
    // An unknown name gets the first certificate, which the client then refuses.
    for name in ["a.films.example.org", "example.net"] {
        assert!(connect(&tls, &trusting, name).await.is_err(), "{name}");
    }
}

#[tokio::test]
async fn both_versions_and_both_protocols_are_agreed_on_and_sessions_resume() {
    let authority = Authority::new();
    let tls = tls(&[authority.server("a", &["example.org"])], None);
    let both = [
        (&rustls::version::TLS12, ProtocolVersion::TLSv1_2),
        (&rustls::version::TLS13, ProtocolVersion::TLSv1_3),
    ];
    for (version, agreed) in both {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder
            .with_protocol_versions(&[version])
            .expect("it is one");
        let builder = builder.with_root_certificates(authority.roots());
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let config = Arc::new(config);
        for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
            let mut connected = connect(&tls, &config, "example.org")
                .await
                .expect("a client");
            connected.talk().await;
            let (_, connection) = connected.server.get_ref();
            assert_eq!(connection.protocol_version(), Some(agreed));
            assert_eq!(connection.alpn_protocol(), Some(&b"h2"[..]));
            assert_eq!(connection.handshake_kind(), Some(kind), "{agreed:?}");
        }
    }
    let text = metrics(&tls);
    for line in [
        "tls_handshakes_total{result=\"full\"} 2",
        "tls_handshakes_total{result=\"resumed\"} 2",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

/// The end of a client's certificate: 2100, in seconds since 1970.
const CLIENT_ENDS: i64 = 4_102_444_800;

#[tokio::test]
async fn a_client_s_certificate_gives_names_and_a_wrong_one_ends_the_handshake() {
    let (authority, clients, stranger) = (Authority::new(), Authority::new(), Authority::new());
    let server = authority.server("a", &["example.org"]);
    let tls = tls(&[server], Some(clients.ca()));
    let with = |(chain, key): (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)| {
        let builder = builder().with_root_certificates(authority.roots());
        Arc::new(builder.with_client_auth_cert(chain, key).expect("a key"))
    };
    let alice = with(clients.client("alice", "alice@example.org"));
    // The session that is resumed has the names as well.
    for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
        let connected = connect(&tls, &alice, "example.org").await;
        let mut connected = connected.expect("a client");
        let names = connected.names.clone().expect("shown");
        // The certificate ends before the connection does.
        assert_eq!(names.at(CLIENT_ENDS), ["alice", "alice@example.org"]);
        assert!(names.at(CLIENT_ENDS + 1).is_empty());
        let (_, connection) = connected.server.get_ref();
        assert_eq!(connection.handshake_kind(), Some(kind));
        connected.talk().await;
    }
    let none = connect(&tls, &authority.trusting(), "example.org").await;
    assert!(none.expect("it need not show one").names.is_none());
    let wrong = with(stranger.client("alice", "alice@example.org"));
    assert!(connect(&tls, &wrong, "example.org").await.is_err());

    // Another authority: the sessions under the old one are over.
    std::fs::write(clients.ca(), &stranger.pem).expect("written");
    tls.refresh();
    assert!(connect(&tls, &alice, "example.org").await.is_err());
    assert!(connect(&tls, &wrong, "example.org").await.is_ok());
}
