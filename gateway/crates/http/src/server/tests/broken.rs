//! Answers that are not sent whole, and the reason that is counted.

use super::*;

#[tokio::test]
async fn a_body_that_breaks_is_seen_to_be_broken() {
    let server = Running::start(1 << 20, patient()).await;
    let mut stream = server.ask("/break").await;
    let head = head(&mut stream).await;
    assert!(head.contains("content-length: 1048576\r\n"), "{head}");
    let bytes = rest(&mut stream).await;
    assert!(bytes.len() <= BREAKS_AT, "closed short of the length");
    assert!(server.handler.fake.bytes.starts_with(&bytes));
    let metrics = server.handler.metrics.clone();
    server.end().await;
    assert_eq!(
        metrics.broken.each_ref().map(|count| count.get()),
        [0, 1, 0]
    );
}

#[tokio::test]
async fn an_answer_that_outlasts_the_drain_was_not_ended_by_its_client() {
    let settings = Settings {
        drain: SHORT,
        ..patient()
    };
    let server = Running::start(64 << 20, settings).await;
    let mut stream = server.ask("/").await;
    head(&mut stream).await;
    let metrics = server.handler.metrics.clone();
    server.end().await;
    assert_eq!(
        metrics.broken.each_ref().map(|count| count.get()),
        [0, 0, 1]
    );
    drop(stream);
}

#[tokio::test]
async fn an_answer_that_its_client_leaves_is_counted_apart() {
    let server = Running::start(64 << 20, patient()).await;
    let mut stream = server.ask("/").await;
    head(&mut stream).await;
    drop(stream);
    let metrics = server.handler.metrics.clone();
    server.end().await;
    assert_eq!(
        metrics.broken.each_ref().map(|count| count.get()),
        [1, 0, 0]
    );
}
