//! Many streams of HTTP/2 on a slow link.

use std::io;

use tokio::io::{DuplexStream, duplex};

use super::in_memory::{SharedConnection, limits, served};
use super::one_write::Counted;
use super::*;

/// The streams, and the bytes of each.
const STREAMS: usize = 64;
const SIZE: usize = 256 << 10;

/// Carries `rate` bytes a second to the client, and all that it says at once. If the client says something to a server that has
/// closed its end, a reset discards the bytes on their way.
pub(super) async fn slow_link(
    server: DuplexStream,
    client: DuplexStream,
    rate: usize,
) -> io::Result<()> {
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let down = async {
        let mut buffer = vec![0; rate / 10];
        loop {
            let read = from_server.read(&mut buffer).await?;
            if read == 0 {
                return io::Result::Ok(());
            }
            to_client.write_all(&buffer[..read]).await?;
            sleep(Duration::from_secs(read as u64) / rate as u32).await;
        }
    };
    tokio::select! {
        ended = down => ended,
        ended = tokio::io::copy(&mut from_client, &mut to_server) => ended.map(drop),
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_waits_for_its_turn_is_not_stalled() {
    let settings = Settings {
        stall_timeout: Duration::from_secs(2),
        ..limits()
    };
    let (server, near) = duplex(16 << 10);
    let (far, client) = duplex(16 << 10);
    let SharedConnection { handler, .. } = served(Counted::new(server), SIZE, settings);
    tokio::spawn(slow_link(near, far, 100_000));
    let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_connection_window_size(64 << 10)
        .handshake(TokioIo::new(client))
        .await
        .expect("a preface");
    tokio::spawn(connection);
    let answers: Vec<_> = (0..STREAMS)
        .map(|_| {
            let mut sender = sender.clone();
            tokio::spawn(async move {
                let request = Request::get("http://h/").body(Empty::<Bytes>::new());
                let answer = sender.send_request(request.expect("a request")).await?;
                answer.into_body().collect().await
            })
        })
        .collect();
    for answer in answers {
        let bytes = answer.await.expect("no panic").expect("whole").to_bytes();
        assert_eq!(bytes, handler.fake.bytes);
    }
    let metrics = &handler.metrics;
    assert_eq!((metrics.streams_reset.get(), metrics.expired.get()), (0, 0));
}
