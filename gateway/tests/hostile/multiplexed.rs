//! HTTP/2 connections of an attacker.

use bytes::Bytes;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{Request, Response};
use tidegate_origin::fake::Fault;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::target::{LONG, Target};

/// An HTTP/2 connection whose task answers PING and SETTINGS, as an attacker's does.
pub(crate) struct Multiplexed {
    pub(crate) send: SendRequest<Bytes>,
    /// Answers that are neither read nor dropped; a drop would reset their streams.
    pub(crate) answers: Vec<Response<RecvStream>>,
    task: JoinHandle<Result<(), h2::Error>>,
}

impl Drop for Multiplexed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Multiplexed {
    /// Connects with a window of `window` bytes for each stream.
    pub(crate) async fn connect(target: &Target, window: u32) -> Self {
        let stream = timeout(LONG, TcpStream::connect(target.http)).await;
        let stream = stream.expect("in time").expect("it listens");
        let mut builder = Builder::new();
        builder
            .initial_window_size(window)
            .max_concurrent_reset_streams(100_000);
        let (send, connection): (_, Connection<TcpStream, Bytes>) =
            builder.handshake(stream).await.expect("a preface");
        let task = tokio::spawn(connection);
        Self {
            send,
            answers: Vec::new(),
            task,
        }
    }

    /// Requests `path`; returns `None` if the connection or the stream is refused.
    pub(crate) async fn ask(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Option<ResponseFuture> {
        let mut request = Request::get(format!("http://target{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).expect("a request");
        let ready = timeout(LONG, self.send.clone().ready()).await;
        self.send = ready.expect("in time").ok()?;
        let (answer, _) = self.send.send_request(request, true).ok()?;
        Some(answer)
    }
}

/// The GETs of a client that sends bodies with them, and the bytes of each: three times the window of a connection, and half
/// of that of a stream.
const GETS: usize = 6;
const UNWANTED: usize = 512 << 10;

/// Sends bytes as the server has room for them.
async fn send(body: &mut SendStream<Bytes>) {
    let mut left = UNWANTED;
    while left > 0 {
        body.reserve_capacity(left.min(16 << 10));
        let room = std::future::poll_fn(|cx| body.poll_capacity(cx)).await;
        let room = room.expect("the stream is open").expect("no error");
        let piece = Bytes::from(vec![0; room.min(left)]);
        left -= piece.len();
        body.send_data(piece, false).expect("there is room");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_beside_gets_are_discarded_while_their_answers_are_pending() {
    let target = Target::start().await;
    target.s3.bucket.put("cold", vec![7; 100_000]);
    target.s3.bucket.set_faults([Fault::Latency(2 * LONG)]);
    let attacker = Multiplexed::connect(&target, 65_535).await;
    let mut pending = Vec::new();
    for _ in 0..GETS {
        let mut sender = attacker.send.clone().ready().await.expect("it stays");
        let request = Request::get("http://target/cold").body(());
        let request = request.expect("a request");
        let (answer, mut body) = sender.send_request(request, false).expect("a stream");
        let sent = timeout(LONG, send(&mut body)).await;
        sent.expect("the server keeps none of it");
        pending.push((answer, body));
    }
}
