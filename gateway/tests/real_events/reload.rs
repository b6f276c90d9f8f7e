//! A subscription to a stream that a reload changes. Its durable consumer keeps what is reported meanwhile.

use crate::mount::TOKEN;
use crate::serving::Serving;
use crate::ways::configuration;
use crate::{Way, World, wait_for_events, wait_for_read};

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

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_followed_across_reloads() {
    let mut world = World::new(Way::JetStream).await;
    world.gateway.take().expect("it runs").stop().await;
    let mut serving = Serving::configured(&world.text("gate-1", "1s"));
    serving.start().await;
    let alive = async || wait_for_events(serving.admin, 1).await;
    let read = async |body: &str| wait_for_read(serving.http, "/a", (200, body)).await;
    alive().await;
    world.bucket.put("a", "0").await;
    read("0").await;

    // One consumer, and a subscription that ends and begins: a change in between waits in the stream.
    for n in 1..=6 {
        let every = if n % 2 == 0 { "1s" } else { "2s" };
        serving.configure(&world.text("gate-1", every));
        let body = n.to_string();
        tokio::join!(reload(&serving), world.bucket.put("a", &*body));
        read(&body).await;
    }

    // Another consumer begins with what is reported from then on.
    serving.configure(&world.text("gate-2", "1s"));
    reload(&serving).await;
    alive().await;
    world.bucket.put("a", "by another").await;
    read("by another").await;

    // The first one goes on where it was left.
    serving.configure(&world.text("gate-1", "1s"));
    reload(&serving).await;
    alive().await;
    world.bucket.put("a", "by the first").await;
    read("by the first").await;
    serving.end().await;
}
