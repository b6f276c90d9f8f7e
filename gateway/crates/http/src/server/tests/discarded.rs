//! Bodies of requests that nothing reads.

use tokio::io::{DuplexStream, duplex};

use super::in_memory::{SharedConnection, all_wait, limits, served};
use super::one_write::Counted;
use super::*;

/// Serves a client whose request is answered before its body has come.
async fn answered(head: &str, settings: Settings) -> (SharedConnection, DuplexStream, String) {
    let (mut client, server) = duplex(64 << 10);
    let served = served(Counted::new(server), 10, settings);
    client.write_all(head.as_bytes()).await.expect("written");
    let answer = super::head(&mut client).await;
    assert!(answer.starts_with("http/1.1 200 "), "{answer}");
    body(&mut client, 10).await;
    (served, client, answer)
}

/// Sends another request, and has its answer.
async fn goes_on(client: &mut DuplexStream) {
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        .await
        .expect("open");
    assert!(head(client).await.starts_with("http/1.1 200 "));
    body(client, 10).await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_chunked_body_is_no_head() {
    let put = "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    let (_served, mut client, _) = answered(put, limits()).await;
    for piece in ["5\r\nhello\r\n", "0\r\n\r\n"] {
        client.write_all(piece.as_bytes()).await.expect("written");
        all_wait().await;
    }
    sleep(Duration::from_secs(60)).await;
    goes_on(&mut client).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_a_body_is_not_idle() {
    let put = "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 20\r\n\r\n";
    let settings = Settings {
        idle_timeout: Duration::from_secs(5),
        ..limits()
    };
    let (_served, mut client, _) = answered(put, settings).await;
    for _ in 0..20 {
        sleep(Duration::from_millis(700)).await;
        client.write_all(b"x").await.expect("open");
    }
    all_wait().await;
    goes_on(&mut client).await;
}

/// hyper waits for a client that sends nothing before it is asked only if the client says exactly that.
#[tokio::test(start_paused = true)]
async fn another_expectation_does_not_keep_a_body_from_being_discarded() {
    let put = "PUT / HTTP/1.1\r\nHost: h\r\nExpect: nothing\r\nContent-Length: 100000\r\n\r\n";
    let (_served, mut client, answer) = answered(put, limits()).await;
    assert!(!answer.contains("connection: close"), "{answer}");
    for _ in 0..100 {
        client.write_all(&[b'x'; 1000]).await.expect("open");
        all_wait().await;
    }
    goes_on(&mut client).await;
}

/// The gateway cannot tell whether the body comes, so another request could not be told from it.
#[tokio::test(start_paused = true)]
async fn an_answer_before_the_body_was_asked_for_says_that_the_connection_ends() {
    for method in ["PUT", "GET"] {
        let request = format!(
            "{method} / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 20\r\n\r\n"
        );
        let (served, mut client, answer) = answered(&request, limits()).await;
        assert!(answer.contains("connection: close\r\n"), "{answer}");
        assert_eq!(rest(&mut client).await, b"");
        served.task.await.expect("no panic");
    }
}
