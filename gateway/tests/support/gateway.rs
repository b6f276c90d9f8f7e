//! A whole gateway on ports of its own, and a client of both its listeners.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use tidegate::app::{Gateway, Sockets};
use tidegate_config::Environment;
use tidegate_plan::Listen;
use tidegate_socket::Listener;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

/// Timeout of a test's waits; only a failure waits so long.
const LONG: Duration = Duration::from_secs(300);

/// The variables of a gateway that takes no state disk of a slow machine for one that hangs: what it has written down is
/// found, and durable.
pub(crate) const PATIENT: [(&str, &str); 2] = [
    ("TIDEGATE_STATE__READ_TIMEOUT", "10m"),
    ("TIDEGATE_STATE__WRITE_TIMEOUT", "10m"),
];

/// A running gateway.
#[derive(Debug)]
pub(crate) struct Whole {
    gateway: Gateway,
    /// The public listener.
    pub(crate) http: SocketAddr,
    /// The admin listener.
    pub(crate) admin: SocketAddr,
}

impl Whole {
    /// Starts a gateway with this configuration and free ports.
    pub(crate) async fn start(toml: &str) -> Self {
        Self::try_start(toml).await.expect("it starts")
    }

    /// Does the same, and returns the error if it does not start.
    pub(crate) async fn try_start(toml: &str) -> anyhow::Result<Self> {
        Self::try_start_with(toml, |_| ()).await
    }

    /// Does the same, with sockets that `exchange` has looked at.
    pub(crate) async fn try_start_with(
        toml: &str,
        exchange: impl FnOnce(&mut Sockets),
    ) -> anyhow::Result<Self> {
        let env = Environment::from_iter(PATIENT);
        let loaded = tidegate_config::parse("test.toml", toml, &env);
        let mut loaded = loaded.expect("a right configuration");
        let config = &mut loaded.config;
        let any = Listen::Tcp(([127, 0, 0, 1], 0).into());
        // TLS stays as it is configured.
        config.http.listen.0.truncate(1);
        config.http.listen.0[0].address = any.clone();
        config.admin.listen.address = any;
        let mut sockets = Sockets::bind(config).await.expect("free ports");
        exchange(&mut sockets);
        let (http, admin) = (bound(&sockets.http[0]), bound(&sockets.admin));
        Ok(Self {
            gateway: Gateway::start(loaded, &env, sockets).await?,
            http,
            admin,
        })
    }

    /// Sends a GET to the public listener.
    pub(crate) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Got {
        ask(self.http, Method::GET, path, headers).await
    }

    /// Sends a GET to the admin listener.
    pub(crate) async fn look(&self, path: &str) -> Got {
        ask(self.admin, Method::GET, path, &[]).await
    }

    /// Waits until the gateway is ready.
    pub(crate) async fn ready(&self) {
        let since = Instant::now();
        loop {
            let got = self.look("/readyz").await;
            if got.status == 200 {
                return;
            }
            assert!(since.elapsed() < LONG, "not ready: {:?}", got.text());
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Returns the sum of the samples whose name and labels contain each of `words`.
    pub(crate) async fn metric(&self, words: &[&str]) -> u64 {
        self.look("/metrics").await.metric(words)
    }

    /// Returns the number of requests for bytes of objects that the origin got.
    pub(crate) async fn gets(&self) -> u64 {
        self.metric(&["tidegate_origin_requests_total{", "kind=\"get\""])
            .await
    }

    /// Stops the gateway in order.
    pub(crate) async fn stop(self) {
        let stopped = timeout(LONG, self.gateway.stop()).await;
        stopped.expect("in time");
    }
}

fn bound(listener: &Listener) -> SocketAddr {
    match listener.address().expect("bound") {
        Listen::Tcp(address) => address,
        Listen::Unix(_) => panic!("asked for TCP"),
    }
}

/// A client's answer.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Got {
    /// Returns a header as text, empty if it is missing.
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().expect("text"))
    }

    /// Returns the body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).expect("text")
    }

    /// Returns the sum of its samples whose name and labels contain each of `words`.
    pub(crate) fn metric(&self, words: &[&str]) -> u64 {
        let text = self.text();
        let of_interest =
            |line: &&str| !line.starts_with('#') && words.iter().all(|word| line.contains(word));
        let values = text.lines().filter(of_interest).map(|line| {
            let value = line.rsplit(' ').next().expect("a value");
            value.parse::<f64>().expect("a number")
        });
        values.sum::<f64>() as u64
    }
}

/// Sends one request on a connection of its own, whose answer must be whole.
pub(crate) async fn ask(
    address: SocketAddr,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
) -> Got {
    send(address, method, path, headers, "").await
}

/// Does the same with a body.
pub(crate) async fn send(
    address: SocketAddr,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Got {
    let mut request = Request::builder().method(method).uri(path);
    if !headers.iter().any(|(name, _)| *name == "host") {
        request = request.header("host", address.to_string());
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request
        .body(Full::new(Bytes::from(body.to_owned())))
        .expect("a request");
    let answered = async {
        let stream = TcpStream::connect(address).await.expect("listening");
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.expect("a connection");
        let connection = tokio::spawn(connection);
        let answer = sender.send_request(request).await.expect("an answer");
        let (head, body) = answer.into_parts();
        let body = body.collect().await.expect("a whole body");
        connection.abort();
        Got {
            status: head.status.as_u16(),
            headers: head.headers,
            body: body.to_bytes(),
        }
    };
    timeout(LONG, answered).await.expect("in time")
}
