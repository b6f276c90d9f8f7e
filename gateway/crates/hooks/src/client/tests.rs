//! The client against receivers on loopback.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::*;

/// The time of a request that has to end by itself.
const LONG: Duration = Duration::from_secs(60);

/// Answers each connection in the same way; the task returns what it has read when the client leaves.
async fn receiver(answer: &'static [u8], goes_on: bool) -> (SocketAddr, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        let mut request = read_request(&mut stream).await;
        let mut sent = stream.write_all(answer).await;
        while goes_on && sent.is_ok() {
            sent = stream.write_all(&[b'x'; 4096]).await;
        }
        let _ = stream.read_to_end(&mut request).await;
        request
    });
    (address, task)
}

/// Reads up to the end of the head.
async fn read_request(stream: &mut TcpStream) -> Vec<u8> {
    let mut request = Vec::new();
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        request.push(stream.read_u8().await.expect("a head"));
    }
    request
}

async fn send(to: SocketAddr, limit: Duration) -> Outcome {
    let request = Request::post(format!("http://{to}/x?y"))
        .header("x-token", "s3cret")
        .body(Full::from("{}"))
        .expect("a request");
    let client = HttpClient::new(Roots::None).expect("no certificates are needed");
    client.send(request, limit).await
}

#[tokio::test]
async fn a_request_arrives_whole_and_alone() {
    let (address, task) = receiver(b"HTTP/1.1 204 No Content\r\n\r\n", false).await;
    assert_eq!(send(address, LONG).await, Outcome::Done);
    let request = String::from_utf8(task.await.expect("the client left")).expect("text");
    assert!(request.starts_with("POST /x?y HTTP/1.1\r\n"), "{request}");
    for line in [
        "x-token: s3cret",
        "content-length: 2",
        &format!("host: {address}"),
    ] {
        assert!(request.contains(&format!("{line}\r\n")), "{request}");
    }
    assert!(request.ends_with("\r\n\r\n{}"), "{request}");
}

#[tokio::test]
async fn no_redirect_is_followed() {
    let (address, task) = receiver(
        b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
        false,
    )
    .await;
    let outcome = send(address, LONG).await;
    assert_eq!(outcome, Outcome::Redirected(StatusCode::FOUND));
    task.await.expect("the client left");
}

#[tokio::test]
async fn a_body_without_end_is_cut_off() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n";
    let (address, task) = receiver(head, true).await;
    assert_eq!(send(address, LONG).await, Outcome::Done);
    task.await.expect("the client left");
}

#[tokio::test]
async fn a_head_without_end_is_no_answer() {
    let (address, task) = receiver(b"HTTP/1.1 200 OK\r\nx: ", true).await;
    assert_eq!(send(address, LONG).await, Outcome::Unreachable);
    task.await.expect("the client left");
}

#[tokio::test]
async fn a_silent_receiver_takes_its_limit() {
    let (address, task) = receiver(b"", false).await;
    let outcome = send(address, Duration::from_millis(100)).await;
    assert_eq!(outcome, Outcome::Timeout);
    task.await.expect("the client left");
}

#[tokio::test]
async fn a_closed_port_and_a_wrong_protocol_are_no_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    drop(listener);
    assert_eq!(send(address, LONG).await, Outcome::Unreachable);
    let (address, task) = receiver(b"SSH-2.0-x\r\n", false).await;
    assert_eq!(send(address, LONG).await, Outcome::Unreachable);
    task.await.expect("the client left");
}

#[test]
fn a_status_is_an_outcome() {
    for (status, label, may_pass) in [
        (200, "done", false),
        (204, "done", false),
        (301, "redirected", false),
        (304, "redirected", false),
        (401, "refused", false),
        (404, "refused", false),
        (408, "failed", true),
        (429, "failed", true),
        (500, "failed", true),
        (503, "failed", true),
    ] {
        let outcome = Outcome::of(StatusCode::from_u16(status).expect("a status"));
        assert_eq!(
            (outcome.label(), outcome.may_pass()),
            (label, may_pass),
            "{status}"
        );
    }
}
