//! The endpoints over real sockets, against a scripted gateway.

use std::io::{Read, Write};

use axum::body::Body;
use axum::extract::Path;
use axum::http::Request;
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tower::ServiceExt as _;

use super::auth::AdminToken;
use super::place::PlaceError;
use super::*;
use tidegate_plan::{Listen, Token};

mod admission;
pub(super) mod bucket;
mod crowded;
mod health;
mod hostile;
mod purges;
mod told;

use tidegate_socket::Listener;
use told::Told;

/// The endpoints over scripted parts, without sockets.
pub(super) struct Parts {
    pub(super) admin: Admin,
    pub(super) tiers: Arc<cache::tests::OneDisk>,
    pub(super) pins: Arc<pins::tests::ToldPins>,
    pub(super) bucket: bucket::Bucket,
}

/// Takes each configuration.
struct Reloaded;

impl reload::Reload for Reloaded {
    fn reload(
        self: Arc<Self>,
    ) -> BoxFuture<'static, Result<reload::ReloadReport, reload::ReloadError>> {
        Box::pin(std::future::ready(Ok(reload::ReloadReport {
            changed: vec!["route[0].path".to_owned()],
            needs_restart: Vec::new(),
        })))
    }

    fn set(
        self: Arc<Self>,
        change: reload::OverrideChange,
    ) -> BoxFuture<'static, Result<reload::ReloadReport, reload::ReloadError>> {
        let report = match change.value {
            Some(_) => Ok(reload::ReloadReport {
                changed: vec![change.key],
                needs_restart: Vec::new(),
            }),
            None => Err(reload::ReloadError("it is not overridden".to_owned())),
        };
        Box::pin(std::future::ready(report))
    }

    fn overridden(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(std::future::ready(vec!["cache.memory".to_owned()]))
    }
}

/// Returns those parts, and the token that they want.
pub(super) fn running(token: Option<&str>) -> Parts {
    let tiers = Arc::new(cache::tests::OneDisk::default());
    let pins = Arc::new(pins::tests::ToldPins::default());
    let bucket = bucket::Bucket::new();
    let admin = Admin {
        control: Arc::new(Told::default()),
        routes: Arc::new(profile::tests::OneRoute),
        reload: Arc::new(Reloaded),
        tiers: tiers.clone(),
        pins: pins.clone(),
        events: Arc::new(events::tests::Told::default()),
        locate: Arc::new(bucket.clone()),
        engine: bucket.engine(),
        writers: None,
        metrics: Arc::new(|| "tidegate_up 1\n# EOF\n".to_owned()),
        hosts: hosts::Hosts::default(),
        token: AdminToken::new(token.and_then(Token::new)),
        draining: CancellationToken::new(),
    };
    Parts {
        admin,
        tiers,
        pins,
        bucket,
    }
}

/// Sends one request (method and target, token, body); returns status and body of the answer.
pub(super) async fn asked(
    admin: &Admin,
    line: &str,
    token: Option<&str>,
    body: &str,
) -> (u16, String) {
    let (method, target) = line.split_once(' ').expect("a method and a target");
    let mut request = Request::builder().method(method).uri(target);
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Body::from(body.to_owned()));
    let router = admin.clone().router();
    let answer = router.oneshot(request.expect("a request")).await;
    let answer = answer.expect("an answer");
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.expect("a body");
    let text = String::from_utf8(body.to_bytes().to_vec());
    (status, text.expect("text"))
}

struct Running {
    told: Arc<Told>,
    address: String,
    draining: CancellationToken,
    stop: CancellationToken,
    server: tokio::task::JoinHandle<()>,
}

async fn start(token: Option<&str>) -> Running {
    let listener = Listener::bind(&Listen::Tcp(([127, 0, 0, 1], 0).into()), 0).await;
    start_on(listener.expect("binds"), token)
}

fn start_on(listener: Listener, token: Option<&str>) -> Running {
    let told = Arc::new(Told::default());
    let draining = CancellationToken::new();
    let admin = Admin {
        control: told.clone(),
        draining: draining.clone(),
        ..running(token).admin
    };
    let address = listener.address().expect("an address").to_string();
    let stop = CancellationToken::new();
    let server = tokio::spawn(listen::serve(
        Arc::new(listener),
        admin.router(),
        stop.clone(),
    ));
    Running {
        told,
        address,
        draining,
        stop,
        server,
    }
}

impl Running {
    /// Sends one request on a connection of its own: method, target, further header lines, body.
    async fn ask(&self, line: &str, headers: &str, body: &str) -> String {
        let length = body.len();
        let host = match headers.contains("host:") {
            true => "",
            false => "host: localhost\r\n",
        };
        let request = format!(
            "{line} HTTP/1.1\r\n{host}connection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
        );
        let mut answer = String::new();
        match self.address.strip_prefix("unix:") {
            Some(path) => {
                let mut io = UnixStream::connect(path).await.expect("connects");
                io.write_all(request.as_bytes()).await.expect("sends");
                io.read_to_string(&mut answer).await.expect("answers");
            }
            None => {
                let mut io = TcpStream::connect(&self.address).await.expect("connects");
                io.write_all(request.as_bytes()).await.expect("sends");
                io.read_to_string(&mut answer).await.expect("answers");
            }
        }
        answer.make_ascii_lowercase();
        answer
    }

    async fn status(&self, line: &str, headers: &str, body: &str) -> u16 {
        status(&self.ask(line, headers, body).await)
    }

    fn purged(&self) -> Vec<Purge> {
        std::mem::take(&mut *self.told.purged.lock().expect("not poisoned"))
    }
}

fn status(answer: &str) -> u16 {
    let digits = answer.split(' ').nth(1).expect("a status line");
    digits.parse().expect("a status")
}

const TOKEN: &str = "authorization: Bearer s3cret\r\n";

#[tokio::test]
async fn long_texts_are_compressed_and_streams_are_not() {
    let answer = async |Path((length, kind)): Path<(usize, String)>| {
        ([(header::CONTENT_TYPE, kind)], "x".repeat(length))
    };
    let router = compressed(Router::new().route("/{length}/{kind}", get(answer)));
    let coding = async |length: usize, kind: &str, accepted: &str| {
        let uri = format!("/{length}/{}", kind.replace('/', "%2F"));
        let request = Request::get(uri).header(header::ACCEPT_ENCODING, accepted);
        let request = request.body(Body::empty()).expect("a request");
        let answer = router.clone().oneshot(request).await.expect("answered");
        assert_eq!(answer.status(), 200, "{kind} for {accepted}");
        let coding = answer.headers().get(header::CONTENT_ENCODING);
        let coding = coding.map(|coding| coding.to_str().expect("text").to_owned());
        let body = answer.into_body().collect().await.expect("whole");
        assert_eq!(coding.is_some(), body.to_bytes().len() != length);
        coding.unwrap_or_default()
    };
    assert_eq!(coding(50_000, "text/html", "gzip, br").await, "gzip");
    assert_eq!(
        coding(50_000, "application/json", "gzip;q=0.5").await,
        "gzip"
    );
    for (length, kind, why) in [
        (80, "application/json", "it would grow"),
        (50_000, "text/event-stream", "it would be held back"),
        (50_000, "image/webp", "it is compressed"),
    ] {
        assert_eq!(coding(length, kind, "gzip").await, "", "{why}");
    }
    for refusal in ["*;q=0", "identity;q=0, br", "br, *; q=0.0", "GZIP;Q=0"] {
        assert_eq!(coding(50_000, "text/html", refusal).await, "", "{refusal}");
    }
}

#[tokio::test]
async fn other_paths_are_404_and_other_methods_405() {
    let t = start(Some("s3cret")).await;
    assert_eq!(t.status("GET /", "", "").await, 404);
    assert_eq!(t.status("GET /purge/x", TOKEN, "").await, 404);
    let answer = t.ask("GET /purge", "", "").await;
    assert_eq!(status(&answer), 405);
    assert!(answer.contains("\r\nallow: post\r\n"), "{answer}");
    assert_eq!(t.status("POST /metrics", TOKEN, "").await, 405);
}

#[tokio::test]
async fn answers_on_a_unix_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let address = Listen::Unix(folder.path().join("admin.sock"));
    let listener = Listener::bind(&address, 0o600).await;
    let t = start_on(listener.expect("binds"), None);
    assert_eq!(t.status("GET /healthz", "", "").await, 200);
    t.stop.cancel();
    t.server.await.expect("ends in order");
}

#[tokio::test]
async fn stops_while_clients_idle() {
    let t = start(None).await;
    let address = t.address.clone();
    let idle = tokio::task::spawn_blocking(move || {
        let mut io = std::net::TcpStream::connect(address).expect("connects");
        io.write_all(b"GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n")
            .expect("sends");
        let mut first = [0; 15];
        io.read_exact(&mut first).expect("answers");
        assert_eq!(&first, b"HTTP/1.1 200 OK");
        io
    });
    let mut idle = idle.await.expect("no panic");
    t.stop.cancel();
    t.server.await.expect("ends in order");
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).expect("closed in order");
}

#[tokio::test(start_paused = true)]
async fn half_a_request_holds_its_place_for_a_bounded_time() {
    let t = start(Some("s3cret")).await;
    let mut waiting = Vec::new();
    for _ in 0..listen::MAX_CONNECTIONS {
        let mut io = TcpStream::connect(&t.address).await.expect("connects");
        io.write_all(b"GET /healthz HTTP/1.1\r\nho")
            .await
            .expect("sends");
        waiting.push(io);
    }
    assert_eq!(t.status("GET /healthz", "", "").await, 200);
    for mut io in waiting {
        let mut answer = Vec::new();
        // A reset, which is an error, ends it as well.
        let _ = io.read_to_end(&mut answer).await;
        assert!(!answer.starts_with(b"HTTP/1.1 200"));
    }

    let long = format!("{TOKEN}content-length: 1000\r\n");
    let head = format!("POST /purge HTTP/1.1\r\nhost: localhost\r\n{long}\r\n{{");
    let mut io = TcpStream::connect(&t.address).await.expect("connects");
    io.write_all(head.as_bytes()).await.expect("sends");
    let mut answer = [0; 12];
    io.read_exact(&mut answer).await.expect("answers");
    assert_eq!(&answer, b"HTTP/1.1 408");
}
