//! A power cut under cache and state, with the bucket down when they are back. The test needs root and /dev/fuse.

use crate::draw::Draw;
use crate::house::House;
use crate::sick_fs::SickFs;

/// Number of objects, each of a few chunks.
const OBJECTS: usize = 20;
const LENGTH: usize = 700_000;

const ROUNDS: u64 = 5;

fn key(number: usize) -> String {
    format!("object/{number}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_power_cut_together_with_an_outage_serves_what_nothing_was_written_to() {
    for seed in 0..ROUNDS {
        let sick = SickFs::mount(&["state", "cache"]);
        let mut house = House::build(&sick.path("state"), &sick.path("cache")).await;
        (0..OBJECTS).for_each(|number| house.store(&key(number), LENGTH));
        for other in ["changed", "later-1", "later-2", "later-3"] {
            house.store(other, 1000);
        }
        house.serving.start().await;
        for number in 0..OBJECTS {
            house.read(&key(number), LENGTH).await;
        }
        house.read("changed", 1000).await;
        // Each row is written a second after the one before; the chunks above were synced by then.
        let mut rows = OBJECTS as u64 + 1;
        house.written(rows).await;
        for later in ["later-1", "later-2", "later-3"] {
            house.read(later, 1000).await;
            rows += 1;
            house.written(rows).await;
        }
        assert_eq!(house.change("changed", Some("new")).await, 204);
        house.serving.kill();
        sick.cut(&mut Draw::new(seed));

        house.serving.start().await;
        house.door.shut();
        for number in 0..OBJECTS {
            house.read(&key(number), LENGTH).await;
        }
        let changed = house.get("changed").await;
        assert!(changed.status >= 500, "{seed}: {}", changed.text());
        house.serving.end().await;
    }
}
