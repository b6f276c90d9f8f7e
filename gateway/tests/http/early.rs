//! Answers to requests whose bodies are still on their way.

use bytes::Bytes;
use http::Request;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::gateway::LONG;
use crate::write::writable;

/// A client that is refused at once and sends all of its body first has the answer, and goes on with the connection.
#[tokio::test]
async fn an_early_answer_reaches_a_client_that_is_still_sending() {
    const LEN: usize = 20 << 20;
    let gateway = writable().await;
    gateway.origin.put("k", "bytes");
    for (method, status) in [("PUT", "401"), ("POST", "405"), ("GET", "200")] {
        let mut client = gateway.connect().await;
        let head = format!("{method} /k HTTP/1.1\r\nhost: h\r\ncontent-length: {LEN}\r\n\r\n");
        let sent = async {
            client.write_all(head.as_bytes()).await?;
            for _ in 0..LEN >> 16 {
                client.write_all(&[7; 1 << 16]).await?;
            }
            client
                .write_all(b"GET /k HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")
                .await?;
            let mut answers = String::new();
            client.read_to_string(&mut answers).await.map(|_| answers)
        };
        let answers = timeout(LONG, sent).await.expect("in time");
        let answers = answers.expect("the connection is not reset");
        assert!(
            answers.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answers}"
        );
        assert!(answers.contains("HTTP/1.1 200 OK"), "{method}: {answers}");
    }
    gateway.end().await;
}

/// The same over HTTP/2: the stream of a refused request is not reset while its body comes.
#[tokio::test]
async fn an_early_answer_resets_no_stream() {
    let gateway = writable().await;
    let client = gateway.connect_h2().await;
    let request = Request::put("http://h/k").body(()).expect("a request");
    let mut client = client.ready().await.expect("it stays");
    let (answer, mut body) = client.send_request(request, false).expect("a stream");
    let sent = async {
        let answer = answer.await.expect("an answer");
        assert_eq!(answer.status(), 401);
        for nth in 1..=100 {
            body.reserve_capacity(16 << 10);
            let room = std::future::poll_fn(|cx| body.poll_capacity(cx)).await;
            let room = room.expect("the stream is open").expect("it is not reset");
            let piece = Bytes::from(vec![7; room]);
            body.send_data(piece, nth == 100).expect("there is room");
        }
    };
    timeout(LONG, sent).await.expect("in time");
    gateway.end().await;
}

/// A client that waits for `100 Continue` is not asked for a body that is refused.
#[tokio::test]
async fn a_refused_body_is_not_asked_for() {
    let gateway = writable().await;
    let mut client = gateway.connect().await;
    let head = "PUT /k HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n";
    client.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    let read = timeout(LONG, client.read_to_string(&mut answer)).await;
    read.expect("in time").expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    gateway.end().await;
}
