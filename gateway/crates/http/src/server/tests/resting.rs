//! Connections without a request: their protocol is not known yet, or they rest between two requests.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};

use super::*;
use crate::server::connection::SharedConnection;
use crate::server::protocol::Protocol;
use tidegate_socket::Connection;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";

/// The server's end of a connection in memory. As one with TLS does, it takes all bytes, and hands them on at a flush.
pub(super) struct Pipe {
    stream: DuplexStream,
    held: Vec<u8>,
    /// Whether a flush has handed bytes on.
    handed_on: bool,
}

impl Pipe {
    pub(super) fn new(stream: DuplexStream) -> Self {
        Self {
            stream,
            held: Vec::new(),
            handed_on: false,
        }
    }
}

impl Connection for Pipe {
    fn take_handed_on(&mut self) -> bool {
        std::mem::take(&mut self.handed_on)
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.held.extend_from_slice(buf);
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while !this.held.is_empty() {
            let sent = ready!(Pin::new(&mut this.stream).poll_write(cx, &this.held))?;
            this.held.drain(..sent);
            this.handed_on = true;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Begins a connection, and calls the function with it and the client's end.
macro_rules! connected {
    ($served:ident, $client:ident, $activity:ident) => {
        let metrics = Arc::new(Metrics::default());
        let $activity = Arc::new(ConnectionActivity::new(metrics.clone()));
        let served = Arc::new(SharedConnection {
            handler: Arc::new(FakeHandler::new(700_000, metrics)),
            activity: $activity.clone(),
            peer: Peer::default(),
        });
        let service = || served.service();
        let (mut $client, server) = duplex(64 << 10);
        let in_force = LiveSettings::from(patient()).load_full();
        let mut $served = Protocol::new(Pipe::new(server), $activity.clone(), in_force, service);
    };
}

/// Serves a connection while its client does something.
macro_rules! serve {
    ($served:ident, $client:expr) => {{
        let client = pin!($client);
        tokio::select! {
            biased;
            done = client => done,
            ended = poll_fn(|cx| $served.poll(cx)) => panic!("it has ended: {ended:?}"),
        }
    }};
}

/// Polls a connection once, which waits then.
macro_rules! waits {
    ($served:ident) => {
        let polled = poll_fn(|cx| Poll::Ready($served.poll(cx))).await;
        assert!(polled.is_pending(), "{polled:?}");
    };
}

/// Sends bytes and reads an answer.
async fn answered(client: &mut DuplexStream, bytes: &[u8]) {
    client.write_all(bytes).await.expect("written");
    let head = head(client).await;
    assert!(head.starts_with("http/1.1 200 ok\r\n"), "{head}");
    assert!(!head.contains("connection: close"), "{head}");
    body(client, 700_000).await;
}

#[tokio::test]
async fn a_connection_that_rests_goes_on_where_it_was() {
    connected!(served, client, activity);
    for begun in [0, 5, REQUEST.len() - 1] {
        let (first, rest) = REQUEST.split_at(begun);
        // The beginning of the next request comes with this one, and hyper has it.
        let bytes = [REQUEST, first].concat();
        serve!(served, answered(&mut client, &bytes));
        for _ in 0..3 {
            if activity.is_idle_for(Duration::ZERO) {
                served.rest();
            }
            waits!(served);
        }
        assert_eq!(served.is_resting(), begun == 0);
        serve!(served, answered(&mut client, rest_of(rest)));
    }
}

/// Returns the rest of a request that has begun, or a whole one.
fn rest_of(rest: &'static [u8]) -> &'static [u8] {
    if rest.is_empty() { REQUEST } else { rest }
}

#[tokio::test]
async fn a_connection_that_rests_ends_when_it_is_told_or_its_client_has_left() {
    for is_told in [true, false] {
        connected!(served, client, activity);
        serve!(served, answered(&mut client, REQUEST));
        served.rest();
        waits!(served);
        match is_told {
            true => served.end(),
            false => client.shutdown().await.expect("left"),
        }
        poll_fn(|cx| served.poll(cx)).await.expect("it ends");
        drop(served);
        assert_eq!(rest(&mut client).await, b"");
    }
}

#[tokio::test]
async fn the_protocol_is_known_however_its_first_bytes_come() {
    connected!(served, client, activity);
    // As those of HTTP/2, up to the second.
    for byte in b"PUT / HTTP/1.1\r\nHost: h\r\n\r" {
        serve!(served, client.write_u8(*byte)).expect("written");
        waits!(served);
    }
    serve!(served, answered(&mut client, b"\n"));

    connected!(served, client, activity);
    for byte in b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0" {
        serve!(served, client.write_u8(*byte)).expect("written");
        waits!(served);
    }
    // Its settings begin with their length, and their type.
    let frame = serve!(served, body(&mut client, 4));
    assert_eq!(frame[3], 4);
}

/// A slow client has not had all of its answer when hyper has handed it over to TLS. Only then does hyper rest.
#[tokio::test]
async fn what_the_socket_holds_is_sent_before_the_connection_rests() {
    for polls in [1, 20] {
        connected!(served, client, activity);
        serve!(served, client.write_all(REQUEST)).expect("written");
        let head = serve!(served, head(&mut client));
        assert!(head.starts_with("http/1.1 200 ok\r\n"), "{head}");
        serve!(served, async {
            while activity.metrics.in_flight.get() > 0 {
                tokio::task::yield_now().await;
            }
        });
        for _ in 0..polls {
            waits!(served);
        }
        assert!(
            !activity.is_idle_for(Duration::ZERO),
            "it has bytes to take"
        );
        served.rest();
        waits!(served);
        assert!(!served.is_resting(), "{polls}");
        serve!(served, body(&mut client, 700_000));
        waits!(served);
        assert!(served.is_resting(), "{polls}");
        serve!(served, answered(&mut client, REQUEST));
    }
}

/// Bytes that come after an answer may be the rest of a request's body. They are no request.
#[tokio::test(start_paused = true)]
async fn a_connection_does_not_rest_over_a_body_that_was_not_read() {
    const HEAD: &[u8] = b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n";
    for comes in [true, false] {
        connected!(served, client, activity);
        serve!(served, answered(&mut client, HEAD));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(activity.is_idle_for(Duration::from_secs(1)));
        served.rest();
        waits!(served);
        assert!(!served.is_resting());
        if comes {
            serve!(served, client.write_all(&[b'x'; 100])).expect("written");
            while !served.is_resting() {
                waits!(served);
                tokio::task::yield_now().await;
                served.rest();
            }
            serve!(served, answered(&mut client, REQUEST));
            continue;
        }
        // The gateway has given the body up.
        tokio::time::advance(Duration::from_secs(31)).await;
        tokio::task::yield_now().await;
        client.write_all(REQUEST).await.expect("there is room");
        let _ = poll_fn(|cx| served.poll(cx)).await;
        drop(served);
        assert_eq!(rest(&mut client).await, b"");
    }
}

/// A client that asks for the end of the connection waits for it.
#[tokio::test]
async fn a_connection_that_its_client_does_not_keep_ends() {
    for head in [
        "GET / HTTP/1.1\r\nHost: h\r\nConnection: TE, Close\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
    ] {
        connected!(served, client, activity);
        serve!(served, client.write_all(head.as_bytes())).expect("written");
        serve!(served, super::head(&mut client));
        serve!(served, async {
            while activity.metrics.in_flight.get() > 0 {
                tokio::task::yield_now().await;
            }
        });
        // hyper has handed all of the answer over, and the client has not taken it.
        served.rest();
        let ended = async { poll_fn(|cx| served.poll(cx)).await };
        let (ended, _) = tokio::join!(ended, body(&mut client, 700_000));
        ended.expect("in order");
        drop(served);
        assert_eq!(rest(&mut client).await, b"");
    }
}
