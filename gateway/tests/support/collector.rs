//! A collector of traces (OTLP over HTTP) that keeps what it is sent.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Timeout of a test's waits; only a failure waits so long.
const LONG: Duration = Duration::from_secs(300);

/// A server that keeps what it is sent and answers 200, or nothing at all.
#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Seen>,
}

#[derive(Default)]
pub(crate) struct Seen {
    /// The head and the body of each request.
    requests: Mutex<Vec<(String, Vec<u8>)>>,
    pub(crate) arrived: Notify,
}

impl Receiver {
    pub(crate) async fn start(answers: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let seen = Arc::new(Seen::default());
        let kept = seen.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("accepts");
                tokio::spawn(serve(stream, kept.clone(), answers));
            }
        });
        Self { address, seen }
    }

    pub(crate) fn requests(&self) -> Vec<(String, Vec<u8>)> {
        self.seen.requests.lock().expect("not poisoned").clone()
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        let requests = self.requests();
        let batches = requests
            .iter()
            .map(|(_, body)| ExportTraceServiceRequest::decode(&**body).expect("a request"));
        let resources = batches.flat_map(|batch| batch.resource_spans);
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }

    /// Returns the spans once `count` roots of this name are among them: a root ends last of its trace but for what goes on
    /// behind.
    pub(crate) async fn traces(&self, name: &str, count: usize) -> Vec<Span> {
        let come = async {
            loop {
                let arrived = self.seen.arrived.notified();
                let spans = self.spans();
                let roots = spans.iter().filter(|span| span.name == name);
                if roots.count() >= count {
                    return spans;
                }
                arrived.await;
            }
        };
        timeout(LONG, come).await.expect("in time")
    }
}

/// Reads requests of one connection; keeps each before it is answered.
async fn serve(stream: TcpStream, seen: Arc<Seen>, answers: bool) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let is_length = name.eq_ignore_ascii_case("content-length");
            is_length.then(|| value.trim().parse().expect("a number"))
        });
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body).await.expect("a body");
        seen.requests
            .lock()
            .expect("not poisoned")
            .push((head, body));
        seen.arrived.notify_one();
        if !answers {
            std::future::pending::<()>().await;
        }
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(answer).await.expect("it listens");
    }
}

/// Returns the spans of this name.
pub(crate) fn named<'s>(spans: &'s [Span], name: &str) -> Vec<&'s Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

/// Returns an attribute of a span.
pub(crate) fn text(span: &Span, name: &str) -> String {
    let found = span.attributes.iter().find(|it| it.key == name);
    let value = found.and_then(|it| it.value.clone()?.value);
    match value.unwrap_or_else(|| panic!("no {name} in {span:?}")) {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        Value::BoolValue(flag) => flag.to_string(),
        other => panic!("{other:?}"),
    }
}
