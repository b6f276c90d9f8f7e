//! An HTTP server for tests, which says what it is told, and keeps the heads of the requests.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use http::Uri;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// The answer to each request.
#[derive(Debug, Clone)]
pub(crate) enum Says {
    /// Status line and headers, and a body with its length.
    Text(String, String),
    /// This text, again and again.
    Endless(&'static str, &'static str),
    /// Nothing.
    Silence,
}

impl Says {
    pub(crate) fn status(line: &str) -> Self {
        Self::Text(line.to_owned(), String::new())
    }
}

#[derive(Debug)]
pub(crate) struct FakeServer {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
    says: Arc<Mutex<Says>>,
    /// A place for each answer that may be given.
    pub(crate) gate: Arc<Semaphore>,
    task: JoinHandle<()>,
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FakeServer {
    pub(crate) async fn start(says: Says) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("bound");
        let (seen, says) = (Arc::default(), Arc::new(Mutex::new(says)));
        let gate = Arc::new(Semaphore::new(1000));
        let shared = (Arc::clone(&seen), Arc::clone(&says), Arc::clone(&gate));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, says, gate) = shared.clone();
                tokio::spawn(serve(stream, seen, says, gate));
            }
        });
        Self {
            address,
            seen,
            says,
            gate,
            task,
        }
    }

    pub(crate) fn url(&self, path: &str) -> Uri {
        let url = format!("http://{}{path}", self.address);
        url.parse().expect("a URL")
    }

    /// Returns the heads of the requests that came.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("whole").clone()
    }

    pub(crate) fn say(&self, says: Says) {
        *self.says.lock().expect("whole") = says;
    }
}

async fn serve(
    mut stream: TcpStream,
    seen: Arc<Mutex<Vec<String>>>,
    says: Arc<Mutex<Says>>,
    gate: Arc<Semaphore>,
) {
    let mut head = Vec::new();
    while let Ok(byte) = stream.read_u8().await {
        head.push(byte);
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        let text = String::from_utf8_lossy(&head).into_owned();
        seen.lock().expect("whole").push(text);
        head.clear();
        gate.acquire().await.expect("open").forget();
        let says = says.lock().expect("whole").clone();
        let written = match says {
            Says::Silence => continue,
            Says::Text(head, body) => {
                let length = body.len();
                let text = format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\n\r\n{body}");
                stream.write_all(text.as_bytes()).await
            }
            Says::Endless(first, again) => {
                let mut written = stream.write_all(first.as_bytes()).await;
                while written.is_ok() {
                    written = stream.write_all(again.as_bytes()).await;
                }
                written
            }
        };
        if written.is_err() {
            return;
        }
    }
}
