//! Versions of one object that share their tag.

use tidegate_engine::OpenOptions;
use tidegate_origin::fake::Fault;
use tidegate_origin::{Condition, FakeOrigin, Get, Guard, OriginWrite as _, Write};
use tidegate_plan::{ByteRange, RangeSpec};

use crate::support::*;

/// Builds a bucket with versions, and an object whose first version was put with these bytes.
fn versioned(size: u64) -> (World, bytes::Bytes) {
    let world = Setup::bucket(FakeOrigin::new().with_versions()).build();
    let bytes = sample(1, size);
    world.bucket.put(KEY, bytes.clone());
    (world, bytes)
}

/// A reader of a version that is gone for good ends whole if the same bytes were put again.
#[tokio::test(start_paused = true)]
async fn a_version_that_is_gone_is_read_on_from_one_with_its_bytes() {
    let (world, bytes) = versioned(12 * MIB);
    world.bucket.set_faults([Fault::Rate(4 * MIB)]);
    let object = world.get(KEY).await.expect("open");
    let mut reader = object.read_at(all(&object));
    let mut got = take(&mut reader, MIB).await.to_vec();
    world.bucket.put(KEY, bytes.clone());
    let gone = Write::Delete {
        key: valid(KEY),
        version_id: Some("v1".to_owned()),
        guard: Guard::None,
    };
    world.bucket.write(gone).await.expect("deleted");
    let (rest, error) = collect_until_error(&mut reader).await;
    got.extend_from_slice(&rest);
    assert_eq!(error, None);
    same(&got.into(), &bytes);
}

/// Returns whether a request names the first version.
fn names_first(get: &Get) -> bool {
    match &get.condition {
        Condition::Match { version_id, .. } => version_id.as_deref() == Some("v1"),
        _ => false,
    }
}

/// An object that is open on one version has no effect on the requests for a later one with the same bytes.
#[tokio::test(start_paused = true)]
async fn what_is_read_is_asked_for_under_the_version_that_is_confirmed() {
    let (world, bytes) = versioned(12 * MIB);
    let old = world.open(KEY, OpenOptions::default()).await.expect("open");
    take(&mut old.read_at(all(&old)), MIB).await;
    world.bucket.put(KEY, bytes.clone());
    pass(secs(700)).await;
    world.store.forget_everything();
    let asked = world.bucket.log().len();
    same(&world.read(KEY).await.expect("read"), &bytes);
    let warm = world.get(KEY).await.expect("open");
    take(&mut warm.read_at(ByteRange::new(0, MIB)), MIB).await;
    assert!(!world.bucket.log()[asked..].iter().any(names_first));
    // The readers of both go on.
    same(&whole(&old).await.expect("read"), &bytes);
    same(&whole(&warm).await.expect("read"), &bytes);
}

/// A weak tag may stay while bytes of the same number change; the time tells the versions apart.
#[tokio::test(start_paused = true)]
async fn a_weak_tag_that_stays_over_changed_bytes_mixes_no_versions() {
    for tells_of_no_change in [false, true] {
        let world = World::plain();
        let (old, new) = (sample(1, 12 * MIB), sample(2, 12 * MIB));
        world.bucket.put_tagged(KEY, "W/\"same\"", old.clone());
        world.bucket.set_faults([Fault::IgnoreConditions]);
        let begin = RangeSpec::Bounded {
            first: 0,
            last: 3 * MIB - 1,
        };
        let got = world.range(KEY, begin).await.expect("read");
        same(&got, &old.slice(..3 << 20));
        world.bucket.put_tagged(KEY, "W/\"same\"", new.clone());
        pass(secs(700)).await;
        if tells_of_no_change {
            // The confirmation is a 304 with the later time.
            world.bucket.fail_next([]);
        }
        same(&world.read(KEY).await.expect("read"), &new);
    }
}
