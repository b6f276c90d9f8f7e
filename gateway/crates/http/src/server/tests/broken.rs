//! Answers that are not sent whole, and the reason that is counted.

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

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

#[tokio::test]
async fn a_request_that_the_drain_cuts_before_its_answer_is_the_gateways_failure() {
    let settings = Settings {
        drain: SHORT,
        ..patient()
    };
    let server = Running::start(1000, settings).await;
    let mut stream = server.ask("/wait").await;
    let arrived = server.handler.arrived.notified();
    timeout(LONG, arrived).await.expect("in time");
    let metrics = server.handler.metrics.clone();
    server.end().await;
    assert_eq!(rest(&mut stream).await, b"");
    assert_eq!(
        metrics.broken.each_ref().map(|count| count.get()),
        [0, 0, 1]
    );
    assert_eq!(requests(&metrics, "5xx"), 1);
}

#[tokio::test]
async fn a_client_that_leaves_before_its_answer_breaks_none() {
    let server = Running::start(1000, patient()).await;
    let stream = server.ask("/wait").await;
    let arrived = server.handler.arrived.notified();
    timeout(LONG, arrived).await.expect("in time");
    drop(stream);
    let metrics = server.handler.metrics.clone();
    server.end().await;
    assert_eq!(
        metrics.broken.each_ref().map(|count| count.get()),
        [0, 0, 0]
    );
    assert_eq!(requests(&metrics, "gone"), 1);
}

/// Returns the number of GET requests that were counted with this class of status.
fn requests(metrics: &Metrics, class: &str) -> u64 {
    let mut registry = Registry::with_prefix("tidegate");
    metrics.register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).expect("text");
    let sample = format!("tidegate_http_requests_total{{method=\"GET\",status=\"{class}\"}} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&*sample));
    value.expect("a sample").parse().expect("a number")
}
