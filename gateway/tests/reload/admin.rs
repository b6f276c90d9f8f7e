//! The admin listener moves, is encrypted, and takes another token, by a reload that comes through it.

use std::net::SocketAddr;

use http::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::authority::{Authority, connect};
use crate::gateway::{Got, ask, send};
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

/// Asks for a reload with a token; returns the answer.
async fn reload_as(serving: &Serving, token: &str) -> Got {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    ask(serving.admin, Method::POST, "/reload", &headers).await
}

/// Returns the status of a page of the console for the session of this cookie.
async fn page(serving: &Serving, cookie: &str) -> u16 {
    let headers = [("cookie", cookie)];
    let got = ask(serving.admin, Method::GET, "/console/sessions", &headers).await;
    got.status
}

#[tokio::test(flavor = "multi_thread")]
async fn another_admin_token_is_in_force_after_a_reload() {
    let world = World::new().await;
    let mut serving = serving(&world).await;
    serving.end().await;
    let file = |name: &str| world.folder.path().join(name);
    let write = |name: &str, text: &str| std::fs::write(file(name), text).expect("written");
    let next = "the-token-after-the-leak";
    write("token", TOKEN);
    write("trace", "old");
    let of_file = |name: &str| format!("{{ file = \"{}\" }}", file(name).display());
    // Nothing listens there, and no request is traced.
    let endpoint = "endpoint = \"http://127.0.0.1:9/v1/traces\"";
    let traces = format!("[trace]\n{endpoint}\nheaders.key = {}\n", of_file("trace"));
    let literal = format!("token = \"{TOKEN}\"");
    let right = configuration(&world, &traces);
    let right = right.replace(&literal, &format!("token = {}", of_file("token")));
    serving.configure(&right);
    serving.start().await;
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let body = format!("token={TOKEN}");
    let login = "/console/login";
    let begun = send(serving.admin, Method::POST, login, &form, &body).await;
    let cookie = begun.header("set-cookie").split(';').next();
    let cookie = cookie.expect("a cookie").to_owned();
    assert_eq!(page(&serving, &cookie).await, 200);
    let told = report(&reload_as(&serving, TOKEN).await);
    assert_eq!(told, json!({ "changed": [], "needs_restart": [] }));
    assert_eq!(page(&serving, &cookie).await, 200, "the same token");

    // Another token comes into force with all of a configuration, or not at all.
    write("token", next);
    write("trace", "new");
    serving.configure(&format!("{right}["));
    assert_eq!(reload_as(&serving, TOKEN).await.status, 422);
    serving.configure(&right);
    assert_eq!(reload_as(&serving, next).await.status, 401);
    let told = report(&reload_as(&serving, TOKEN).await);
    let restart = json!(["trace.headers.key"]);
    assert_eq!(told, json!({ "changed": [], "needs_restart": restart }));
    assert_eq!(reload_as(&serving, TOKEN).await.status, 401);
    assert_eq!(page(&serving, &cookie).await, 303, "it has ended");
    let told = report(&reload_as(&serving, next).await);
    assert_eq!(told["needs_restart"], restart, "until there is one");

    write("token", "short");
    let refused = reload_as(&serving, next).await;
    assert_eq!(refused.status, 422);
    let said = refused.text();
    assert!(said.contains("`admin.token`: is shorter"), "{said}");
    assert_eq!(reload_as(&serving, next).await.status, 422);
}
