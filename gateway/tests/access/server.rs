//! A server that a gateway asks: for keys, or about requests. It can hold its answers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

/// Time limit of a wait.
const LONG: Duration = Duration::from_secs(300);

/// A server whose answers are made of the heads of requests.
pub(crate) struct Server {
    address: SocketAddr,
    /// The number of requests that it has had.
    asked: watch::Sender<usize>,
    is_held: watch::Sender<bool>,
}

impl Server {
    /// Starts one that answers a head with what `answer` returns.
    pub(crate) async fn start(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("bound");
        let (asked, is_held) = (watch::Sender::new(0), watch::Sender::new(false));
        let (count, held, answer) = (asked.clone(), is_held.subscribe(), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (count, held, answer) = (count.clone(), held.clone(), answer.clone());
                tokio::spawn(serve(stream, (count, held), move |head: &str| answer(head)));
            }
        });
        Self {
            address,
            asked,
            is_held,
        }
    }

    /// Returns the URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the number of requests that it has had.
    pub(crate) fn asked(&self) -> usize {
        *self.asked.borrow()
    }

    /// Waits until it has had so many requests.
    pub(crate) async fn until_asked(&self, count: usize) {
        let mut asked = self.asked.subscribe();
        let enough = asked.wait_for(|asked| *asked >= count);
        let enough = timeout(LONG, enough).await.expect("it is asked in time");
        enough.expect("it is there");
    }

    /// Holds the answers to requests, until [`Self::release`].
    pub(crate) fn hold(&self) {
        self.is_held.send_replace(true);
    }

    /// Answers all that waits, and what comes.
    pub(crate) fn release(&self) {
        self.is_held.send_replace(false);
    }
}

async fn serve(
    stream: TcpStream,
    (asked, mut held): (watch::Sender<usize>, watch::Receiver<bool>),
    answer: impl Fn(&str) -> String,
) {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while matches!(stream.read_line(&mut head).await, Ok(1..)) {
        if !head.ends_with("\r\n\r\n") {
            continue;
        }
        asked.send_modify(|asked| *asked += 1);
        let has_ended = held.wait_for(|held| !held).await.is_err();
        let said = answer(&head);
        head.clear();
        // A client that waits no longer has closed its connection.
        if has_ended || stream.write_all(said.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Returns an answer with this status line, perhaps further headers in it, and this body.
pub(crate) fn answer(line: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {line}\r\ncontent-length: {length}\r\n\r\n{body}")
}
