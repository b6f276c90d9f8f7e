//! Clients that do not take their answers, however small these are.

use tokio::io::{DuplexStream, duplex};
use tokio::time::Instant;

use super::in_memory::{SharedConnection, all_wait, limits, served};
use super::one_write::Counted;
use super::resting::Pipe;
use super::*;

/// A request whose answer has no body. Its own body comes later, with the next one.
const HEAD: &[u8] = b"HEAD / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n";

/// The bytes that the connection holds in each direction.
const HELD: usize = 64 << 10;

/// Fewer bytes than an answer to [`HEAD`] has.
const MIN_ANSWER: usize = 70;

/// Sends the body of the last request, and another request; returns whether the connection had room for both.
async fn sends_next(client: &mut DuplexStream) -> bool {
    let next = [b"A", HEAD].concat();
    let sent = timeout(Duration::from_millis(10), client.write_all(&next)).await;
    all_wait().await;
    sent.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_until_its_client_has_taken_the_answers_before_it() {
    let (mut client, server) = duplex(HELD);
    let SharedConnection { handler, .. } = served(Counted::new(server), 10, patient());
    client.write_all(HEAD).await.expect("written");
    all_wait().await;
    let mut sent = 1;
    while sent < 10_000 && sends_next(&mut client).await {
        sent += 1;
    }
    let answered = handler.requests.load(Relaxed);
    assert!(answered <= HELD / MIN_ANSWER, "{answered} are in memory");
    assert!(answered < sent, "the rest waits");
    for _ in 0..sent {
        assert!(head(&mut client).await.starts_with("http/1.1 200 "));
    }
}

#[tokio::test(start_paused = true)]
async fn requests_are_no_progress_while_their_client_takes_no_answers() {
    let (mut client, server) = duplex(HELD);
    let SharedConnection { handler, task, .. } = served(Counted::new(server), 10, limits());
    client.write_all(HEAD).await.expect("written");
    all_wait().await;
    for _ in 0..2 * HELD / MIN_ANSWER {
        sends_next(&mut client).await;
    }
    for _ in 0..5 {
        sends_next(&mut client).await;
        sleep(Duration::from_secs(20)).await;
    }
    assert!(task.is_finished(), "it takes nothing for 100 s");
    assert_eq!(handler.metrics.expired.get(), 1);
}

/// Serves a client that has asked for 20,000 bytes over a socket that takes all of them, as TLS does, with room for 1,000
/// below.
async fn asks_by_tls(idle_timeout: Duration) -> (SharedConnection, DuplexStream) {
    let (mut client, server) = duplex(1000);
    let settings = Settings {
        idle_timeout,
        ..limits()
    };
    let served = served(Pipe::new(server), 20_000, settings);
    let get = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    client.write_all(get).await.expect("written");
    (served, client)
}

/// TLS takes the last bytes of an answer while the kernel has no room for them.
#[tokio::test(start_paused = true)]
async fn bytes_that_wait_for_a_flush_are_not_taken() {
    let began = Instant::now();
    let (SharedConnection { task, .. }, _client) = asks_by_tls(Duration::from_secs(600)).await;
    timeout(Duration::from_secs(300), task)
        .await
        .expect("it takes none")
        .expect("no panic");
    assert!(began.elapsed() >= Duration::from_secs(30), "{began:?}");
    assert!(
        began.elapsed() <= Duration::from_secs(40),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn bytes_that_a_flush_hands_on_are_progress() {
    let (SharedConnection { task, .. }, mut client) = asks_by_tls(Duration::from_secs(20)).await;
    head(&mut client).await;
    for _ in 0..20_000 / 500 {
        sleep(Duration::from_secs(15)).await;
        body(&mut client, 500).await;
    }
    let ended = Instant::now();
    task.await.expect("no panic");
    assert!(ended.elapsed() <= Duration::from_secs(30), "it is idle now");
}
