//! HTTP/2 connections of an attacker.

use bytes::Bytes;
use h2::RecvStream;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use http::{Request, Response};
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
