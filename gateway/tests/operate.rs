//! The work of an operator: the admin listener's reports and changes, on the embedded origin.

use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

#[path = "support/door.rs"]
#[expect(dead_code, reason = "other suites let it hang")]
mod door;
#[path = "support/gateway.rs"]
mod gateway;
#[path = "operate/purges.rs"]
mod purges;
#[path = "support/world.rs"]
mod world;

use gateway::{Got, Whole, ask, send};
use world::{World, sample};

const AUTH: (&str, &str) = ("authorization", "Bearer t0ken-of-the-tests");

/// Parses the JSON of an answer with status 200.
fn read(got: &Got) -> Value {
    assert_eq!(got.status, 200, "{}", got.text());
    serde_json::from_slice(&got.body).expect("JSON")
}

async fn change(gateway: &Whole, path: &str, body: &Value) -> Got {
    let body = body.to_string();
    send(gateway.admin, Method::PUT, path, &[AUTH], &body).await
}

/// Polls until `done` reports that the background work has come so far.
async fn eventually(what: &str, mut done: impl AsyncFnMut() -> bool) {
    for _ in 0..3000 {
        if done().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

/// Runs the command beside the gateway; returns its exit code and its output.
fn tidegate(world: &World, gateway: &Whole, line: &[&str]) -> (i32, String, String) {
    tidegate_reading(world, gateway, line, "")
}

/// Does the same with this text on the command's standard input.
fn tidegate_reading(
    world: &World,
    gateway: &Whole,
    line: &[&str],
    input: &str,
) -> (i32, String, String) {
    let file = world.folder.path().join("command.toml");
    let text = format!(
        "[admin]\nlisten = \"{}\"\ntoken = \"t0ken-of-the-tests\"\n",
        gateway.admin
    );
    std::fs::write(&file, text).expect("written");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg("--config").arg(&file).args(line);
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut stdin = child.stdin.take().expect("piped");
    // A command that reads nothing has perhaps ended.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let code = output.status.code().expect("it ended by itself");
    (code, text(output.stdout), text(output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "one story")]
async fn stat_says_what_of_an_object_is_where_and_asks_the_origin_nothing() {
    const SIZE: usize = (3 << 20) + 5;
    let world = World::new().await;
    world.put("films/a b.bin", &sample(SIZE, 0)).await;
    let gateway = world.start("ttl = \"1h\"\nread_ahead = \"0\"").await;
    gateway.ready().await;
    let url = format!("http://{}/films/a%20b.bin?ver=1", gateway.http);
    let told = || tidegate(&world, &gateway, &["stat", "--json", &url]);
    let object = || {
        let (code, out, err) = told();
        assert_eq!(code, 0, "{err}");
        let answer: Value = serde_json::from_str(&out).expect("JSON");
        answer["objects"][0].clone()
    };
    assert_eq!(object()["known"], false);
    let requests = async || {
        let text = gateway.look("/metrics").await.text();
        let of = |line: &&str| line.starts_with("tidegate_origin_requests_total{");
        text.lines()
            .filter(of)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let before = requests().await;

    let range = [("range", "bytes=1048576-1572863")];
    assert_eq!(gateway.get("/films/a%20b.bin", &range).await.status, 206);
    let after = requests().await;
    assert_ne!(before, after);
    eventually("on disk", async || object()["bytes"]["disk"] == 512 << 10).await;
    let partly = object();
    assert_eq!(partly["cached"], "partly");
    assert_eq!(partly["state"], "fresh");
    assert_eq!(partly["version"]["size"], SIZE);
    assert_eq!(partly["version"]["content_type"], "application/x-test");
    let run = |start: u64, end: u64, there: bool| json!({ "start": start, "end": end, "memory": there, "disk": there, "pinned": false });
    let size = SIZE as u64;
    let runs = [
        run(0, 1 << 20, false),
        run(1 << 20, 1_572_864, true),
        run(1_572_864, size, false),
    ];
    assert_eq!(partly["ranges"], json!(runs));
    let (code, out, _) = tidegate(&world, &gateway, &["stat", "/films/a%20b.bin"]);
    assert_eq!(code, 0);
    assert!(out.starts_with("films/a b.bin (origin media)\n"), "{out}");
    assert!(
        out.contains("  1048576-1572863          memory, disk\n"),
        "{out}"
    );
    let (code, _, err) = tidegate(&world, &gateway, &["stat", "films"]);
    assert_eq!(code, 1, "{err}");
    assert_eq!(
        requests().await,
        after,
        "nothing more was asked of the origin"
    );
    gateway.stop().await;

    let gateway = world.start("ttl = \"1h\"").await;
    gateway.ready().await;
    let got = gateway.look("/stat?path=/films/a%20b.bin").await;
    let kept = &read(&got)["objects"][0];
    assert_eq!(
        kept["state"], "fresh",
        "known after an orderly restart: {kept}"
    );
    assert_eq!(kept["bytes"]["disk"], 512 << 10);
    assert_eq!(kept["bytes"]["memory"], 0);
    let (_, out, _) = tidegate(&world, &gateway, &["stat", "/films/a%20b.bin"]);
    assert!(out.contains("  1048576-1572863          disk\n"), "{out}");
    gateway.stop().await;
}

/// Reads every object below a prefix once.
async fn read_all(gateway: &Whole, prefix: &str, objects: std::ops::Range<usize>) {
    for n in objects {
        let got = gateway.get(&format!("/{prefix}/{n}.bin"), &[]).await;
        assert!(got.status == 200 && got.body == sample(1 << 20, n), "{n}");
    }
}

/// Returns how many bytes of one object are on disk, and how many of those are pinned.
async fn on_disk(gateway: &Whole, path: &str) -> (u64, u64) {
    let got = gateway.look(&format!("/stat?path={path}")).await;
    let bytes = &read(&got)["objects"][0]["bytes"];
    let of = |tier: &str| bytes[tier].as_u64().unwrap_or(0);
    (of("disk"), of("pinned"))
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "one story")]
async fn a_pin_keeps_a_prefix_on_disk_until_it_is_removed() {
    const OBJECTS: usize = 40;
    let world = World::new().await;
    for n in 0..OBJECTS {
        for prefix in ["keep", "other"] {
            world
                .put(&format!("{prefix}/{n}.bin"), &sample(1 << 20, n))
                .await;
        }
    }
    let profile = "ttl = \"1h\"\nread_ahead = \"0\"";
    let config = world.config(profile);
    let config = config.replace("memory = \"64MiB\"", "memory = 0");
    let config = config.replace("capacity = \"128MiB\"", "capacity = \"16MiB\"");
    let gateway = Whole::start(&config).await;
    gateway.ready().await;
    // These are cached before the pin, which takes effect at their next use.
    read_all(&gateway, "keep", 0..2).await;
    eventually("on disk", async || {
        on_disk(&gateway, "/keep/1.bin").await.0 == 1 << 20
    })
    .await;
    let (code, out, err) = tidegate(&world, &gateway, &["pin", "/keep/", "--limit", "4MiB"]);
    assert_eq!((code, out.as_str()), (0, "pinned media:keep/\n"), "{err}");
    read_all(&gateway, "keep", 0..3).await;
    eventually("pinned", async || {
        on_disk(&gateway, "/keep/2.bin").await.1 == 1 << 20
    })
    .await;
    read_all(&gateway, "other", 0..OBJECTS).await;
    let pinned = async |gateway: &Whole| {
        let mut whole = 0;
        for n in 0..3 {
            let (disk, pinned) = on_disk(gateway, &format!("/keep/{n}.bin")).await;
            whole += u64::from(disk == 1 << 20 && pinned == 1 << 20);
        }
        whole
    };
    assert_eq!(pinned(&gateway).await, 3);
    let (_, out, _) = tidegate(&world, &gateway, &["pin", "--list"]);
    assert_eq!(out, "media:keep/  3MiB of 4MiB\n");
    gateway.stop().await;

    let gateway = Whole::start(&config).await;
    gateway.ready().await;
    assert_eq!(pinned(&gateway).await, 3, "also after a restart");
    read_all(&gateway, "other", 0..OBJECTS).await;
    assert_eq!(pinned(&gateway).await, 3);

    // A version that was replaced does not stay.
    world.put("keep/2.bin", &sample(1 << 20, 77)).await;
    let purge = "/purge?path=/keep/2.bin";
    read(&ask(gateway.admin, Method::POST, purge, &[AUTH]).await);
    eventually("let go of", async || {
        read(&gateway.look("/pins").await)["pins"][0]["used"] == 2 << 20
    })
    .await;

    let (code, out, err) = tidegate(&world, &gateway, &["pin", "--remove", "/keep/"]);
    assert_eq!((code, out.as_str()), (0, "unpinned media:keep/\n"), "{err}");
    assert_eq!(read(&gateway.look("/cache").await)["disks"][0]["pinned"], 0);
    read_all(&gateway, "other", 0..OBJECTS).await;
    read_all(&gateway, "other", 0..OBJECTS).await;
    assert_eq!(
        on_disk(&gateway, "/keep/0.bin").await,
        (0, 0),
        "evicted like any other"
    );
    let again = tidegate(&world, &gateway, &["pin", "--remove", "/keep/"]);
    assert!(again.0 == 1 && again.2.contains("404"), "{again:?}");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_can_be_pinned_without_a_disk() {
    let world = World::new().await;
    let of_disk = ["[[cache.disk]]", "path = ", "capacity", "min_free"];
    let config = world.config("");
    let lines = config.lines();
    let others = lines.filter(|line| !of_disk.iter().any(|key| line.starts_with(key)));
    let config = others.collect::<Vec<_>>().join("\n");
    let gateway = Whole::start(&config).await;
    let body = json!({ "path": "/", "limit": "1GiB" });
    let got = change(&gateway, "/pins", &body).await;
    assert_eq!(got.status, 400);
    assert!(got.text().contains("no cache disk"), "{}", got.text());
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn warm_fills_the_cache_from_a_prefix_and_a_list() {
    const SIZE: usize = (1 << 20) + 5;
    let world = World::new().await;
    for n in 0..8 {
        world.put(&format!("a b/{n}.bin"), &sample(SIZE, n)).await;
        world.put(&format!("other/{n}.bin"), &sample(SIZE, n)).await;
    }
    let gateway = world.start("ttl = \"1h\"\ndisk = \"second\"").await;
    gateway.ready().await;
    let file = |name: &str, text: &str| {
        let path = world.folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("text").to_owned()
    };
    let warm = |line: &[&str]| tidegate(&world, &gateway, &[&["warm"], line].concat());

    assert_eq!(gateway.get("/a%20b/0.bin", &[]).await.body, sample(SIZE, 0));
    let (code, out, err) = warm(&["/a%20b/", "--rate", "1GiB"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        out.starts_with("8 objects, 7.0 MiB fetched, 1.0 MiB cached already"),
        "{out}"
    );
    let gets = gateway.gets().await;
    for n in 0..8 {
        let path = format!("/a%20b/{n}.bin");
        eventually("on disk", async || {
            on_disk(&gateway, &path).await.0 == SIZE as u64
        })
        .await;
        assert_eq!(gateway.get(&path, &[]).await.body, sample(SIZE, n));
    }
    assert_eq!(gateway.gets().await, gets, "all of it was warm");

    let list = file("list", "/other/0.bin\n/other/1.bin?x=1\n/gone.bin\n");
    let (code, _, err) = warm(&["--from-list", &list]);
    assert_eq!(code, 1);
    assert!(err.contains("/gone.bin: no such object"), "{err}");
    assert!(err.contains("1 of 3 objects could not be warmed"), "{err}");
    let (code, out, err) = warm(&["/other/"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        out.starts_with("8 objects, 6.0 MiB fetched, 2.0 MiB cached already"),
        "{out}"
    );

    // The origin becomes unreachable.
    world.door.shut();
    let (code, _, err) = warm(&["/other/"]);
    assert_eq!(code, 1, "{err}");
    world.door.open();
    gateway.stop().await;
}
