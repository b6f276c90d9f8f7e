//! TLS on the listeners of the whole gateway: names, protocols, certificates that change, clients that show one, and
//! clients that mean no good.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Version};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustix::process::Signal;
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::client::TlsStream;

#[path = "tls/authority.rs"]
mod authority;
#[path = "support/door.rs"]
#[expect(dead_code, reason = "other suites let it hang")]
mod door;
#[path = "tls/flush.rs"]
mod flush;
#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
#[path = "support/mount.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod mount;
#[cfg(feature = "real-parts")]
#[path = "tls/openssl.rs"]
mod openssl;
#[path = "support/ports.rs"]
mod ports;
#[path = "tls/recipe.rs"]
mod recipe;
#[path = "support/serving.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod serving;
#[path = "support/world.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod world;

use authority::{Authority, connect, first_of};
use gateway::{Whole, ask};
use mount::TOKEN;
use serving::Serving;
use world::{World, sample};

const LONG: Duration = Duration::from_secs(300);

/// Longer than the buffers of TLS and of a socket.
const SIZE: usize = 5_000_000;

/// A bucket, and certificates for `a.example` and, for all others, `b.example`, in its folder.
struct Secured {
    world: World,
    authority: Authority,
}

impl Secured {
    async fn new() -> Self {
        let world = World::new().await;
        world.put("o", &sample(SIZE, 1)).await;
        let authority = Authority::new();
        authority.write(world.folder.path(), "b", &["b.example"]);
        authority.write(world.folder.path(), "a", &["a.example", "*.a.example"]);
        Self { world, authority }
    }

    fn folder(&self) -> &Path {
        self.world.folder.path()
    }

    /// Returns a configuration with both certificates, and these lines in `[http]`, and behind all.
    fn config(&self, http: &str, more: &str) -> String {
        let config = self.world.config("ttl = \"1h\"");
        let folder = self.folder().display();
        let certificate = |name: &str| {
            format!(
                "[[tls.certificates]]\ncertificate = \"{folder}/{name}.pem\"\n\
                 key = {{ file = \"{folder}/{name}.key\" }}\n"
            )
        };
        let (b, a) = (certificate("b"), certificate("a"));
        format!(
            "{config}[http]\nlisten = {{ address = \"127.0.0.1:1\", tls = true }}\n{http}\n{b}{a}{more}"
        )
    }

    async fn start(&self, http: &str, more: &str) -> Whole {
        Whole::start(&self.config(http, more)).await
    }

    fn shown(&self, name: &str) -> CertificateDer<'static> {
        first_of(self.folder().join(format!("{name}.pem")))
    }
}

fn certificate_of(stream: &TlsStream<TcpStream>) -> CertificateDer<'static> {
    let (_, connection) = stream.get_ref();
    connection.peer_certificates().expect("shown")[0].clone()
}

fn request(path: &str) -> Request<Empty<Bytes>> {
    let request = Request::get(format!("https://a.example{path}"));
    let request = request.header("host", "a.example").body(Empty::new());
    request.expect("a request")
}

/// Sends a GET over the protocol that was agreed on; returns the version, the status and the body of the answer.
async fn get(stream: TlsStream<TcpStream>, path: &str) -> (Version, u16, Bytes) {
    let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let io = TokioIo::new(stream);
    let answered = async {
        let answer = if h2 {
            let shaken = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await;
            let (mut sender, connection) = shaken.expect("HTTP/2");
            tokio::spawn(connection);
            sender.send_request(request(path)).await
        } else {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(io)
                .await
                .expect("HTTP/1.1");
            tokio::spawn(connection);
            sender.send_request(request(path)).await
        };
        let (head, body) = answer.expect("an answer").into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes();
        (head.version, head.status.as_u16(), body)
    };
    timeout(LONG, answered).await.expect("in time")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_name_has_its_certificate_and_each_protocol_the_bytes() {
    let secured = Secured::new().await;
    let whole = secured.start("", "").await;
    for (protocols, version) in [
        (&["h2", "http/1.1"][..], Version::HTTP_2),
        (&["http/1.1"], Version::HTTP_11),
        (&[], Version::HTTP_11),
    ] {
        let client = secured.authority.client(protocols);
        let stream = connect(whole.http, &client, "a.example").await;
        let stream = stream.expect("TLS");
        assert!(certificate_of(&stream) == secured.shown("a"));
        let (answered, status, body) = get(stream, "/o").await;
        assert_eq!((answered, status), (version, 200), "{protocols:?}");
        assert!(body == sample(SIZE, 1), "{protocols:?}");
    }
    let client = secured.authority.client(&["http/1.1"]);
    for (name, shown) in [("x.a.example", "a"), ("b.example", "b")] {
        let stream = connect(whole.http, &client, name).await.expect(name);
        assert!(certificate_of(&stream) == secured.shown(shown), "{name}");
    }
    // A name that no certificate has gets the first one, which the client refuses.
    assert!(connect(whole.http, &client, "c.example").await.is_err());
    let stranger = secured.authority.client(&["imap"]);
    assert!(connect(whole.http, &stranger, "a.example").await.is_err());
    let failed = ["tidegate_tls_handshakes_total", "failed"];
    assert!(whole.metric(&failed).await >= 1);
    let ends = whole.metric(&["tidegate_tls_certificate_expiry_seconds", "a.pem"]);
    assert!(ends.await > 1_700_000_000);
    whole.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_s_certificate_is_a_way_in() {
    let secured = Secured::new().await;
    let clients = Authority::new();
    let ca = secured.folder().join("clients.pem");
    clients.write_all(&ca);
    // At the end of the second certificate's table.
    let more = format!(
        "[[route]]\npath = \"/\"\norigin = \"media\"\n\
         [[route]]\npath = \"/private/\"\norigin = \"media\"\naccess = \"members\"\n\
         [access.members]\nclients = [\"alice\"]\ntokens = {{ bob = \"{TOKEN}\" }}\n\
         [tls]\nclient_ca = \"{}\"\n",
        ca.display()
    );
    let whole = secured.start("", &more).await;
    let authority = &secured.authority;
    for (client, expected) in [
        (authority.client_as(&clients, "alice"), 200),
        (authority.client_as(&clients, "mallory"), 401),
        (authority.client(&["http/1.1"]), 401),
    ] {
        let stream = connect(whole.http, &client, "a.example").await;
        let (_, status, body) = get(stream.expect("TLS"), "/private/o").await;
        assert_eq!(status, expected);
        assert_eq!(body == sample(SIZE, 1), expected == 200);
        let stream = connect(whole.http, &client, "a.example").await;
        let (_, status, _) = get(stream.expect("TLS"), "/o").await;
        assert_eq!(status, 200, "the open route");
    }
    // An authority that is not ours: no answer, whatever the route.
    let forged = authority.client_as(&Authority::new(), "alice");
    let mut byte = [0];
    let ended = match connect(whole.http, &forged, "a.example").await {
        // Over TLS 1.3 the client sees it at the first read.
        Ok(mut stream) => stream.read_exact(&mut byte).await.map(drop),
        Err(error) => Err(error),
    };
    assert!(ended.is_err());
    whole.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_open_connections_are_bounded_and_cut() {
    const CONNECTIONS: u64 = 200;
    const PLACES: u64 = 40;
    let secured = Secured::new().await;
    let http = format!("max_connections = {PLACES}\nheader_timeout = \"2s\"");
    let whole = secured.start(&http, "").await;
    let mut held = Vec::new();
    for nth in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(whole.http).await.expect("listening");
        // One half sends nothing, the other the beginning of a hello.
        let begin: &[u8] = if nth % 2 == 0 {
            b""
        } else {
            &[22, 3, 1, 2, 0, 1]
        };
        stream.write_all(begin).await.expect("room");
        held.push(stream);
    }
    assert!(whole.metric(&["tidegate_http_connections "]).await <= PLACES);
    // Behind all of them, a client that means it.
    let client = secured.authority.client(&["h2"]);
    let turn = async {
        loop {
            // A handshake that a slow machine makes last for 2 s is cut like any other.
            if let Ok(stream) = connect(whole.http, &client, "a.example").await {
                return stream;
            }
        }
    };
    let stream = timeout(LONG, turn).await.expect("its turn comes");
    let (_, status, _) = get(stream, "/o").await;
    assert_eq!(status, 200);
    // Those without a word, and those cut short: when their time has come, or earlier for others that wait.
    let cut = async || {
        let late = whole.metric(&["tidegate_tls_handshakes_total", "late"]);
        let displaced = whole.metric(&["tidegate_http_connections_displaced_total "]);
        late.await + displaced.await
    };
    let all = async {
        while cut().await < CONNECTIONS {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, all).await.expect("each is cut");
    for mut stream in held {
        let mut rest = Vec::new();
        let read = timeout(LONG, stream.read_to_end(&mut rest)).await;
        assert!(read.is_ok(), "each is closed");
    }
    whole.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_http_on_a_port_with_tls_is_told() {
    let secured = Secured::new().await;
    let whole = secured.start("", "").await;
    let got = ask(whole.http, Method::GET, "/o", &[]).await;
    assert_eq!(got.status, 400);
    assert!(got.text().contains("HTTPS"), "{}", got.text());
    // It is counted once the answer has gone.
    let counted = async {
        let words = ["tidegate_tls_handshakes_total", "no_tls"];
        while whole.metric(&words).await != 1 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, counted).await.expect("it is counted");
    whole.stop().await;
}

/// Has the public listener of a configuration that [`Serving`] has written speak TLS.
fn encrypt(serving: &Serving) {
    let text = std::fs::read_to_string(serving.config()).expect("written");
    let plain = format!("listen = \"{}\"", serving.http);
    assert!(text.contains(&plain));
    let table = format!("listen = {{ address = \"{}\", tls = true }}", serving.http);
    std::fs::write(serving.config(), text.replace(&plain, &table)).expect("written");
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_change_under_open_connections() {
    let secured = Secured::new().await;
    let config = secured.config("", "");
    // `Serving` brings its own addresses.
    let http = "[http]\nlisten = { address = \"127.0.0.1:1\", tls = true }\n";
    let mut serving = Serving::configured(&config.replace(http, ""));
    encrypt(&serving);
    serving.start().await;
    let client = secured.authority.client(&["http/1.1"]);
    let (old, mut sender) = keep(&serving, &client).await;
    assert!(old == secured.shown("a"));
    let asked = async |sender: &mut Sender| {
        let answer = timeout(LONG, sender.send_request(request("/o"))).await;
        let answer = answer.expect("in time").expect("an answer");
        let body = answer.into_body().collect().await.expect("a whole body");
        body.to_bytes() == sample(SIZE, 1)
    };
    assert!(asked(&mut sender).await);

    // A renewal: the files are seen to change, without a signal.
    let names = ["a.example", "*.a.example"];
    secured.authority.write(secured.folder(), "a", &names);
    let new = secured.shown("a");
    assert!(new != old);
    shows(&serving, &client, &new).await;
    assert!(asked(&mut sender).await, "the old connection goes on");

    // A broken one changes nothing, neither when it is seen nor by a signal.
    let key = secured.folder().join("a.key");
    let right = std::fs::read(&key).expect("written");
    std::fs::write(&key, "no key").expect("written");
    serving.signal(Signal::HUP);
    let refused = async {
        serving
            .logged(&["the configuration was not reloaded"])
            .await;
        while serving
            .metric(&["tidegate_tls_reloads_total", "failed"])
            .await
            == 0
        {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, refused).await.expect("it is told");
    shows(&serving, &client, &new).await;
    assert!(!serving.log().contains("no key"), "{}", serving.log());

    // A signal takes it at once, and with it a configuration of other certificates.
    std::fs::write(&key, right).expect("written");
    let text = std::fs::read_to_string(serving.config()).expect("written");
    secured.authority.write(secured.folder(), "c", &names);
    let swapped = text.replace("/a.pem", "/c.pem").replace("/a.key", "/c.key");
    std::fs::write(serving.config(), swapped).expect("written");
    serving.signal(Signal::HUP);
    shows(&serving, &client, &secured.shown("c")).await;
    let expiry = serving.metric(&["tidegate_tls_certificate_expiry_seconds", "/a.pem"]);
    assert_eq!(expiry.await, 0, "it is in force no more");
    assert!(asked(&mut sender).await, "the old connection goes on");
    serving.end().await;
}

type Sender = hyper::client::conn::http1::SendRequest<Empty<Bytes>>;

/// Opens a connection to keep; returns the certificate that it began with.
async fn keep(serving: &Serving, client: &Arc<ClientConfig>) -> (CertificateDer<'static>, Sender) {
    let stream = connect(serving.http, client, "a.example").await;
    let stream = stream.expect("TLS");
    let shown = certificate_of(&stream);
    let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = shaken.expect("HTTP/1.1");
    tokio::spawn(connection);
    (shown, sender)
}

/// Waits until new connections get this certificate.
async fn shows(serving: &Serving, client: &Arc<ClientConfig>, wanted: &CertificateDer<'_>) {
    let shown = async {
        loop {
            let stream = connect(serving.http, client, "a.example").await;
            if certificate_of(&stream.expect("TLS")) == *wanted {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, shown).await.expect("it is shown");
}

/// Runs a command with a configuration.
fn tidegate(config: &str, line: &[&str]) -> (bool, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tidegate.toml");
    std::fs::write(&path, config).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = command.args(line).arg("--config").arg(path).output();
    let output = output.expect("it runs");
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8(text).expect("text"),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_reach_an_admin_listener_with_tls() {
    let secured = Secured::new().await;
    let listen = "[admin]\nlisten = { address = \"127.0.0.1:2\", tls = true }\n";
    let config = secured.config("", "").replace("[admin]\n", listen);
    let whole = Whole::start(&config).await;
    let own = config.replace("127.0.0.1:2", &whole.admin.to_string());
    let other = own.replace("/b.pem", "/a.pem");
    let forged = other.replace("/a.pem", "/c.pem");
    Authority::new().write(secured.folder(), "c", &["b.example"]);
    let run = async |config: &str| {
        let config = config.to_owned();
        let done = tokio::task::spawn_blocking(move || tidegate(&config, &["purge", "/o"])).await;
        done.expect("no panic")
    };
    let (done, said) = run(&own).await;
    assert!(done, "{said}");
    // A gateway that has none of the certificates of the configuration.
    let (done, said) = run(&forged).await;
    assert!(!done && said.contains("certificate"), "{said}");
    assert!(!said.contains("t0ken-of-the-tests"), "{said}");
    // In the clear there is no answer of the operator's listener.
    assert_eq!(whole.look("/metrics").await.status, 400);
    whole.stop().await;
}

#[tokio::test]
async fn check_says_which_certificate_does_not_fit() {
    let secured = Secured::new().await;
    let config = secured.config("", "");
    let (done, said) = tidegate(&config, &["check"]);
    assert!(done && said.contains("127.0.0.1:1 (TLS)"), "{said}");
    let mixed = config.replace("/a.key", "/b.key");
    let (done, said) = tidegate(&mixed, &["check"]);
    assert!(!done, "{said}");
    assert!(
        said.contains("a.pem is that of another certificate"),
        "{said}"
    );
    let missing = config.replace("/a.pem", "/none.pem");
    let (done, said) = tidegate(&missing, &["check"]);
    assert!(
        done && said.contains("warning: `tls`: cannot read"),
        "{said}"
    );
}
