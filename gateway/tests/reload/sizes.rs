//! The budget and the disks of a cache that serves.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde_json::{Value, json};

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
