//! Restarts after a kill -9.

use std::time::Instant;

use crate::house::{House, body, change};

const MIB: usize = 1 << 20;

/// Number of objects, each of 1 MiB.
const OBJECTS: usize = 36;

fn key(number: usize) -> String {
    format!("object/{number}")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_a_moment_before_a_kill_is_found_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let (state, cache) = (folder.path().join("state"), folder.path().join("cache"));
    let mut house = House::build(&state, &cache).await;
    (0..OBJECTS).for_each(|number| house.store(&key(number), MIB));
    let begun = Instant::now();
    house.serving.start().await;
    for number in 0..OBJECTS {
        house.read(&key(number), MIB).await;
    }
    house.written(OBJECTS as u64).await;
    let commits = house.serving.metric(&["meta_commits_total"]).await;
    let (seconds, most) = (begun.elapsed(), begun.elapsed().as_secs() + 1);
    println!("{commits} durable commits in {seconds:.1?}");
    assert!(commits <= most, "{commits} in {seconds:?}");
    house.serving.kill();

    house.serving.start().await;
    // A disk that is late is raced by the bucket: bytes that came from there tell nothing about those that are here.
    let mut found = 0;
    for number in 0..OBJECTS {
        found += house.on_disk(&key(number)).await;
        house.read(&key(number), MIB).await;
    }
    let found = found as f64 / (OBJECTS * MIB) as f64;
    println!("{:.2} % of the bytes are found again", found * 100.0);
    assert!(found >= 0.99, "{found}");
    house.serving.end().await;
}

/// The bucket is down when the program starts again. Unchanged objects are served. An object that was replaced or
/// deleted, or may have been, is not served as it was before.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_changed_before_a_kill_is_not_served_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let (state, cache) = (folder.path().join("state"), folder.path().join("cache"));
    let mut house = House::build(&state, &cache).await;
    let keys = [
        "replaced",
        "deleted",
        "being-replaced",
        "being-deleted",
        "kept",
    ];
    keys.into_iter().for_each(|key| house.store(key, 1000));
    house.serving.start().await;
    for key in keys {
        house.read(key, 1000).await;
    }
    house.written(keys.len() as u64).await;
    assert_eq!(house.change("replaced", Some("new")).await, 204);
    assert_eq!(house.change("deleted", None).await, 204);
    // The bucket does not answer these requests.
    house.door.stick();
    for (key, content) in [("being-replaced", Some("new")), ("being-deleted", None)] {
        tokio::spawn(change(house.serving.http, key, content));
        house.marked(key).await;
    }
    house.serving.kill();

    house.door.open();
    house.serving.start().await;
    house.door.shut();
    house.read("kept", 1000).await;
    for key in &keys[..4] {
        let got = house.get(key).await;
        assert!(got.status >= 500, "{key}: {} {}", got.status, got.text());
    }
    house.read("kept", 1000).await;
    house.door.open();
    house
        .until("the bucket is asked again", async |house: &House| {
            house.get("replaced").await.status == 200
        })
        .await;
    assert_eq!(house.get("replaced").await.text(), "new");
    assert_eq!(house.get("deleted").await.status, 404);
    // The program cannot know whether these changes were carried out; they were not.
    for key in ["being-replaced", "being-deleted"] {
        assert!(house.get(key).await.body == body(key, 1000), "{key}");
    }
    house.serving.end().await;
}
