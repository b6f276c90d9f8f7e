//! More clients than slots.

use super::*;

#[tokio::test]
async fn an_idle_connection_gives_way_and_a_busy_one_does_not() {
    let settings = Settings {
        connections: 3,
        ..patient()
    };
    let server = Running::start(10, settings).await;
    let busy = server.ask("/wait").await;
    server.handler.arrived.notified().await;
    // A head that has begun may come slowly.
    let mut slow = server.connect().await;
    slow.write_all(b"GET / HT").await.expect("written");
    let mut idle = server.ask("/").await;
    assert!(head(&mut idle).await.starts_with("http/1.1 200 "));
    assert_eq!(body(&mut idle, 10).await, server.handler.fake.bytes);
    let mut next = server.ask("/").await;
    assert!(head(&mut next).await.starts_with("http/1.1 200 "));
    assert_eq!(rest(&mut idle).await, b"");
    server.handler.go.notify_one();
    slow.write_all(b"TP/1.1\r\nHost: h\r\n\r\n")
        .await
        .expect("written");
    for mut kept in [busy, slow] {
        assert!(head(&mut kept).await.starts_with("http/1.1 200 "));
    }
    let metrics = &server.handler.metrics;
    assert_eq!((metrics.displaced.get(), metrics.expired.get()), (1, 0));
    server.end().await;
}
