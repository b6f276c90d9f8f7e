//! The store that reports its changes: what it sends to the admin listener of a gateway.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use tidegate_origin::Origin;
use tidegate_plan::ObjectKey;
use tokio::time::Instant;

use crate::gateway::{Got, ask, send};
use crate::world::World;

/// Timeout of a wait; only a failure waits so long.
const LONG: Duration = Duration::from_secs(300);

/// Posts a message to the subscription `bucket`.
pub(crate) async fn post(admin: SocketAddr, token: &str, body: &str) -> Got {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", &*bearer), ("host", "gate:8081")];
    send(admin, Method::POST, "/events/bucket", &headers, body).await
}

/// Returns the record of one change.
pub(crate) fn record(bucket: &str, name: &str, key: &str, etag: &str, sequencer: &str) -> String {
    format!(
        r#"{{"eventName":"{name}","s3":{{"bucket":{{"name":"{bucket}"}},"object":{{"key":"{key}","eTag":"{etag}","sequencer":"{sequencer}"}}}}}}"#
    )
}

/// Returns a message of records.
pub(crate) fn message(records: &[String]) -> String {
    format!(
        r#"{{"EventName":"x","Key":"y","Records":[{}]}}"#,
        records.join(",")
    )
}

/// Returns the number of subscriptions whose events are known to arrive.
pub(crate) async fn alive(admin: SocketAddr) -> u64 {
    let metrics = ask(admin, Method::GET, "/metrics", &[]).await;
    metrics.metric(&["tidegate_bucket_events_alive{"])
}

/// Reports the heartbeat that is in the bucket now, until the gateway knows that events arrive.
pub(crate) async fn beat(admin: SocketAddr, world: &World, token: &str) {
    let metrics = tidegate_origin::Metrics::default();
    let settings = world.origin.settings("test");
    let origin = tidegate_origin::connect(&settings, &metrics).await;
    let origin: Arc<dyn Origin> = origin.expect("a bucket");
    let key = ObjectKey::new(".tidegate/heartbeat-bucket").expect("a key");
    let since = Instant::now();
    while alive(admin).await == 0 {
        if let Ok(version) = origin.head(&key).await {
            let etag = version.etag.as_str().trim_matches('"');
            let bucket = world.origin.bucket();
            // No event of a heartbeat comes too late.
            let event = record(bucket, "s3:ObjectCreated:Put", key.as_str(), etag, "01");
            let posted = post(admin, token, &message(&[event])).await;
            assert_eq!(posted.status, 200, "{}", posted.text());
        }
        assert!(since.elapsed() < LONG, "it does not come");
    }
}
