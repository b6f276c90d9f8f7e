//! The whole gateway on the embedded origin, as `serve` and `demo` build it.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use http::{Method, Uri};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tidegate::app::start_demo;
use tidegate::demo::{DemoOptions, RunningGateway, Stage};

#[path = "support/door.rs"]
#[expect(dead_code, reason = "other suites let it hang")]
mod door;
#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/killed.rs"]
mod killed;
#[path = "support/world.rs"]
mod world;

use gateway::{Got, Whole, ask, send};
use killed::Killed;
use world::{World, sample};

const AUTH: (&str, &str) = ("authorization", "Bearer t0ken-of-the-tests");

/// Length of an object of several parts of several chunks, with a short last chunk.
const LONG: usize = (9 << 20) + 5;

fn cache(got: &Got) -> &str {
    got.header("cache-status")
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_purges_and_is_warm_after_an_orderly_restart() {
    let world = World::new().await;
    let (long, first, second) = (sample(LONG, 0), sample(4000, 1), sample(4000, 2));
    world.put("films/a b.bin", &long).await;
    world.put("notes/n.bin", &first).await;

    let gateway = world.start("ttl = \"1h\"").await;
    gateway.ready().await;
    let got = gateway.get("/films/a%20b.bin", &[]).await;
    assert_eq!(got.status, 200);
    assert!(got.body == long && cache(&got).contains("fwd=uri-miss"));
    assert_eq!(got.header("content-type"), "application/x-test");
    let got = gateway.get("/notes/n.bin", &[]).await;
    assert_eq!(got.body, first);
    let asked = gateway.gets().await;
    // Bytes that were just sent may still be on their way into memory.
    let hit = async {
        while !cache(&gateway.get("/notes/n.bin", &[]).await).contains("hit") {
            tokio::task::yield_now().await;
        }
    };
    let hit = tokio::time::timeout(Duration::from_secs(60), hit);
    hit.await.expect("it is cached");
    assert_eq!(gateway.gets().await, asked);

    world.put("notes/n.bin", &second).await;
    let purge = "/purge?path=/notes/n.bin";
    let refused = ask(gateway.admin, Method::POST, purge, &[]).await;
    assert_eq!(refused.status, 401);
    assert_eq!(gateway.get("/notes/n.bin", &[]).await.body, first);
    let purged = ask(gateway.admin, Method::POST, purge, &[AUTH]).await;
    assert_eq!(purged.status, 200, "{purged:?}");
    assert_eq!(gateway.get("/notes/n.bin", &[]).await.body, second);
    assert_eq!(gateway.metric(&["tidegate_resolves_total"]).await, 3);
    gateway.stop().await;
    assert!(world.disk().join("state").is_dir(), "beside the first disk");

    let gateway = world.start("ttl = \"1h\"").await;
    gateway.ready().await;
    let stat = gateway.look("/stat?path=/films/a%20b.bin").await.text();
    let stat: serde_json::Value = serde_json::from_str(&stat).expect("JSON");
    let on_disk = stat["objects"][0]["bytes"]["disk"].as_u64();
    assert!(on_disk.expect("a number") > 30 << 18, "{stat}");
    let got = gateway.get("/films/a%20b.bin", &[]).await;
    assert!(
        got.body == long && cache(&got).contains("hit"),
        "{}",
        cache(&got)
    );
    let range = [("range", "bytes=-70000")];
    let part = gateway.get("/films/a%20b.bin", &range).await;
    assert!(part.status == 206 && part.body == long[LONG - 70_000..]);
    assert_eq!(gateway.get("/notes/n.bin", &[]).await.body, second);
    // If the disk of a busy machine is slow, the origin is raced or read beside it. That concerns bytes on disk, and
    // never the version, which is known.
    let resolves = ["tidegate_resolves_total"];
    assert_eq!(gateway.metric(&resolves).await, 0, "all of it was known");
    let from_disk = ["tidegate_store_hits_total{", "tier=\"disk\""];
    assert!(
        gateway.metric(&from_disk).await > 0,
        "the rest may be raced"
    );
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn starts_without_its_origin_and_serves_what_it_has() {
    let world = World::new().await;
    let bytes = sample(3 << 20, 0);
    world.put("kept.bin", &bytes).await;
    world.put("other.bin", &bytes[..10]).await;
    let stale_at_once = "ttl = \"1ms\"\nstale_while_revalidate = \"0s\"\nstale_if_error = \"1h\"";
    let gateway = world.start(stale_at_once).await;
    gateway.ready().await;
    assert_eq!(gateway.get("/kept.bin", &[]).await.body, bytes);
    gateway.stop().await;

    world.door.shut();
    let gateway = world.start(stale_at_once).await;
    assert_eq!(gateway.look("/healthz").await.status, 200);
    let waiting = gateway.look("/readyz").await;
    assert_eq!(waiting.status, 503);
    let missing = waiting.text();
    assert!(
        missing.contains("origin `media`: the origin is unavailable"),
        "{missing}"
    );
    loaded(&gateway).await;
    let kept = gateway.get("/kept.bin", &[]).await;
    assert_eq!(kept.status, 200);
    assert!(
        kept.body == bytes && cache(&kept).contains("stale-if-error"),
        "{}",
        cache(&kept)
    );
    let other = gateway.get("/other.bin", &[]).await;
    assert_eq!(other.status, 503);
    assert!(!other.header("retry-after").is_empty());
    assert!(!other.text().contains("127.0.0.1"), "{other:?}");

    world.door.open();
    gateway.ready().await;
    assert_eq!(gateway.get("/other.bin", &[]).await.body, bytes[..10]);
    gateway.stop().await;
}

/// Waits until only the origin is missing.
async fn loaded(gateway: &Whole) {
    for _ in 0..3000 {
        if gateway.metric(&["tidegate_store_disk_up{"]).await == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the disk's index is not loaded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_in_use_is_named() {
    let world = World::new().await;
    let gateway = world.start("").await;
    let second = Whole::try_start(&world.config("")).await;
    let said = format!("{:#}", second.expect_err("the disk is taken"));
    assert!(said.contains("cannot open the cache"), "{said}");
    assert!(
        said.contains(world.folder.path().to_str().expect("text")),
        "{said}"
    );
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_url_of_the_demo_answers_200() {
    let options = DemoOptions {
        port: 0,
        admin_port: 0,
        large: 2 << 20,
        ..DemoOptions::default()
    };
    let stage = Stage::set(&options).await.expect("a stage");
    let launch = stage.launch().expect("sockets");
    let admin = launch.admin.local_addr().expect("bound");
    let token = std::fs::read_to_string(&launch.token_file).expect("a token");
    let gateway = start_demo(launch).await.expect("it starts");
    let urls = stage.guide().urls();
    assert!(urls.len() > 10, "{urls:?}");
    for url in urls {
        let uri: Uri = url.parse().expect("a URL");
        let address = uri.authority().expect("an address").as_str();
        let path = uri.path_and_query().expect("a path").as_str();
        let address = address.parse().expect("on loopback");
        let got = ask(address, Method::GET, path, &[]).await;
        assert!(got.status == 200 && !got.body.is_empty(), "{url}: {got:?}");
    }
    may_be_changed(admin, token.trim()).await;
    RunningGateway::stop(gateway).await.expect("in order");
}

/// A setting of the demo is shown with its file, and can be changed.
async fn may_be_changed(admin: SocketAddr, token: &str) {
    let shown = ask(admin, Method::GET, "/console/settings", &[]).await;
    assert!(shown.text().contains("tidegate.toml:"), "{}", shown.text());
    let token = format!("Bearer {token}");
    let headers = [
        ("authorization", token.as_str()),
        ("content-type", "application/json"),
    ];
    let change = json!({ "key": "profile.web.ttl", "value": "5m" }).to_string();
    let got = send(admin, Method::POST, "/overrides", &headers, &change).await;
    assert_eq!(got.status, 200, "{}", got.text());
}

/// Returns the address in the first log line that has `message`, with the lines read so far.
fn address(log: &mut impl BufRead, message: &str) -> String {
    let mut read = String::new();
    while log.read_line(&mut read).expect("text") > 0 {
        let line = read.lines().last().expect("just read");
        if line.contains(message) {
            let (_, address) = line.split_once("address=").expect("an address");
            return address.trim().to_owned();
        }
    }
    panic!("it ended without `{message}`:\n{read}");
}

#[tokio::test(flavor = "multi_thread")]
async fn serve_says_where_and_ends_in_order_when_told() {
    let world = World::new().await;
    world.put("one.bin", b"1").await;
    let anywhere = "[http]\nlisten = \"127.0.0.1:0\"\n";
    let admin = "[admin]\nlisten = \"127.0.0.1:0\"\n";
    let config = world.config("").replace("[admin]\n", admin);
    let file = world.folder.path().join("tidegate.toml");
    std::fs::write(&file, format!("{anywhere}{config}")).expect("written");
    let child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["serve", "--config"])
        .arg(&file)
        .stderr(Stdio::piped())
        .spawn();
    let mut child = Killed(child.expect("it starts"));
    let mut log = BufReader::new(child.0.stderr.take().expect("piped"));
    let http = address(&mut log, "serving").parse().expect("an address");
    let got = ask(http, Method::GET, "/one.bin", &[]).await;
    assert_eq!((got.status, &got.body[..]), (200, &b"1"[..]));

    let id = i32::try_from(child.0.id()).ok().and_then(Pid::from_raw);
    kill_process(id.expect("a process id"), Signal::TERM).expect("ours");
    let mut rest = String::new();
    log.read_to_string(&mut rest).expect("text");
    assert_eq!(child.0.wait().expect("ours").code(), Some(0), "{rest}");
    assert!(rest.contains("stopped in order"), "{rest}");
}

/// Returns every directory and file below `folder` with mode bits for users other than its owner.
fn open_to_others(folder: &std::path::Path) -> Vec<(std::path::PathBuf, u32)> {
    use std::os::unix::fs::MetadataExt as _;
    let mode = |path: &std::path::Path| path.metadata().expect("there").mode() & 0o777;
    let mut found = vec![(folder.to_owned(), mode(folder))];
    let mut at = 0;
    while at < found.len() {
        let path = found[at].0.clone();
        if path.is_dir() {
            for entry in std::fs::read_dir(&path).expect("a folder") {
                let path = entry.expect("an entry").path();
                found.push((path.clone(), mode(&path)));
            }
        }
        at += 1;
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_cached_is_for_our_own_user_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let world = World::new().await;
    world.put("private.bin", &sample(LONG, 0)).await;
    for earlier_version in [false, true] {
        if earlier_version {
            for (path, mode) in open_to_others(&world.disk()) {
                let open = std::fs::Permissions::from_mode(mode | (mode & 0o500) >> 3 | 0o44);
                std::fs::set_permissions(&path, open).expect("ours");
            }
        }
        let gateway = world.start("ttl = \"1h\"").await;
        gateway.ready().await;
        assert_eq!(gateway.get("/private.bin", &[]).await.status, 200);
        gateway.stop().await;
        let found = open_to_others(&world.disk());
        let has = |end: &str| {
            found
                .iter()
                .any(|(path, _)| path.to_string_lossy().ends_with(end))
        };
        for end in [".data", ".index", ".redb", "lock", "clean"] {
            assert!(has(end), "{end} in {found:?}");
        }
        for (path, mode) in found {
            let expected = if path.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode, expected, "{} {mode:o}", path.display());
        }
    }
}
