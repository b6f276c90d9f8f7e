//! Public listeners that come and go, with TLS and without.

use std::net::SocketAddr;
use std::path::Path;

use http::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use crate::authority::{Authority, connect};
use crate::gateway::ask;
use crate::ports::free_addr;
use crate::serving::Serving;
use crate::world::{World, sample};
use crate::{MORE, SIZE, configuration, report, serving};

const REQUEST: &[u8] = b"GET /o/1 HTTP/1.1\r\nHost: h\r\n\r\n";

/// Sends a request on an open connection, and reads its whole answer.
async fn exchange(stream: &mut (impl AsyncReadExt + AsyncWriteExt + Unpin)) {
    stream.write_all(REQUEST).await.expect("it is open");
    let mut answer = Vec::new();
    let whole = sample(SIZE, 1);
    while !answer.ends_with(&whole) {
        let read = stream.read_buf(&mut answer).await.expect("an answer");
        assert!(read > 0, "{}", String::from_utf8_lossy(&answer));
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 "));
}

async fn is_refused(address: SocketAddr) {
    let refused = TcpStream::connect(address).await;
    refused.expect_err("it has no listener");
}

#[tokio::test(flavor = "multi_thread")]
async fn listeners_come_and_go() {
    let world = World::new().await;
    let serving = serving(&world).await;
    let (second, socket) = (free_addr(), world.folder.path().join("http.sock"));
    let mut kept = TcpStream::connect(serving.http).await.expect("open");
    exchange(&mut kept).await;
    serving.configure(&configuration(&world, ""));
    let unix = format!("unix:{}", socket.display());
    serving.listen_on(&format!("[\"{}\", \"{second}\", \"{unix}\"]", serving.http));
    let told = report(&serving.post("/reload").await);
    assert_eq!(told["needs_restart"], json!([]), "{told}");
    exchange(&mut kept).await;
    let mut to_second = TcpStream::connect(second).await.expect("open");
    exchange(&mut to_second).await;
    let mut to_socket = UnixStream::connect(&socket).await.expect("open");
    exchange(&mut to_socket).await;

    // The first and the socket go: their idle connections end, those of the second stay.
    serving.listen_on(&format!("\"{second}\""));
    report(&serving.post("/reload").await);
    is_refused(serving.http).await;
    assert!(!socket.exists(), "its file goes with it");
    assert_eq!(kept.read(&mut [0; 9]).await.expect("in order"), 0);
    assert_eq!(to_socket.read(&mut [0; 9]).await.expect("in order"), 0);
    exchange(&mut to_second).await;

    serving.configure(&configuration(&world, ""));
    report(&serving.post("/reload").await);
    is_refused(second).await;
    assert_eq!(serving.get("/o/1").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_in_use_refuses_the_whole_file() {
    let world = World::new().await;
    let serving = serving(&world).await;
    let (free, taken) = (free_addr(), TcpListener::bind("127.0.0.1:0").await);
    let taken = taken.expect("a port");
    let taken = taken.local_addr().expect("bound");
    let socket = world.folder.path().join("http.sock");
    serving.configure(&configuration(&world, MORE));
    let unix = format!("unix:{}", socket.display());
    serving.listen_on(&format!("[\"{free}\", \"{unix}\", \"{taken}\"]"));
    let got = serving.post("/reload").await;
    assert_eq!(got.status, 422);
    let said = got.text();
    assert!(
        said.contains(&format!("cannot listen on {taken}")),
        "{said}"
    );
    is_refused(free).await;
    assert!(!socket.exists(), "what was bound is closed again");
    assert_eq!(serving.get("/more/1").await.status, 404);
    assert_eq!(serving.get("/o/1").await.status, 200);
}

/// Returns the `[tls]` of a certificate for `a.example` in this folder.
fn tls(folder: &Path) -> String {
    format!(
        "[[tls.certificates]]\ncertificate = \"{0}/a.pem\"\nkey = {{ file = \"{0}/a.key\" }}\n",
        folder.display()
    )
}

async fn over_tls(authority: &Authority, address: SocketAddr) {
    let client = authority.client(&["http/1.1"]);
    let stream = connect(address, &client, "a.example").await;
    exchange(&mut stream.expect("TLS")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_comes_and_goes_on_a_socket_that_stays() {
    let world = World::new().await;
    let authority = Authority::new();
    let folder = world.folder.path();
    authority.write(folder, "a", &["a.example"]);
    let serving = serving(&world).await;
    let plain = format!("\"{}\"", serving.http);
    let encrypted = format!("{{ address = {plain}, tls = true }}");
    let configure = |serving: &Serving, listen: &str| {
        serving.configure(&configuration(&world, &tls(folder)));
        serving.listen_on(listen);
    };
    // The process had no TLS at its start.
    for round in 0..3 {
        serving.configure(&configuration(&world, ""));
        serving.listen_on(&plain);
        report(&serving.post("/reload").await);
        let mut stream = TcpStream::connect(serving.http).await.expect("open");
        exchange(&mut stream).await;
        configure(&serving, &encrypted);
        let told = report(&serving.post("/reload").await);
        assert_eq!(told["needs_restart"], json!([]), "{told}");
        over_tls(&authority, serving.http).await;
        assert_eq!(stream.read(&mut [0; 9]).await.expect("in order"), 0);
        let full = ["tidegate_tls_handshakes_total{", "\"full\""];
        assert_eq!(serving.metric(&full).await, round + 1);
        assert!(serving.metric(&["tls_certificate_expiry_seconds{"]).await > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limits_of_clients_change() {
    let world = World::new().await;
    let mut serving = serving(&world).await;
    let long = format!("/o/1?{}", "x".repeat(2000));
    assert_eq!(serving.get(&long).await.status, 200);
    let purge = async || {
        let got = ask(
            serving.http,
            Method::from_bytes(b"PURGE").expect("a name"),
            "/o/1",
            &[],
        );
        got.await.status
    };
    assert_eq!(purge().await, 405);
    serving.configure(&configuration(&world, ""));
    let listen = format!(
        "\"{}\"\nmax_uri = \"1KiB\"\npurge_networks = [\"127.0.0.1\"]",
        serving.http
    );
    serving.listen_on(&listen);
    let told = report(&serving.post("/reload").await);
    let changed = json!(["http.max_uri", "http.purge_networks[0]"]);
    assert_eq!(told, json!({ "changed": changed, "needs_restart": [] }));
    assert_eq!(serving.get(&long).await.status, 414);
    assert_eq!(purge().await, 200);

    // Of an address that may not purge a line in 10 s is logged.
    serving.listen_on(&listen.replace("127.0.0.1\"]", "192.0.2.1\"]"));
    report(&serving.post("/reload").await);
    let begun = tokio::time::Instant::now();
    for _ in 0..50 {
        assert_eq!(purge().await, 403);
    }
    let most = 1 + begun.elapsed().as_secs() / 10;
    // At its end the log is whole.
    serving.end().await;
    let log = serving.log();
    let lines = log.matches("purge refused").count() as u64;
    assert!((1..=most).contains(&lines), "{lines} lines, {most} at most");
}
