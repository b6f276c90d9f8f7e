//! Connections of HTTP/2 that are told to end while their client says nothing.

use tokio::io::{DuplexStream, duplex};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::in_memory::{SharedConnection, all_wait, limits, served};
use super::one_write::Counted;
use super::resting::Pipe;
use super::slow_streams::slow_link;
use super::*;

/// The beginning of a connection: its preface, empty settings, and GET of `http://h/` as stream 1.
const BEGINNING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
    \0\0\0\x04\0\0\0\0\0\
    \0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01h";

/// Serves a client that has had an answer, and from then on answers no PING.
async fn mute() -> (SharedConnection, DuplexStream) {
    let (mut client, server) = duplex(64 << 10);
    let served = served(Counted::new(server), 10, limits());
    client.write_all(BEGINNING).await.expect("written");
    all_wait().await;
    assert_eq!(served.handler.requests.load(Relaxed), 1);
    assert_eq!(served.handler.metrics.streams.get(), 0, "it is sent");
    (served, client)
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_stream_ends_though_its_client_answers_no_ping() {
    // Its last answer may be on its way to it for 30 s.
    for (idle, least) in [(0, 30), (40, 1)] {
        let (served, client) = mute().await;
        sleep(Duration::from_secs(idle)).await;
        served.shutdown.drain.cancel();
        let told = Instant::now();
        timeout(LONG, served.task)
            .await
            .expect("in time")
            .expect("no panic");
        let secs = told.elapsed().as_secs();
        assert!((least..least + 3).contains(&secs), "{idle}: {secs}");
        drop(client);
    }
}

#[tokio::test(start_paused = true)]
async fn a_mute_connection_gives_its_slot_to_another_client() {
    for (idle, most) in [(0, 35), (40, 5)] {
        let slots = Arc::new(Semaphore::new(1));
        let slot = slots.clone().acquire_owned().await.expect("a slot");
        let (served, client) = mute().await;
        sleep(Duration::from_secs(idle)).await;
        let ended = tokio::spawn(async move {
            served.task.await.expect("no panic");
            drop(slot);
        });
        let next = served.context.crowding.take(&slots);
        let next = timeout(Duration::from_secs(most), next).await;
        drop(next.expect("it has given way"));
        ended.await.expect("no panic");
        assert_eq!(served.handler.metrics.displaced.get(), 1, "once");
        drop(client);
    }
}

/// Asks for an answer over a link of `rate` bytes a second, and has the connection end while its last bytes are on their
/// way.
async fn is_whole(served: SharedConnection, link: DuplexStream, rate: usize) {
    let (far, client) = duplex(1000);
    tokio::spawn(slow_link(link, far, rate));
    let (mut sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(300_000)
        .initial_connection_window_size(300_000)
        .handshake(TokioIo::new(client))
        .await
        .expect("a preface");
    tokio::spawn(connection);
    let answer = tokio::spawn(async move {
        let request = Request::get("http://h/").body(Empty::<Bytes>::new());
        let answer = sender.send_request(request.expect("a request")).await?;
        answer.into_body().collect().await
    });
    let metrics = &served.handler.metrics;
    while served.handler.requests.load(Relaxed) == 0 || metrics.streams.get() > 0 {
        all_wait().await;
    }
    assert!(!answer.is_finished(), "its last bytes are on their way");
    served.shutdown.drain.cancel();
    let told = Instant::now();
    let answer = timeout(LONG, answer).await.expect("in time");
    let bytes = answer.expect("no panic").expect("whole").to_bytes();
    assert_eq!(bytes, served.handler.fake.bytes);
    assert!(told.elapsed() > Duration::from_secs(2), "it took its time");
    let ended = timeout(Duration::from_secs(1), served.task).await;
    ended.expect("its client is there").expect("no panic");
}

#[tokio::test(start_paused = true)]
async fn the_last_bytes_reach_a_client_on_a_slow_link() {
    // The kernel keeps them,
    let (server, link) = duplex(256 << 10);
    let of_kernel = served(Counted::new(server), 250_000, limits());
    is_whole(of_kernel, link, 50_000).await;
    // or TLS does, and hands them on for longer than the client may take none.
    let (server, link) = duplex(1000);
    let settings = Settings {
        stall_timeout: Duration::from_secs(5),
        ..limits()
    };
    let of_tls = served(Pipe::new(server), 16_000, settings);
    is_whole(of_tls, link, 1000).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_has_just_ended_keeps_its_connection_for_a_moment() {
    let (mut client, server) = duplex(64 << 10);
    let served = served(Counted::new(server), 200_000, patient());
    client.write_all(BEGINNING).await.expect("written");
    // Its windows take 65,535 bytes, and the rest as it opens them.
    sleep(Duration::from_secs(10)).await;
    client.write_all(&opened(200_000)).await.expect("written");
    tokio::spawn(async move { tokio::io::copy(&mut client, &mut tokio::io::sink()).await });
    all_wait().await;
    assert_eq!(served.handler.metrics.streams.get(), 0, "it has ended");
    let slots = Arc::new(Semaphore::new(0));
    let next = served.context.crowding.take(&slots);
    let early = timeout(Duration::from_millis(900), next).await;
    assert!(early.is_err(), "no slot is free");
    assert_eq!(served.handler.metrics.displaced.get(), 0);
    let next = served.context.crowding.take(&slots);
    let later = timeout(Duration::from_millis(900), next).await;
    assert!(later.is_err(), "no slot is free");
    assert_eq!(served.handler.metrics.displaced.get(), 1);
}

/// Returns the frames that open the windows of the connection and of stream 1 by so much.
fn opened(by: u32) -> Vec<u8> {
    let frame = |stream: u8| [b"\0\0\x04\x08\0\0\0\0", &[stream][..], &by.to_be_bytes()].concat();
    [frame(0), frame(1)].concat()
}
