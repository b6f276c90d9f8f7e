//! Certificates that an authority has yet to issue, and the answers to its challenges.

use super::*;
use crate::challenge::ACME_PROTOCOL;

/// Returns a certificate for a name that it signs itself, and its key.
fn own(name: &str) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let params = CertificateParams::new([name.to_owned()]).expect("a name");
    let key = KeyPair::generate().expect("a key");
    let signed = params.self_signed(&key).expect("signed").der().clone();
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes());
    (signed, key.expect("a key"))
}

/// Shakes hands as an authority does, which offers `protocols`. Returns the certificate that it was shown, and whether the
/// server ended the connection as that of an authority.
async fn look(
    tls: &Arc<Tls>,
    name: &str,
    protocols: &[&[u8]],
) -> (Option<CertificateDer<'static>>, bool) {
    let mut config = ClientConfig::clone(&Authority::new().trusting());
    config.alpn_protocols = protocols.iter().map(|one| one.to_vec()).collect();
    // Any certificate is right: it is not signed by an authority.
    let verifier = AnyCertificate(Mutex::default());
    let verifier = Arc::new(verifier);
    config
        .dangerous()
        .set_certificate_verifier(verifier.clone());
    let ended = connect(tls, &Arc::new(config), name).await;
    let shown = verifier.0.lock().expect("no panic").take();
    (shown, matches!(ended, Err(HandshakeError::Challenge)))
}

/// Keeps the certificate that it is shown.
#[derive(Debug)]
struct AnyCertificate(Mutex<Option<CertificateDer<'static>>>);

impl rustls::client::danger::ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        *self.0.lock().expect("no panic") = Some(shown.clone().into_owned());
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        rustls::crypto::ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[tokio::test]
async fn a_challenge_is_answered_while_its_answer_is_kept() {
    let authority = Authority::new();
    let files = authority.server("a", &["example.org"]);
    let tls = tls(std::slice::from_ref(&files), None);
    let (certificate, key) = own("example.org");
    let challenges = tls.challenges();
    assert_eq!(
        look(&tls, "example.org", &[ACME_PROTOCOL]).await,
        (None, false)
    );
    let answered = challenges.answer("Example.org", certificate.clone(), key);
    let answered = answered.expect("a key");
    let looked = look(&tls, "example.org", &[ACME_PROTOCOL]).await;
    assert_eq!(looked, (Some(certificate.clone()), true));
    assert_eq!(
        look(&tls, "example.net", &[ACME_PROTOCOL]).await,
        (None, false)
    );
    // Other clients see nothing of it, also those that name the protocol beside theirs.
    for protocols in [&[b"h2".as_slice()][..], &[ACME_PROTOCOL, b"h2"], &[]] {
        let looked = look(&tls, "example.org", protocols).await;
        assert_eq!(looked, (Some(first_of(&files)), false), "{protocols:?}");
    }
    // Files that change leave the answer.
    authority.server("a", &["example.org"]);
    tls.refresh();
    let looked = look(&tls, "example.org", &[ACME_PROTOCOL]).await;
    assert_eq!(looked, (Some(certificate), true));
    drop(answered);
    assert_eq!(
        look(&tls, "example.org", &[ACME_PROTOCOL]).await,
        (None, false)
    );
    let text = metrics(&tls);
    let counted = text.contains("tls_handshakes_total{result=\"challenge\"} 2");
    assert!(counted, "{text}");
}

#[tokio::test]
async fn an_awaited_certificate_is_shown_once_it_is_there() {
    let authority = Authority::new();
    let files = CertificateFiles {
        is_awaited: true,
        ..authority.files("late")
    };
    let tls = tls(std::slice::from_ref(&files), None);
    let trusting = authority.trusting();
    assert!(connect(&tls, &trusting, "example.org").await.is_err());
    assert!(!metrics(&tls).contains("expiry_seconds{"));
    // A broken file is no certificate, and what was awaited before it is awaited still.
    std::fs::write(&files.certificate, "none").expect("written");
    tls.refresh();
    assert!(connect(&tls, &trusting, "example.org").await.is_err());
    authority.server("late", &["example.org"]);
    tls.refresh();
    let connected = connect(&tls, &trusting, "example.org").await;
    assert!(connected.expect("a client").shown() == first_of(&files));
    let text = metrics(&tls);
    assert!(text.contains("late.pem"), "{text}");
}

#[test]
fn one_file_has_certificate_and_key() {
    let authority = Authority::new();
    let files = authority.server("a", &["A.example.org"]);
    let mut pem = std::fs::read(&files.certificate).expect("written");
    let path = authority.path("both.pem");
    assert!(matches!(
        IssuedCertificate::parse(&path, &pem),
        Err(TlsError::Key(_))
    ));
    pem.extend(std::fs::read(key_of(&files)).expect("written"));
    std::fs::write(&path, &pem).expect("written");
    let issued = IssuedCertificate::read(&path).expect("both");
    assert_eq!(issued.names, ["a.example.org"]);
    assert!(issued.begin < issued.end);
    let both = CertificateFiles {
        certificate: path.clone(),
        key: KeySource::File(path),
        is_awaited: false,
    };
    let settings = TlsSettings {
        certificates: vec![both],
        client_ca: None,
    };
    assert!(PreparedCertificates::read(settings, &Arc::default()).is_ok());
}
