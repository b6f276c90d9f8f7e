//! The client against servers on loopback.

use std::net::SocketAddr;
use std::sync::Arc;

use http::StatusCode;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

/// The time of a request that has to end by itself.
const LONG: Duration = Duration::from_secs(60);

/// Answers each connection in the same way, and goes on sending `more` while the client reads.
async fn serve(answer: &'static [u8], more: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 4096]).await;
                let mut sent = stream.write_all(answer).await;
                while !more.is_empty() && sent.is_ok() {
                    sent = stream.write_all(more).await;
                }
                // A client that waits for more leaves first.
                let _ = stream.read(&mut [0; 1]).await;
            });
        }
    });
    address
}

async fn fetch_with(
    settings: ClientSettings,
    url: &str,
    limit: Duration,
) -> Result<Response<Bytes>, RequestError> {
    let request = Request::get(url).body(Full::default()).expect("a request");
    let client = Client::new(&settings).expect("a client");
    client.fetch(request, limit, 1000).await
}

async fn fetch(address: SocketAddr, limit: Duration) -> Result<Response<Bytes>, RequestError> {
    fetch_with(
        ClientSettings::default(),
        &format!("http://{address}/"),
        limit,
    )
    .await
}

#[tokio::test]
async fn an_answer_arrives_whole() {
    let address = serve(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", b"").await;
    let answer = fetch(address, LONG).await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.into_body(), "hello");
}

#[tokio::test]
async fn no_redirect_is_followed() {
    let answer =
        b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
    let answer = fetch(serve(answer, b"").await, LONG).await;
    assert_eq!(answer.expect("an answer").status(), StatusCode::FOUND);
}

#[tokio::test]
async fn heads_and_bodies_without_end_are_cut_off() {
    let address = serve(b"HTTP/1.1 200 OK\r\nx: ", &[b'x'; 4096]).await;
    let answer = fetch(address, LONG).await;
    assert!(
        matches!(answer, Err(RequestError::Exchange(_))),
        "{answer:?}"
    );
    let address = serve(b"HTTP/1.1 200 OK\r\n\r\n", &[b'x'; 4096]).await;
    let answer = fetch(address, LONG).await;
    assert_eq!(
        answer.map(Response::into_body),
        Err(RequestError::Body(1000))
    );
}

#[tokio::test]
async fn a_silent_server_takes_the_time_of_the_request() {
    let short = Duration::from_millis(50);
    let address = serve(b"", b"").await;
    let answer = fetch(address, short).await;
    assert_eq!(answer.map(Response::into_body), Err(RequestError::Timeout));
    let address = serve(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe", b"").await;
    let answer = fetch(address, short).await;
    assert_eq!(answer.map(Response::into_body), Err(RequestError::Timeout));
}

#[tokio::test]
async fn a_handshake_is_part_of_connecting() {
    let address = serve(b"", b"").await;
    let settings = ClientSettings {
        connect: Duration::from_millis(50),
        ..ClientSettings::default()
    };
    let answer = fetch_with(settings, &format!("https://{address}/"), LONG).await;
    let error = answer.expect_err("it never shakes hands").to_string();
    assert_eq!(error, "no connection came in time");
}

#[tokio::test]
async fn hosts_that_lead_inward_are_not_asked() {
    let address = serve(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b"").await;
    let settings = ClientSettings {
        addresses: Addresses::Outward,
        ..ClientSettings::default()
    };
    let port = address.port();
    for host in ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]"] {
        let url = format!("http://{host}:{port}/");
        let answer = fetch_with(settings.clone(), &url, LONG).await;
        let error = answer.expect_err(host).to_string();
        assert_eq!(
            error, "the host has no address of the public internet",
            "{host}"
        );
    }
    let settings = ClientSettings {
        addresses: Addresses::At(address),
        ..settings
    };
    let answer = fetch_with(settings, "http://media.example/", LONG).await;
    assert_eq!(answer.expect("an answer").status(), StatusCode::OK);
}

/// Starts a server for `media.example` with a certificate of its own; returns that as well, in PEM.
async fn serve_tls() -> (SocketAddr, String) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["media.example".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .expect("a server");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A client that does not trust it ends here.
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let _ = stream.read(&mut [0; 4096]).await;
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";
            let _ = stream.write_all(answer).await;
            let _ = stream.shutdown().await;
        }
    });
    (address, cert.pem())
}

#[tokio::test]
async fn only_servers_that_are_trusted_answer() {
    let (address, pem) = serve_tls().await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ca.pem");
    std::fs::write(&path, pem).expect("a file");
    let trusting = |roots| ClientSettings {
        roots,
        addresses: Addresses::At(address),
        https_only: true,
        ..ClientSettings::default()
    };
    let (right, wrong) = ("https://media.example/", "https://other.example/");
    let file = Roots::File(path);
    let answer = fetch_with(trusting(file.clone()), right, LONG).await;
    assert_eq!(answer.expect("an answer").into_body(), "hi");
    for (roots, url) in [
        (file.clone(), wrong),
        (Roots::None, right),
        (file, "http://media.example/"),
    ] {
        let answer = fetch_with(trusting(roots), url, LONG).await;
        assert!(
            matches!(answer, Err(RequestError::Exchange(_))),
            "{answer:?}"
        );
    }
}

#[test]
fn a_file_without_an_authority_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ca.pem");
    let new = || {
        Client::new(&ClientSettings {
            roots: Roots::File(path.clone()),
            ..ClientSettings::default()
        })
    };
    assert!(matches!(new(), Err(ClientError::File { .. })));
    std::fs::write(&path, "no certificate").expect("a file");
    assert!(matches!(new(), Err(ClientError::Empty(_))));
}
