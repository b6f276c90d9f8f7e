//! The admin listener moves, and is encrypted, by a reload that comes through it.

use std::net::SocketAddr;

use http::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::authority::{Authority, connect};
use crate::gateway::{Got, ask};
use crate::mount::TOKEN;
use crate::ports::free_addr;
use crate::serving::Serving;
use crate::world::World;
use crate::{LONG, configuration, report, serving};

/// Writes a configuration whose admin listener is this one.
fn configure(serving: &Serving, world: &World, listen: &str) {
    let folder = world.folder.path().display();
    let tls = format!(
        "[[tls.certificates]]\ncertificate = \"{folder}/a.pem\"\nkey = {{ file = \"{folder}/a.key\" }}\n"
    );
    serving.configure(&configuration(world, &tls));
    let text = std::fs::read_to_string(serving.config()).expect("written");
    let own = format!("[admin]\nlisten = \"{}\"\n", serving.admin);
    let text = text.replace(&own, &format!("[admin]\nlisten = {listen}\n"));
    std::fs::write(serving.config(), text).expect("written");
}

async fn reload(address: SocketAddr) -> Got {
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("authorization", bearer.as_str())];
    ask(address, Method::POST, "/reload", &headers).await
}

/// Asks for the health over TLS; returns the head of the answer.
async fn over_tls(authority: &Authority, address: SocketAddr) -> String {
    let client = authority.client(&["http/1.1"]);
    let mut stream = connect(address, &client, "a.example").await.expect("TLS");
    let request = format!(
        "POST /reload HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.expect("open");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer
}

/// Waits until nothing listens at an address.
async fn is_closed(address: SocketAddr) {
    let since = tokio::time::Instant::now();
    while TcpStream::connect(address).await.is_ok() {
        assert!(since.elapsed() < LONG, "{address} still listens");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_admin_listener_moves_and_is_encrypted() {
    let world = World::new().await;
    let authority = Authority::new();
    authority.write(world.folder.path(), "a", &["a.example"]);
    let serving = serving(&world).await;
    let second = free_addr();
    // A connection that is open and idle does not hold the old one.
    let mut idle = TcpStream::connect(serving.admin).await.expect("open");
    configure(&serving, &world, &format!("\"{second}\""));
    let told = report(&reload(serving.admin).await);
    assert_eq!(told["needs_restart"], json!([]), "{told}");
    is_closed(serving.admin).await;
    assert_eq!(idle.read(&mut [0; 9]).await.expect("in order"), 0);
    let health = ask(second, Method::GET, "/readyz", &[]).await;
    assert_eq!(health.status, 200);

    // The socket stays, and speaks TLS.
    configure(
        &serving,
        &world,
        &format!("{{ address = \"{second}\", tls = true }}"),
    );
    let told = report(&reload(second).await);
    assert_eq!(told["needs_restart"], json!([]), "{told}");
    let since = tokio::time::Instant::now();
    while ask_plainly(second).await {
        assert!(since.elapsed() < LONG, "it still speaks plain HTTP");
    }
    configure(&serving, &world, &format!("\"{}\"", serving.admin));
    let answer = over_tls(&authority, second).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    is_closed(second).await;
    assert_eq!(serving.look("/readyz").await.status, 200);
    assert_eq!(serving.get("/o/1").await.status, 200);
}

/// Returns whether the health is told without TLS.
async fn ask_plainly(address: SocketAddr) -> bool {
    let mut stream = TcpStream::connect(address).await.expect("open");
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.expect("open");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    answer.starts_with(b"HTTP/1.1 200 ")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_address_in_use_refuses_the_whole_file() {
    let world = World::new().await;
    let authority = Authority::new();
    authority.write(world.folder.path(), "a", &["a.example"]);
    let serving = serving(&world).await;
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let taken = taken.expect("a port");
    let address = taken.local_addr().expect("bound");
    configure(&serving, &world, &format!("\"{address}\""));
    let got = reload(serving.admin).await;
    assert_eq!(got.status, 422);
    let said = got.text();
    assert!(
        said.contains(&format!("cannot listen on {address}")),
        "{said}"
    );
    assert_eq!(serving.look("/readyz").await.status, 200);
}
