//! Three gateways, two buckets on a real MinIO, and a real NATS server that comes and goes.
#![cfg(feature = "real-parts")]

use std::net::SocketAddr;
use std::time::Duration;

use http::Method;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

#[path = "real_fleet/away.rs"]
mod away;
#[path = "support/bucket.rs"]
#[expect(dead_code, reason = "other suites write past the gateway")]
mod bucket;
#[path = "real_fleet/burst.rs"]
mod burst;
#[path = "support/door.rs"]
mod door;
#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
#[path = "real_fleet/links.rs"]
mod links;
#[path = "support/minio.rs"]
mod minio;
#[path = "support/mount.rs"]
#[expect(dead_code, reason = "no bucket is mounted")]
mod mount;
#[path = "support/nats.rs"]
mod nats;
#[path = "real_fleet/past.rs"]
mod past;
#[path = "support/ports.rs"]
mod ports;
#[path = "real_fleet/random.rs"]
mod random;
#[path = "hooks/receiver.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod receiver;
#[path = "real_fleet/secured.rs"]
mod secured;
#[path = "support/serving.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod serving;
#[path = "real_fleet/settled.rs"]
mod settled;

use bucket::Bucket;
use gateway::{Got, Whole, send};
use links::Link;
use minio::{Minio, SECRET, USER};
use nats::Nats;
use ports::free_addr;
use receiver::{Manner, Receiver};

const TOKEN: &str = "a token of the tests";
const LONG: Duration = Duration::from_secs(300);
const BUCKETS: [&str; 2] = ["media", "photos"];

/// The keys of each bucket that the operations touch.
const KEYS: u64 = 20;

/// Three gateways by the recipe `config/fleet.toml`, but that they would keep objects for an hour.
struct World {
    gateways: Vec<Whole>,
    /// The way of each gateway to NATS.
    links: Vec<Link>,
    nats: Option<Nats>,
    nats_address: SocketAddr,
    /// NATS speaks TLS, and asks for credentials of an operator.
    is_secured: bool,
    receiver: Receiver,
    folder: TempDir,
    /// The buckets, to write past the gateways.
    buckets: Vec<Bucket>,
    minio: Minio,
}

/// The messages by which a gateway says that it is there.
const HEARTBEATS: [&str; 2] = ["tidegate_fleet_sent_total{", "kind=\"heartbeat\""];

/// Returns whether a gateway with these metrics is connected, and has heard of both others.
fn knows_both(metrics: &Got) -> bool {
    metrics.metric(&["tidegate_fleet_peers "]) == 2
        && metrics.metric(&["tidegate_fleet_connected "]) == 1
}

impl World {
    async fn new() -> Self {
        Self::with(false).await
    }

    async fn with(is_secured: bool) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let minio = Minio::start().await;
        let mut buckets = Vec::new();
        for bucket in BUCKETS {
            buckets.push(Bucket::create(&minio.settings(bucket)).await);
        }
        let receiver = Receiver::start(Manner::Ok).await;
        let mut world = Self {
            gateways: Vec::new(),
            links: Vec::new(),
            nats: None,
            nats_address: free_addr(),
            is_secured,
            receiver,
            folder,
            buckets,
            minio,
        };
        world.start_nats().await;
        for number in 0..3 {
            world.links.push(Link::to(world.nats_address).await);
            let gateway = world.start_gateway(number).await;
            world.gateways.push(gateway);
        }
        world.met().await;
        world
    }

    async fn start_nats(&mut self) {
        let folder = self.folder.path().join("nats");
        let secured = secured::options();
        let options = match self.is_secured {
            true => &secured.each_ref().map(String::as_str)[..],
            false => &["--user", "tidegate", "--pass", "s3cret-of-nats"],
        };
        self.nats = Some(Nats::start(self.nats_address, &folder, options).await);
    }

    async fn start_gateway(&self, number: usize) -> Whole {
        let gateway = Whole::start(&self.configuration(number)).await;
        gateway.ready().await;
        gateway
    }

    /// Returns the configuration of a gateway, which names its folder and its way to NATS.
    fn configuration(&self, number: usize) -> String {
        let endpoint = self.minio.settings("media").endpoint.expect("MinIO's");
        let folder = self.folder.path().join(format!("gateway-{number}"));
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/fleet.toml");
        let mut config = std::fs::read_to_string(path).expect("the recipe");
        let address = |address: String| format!("http://{address}");
        for (recipe, here) in [
            (file("token"), quoted(TOKEN)),
            (file("write-token"), quoted(TOKEN)),
            (file("nats-password"), quoted("s3cret-of-nats")),
            (file("library-key"), quoted("a key")),
            (file("s3-secret"), quoted(SECRET)),
            (
                "access_key_id = \"tidegate\"".to_owned(),
                format!("access_key_id = \"{USER}\""),
            ),
            (
                "nats://127.0.0.1:4222".to_owned(),
                format!("nats://{}", self.links[number].address()),
            ),
            (address("127.0.0.1:9000".to_owned()), endpoint),
            (
                address("127.0.0.1:13378".to_owned()),
                address(self.receiver.address.to_string()),
            ),
            (
                "/var/cache/tidegate".to_owned(),
                folder.display().to_string(),
            ),
            (
                quoted("100GiB"),
                "\"128MiB\"\nmin_free = \"1MiB\"".to_owned(),
            ),
            (
                "\"30s\"".to_owned(),
                "\"100ms\"\nprefix = \"hook/\"".to_owned(),
            ),
        ] {
            assert!(config.contains(&recipe), "the recipe has no {recipe}");
            config = config.replace(&recipe, &here);
        }
        if self.is_secured {
            config = secured::configuration(&config);
        }
        config.push_str(burst::SUBSCRIPTION);
        config.push_str(
            "[profile.web]\nttl = \"1h\"\nnegative_ttl = \"1h\"\nstale_while_revalidate = \"1h\"\n",
        );
        config
    }

    /// Waits until each gateway is connected, and has heard of both others.
    async fn connected(&self) {
        for gateway in &self.gateways {
            self.until(|| async { knows_both(&gateway.look("/metrics").await) })
                .await;
        }
    }

    /// Does the same, and waits for what follows.
    async fn met(&self) {
        self.connected().await;
        // The last newcomer's doubts have had their turn.
        sleep(Duration::from_secs(2)).await;
    }

    async fn until<F: Future<Output = bool>>(&self, is_so: impl Fn() -> F) {
        let since = Instant::now();
        while !is_so().await {
            assert!(since.elapsed() < LONG, "it does not come");
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn put(&self, nth: usize, path: &str, body: &str) {
        let got = self.change(nth, Method::PUT, path, body).await;
        assert!((200..300).contains(&got.status), "{path}: {got:?}");
    }

    async fn change(&self, nth: usize, method: Method, path: &str, body: &str) -> Got {
        let bearer = format!("Bearer {TOKEN}");
        let headers = [("authorization", bearer.as_str())];
        send(self.gateways[nth].http, method, path, &headers, body).await
    }

    /// Sends a request to an admin listener.
    async fn operate(&self, nth: usize, method: Method, target: &str, body: &str) -> Got {
        let bearer = format!("Bearer {TOKEN}");
        let headers = [("authorization", bearer.as_str())];
        send(self.gateways[nth].admin, method, target, &headers, body).await
    }

    async fn purge(&self, nth: usize, query: &str) {
        let target = format!("/purge?{query}");
        let got = self.operate(nth, Method::POST, &target, "").await;
        assert_eq!(got.status, 200, "{query}: {got:?}");
    }

    /// Reads a path through each gateway, twice: into its cache and from it.
    async fn warm(&self, path: &str) {
        for gateway in &self.gateways {
            gateway.get(path, &[]).await;
            gateway.get(path, &[]).await;
        }
    }

    /// Waits until a read through each gateway has this body; empty: there is no object.
    async fn reads(&self, path: &str, body: &str, within: Duration) {
        let since = Instant::now();
        for (nth, gateway) in self.gateways.iter().enumerate() {
            loop {
                let got = gateway.get(path, &[]).await;
                let is_there = got.status == 200 && got.body == body.as_bytes();
                if is_there || (body.is_empty() && got.status == 404) {
                    break;
                }
                let (status, text) = (got.status, got.text());
                assert!(since.elapsed() < within, "{nth}: {path}: {status} {text}");
                sleep(Duration::from_millis(2)).await;
            }
        }
    }

    async fn stop(self) {
        for gateway in self.gateways {
            gateway.stop().await;
        }
    }
}

/// Returns a secret of the recipe, as it is written there.
fn file(name: &str) -> String {
    format!("{{ file = \"$CREDENTIALS_DIRECTORY/{name}\" }}")
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_a_purge_and_a_pin_reach_all() {
    let world = World::new().await;
    world.reads("/media/x", "", LONG).await;
    for (nth, body) in ["first", "second", "third"].iter().enumerate() {
        world.put(nth, "/media/x", body).await;
        world.reads("/media/x", body, LONG).await;
        world.warm("/media/x").await;
    }
    world.change(0, Method::DELETE, "/media/x", "").await;
    world.reads("/media/x", "", LONG).await;
    let path = world.written_past("new").await;
    world.purge(1, "path=/photos/&prefix=true").await;
    world.reads(&path, "new", LONG).await;
    let pin = "{\"path\": \"/media/a/\", \"limit\": \"1MiB\"}";
    let got = world.operate(0, Method::PUT, "/pins", pin).await;
    assert_eq!(got.status, 200, "{got:?}");
    for gateway in &world.gateways {
        world
            .until(|| async { gateway.look("/pins").await.text().contains("\"a/\"") })
            .await;
    }
    let target = "/pins?path=/media/a/";
    let got = world.operate(2, Method::DELETE, target, "").await;
    assert_eq!(got.status, 200, "{got:?}");
    for gateway in &world.gateways {
        world
            .until(|| async { !gateway.look("/pins").await.text().contains("\"a/\"") })
            .await;
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_gateway_calls_a_hook() {
    let world = World::new().await;
    for nth in 0..3 {
        world.put(nth, &format!("/media/hook/{nth}"), "x").await;
        world.receiver.next().await;
    }
    // Longer than the window of a second gateway would be.
    sleep(Duration::from_secs(2)).await;
    let (seen, lost) = (world.receiver.seen(), world.lost().await);
    // A gateway that falls silent for seconds, as on a busy machine, does not keep the others from calling.
    assert!(seen == 3 || seen > 3 && lost > 0, "{seen}, {lost} lost");
    world.stop().await;
}

/// None of them becomes a mere confirmation: the bytes are fetched again.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_hard_purges_reach_all_as_such() {
    const PURGES: usize = 10_000;
    let world = World::new().await;
    world.put(0, "/media/object", "the same bytes").await;
    world.reads("/media/object", "the same bytes", LONG).await;
    world.warm("/media/object").await;
    let received = ["tidegate_origin_received_bytes_total{"];
    // Other doubts are of members that a slow machine silences.
    let doubts = ["tidegate_fleet_doubts_total{", "reason=\"gap\""];
    let mut before = Vec::new();
    for gateway in &world.gateways {
        let metrics = gateway.look("/metrics").await;
        before.push((metrics.metric(&received), metrics.metric(&doubts)));
    }
    let others = (1..PURGES).map(|n| format!("\"/media/many/{n}\""));
    let paths: Vec<_> = others.chain([quoted("/media/object")]).collect();
    let batch = format!("{{\"paths\": [{}]}}", paths.join(","));
    let got = world.operate(0, Method::POST, "/purge", &batch).await;
    assert_eq!(got.status, 200, "{}", got.text());
    for (gateway, (bytes, doubted)) in world.gateways.iter().zip(before) {
        world
            .until(|| async {
                gateway.get("/media/object", &[]).await;
                gateway.metric(&received).await > bytes
            })
            .await;
        let metrics = gateway.look("/metrics").await;
        assert_eq!(metrics.metric(&doubts), doubted);
        assert_eq!(metrics.metric(&["tidegate_fleet_dropped_total "]), 0);
    }
    world.stop().await;
}

/// Prints the time from a purge until no gateway serves what was cached, beside the target; the bounds are generous.
#[tokio::test(flavor = "multi_thread")]
async fn the_delay_of_a_purge_is_printed() {
    const PURGES: usize = 200;
    let world = World::new().await;
    world.put(0, "/media/object", "0000").await;
    world.reads("/media/object", "0000", LONG).await;
    let mut delays = Vec::new();
    for n in 1..=PURGES {
        let body = format!("{n:04}");
        world.buckets[0].put("object", body.clone()).await;
        let asked = Instant::now();
        world.purge(n % 3, "path=/media/object").await;
        world.reads("/media/object", &body, LONG).await;
        delays.push(asked.elapsed());
    }
    delays.sort();
    let at = |percent: usize| delays[(PURGES * percent).div_ceil(100) - 1];
    let (p50, p99, max) = (at(50), at(99), at(100));
    eprintln!(
        "from the request of {PURGES} purges to a fresh read at all three: p50 {p50:?}, p99 {p99:?} (target 100ms), \
         at most {max:?}"
    );
    // Without its message each of them would be late for minutes.
    assert!(p50 <= LONG / 10, "p50 {p50:?}");
    world.stop().await;
}
