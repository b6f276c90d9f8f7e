//! The client against a server of its own, over TLS on loopback.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use tidegate_outbound::Addresses;

const AUTHORITY: &str = "authority.pem";
const SERVER: &[u8] = include_bytes!("../../../fixtures/sns/server.pem");
const KEY: &[u8] = include_bytes!("../../../fixtures/sns/server.key");
const OTHER: &str = "other.pem";
const TOPIC: &str = "arn:aws:sns:eu-west-1:123456789012:media";

/// Starts a server that gives each connection this answer; returns a client that trusts `authority`.
async fn client(answer: &'static [u8], authority: &str) -> HttpsClient {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let certificate = CertificateDer::from_pem_slice(SERVER).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(KEY).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a server");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A client that does not trust it ends here.
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(answer).await;
            let _ = stream.shutdown().await;
        }
    });
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/sns");
    let settings = ClientSettings {
        roots: Roots::File(fixtures.join(authority)),
        addresses: Addresses::At(address),
        ..ClientSettings::default()
    };
    HttpsClient::with(settings).expect("a client")
}

async fn fetch(answer: &'static [u8], authority: &str) -> Result<Bytes, FetchError> {
    let url = AwsUrl::of_topic("https://sns.eu-west-1.amazonaws.com/x.pem", TOPIC);
    let client = client(answer, authority).await;
    client.fetch(&url.expect("a URL of SNS")).await
}

#[tokio::test]
async fn a_document_is_fetched_from_a_server_that_is_trusted() {
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
    assert_eq!(
        fetch(answer, AUTHORITY).await,
        Ok(Bytes::from_static(b"hello"))
    );
    let refused = fetch(answer, OTHER).await;
    assert!(refused.is_err(), "{refused:?}");
}

#[tokio::test]
async fn other_answers_are_errors() {
    for answer in [
        &b"HTTP/1.1 302 Found\r\nlocation: https://evil.example/\r\ncontent-length: 0\r\n\r\n"[..],
        b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe",
        b"no HTTP",
        b"",
    ] {
        let answered = fetch(answer, AUTHORITY).await;
        assert!(answered.is_err(), "{answered:?}");
    }
}

#[tokio::test]
async fn a_document_is_bounded() {
    let mut answer = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    answer.resize(answer.len() + MAX_DOCUMENT + 1, b'x');
    let answered = fetch(answer.leak(), AUTHORITY).await;
    assert!(answered.is_err(), "{answered:?}");
}
