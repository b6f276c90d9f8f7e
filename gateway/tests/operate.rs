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
