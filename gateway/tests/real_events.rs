//! A real MinIO reports its changes to a real gateway, by webhook and through a real NATS server.
#![cfg(feature = "real-parts")]

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use aws_sdk_s3::types::{Delete, ObjectIdentifier};
use http::Method;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

#[path = "support/bucket.rs"]
#[expect(dead_code, reason = "other suites keep versions as well")]
mod bucket;
#[path = "real_events/covered.rs"]
mod covered;
#[path = "real_events/delay.rs"]
mod delay;
#[path = "real_events/disorder.rs"]
mod disorder;
#[path = "support/door.rs"]
mod door;
#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
#[path = "support/minio.rs"]
mod minio;
#[path = "support/mount.rs"]
#[expect(dead_code, reason = "other suites start a mount by itself")]
mod mount;
#[path = "real_events/mount.rs"]
mod mounted;
#[path = "support/nats.rs"]
mod nats;
#[path = "support/nginx.rs"]
#[expect(dead_code, reason = "the shipped file has an address of its own")]
mod nginx;
#[path = "support/ports.rs"]
mod ports;
#[path = "real_events/proxied.rs"]
mod proxied;
#[path = "real_events/published.rs"]
mod published;
#[path = "hooks/receiver.rs"]
#[expect(dead_code, reason = "other suites have receivers that fail")]
mod receiver;
#[path = "real_events/relay.rs"]
mod relay;
#[path = "real_events/reload.rs"]
mod reload;
#[path = "support/serving.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod serving;
#[path = "real_events/skipped.rs"]
mod skipped;
#[path = "real_events/tags.rs"]
mod tags;
#[path = "real_events/ways.rs"]
mod ways;

use bucket::Bucket;
use gateway::{Whole, ask};
use minio::Minio;
use nats::Nats;
use ports::free_addr;
use ways::{Way, configuration, create_stream, report_all, start_gateway, start_minio, start_nats};

const TOKEN: &str = "t0ken-of-the-bucket";
const LONG: Duration = Duration::from_secs(300);

/// A bucket that reports to a gateway which would keep objects for an hour.
struct World {
    way: Way,
    gateway: Option<Whole>,
    bucket: Bucket,
    nats: Option<Nats>,
    nats_address: SocketAddr,
    minio_address: String,
    folder: TempDir,
    _minio: Minio,
}

impl World {
    async fn new(way: Way) -> Self {
        Self::with(way, |_| String::new()).await
    }

    /// Starts a world whose configuration has these lines more.
    async fn with(way: Way, more: impl FnOnce(&Path) -> String) -> Self {
        Self::configured((way, free_addr()), more, |text| text).await
    }

    /// Does the same with NATS at this address, and with the configuration that `change` makes of it.
    async fn configured(
        (way, nats_address): (Way, SocketAddr),
        more: impl FnOnce(&Path) -> String,
        change: impl FnOnce(String) -> String,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let more = more(folder.path());
        let nats = match way {
            Way::Webhook | Way::Queue => None,
            _ => Some(start_nats(way, nats_address, &folder).await),
        };
        if way == Way::JetStream {
            create_stream(nats_address).await;
        }
        let minio_address = free_addr().to_string();
        let text = configuration(way, &minio_address, nats_address, &folder, &more);
        let gateway = Whole::start(&change(text)).await;
        let queue = folder.path().join("queue");
        let servers = (gateway.admin, nats_address);
        let minio = start_minio(way, &minio_address, servers, &queue).await;
        let bucket = Bucket::create(&minio.settings("media")).await;
        report_all(&bucket, way).await;
        gateway.ready().await;
        let world = Self {
            way,
            gateway: Some(gateway),
            bucket,
            nats,
            nats_address,
            minio_address,
            folder,
            _minio: minio,
        };
        world.alive(1).await;
        world
    }

    fn gateway(&self) -> &Whole {
        self.gateway.as_ref().expect("it runs")
    }

    async fn alive(&self, alive: u64) {
        wait_for_events(self.gateway().admin, alive).await;
    }

    async fn reads(&self, path: &str, status: u16, body: &str) {
        wait_for_read(self.gateway().http, path, (status, body)).await;
    }

    async fn applied(&self) -> u64 {
        let applied = ["tidegate_bucket_events_total{", "result=\"applied\""];
        self.gateway().metric(&applied).await
    }
}

/// Waits until a gateway knows that events arrive, or that they do not.
async fn wait_for_events(admin: SocketAddr, alive: u64) {
    let since = Instant::now();
    loop {
        let metrics = ask(admin, Method::GET, "/metrics", &[]).await;
        if metrics.metric(&["tidegate_bucket_events_alive{"]) == alive {
            return;
        }
        assert!(since.elapsed() < LONG, "{}", metrics.text());
        sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until a read has this status and this body.
async fn wait_for_read(http: SocketAddr, path: &str, (status, body): (u16, &str)) {
    let since = Instant::now();
    loop {
        let got = ask(http, Method::GET, path, &[]).await;
        if got.status == status && (status != 200 || got.body == body.as_bytes()) {
            return;
        }
        assert!(
            since.elapsed() < LONG,
            "{path}: {} {}",
            got.status,
            got.text()
        );
        sleep(Duration::from_millis(5)).await;
    }
}

async fn changes_are_read_at_once(way: Way) {
    let world = World::new(way).await;
    for (key, path) in [
        ("plain.txt", "/plain.txt"),
        ("a b+c/ü%2F.txt", "/a%20b+c/%C3%BC%252F.txt"),
    ] {
        world.reads(path, 404, "").await;
        world.bucket.put(key, "first").await;
        world.reads(path, 200, "first").await;
        world.bucket.put(key, "second").await;
        world.reads(path, 200, "second").await;
        world.bucket.delete(key).await;
        world.reads(path, 404, "").await;
    }
    // A heartbeat that a busy machine makes late is a gap, which ends with the next one.
    world.alive(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_brings_changes() {
    changes_are_read_at_once(Way::Webhook).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_with_a_queue_brings_changes() {
    changes_are_read_at_once(Way::Queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nats_brings_changes() {
    changes_are_read_at_once(Way::Nats).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nats_by_tls_brings_changes() {
    changes_are_read_at_once(Way::Tls).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nats_with_credentials_brings_changes() {
    changes_are_read_at_once(Way::Credentials).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_brings_changes() {
    changes_are_read_at_once(Way::JetStream).await;
}

async fn a_thousand_removals_arrive(way: Way) {
    let world = World::new(way).await;
    let Bucket::S3 { client, name } = &world.bucket else {
        panic!("MinIO speaks S3")
    };
    let keys: Vec<_> = (0..1000).map(|n| format!("many/{n}")).collect();
    for key in &keys {
        world.bucket.put(key, "x").await;
    }
    for key in keys.iter().step_by(100) {
        world.reads(&format!("/{key}"), 200, "x").await;
    }
    let objects = keys.iter().map(|key| {
        let object = ObjectIdentifier::builder().key(key).build();
        object.expect("a key")
    });
    let delete = Delete::builder().set_objects(Some(objects.collect()));
    let delete = delete.build().expect("a list");
    let deleted = client.delete_objects().bucket(name).delete(delete).send();
    deleted.await.expect("deleted");
    for key in keys.iter().step_by(100) {
        world.reads(&format!("/{key}"), 404, "").await;
    }
    let since = Instant::now();
    while world.applied().await < 2000 {
        assert!(since.elapsed() < LONG, "{}", world.applied().await);
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_takes_a_thousand_changes_at_once() {
    a_thousand_removals_arrive(Way::Webhook).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nats_takes_a_thousand_changes_at_once() {
    a_thousand_removals_arrive(Way::Nats).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_takes_a_thousand_changes_at_once() {
    a_thousand_removals_arrive(Way::JetStream).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_away_is_a_gap_and_is_found_again() {
    let mut world = World::new(Way::Nats).await;
    drop(world.nats.take());
    world.alive(0).await;
    let lost = [
        "tidegate_bucket_events_gaps_total{",
        "reason=\"connection\"",
    ];
    // A heartbeat that stayed away may have been the first gap.
    let since = Instant::now();
    while world.gateway().metric(&lost).await == 0 {
        assert!(since.elapsed() < LONG, "the connection is not lost");
        sleep(Duration::from_millis(20)).await;
    }
    world.nats = Some(start_nats(world.way, world.nats_address, &world.folder).await);
    world.alive(1).await;
    world.bucket.put("after", "again").await;
    world.reads("/after", 200, "again").await;
}

/// A durable consumer keeps what is published while its gateway is away.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_keeps_what_was_reported_while_the_gateway_was_away() {
    let mut world = World::new(Way::JetStream).await;
    world.gateway.take().expect("it runs").stop().await;
    for n in 0..10 {
        world.bucket.put(&format!("away/{n}"), "x").await;
    }
    let (minio, nats) = (&world.minio_address, world.nats_address);
    let gateway = start_gateway(world.way, minio, nats, &world.folder, "").await;
    world.gateway = Some(gateway);
    let since = Instant::now();
    while world.applied().await < 10 {
        assert!(since.elapsed() < LONG, "{}", world.applied().await);
        sleep(Duration::from_millis(20)).await;
    }
    world.alive(1).await;
}
