//! A subscription to a stream that a reload changes. Its durable consumer keeps what is reported meanwhile.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::mount::TOKEN;
use crate::serving::Serving;
use crate::{LONG, Way, World, configuration};

impl World {
    /// Returns the configuration with this consumer and this interval of heartbeats.
    fn text(&self, consumer: &str, every: &str) -> String {
        let admin = format!("[admin]\ntoken = \"{TOKEN}\"\n");
        let (minio, nats) = (&self.minio_address, self.nats_address);
        let text = configuration(self.way, minio, nats, &self.folder, &admin);
        text.replace("gate-1", consumer)
            .replace("every = \"1s\"", &format!("every = \"{every}\""))
    }
}

/// Reloads the configuration that is written.
async fn reload(serving: &Serving) {
    let told = serving.post("/reload").await;
    assert_eq!(told.status, 200, "{}", told.text());
    assert!(
        told.text().contains("\"needs_restart\":[]"),
        "{}",
        told.text()
    );
}

/// Waits until a read has this body.
async fn reads(serving: &Serving, path: &str, body: &str) {
    let since = Instant::now();
    while serving.get(path).await.body != body.as_bytes() {
        assert!(since.elapsed() < LONG, "{}", serving.log());
        sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until the gateway knows that events arrive.
async fn alive(serving: &Serving) {
    let since = Instant::now();
    while serving.metric(&["tidegate_bucket_events_alive{"]).await != 1 {
        assert!(since.elapsed() < LONG, "{}", serving.log());
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_followed_across_reloads() {
    let mut world = World::new(Way::JetStream).await;
    world.gateway.take().expect("it runs").stop().await;
    let mut serving = Serving::configured(&world.text("gate-1", "1s"));
    serving.start().await;
    alive(&serving).await;
    world.bucket.put("a", "0").await;
    reads(&serving, "/a", "0").await;

    // One consumer, and a subscription that ends and begins: a change in between waits in the stream.
    for n in 1..=6 {
        let every = if n % 2 == 0 { "1s" } else { "2s" };
        serving.configure(&world.text("gate-1", every));
        let body = n.to_string();
        tokio::join!(reload(&serving), world.bucket.put("a", &*body));
        reads(&serving, "/a", &body).await;
    }

    // Another consumer begins with what is reported from then on.
    serving.configure(&world.text("gate-2", "1s"));
    reload(&serving).await;
    alive(&serving).await;
    world.bucket.put("a", "by another").await;
    reads(&serving, "/a", "by another").await;

    // The first one goes on where it was left.
    serving.configure(&world.text("gate-1", "1s"));
    reload(&serving).await;
    alive(&serving).await;
    world.bucket.put("a", "by the first").await;
    reads(&serving, "/a", "by the first").await;
    serving.end().await
}
