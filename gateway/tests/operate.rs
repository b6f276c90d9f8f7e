//! Who runs the cache: what the admin listener tells and changes of it, on the embedded origin.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

#[path = "support/door.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod door;
#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
#[path = "support/world.rs"]
mod world;

use gateway::{Got, Whole, ask, send};
use world::{World, sample};

const AUTH: (&str, &str) = ("authorization", "Bearer t0ken");

/// As JSON, of an answer that is 200.
fn read(got: &Got) -> Value {
    assert_eq!(got.status, 200, "{}", got.text());
    serde_json::from_slice(&got.body).expect("JSON")
}

async fn change(gateway: &Whole, path: &str, body: &Value) -> Got {
    let body = body.to_string();
    send(gateway.admin, Method::PUT, path, &[AUTH], &body).await
}

/// Polls until what happens in the background has come so far.
async fn eventually(what: &str, mut done: impl AsyncFnMut() -> bool) {
    for _ in 0..3000 {
        if done().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tiers_change_under_load_and_every_byte_stays_right() {
    const SIZE: usize = 1 << 20;
    const OBJECTS: usize = 48;
    let world = World::new().await;
    let path = |n: usize| format!("/o/{n}.bin");
    for n in 0..OBJECTS {
        world.put(&path(n)[1..], &sample(SIZE, n)).await;
    }
    let gateway = Arc::new(world.start("ttl = \"1h\"").await);
    gateway.ready().await;
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..4)
        .map(|reader: usize| {
            let (gateway, stop) = (gateway.clone(), stop.clone());
            tokio::spawn(async move {
                let mut read = 0;
                while !stop.load(Ordering::Relaxed) {
                    let n = (reader * 13 + read * 7) % OBJECTS;
                    let got = gateway.get(&format!("/o/{n}.bin"), &[]).await;
                    assert!(got.status == 200 && got.body == sample(SIZE, n), "{n}");
                    read += 1;
                }
                read
            })
        })
        .collect();
    let disk = world.disk();
    let used = async || {
        let report = read(&gateway.look("/cache").await);
        report["disks"][0]["used"].as_u64().unwrap_or(0)
    };
    eventually("something is on disk", async || used().await > 24 << 20).await;

    let report = change(&gateway, "/cache/memory", &json!({ "capacity": "17MiB" })).await;
    let report = read(&report);
    assert_eq!(report["memory"]["capacity"], 17 << 20);
    assert!(report["memory"]["used"].as_u64() <= Some(17 << 20));
    let smaller = json!({ "path": disk, "capacity": "16MiB" });
    read(&change(&gateway, "/cache/disk", &smaller).await);
    eventually("evicted", async || used().await <= 16 << 20).await;

    for _ in 0..3 {
        let off = json!({ "path": disk, "enabled": false });
        let report = read(&change(&gateway, "/cache/disk", &off).await);
        let off = &report["disks"][0];
        assert_eq!((&off["state"], &off["used"]), (&json!("off"), &Value::Null));
        let ready = gateway.look("/readyz").await;
        assert!(ready.text().contains("switched off"), "{}", ready.text());
        let on = json!({ "path": disk, "enabled": true, "capacity": "32MiB" });
        let report = read(&change(&gateway, "/cache/disk", &on).await);
        assert_ne!(report["disks"][0]["state"], "off");
        eventually("loaded", async || {
            read(&gateway.look("/cache").await)["disks"][0]["state"] == "up"
        })
        .await;
        assert!(used().await > 0, "it has kept what it held");
    }
    eventually("it takes chunks again", async || used().await > 17 << 20).await;

    for (path, body, status) in [
        (
            "/cache/disk",
            json!({ "path": "/etc", "enabled": false }),
            404,
        ),
        (
            "/cache/disk",
            json!({ "path": disk, "capacity": 1000 }),
            400,
        ),
        (
            "/cache/disk",
            json!({ "path": disk, "capacity": 1u64 << 60 }),
            400,
        ),
        ("/cache/memory", json!({ "capacity": 1 }), 400),
    ] {
        let got = change(&gateway, path, &body).await;
        assert_eq!(got.status, status, "{body}: {}", got.text());
    }
    let unasked = ask(gateway.admin, Method::PUT, "/cache/memory", &[]).await;
    assert_eq!(unasked.status, 401);

    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.await.expect("every byte was right") > 0);
    }
    Arc::into_inner(gateway)
        .expect("nobody else has it")
        .stop()
        .await;
}

/// What the command says, run beside the gateway.
fn tidegate(world: &World, gateway: &Whole, line: &[&str]) -> (i32, String, String) {
    let file = world.folder.path().join("command.toml");
    let text = format!(
        "[admin]\nlisten = \"{}\"\ntoken = \"t0ken\"\n",
        gateway.admin
    );
    std::fs::write(&file, text).expect("written");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = command.arg("--config").arg(&file).args(line).output();
    let output = output.expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let code = output.status.code().expect("it ended by itself");
    (code, text(output.stdout), text(output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
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
    let run = |start: u64, end: u64, there: bool| json!({ "start": start, "end": end, "memory": there, "disk": there });
    let size = SIZE as u64;
    let runs = [
        run(0, 1 << 20, false),
        run(1 << 20, 1_572_864, true),
        run(1_572_864, size, false),
    ];
    assert_eq!(partly["ranges"], json!(runs));
    read(&change(&gateway, "/cache/memory", &json!({ "capacity": 0 })).await);
    assert_eq!(object()["bytes"]["memory"], 0);

    let (code, out, _) = tidegate(&world, &gateway, &["stat", "/films/a%20b.bin"]);
    assert_eq!(code, 0);
    assert!(out.starts_with("films/a b.bin (origin media)\n"), "{out}");
    assert!(out.contains("  1048576-1572863          disk\n"), "{out}");
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
    gateway.stop().await;
}
