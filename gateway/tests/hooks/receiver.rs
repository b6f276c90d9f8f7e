//! A plain HTTP receiver of hooks.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::LONG;

/// The way in which a receiver answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Ok,
    /// No connection.
    Down,
    /// No answer.
    Silent,
    Status(u16),
    /// 302 to another path of itself.
    Redirect,
    /// 200, and a body without end.
    Endless,
}

/// A request that came.
#[derive(Debug)]
pub(crate) struct Request {
    /// Method and target.
    pub(crate) line: String,
    /// The headers, with names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// A receiver that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    requests: Mutex<mpsc::UnboundedReceiver<Request>>,
    seen: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Receiver {
    pub(crate) async fn start(manner: Manner) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        socket.bind(any).expect("a port");
        let address = socket.local_addr().expect("bound");
        let (tell, requests) = mpsc::unbounded_channel();
        let seen = Arc::new(AtomicUsize::new(0));
        let count = seen.clone();
        // A port that is bound and not listened at stays ours, and refuses clients.
        let (bound, listener) = match manner {
            Manner::Down => (Some(socket), None),
            _ => (None, Some(socket.listen(1024).expect("it listens"))),
        };
        let task = tokio::spawn(async move {
            let _bound = bound;
            let Some(listener) = listener else {
                return std::future::pending().await;
            };
            loop {
                let (stream, _) = listener.accept().await.expect("accepts");
                let (tell, count) = (tell.clone(), count.clone());
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    let request = read(&mut stream).await;
                    count.fetch_add(1, Ordering::Relaxed);
                    let _ = tell.send(request);
                    answer(&mut stream, manner).await;
                });
            }
        });
        Self {
            address,
            requests: Mutex::new(requests),
            seen,
            task,
        }
    }

    /// Returns the next request.
    pub(crate) async fn next(&self) -> Request {
        let mut requests = self.requests.lock().await;
        let next = timeout(LONG, requests.recv()).await;
        next.expect("in time").expect("it runs")
    }

    /// Returns the number of requests so far.
    pub(crate) fn seen(&self) -> usize {
        self.seen.load(Ordering::Relaxed)
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Request {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.expect("a line");
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let header = |line: &String| {
        let (name, value) = line.split_once(": ").expect("a header");
        (name.to_ascii_lowercase(), value.to_owned())
    };
    let headers: BTreeMap<_, _> = lines[1..].iter().map(header).collect();
    let length = headers.get("content-length");
    let length = length.map_or(0, |length| length.parse().expect("a length"));
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.expect("a body");
    let line = lines[0].strip_suffix(" HTTP/1.1").expect("HTTP");
    Request {
        line: line.to_owned(),
        headers,
        body: String::from_utf8(body).expect("text"),
    }
}

async fn answer(stream: &mut BufReader<TcpStream>, manner: Manner) {
    let head = match manner {
        Manner::Ok | Manner::Down => "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_owned(),
        Manner::Silent => String::new(),
        Manner::Status(status) => format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n"),
        Manner::Redirect => {
            "HTTP/1.1 302 Found\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n".to_owned()
        }
        Manner::Endless => "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_owned(),
    };
    let mut sent = stream.write_all(head.as_bytes()).await;
    while manner == Manner::Endless && sent.is_ok() {
        sent = stream.write_all(b"4\r\nxxxx\r\n").await;
    }
    // Until the client leaves.
    let _ = stream.read_u8().await;
}
