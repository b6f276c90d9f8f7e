//! The budget and the disks of a cache that serves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::serving::Serving;
use crate::world::{World, sample};
use crate::{SIZE, configuration, read_on, report, serving};

/// The objects of the tests, which readers read in turn.
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
        assert_eq!(serving.post("/purge?prefix=/o/").await.status, 200);
    }
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.await.expect("no request failed") > 0);
    }
    while tiers(&serving).await["budget"]["lent"] != json!(0) {
        tokio::task::yield_now().await;
    }
    let got = serving.get("/o/1").await;
    assert_eq!((got.status, &*got.body), (200, &*sample(SIZE, 1)));
    serving.configure(
        &configuration(&world, "").replace("[cache]\n", "[cache]\nbudget = \"3MiB\"\n"),
    );
    let refused = serving.post("/reload").await;
    assert_eq!(refused.status, 422);
    assert!(refused.text().contains("cache.budget"), "{}", refused.text());
    let capacity = tiers(&serving).await["budget"]["capacity"].clone();
    assert_eq!(capacity, json!(48 << 20), "it is as before");
}
