//! Purges by a tag: they cover the versions that have it, known or under way.

use std::time::Duration;

use super::*;

const TAGS: &str = "x-amz-meta-cache-tags";

#[tokio::test(start_paused = true)]
async fn a_purged_tag_covers_the_versions_that_have_it() {
    let world = world();
    let size = 2 * CHUNK;
    for (key, tags) in [("a", "red,big"), ("b", "big blue"), ("c", "blue")] {
        world.bucket.put_with(key, sample(1, size), &[(TAGS, tags)]);
        world.read(key).await.expect("read");
    }
    world.bucket.put("plain", sample(1, size));
    world.read("plain").await.expect("read");
    let before = world.bucket.bytes();
    world.purge_by(tag("big"), PurgeKind::Hard).await;
    for key in ["a", "b", "c", "plain"] {
        same(&world.read(key).await.expect("read"), &sample(1, size));
    }
    assert_eq!(world.bucket.bytes() - before, 2 * size, "a and b, anew");
    let (gets, _) = world.asked();
    for key in ["a", "b", "c", "plain"] {
        world.read(key).await.expect("read");
    }
    assert_eq!(world.asked(), (gets, 0), "each is known again");

    pass(secs(1)).await;
    world.purge_by(tag("blue"), PurgeKind::Soft).await;
    for key in ["a", "b", "c", "plain"] {
        same(&world.read(key).await.expect("read"), &sample(1, size));
    }
    pass(secs(1)).await;
    assert_eq!(world.asked(), (gets + 2, 0), "b and c are confirmed");
    assert_eq!(world.bucket.bytes() - before, 2 * size, "and not fetched");
}

/// The tags of a version are known with the answer only.
#[tokio::test(start_paused = true)]
async fn a_tag_purged_while_the_bucket_is_asked_covers_the_answer() {
    let world = world();
    let bytes = sample(1, 20 * MIB);
    world.bucket.put_with(KEY, bytes.clone(), &[(TAGS, "red")]);
    world.bucket.set_faults([Fault::Latency(secs(1))]);
    let (read, ()) = tokio::join!(world.read(KEY), async {
        pass(Duration::from_millis(500)).await;
        world.purge_by(tag("red"), PurgeKind::Hard).await;
    });
    same(&read.expect("read"), &bytes);
    settle().await;
    let fetched = world.bucket.bytes();
    same(&world.read(KEY).await.expect("read"), &bytes);
    assert_eq!(
        world.bucket.bytes() - fetched,
        20 * MIB,
        "none of the chunks counts"
    );
    settle().await;
    let fetched = world.bucket.bytes();
    same(&world.read(KEY).await.expect("read"), &bytes);
    assert_eq!(world.bucket.bytes(), fetched, "the later ones do");
}
