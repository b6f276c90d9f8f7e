//! The budget, the memory and the disks of a cache that serves.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use crate::gateway::{Got, ask, send};
use crate::mount::TOKEN;
use crate::serving::{Serving, disk};
use crate::world::{World, sample};
use crate::{LONG, SIZE, configuration, read_on, report, serving};

/// Readers at once. Each begins with another object.
const READERS: usize = 4;

async fn tiers(serving: &Serving) -> Value {
    report(&serving.look("/cache").await)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_budget_changes_under_readers_of_a_cold_cache() {
    let world = World::new().await;
    let serving = serving(&world).await;
    let stop = Arc::new(AtomicBool::new(false));
    let readers = (0..READERS).map(|n| tokio::spawn(read_on(serving.http, stop.clone(), n)));
    let readers: Vec<_> = readers.collect();
    for nth in 0..40 {
        let (written, mib) = [("4MiB", 3), ("64MiB", 48)][nth % 2];
        let other = format!("[cache]\nbudget = \"{written}\"\n");
        serving.configure(&configuration(&world, "").replace("[cache]\n", &other));
        let told = report(&serving.post("/reload").await);
        let expected = json!({ "changed": ["cache.budget"], "needs_restart": [] });
        assert_eq!(told, expected, "{nth}");
        // Three quarters are for fetches and read-ahead.
        let capacity = tiers(&serving).await["budget"]["capacity"].clone();
        assert_eq!(capacity, json!(mib << 20));
        // What is purged is fetched again, within the budget.
        assert_eq!(
            serving.post("/purge?path=/o/&prefix=true").await.status,
            200
        );
    }
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.await.expect("no request failed") > 0);
    }
    let since = Instant::now();
    while tiers(&serving).await["budget"]["lent"] != json!(0) {
        assert!(since.elapsed() < LONG, "the budget does not come back");
    }
    let got = serving.get("/o/1").await;
    assert_eq!((got.status, &*got.body), (200, &*sample(SIZE, 1)));
    serving
        .configure(&configuration(&world, "").replace("[cache]\n", "[cache]\nbudget = \"3MiB\"\n"));
    let refused = serving.post("/reload").await;
    assert_eq!(refused.status, 422);
    assert!(
        refused.text().contains("cache.budget"),
        "{}",
        refused.text()
    );
    let capacity = tiers(&serving).await["budget"]["capacity"].clone();
    assert_eq!(capacity, json!(48 << 20), "it is as before");
}

/// A configuration with these disks, and further sections.
fn with_disks(world: &World, disks: &[&Path], more: &str) -> String {
    let text = configuration(world, more);
    let (before, rest) = text.split_once("[[cache.disk]]").expect("a disk");
    let (_, rest) = rest.split_once("[[origin]]").expect("an origin");
    let disks: String = disks.iter().map(|path| disk(path)).collect();
    format!("{before}{disks}[[origin]]{rest}")
}

/// The folders of the disks, which must all be up.
async fn disks_of(serving: &Serving) -> Vec<String> {
    let tiers = tiers(serving).await;
    let disks = tiers["disks"].as_array().expect("a list");
    let path = |disk: &Value| {
        assert_eq!(disk["state"], "up", "{disk}");
        disk["path"].as_str().expect("text").to_owned()
    };
    disks.iter().map(path).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn disks_come_and_go() {
    let world = World::new().await;
    let (a, b) = (world.disk(), world.folder.path().join("second"));
    let serving = serving(&world).await;
    let names = |paths: &[&Path]| -> Vec<String> {
        let names = paths.iter().map(|path| path.display().to_string());
        names.collect()
    };
    let reload = async |disks: &[&Path], more: &str| {
        serving.configure(&with_disks(&world, disks, more));
        report(&serving.post("/reload").await)
    };
    let told = reload(&[&a, &b], "").await;
    assert_eq!(told["needs_restart"], json!([]), "{told}");
    assert_eq!(disks_of(&serving).await, names(&[&a, &b]));
    let label = format!("disk=\"{}\"", b.display());
    assert!(serving.look("/metrics").await.text().contains(&label));

    // The metadata lies beside the first disk, and does not move.
    let told = reload(&[&b], "").await;
    assert!(
        told["needs_restart"]
            .to_string()
            .contains("cache.disk[0].path")
    );
    assert_eq!(disks_of(&serving).await, names(&[&a, &b]));
    let state = format!("[state]\npath = \"{}\"\n", a.join("state").display());
    let told = reload(&[&b], &state).await;
    assert_eq!(told["needs_restart"], json!([]), "{told}");
    assert_eq!(disks_of(&serving).await, names(&[&b]));
    assert_eq!(serving.get("/o/1").await.status, 200);

    std::fs::write(a.join("file"), "").expect("written");
    let file = a.join("file");
    serving.configure(&with_disks(&world, &[&b, &file], &state));
    let refused = serving.post("/reload").await;
    assert_eq!(refused.status, 422);
    assert!(refused.text().contains("file"), "{}", refused.text());
    assert_eq!(disks_of(&serving).await, names(&[&b]));

    let told = reload(&[&a], &state).await;
    assert_eq!(told["needs_restart"], json!([]), "{told}");
    assert_eq!(disks_of(&serving).await, names(&[&a]));
    assert!(!serving.look("/metrics").await.text().contains(&label));
    assert_eq!(serving.get("/o/1").await.status, 200);
    let told = reload(&[], &state).await;
    assert_eq!(told["needs_restart"], json!([]), "{told}");
    let got = serving.get("/o/1").await;
    assert_eq!((got.status, &*got.body), (200, &*sample(SIZE, 1)));
}

/// Size and number of the objects in the test below.
const LARGE: usize = 1 << 20;
const OBJECTS: usize = 48;

/// Reads the objects in an order of its own until it is told to stop; returns how many it read.
async fn read_large(http: SocketAddr, stop: Arc<AtomicBool>, reader: usize) -> usize {
    let mut read = 0;
    while !stop.load(Ordering::Relaxed) {
        let n = (reader * 13 + read * 7) % OBJECTS;
        let got = ask(http, Method::GET, &format!("/l/{n}.bin"), &[]).await;
        assert!(got.status == 200 && got.body == sample(LARGE, n), "{n}");
        read += 1;
    }
    read
}

/// Waits until the first disk is as `done` says.
async fn until(what: &str, serving: &Serving, done: impl Fn(&Value) -> bool) {
    let since = Instant::now();
    while !done(&tiers(serving).await["disks"][0]) {
        assert!(since.elapsed() < LONG, "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Sends a change to the admin listener, as the operator.
async fn change(serving: &Serving, method: Method, path: &str, body: &Value) -> Got {
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("authorization", bearer.as_str())];
    send(serving.admin, method, path, &headers, &body.to_string()).await
}

async fn set(serving: &Serving, key: &str, value: &str) -> Got {
    let body = json!({ "key": key, "value": value });
    change(serving, Method::POST, "/overrides", &body).await
}

async fn what_cannot_be_is_refused(serving: &Serving, capacity: &str) {
    for (key, value) in [
        (capacity, "1000B"),
        (capacity, "1024PiB"),
        ("cache.memory", "1B"),
    ] {
        let got = set(serving, key, value).await;
        assert_eq!(got.status, 422, "{key} {value}: {}", got.text());
    }
    let body = json!({ "path": "/etc", "enabled": false });
    let got = change(serving, Method::PUT, "/cache/disk", &body).await;
    assert_eq!(got.status, 404, "{}", got.text());
    let unasked = ask(serving.admin, Method::PUT, "/cache/disk", &[]).await;
    assert_eq!(unasked.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn tiers_change_under_load_and_every_byte_stays_right() {
    let world = World::new().await;
    for n in 0..OBJECTS {
        world.put(&format!("l/{n}.bin"), &sample(LARGE, n)).await;
    }
    let serving = serving(&world).await;
    let stop = Arc::new(AtomicBool::new(false));
    let readers = (0..READERS).map(|n| tokio::spawn(read_large(serving.http, stop.clone(), n)));
    let readers: Vec<_> = readers.collect();
    let used = |disk: &Value| disk["used"].as_u64().unwrap_or(0);
    until("something is on disk", &serving, |disk| {
        used(disk) > 24 << 20
    })
    .await;

    report(&set(&serving, "cache.memory", "17MiB").await);
    let memory = tiers(&serving).await["memory"].clone();
    assert_eq!(memory["capacity"], 17 << 20);
    assert!(memory["used"].as_u64() <= Some(17 << 20));
    let capacity = "cache.disk[0].capacity";
    report(&set(&serving, capacity, "16MiB").await);
    until("evicted", &serving, |disk| used(disk) <= 16 << 20).await;

    let switch = async |enabled: bool| {
        let body = json!({ "path": world.disk(), "enabled": enabled });
        let switched = change(&serving, Method::PUT, "/cache/disk", &body).await;
        report(&switched)["disks"][0].clone()
    };
    for _ in 0..3 {
        let off = switch(false).await;
        assert_eq!((&off["state"], &off["used"]), (&json!("off"), &Value::Null));
        let ready = serving.look("/readyz").await;
        assert!(ready.text().contains("switched off"), "{}", ready.text());
        // The first time it is another one, of a disk that is off.
        report(&set(&serving, capacity, "32MiB").await);
        assert_ne!(switch(true).await["state"], "off");
        until("loaded", &serving, |disk| disk["state"] == "up").await;
        let disk = tiers(&serving).await["disks"][0].clone();
        assert!(used(&disk) > 0, "it has kept what it held");
    }
    until("it takes chunks again", &serving, |disk| {
        used(disk) > 17 << 20
    })
    .await;
    what_cannot_be_is_refused(&serving, capacity).await;

    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.await.expect("every byte was right") > 0);
    }
}
