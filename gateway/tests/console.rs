//! The console's API and pages on a whole gateway: answers, their description, and the admission of requests.

use std::net::SocketAddr;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

#[path = "console/admission.rs"]
mod admission;
#[path = "tls/authority.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod authority;
#[path = "console/cost.rs"]
mod cost;
#[path = "console/doctor.rs"]
mod doctor;
#[path = "console/document.rs"]
mod document;
#[path = "support/door.rs"]
#[expect(dead_code, reason = "other suites let it hang")]
mod door;
#[path = "console/events.rs"]
mod events;
#[path = "console/figures.rs"]
mod figures;
#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
#[path = "console/hosts.rs"]
mod hosts;
#[path = "console/links.rs"]
mod links;
#[path = "console/live.rs"]
mod live;
#[path = "console/login.rs"]
mod login;
#[path = "support/mount.rs"]
#[expect(dead_code, reason = "other suites mount")]
mod mount;
#[path = "console/objects.rs"]
mod objects;
#[path = "console/pages.rs"]
mod pages;
#[path = "support/ports.rs"]
mod ports;
#[path = "console/reload.rs"]
mod reload;
#[path = "support/serving.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod serving;
#[path = "console/settings.rs"]
mod settings;
#[path = "support/world.rs"]
#[expect(dead_code, reason = "other suites start it with a profile")]
mod world;
#[cfg(all(feature = "real-parts", feature = "fuse", target_os = "linux"))]
#[path = "console/writes.rs"]
mod writes;

use gateway::{Got, Whole, ask, send};
use world::{World, sample};

const AUTH: (&str, &str) = ("authorization", "Bearer t0ken-of-the-tests");

/// Timeout of a test's waits; only a failure waits so long.
const LONG: Duration = Duration::from_secs(300);

/// Returns the JSON of an answer of the API.
async fn api(gateway: &Whole, path: &str) -> Value {
    api_at(gateway.admin, path).await
}

/// Returns the JSON of an answer of the API of an admin listener; it is as the document of the API describes it.
async fn api_at(admin: SocketAddr, path: &str) -> Value {
    let got = ask(admin, Method::GET, path, &[AUTH]).await;
    assert_eq!(got.status, 200, "{path}: {}", got.text());
    let (described, _) = path.split_once('?').unwrap_or((path, ""));
    if described.starts_with("/api/") && !described.ends_with("/openapi.json") {
        let document = document::of_the_code();
        document::check(&document, ("get", described, got.status), &got.body);
    }
    serde_json::from_slice(&got.body).expect("JSON")
}

/// Returns the text of a page of an admin listener.
async fn page_at(admin: SocketAddr, path: &str, cookie: &str) -> String {
    let got = ask(admin, Method::GET, path, &[("cookie", cookie)]).await;
    assert_eq!(got.status, 200, "{path}: {}", got.text());
    got.text()
}

fn configuration(world: &World) -> String {
    let config = world.config("ttl = \"1h\"");
    let prices = "price_get = 0.5\nprice_received = 1.0\n[profile.web]";
    let config = config.replace("[profile.web]", prices);
    let state = world.folder.path().join("state");
    format!(
        "{config}[state]\npath = \"{}\"\n[[hook]]\non = [\"created\"]\nurl = \"http://127.0.0.1:9/\"\n\
         bearer = \"secret-of-the-hook\"\n[[events]]\nname = \"bucket\"\norigin = \"media\"\n\
         token = \"secret-of-the-events-0123456789abcdef\"\n",
        state.display()
    )
}

async fn started(world: &World) -> Whole {
    for n in 0..5 {
        world.put(&format!("o/{n}.png"), &sample(100_000, n)).await;
    }
    world.put("o/deep/er/x", b"x").await;
    let gateway = Whole::start(&configuration(world)).await;
    gateway.ready().await;
    for n in 0..3 {
        let got = gateway.get(&format!("/o/{n}.png"), &[]).await;
        assert_eq!(got.status, 200);
    }
    gateway
}

#[tokio::test(flavor = "multi_thread")]
async fn the_figures_are_those_of_the_gateway() {
    let world = World::new().await;
    let gateway = started(&world).await;
    let now = api(&gateway, "/api/v1/now").await;
    assert!(now["uptime"].as_f64().is_some_and(|time| time >= 0.0));
    assert!(
        now["version"]
            .as_str()
            .is_some_and(|version| !version.is_empty())
    );
    let tiers = api(&gateway, "/api/v1/tiers").await;
    assert_eq!(tiers["memory"]["capacity"], 64 << 20);
    assert_eq!(tiers["disks"][0]["state"], "up");
    assert!(tiers["disks"][0]["since"].is_number(), "{tiers}");
    let origins = api(&gateway, "/api/v1/origins").await;
    let origin = &origins["origins"][0];
    assert_eq!(
        (&origin["name"], &origin["breaker_open"]),
        (&json!("media"), &json!(false))
    );
    let received = origin["received"].as_u64().expect("bytes");
    assert!(received >= 300_000, "{origin}");
    let gets: u64 = origin["requests"]
        .as_array()
        .expect("kinds")
        .iter()
        .filter(|one| ["get", "head", "probe"].contains(&one["kind"].as_str().expect("a kind")))
        .flat_map(|one| one["results"].as_object().expect("results").values())
        .map(|count| count.as_u64().expect("a count"))
        .sum();
    let cost = origin["cost"].as_f64().expect("prices are configured");
    let expected = gets as f64 * 0.5 / 1000.0 + received as f64 / 1e9;
    assert!((cost - expected).abs() < 1e-9, "{cost}, not {expected}");
    let hooks = api(&gateway, "/api/v1/hooks").await;
    assert_eq!(hooks["hooks"].as_array().map(Vec::len), Some(1));
    let events = api(&gateway, "/api/v1/events").await;
    assert_eq!(events["subscriptions"][0]["name"], "bucket");
    let fleet = api(&gateway, "/api/v1/fleet").await;
    assert_eq!(fleet["configured"], false);
    let writes = api(&gateway, "/api/v1/writes").await;
    assert_eq!(writes, json!({ "spool": null, "drafts": [] }));
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shares_are_those_of_the_bytes_that_readers_took() {
    let world = World::new().await;
    world.put("large.bin", &sample(LARGE, 1)).await;
    let config = configuration(&world).replace("memory = \"64MiB\"", "memory = \"256MiB\"");
    let gateway = Whole::start(&config).await;
    gateway.ready().await;
    let shares = async |read: &str, is_right: fn(f64, f64) -> bool| {
        let got = gateway.get("/large.bin", &[]).await;
        assert_eq!(got.body.len(), LARGE);
        let found = timeout(LONG, async {
            loop {
                let now = api(&gateway, "/api/v1/now").await;
                let share = &now["figures"]["hit_share"];
                let of = |tier: &str| share[tier].as_f64().unwrap_or(f64::NAN);
                if is_right(of("origin"), of("memory")) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        assert!(found.await.is_ok(), "{read}");
    };
    // Most of them were read ahead, and found in memory.
    shares("the first time", |origin, _| origin > 0.97).await;
    shares("again", |origin, memory| {
        (0.45..0.55).contains(&origin) && (0.4..0.55).contains(&memory)
    })
    .await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_seconds_before_a_stop_are_in_the_history_after_it() {
    let world = World::new().await;
    // Too short for a look of every 10 s: the stop takes the last one, and waits until it is written.
    started(&world).await.stop().await;
    let gateway = Whole::start(&configuration(&world)).await;
    gateway.ready().await;
    let read = async {
        loop {
            let history = api(&gateway, "/api/v1/history").await;
            let points = |ring: &str| history[ring].as_array().expect("points").clone();
            if !points("hour").is_empty() {
                return (points("hour"), points("day"));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let (hour, day) = timeout(LONG, read).await.expect("it is read at the start");
    for points in [hour, day] {
        let first = points.first().expect("the stop has added one");
        let requests = first["figures"]["requests_per_second"].as_f64();
        assert!(requests > Some(0.0), "{points:?}");
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_have_their_source_and_no_secret() {
    let world = World::new().await;
    let gateway = started(&world).await;
    let settings = api(&gateway, "/api/v1/settings").await;
    let text = settings.to_string();
    for secret in [
        "t0ken-of-the-tests",
        "secret-of-the-hook",
        "secret-of-the-events",
    ] {
        assert!(!text.contains(secret), "{secret}");
    }
    let all = settings["settings"].as_array().expect("a list");
    let of = |key: &str| {
        all.iter()
            .find(|one| one["key"] == key)
            .unwrap_or_else(|| panic!("{key}"))
    };
    let memory = of("cache.memory");
    assert_eq!(
        (&memory["value"], &memory["source"], &memory["needs"]),
        (&json!("64MiB"), &json!("file"), &json!("reload"))
    );
    let chunk = of("cache.chunk");
    assert_eq!(
        (&chunk["source"], &chunk["needs"]),
        (&json!("default"), &json!("restart"))
    );
    let token = of("admin.token");
    assert_eq!(
        (&token["value"], &token["secret"]),
        (&Value::Null, &json!(true))
    );
    assert!(all.len() >= 80, "{}", all.len());
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_comes_in_pages_with_what_is_cached() {
    let world = World::new().await;
    let gateway = started(&world).await;
    let mut names = Vec::new();
    let mut page = api(&gateway, "/api/v1/objects?path=/o/&limit=2").await;
    loop {
        names.extend(page["names"].as_array().expect("names").clone());
        let Some(token) = page["next"].as_str() else {
            break;
        };
        let next = format!("/api/v1/objects?path=/o/&limit=2&page={token}");
        let again = api(&gateway, &next).await;
        page = api(&gateway, &next).await;
        let first = |page: &Value| page["names"][0]["name"].clone();
        assert_eq!(first(&page), first(&again), "a page can be asked for again");
    }
    let shown: Vec<_> = names
        .iter()
        .map(|one| one["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(shown, ["0.png", "1.png", "2.png", "3.png", "4.png", "deep"]);
    assert_eq!(names[5]["folder"], true);
    assert_eq!(names[5]["path"], "/o/deep/");
    let cached = &names[1]["cached"];
    assert_eq!(
        (&cached["memory"], &cached["absent"], &cached["state"]),
        (&json!(100_000), &json!(0), &json!("fresh"))
    );
    assert_eq!(cached["runs"][0]["end"], 100_000);
    assert_eq!(names[4]["cached"], Value::Null, "nothing was read of it");
    for (path, status) in [
        ("/api/v1/objects?path=/o", 400),
        ("/api/v1/objects?path=/o/&limit=0", 400),
        ("/api/v1/objects?path=/o/&limit=501", 400),
        ("/api/v1/objects?path=/o/&page=0000000000000000", 410),
        ("/api/v1/objects", 400),
    ] {
        let got = ask(gateway.admin, Method::GET, path, &[AUTH]).await;
        assert_eq!(got.status, status, "{path}: {}", got.text());
    }
    gateway.stop().await;
}

/// A reader that takes its answer slowly.
pub(crate) struct SlowReader(TcpStream);

impl SlowReader {
    async fn start(gateway: &Whole, path: &str) -> Self {
        let mut io = TcpStream::connect(gateway.http).await.expect("listening");
        let head = format!("GET {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n");
        io.write_all(head.as_bytes()).await.expect("sent");
        let mut first = [0; 1000];
        io.read_exact(&mut first).await.expect("an answer");
        Self(io)
    }

    /// Reads to the end; returns how many bytes that were.
    async fn rest(mut self) -> usize {
        let mut rest = Vec::new();
        let _ = self.0.read_to_end(&mut rest).await;
        rest.len() + 1000
    }
}

const LARGE: usize = 48 << 20;

/// Waits until a stream with bytes ahead of its reader is listed.
async fn one_reads_ahead(gateway: &Whole) {
    let reads_ahead = |listed: &Value| {
        let streams = listed["streams"].as_array().expect("streams").iter();
        let mut ahead = streams.map(|one| (one["window"].as_u64(), one["ahead"].as_u64()));
        ahead.any(|(window, ahead)| window > Some(0) && ahead > Some(0))
    };
    let waited = timeout(LONG, async {
        while !reads_ahead(&api(gateway, "/api/v1/streams").await) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(waited.await.is_ok(), "no stream reads ahead");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_seen_and_can_be_stopped() {
    let world = World::new().await;
    world.put("large.bin", &sample(LARGE, 1)).await;
    let gateway = started(&world).await;
    assert_eq!(
        api(&gateway, "/api/v1/streams").await,
        json!({ "streams": [] })
    );
    let stopped = SlowReader::start(&gateway, "/large.bin").await;
    let whole = SlowReader::start(&gateway, "/large.bin").await;
    one_reads_ahead(&gateway).await;
    let listed = api(&gateway, "/api/v1/streams").await;
    let streams = listed["streams"].as_array().expect("streams");
    assert_eq!(streams.len(), 2, "{listed}");
    let stream = &streams[0];
    assert_eq!(
        (&stream["key"], &stream["size"]),
        (&json!("large.bin"), &json!(LARGE))
    );
    assert_eq!(
        (&stream["client"], &stream["kind"]),
        (&json!("127.0.0.1"), &json!("http"))
    );
    assert!(stream["position"].as_u64() > Some(0), "{stream}");
    // Also where they were read ahead, and the reader finds them in memory.
    assert_eq!(stream["tier"], "origin", "{stream}");
    let path = format!("/api/v1/streams/{}", stream["id"]);
    let got = ask(gateway.admin, Method::DELETE, &path, &[AUTH]).await;
    assert_eq!(got.status, 204, "{}", got.text());
    let of = ("delete", "/api/v1/streams/{id}", 204);
    document::check(&document::of_the_code(), of, &got.body);
    assert!(stopped.rest().await < LARGE, "it was cut off");
    assert!(whole.rest().await > LARGE, "the other one was not");
    let mut left = usize::MAX;
    for _ in 0..3000 {
        left = api(&gateway, "/api/v1/streams").await["streams"]
            .as_array()
            .map_or(0, Vec::len);
        if left == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(left, 0);
    let got = ask(gateway.admin, Method::DELETE, &path, &[AUTH]).await;
    assert_eq!(got.status, 404, "it is gone");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_player_that_is_closed_is_no_failure() {
    let world = World::new().await;
    world.put("large.bin", &sample(LARGE, 1)).await;
    let gateway = started(&world).await;
    drop(SlowReader::start(&gateway, "/large.bin").await);
    let broken = ["tidegate_http_broken_answers_total{", "reason=\"client\""];
    let ended = async {
        while gateway.metric(&broken).await == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, ended).await.expect("it is counted");
    let now = api(&gateway, "/api/v1/now").await;
    assert_eq!(now["errors_of_last_hour"], json!([]), "{now}");
    assert_eq!(now["figures"]["errors"], json!(0), "{now}");
    gateway.stop().await;
}

/// Sends a form of a page.
async fn post(gateway: &Whole, path: &str, cookie: &str, fields: &str) -> Got {
    post_to(gateway.admin, path, cookie, fields).await
}

/// Sends a form of a page to an admin listener.
async fn post_to(admin: SocketAddr, path: &str, cookie: &str, fields: &str) -> Got {
    let headers = [
        ("cookie", cookie),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    send(admin, Method::POST, path, &headers, fields).await
}
