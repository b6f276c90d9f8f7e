//! The last events: the test plays the store that sends them.

use http::Method;
use serde_json::json;

use super::admission::log_in;
use super::{World, api, page_at, send, started};

/// An event of the bucket, one of its own past, and the same one again.
fn records(bucket: &str) -> String {
    let record = |key: &str, sequencer: &str| {
        format!(
            r#"{{"eventName":"s3:ObjectCreated:Put","eventTime":"2026-11-26T02:30:00.000Z","s3":{{"bucket":{{"name":"{bucket}"}},
            "object":{{"key":"{key}","eTag":"t{sequencer}","sequencer":"{sequencer}"}}}}}}"#
        )
    };
    let all = [record("o/%3Cb%3E.png", "17"), record("o/%3Cb%3E.png", "16")];
    format!(r#"{{"Records":[{}]}}"#, all.join(","))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_events_are_told_with_what_they_did() {
    let world = World::new().await;
    let gateway = started(&world).await;
    let before = api(&gateway, "/api/v1/events").await;
    assert_eq!(before["last"], json!([]));
    let token = "Bearer secret-of-the-events-0123456789abcdef";
    let headers = [("authorization", token)];
    let body = records(world.origin.bucket());
    for _ in 0..2 {
        let path = "/events/bucket";
        let got = send(gateway.admin, Method::POST, path, &headers, &body).await;
        assert_eq!(got.status, 200, "{}", got.text());
    }
    let after = api(&gateway, "/api/v1/events").await;
    let last = after["last"].as_array().expect("a list");
    let results: Vec<_> = last
        .iter()
        .map(|one| one["result"].as_str().expect("a word"))
        .collect();
    let mut sorted = results.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, ["applied", "duplicate", "late", "late"], "{after}");
    assert!(results[..2].iter().all(|result| *result != "applied"));
    let applied = last.iter().find(|one| one["result"] == "applied");
    let applied = applied.expect("one");
    assert_eq!(
        (&applied["source"], &applied["kind"], &applied["key"]),
        (&json!("bucket"), &json!("created"), &json!("o/<b>.png"))
    );
    assert!(applied["lag"].is_number() && applied["time"].as_f64() > Some(1.7e9));
    let (cookie, _) = log_in(&gateway).await;
    let text = page_at(gateway.admin, "/console/events", &cookie).await;
    assert!(text.contains("o/&lt;b&gt;.png") && !text.contains("<b>"));
    assert!(text.contains("in force here") && text.contains("had come before"));
    gateway.stop().await;
}
