//! Objects that change under their readers, and purges: one body never mixes two versions, and no read after a purge
//! returns bytes from before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use tidegate_engine::{Error, OpenOptions};
use tidegate_origin::FakeOrigin;
use tidegate_origin::fake::Fault;
use tidegate_plan::{ByteRange, RangeSpec, Timestamp};

use crate::support::*;

mod purges;
mod shared_tag;

#[tokio::test(start_paused = true)]
async fn a_change_before_the_first_byte_is_told_and_the_next_open_is_right() {
    let world = World::plain();
    world.bucket.put(KEY, sample(1, MIB));
    let object = world.open(KEY, OpenOptions::default()).await.expect("open");
    world.bucket.put(KEY, sample(2, MIB));
    let mut reader = object.read_at(ByteRange::new(100, 200));
    assert_eq!(reader.next().await, Some(Err(Error::Changed)));
    // The cached version of the key is doubted at once, however fresh it is.
    same(&world.read(KEY).await.expect("read"), &sample(2, MIB));
}

/// A listing from before a change does not confirm the version whose read has found the change.
#[tokio::test(start_paused = true)]
async fn a_known_change_is_not_forgotten_through_an_older_listing() {
    let world = World::plain();
    world.bucket.put("f/k", sample(1, 4 * MIB));
    world.get("f/k").await.expect("open");
    pass(secs(1)).await;
    let page = world.engine.list(&world.source, "f/", None).await;
    page.expect("list");
    pass(secs(1)).await;
    let object = world.get("f/k").await.expect("open");
    let new = sample(2, 4 * MIB);
    world.bucket.put("f/k", new.clone());
    let end = ByteRange::new(3 * MIB, 4 * MIB);
    assert_eq!(collect(object.read_at(end)).await, Err(Error::Changed));
    same(&world.read("f/k").await.expect("read"), &new);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_or_a_shortening_is_a_change() {
    let world = World::plain();
    world.bucket.put(KEY, sample(1, MIB));
    let object = world.open(KEY, OpenOptions::default()).await.expect("open");
    world.bucket.put(KEY, sample(2, 10));
    assert_eq!(whole(&object).await, Err(Error::Changed));
    same(&world.read(KEY).await.expect("read"), &sample(2, 10));

    world.bucket.put(KEY, sample(3, MIB));
    world.purge(KEY).await;
    let object = world.open(KEY, OpenOptions::default()).await.expect("open");
    world.bucket.delete(KEY);
    assert_eq!(whole(&object).await, Err(Error::Changed));
    assert_eq!(world.read(KEY).await, Err(Error::NotFound));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_began_is_cut_off_and_never_mixed() {
    for ignores_conditions in [false, true] {
        let world = World::plain();
        let old = sample(1, 12 * MIB);
        world.bucket.put(KEY, old.clone());
        world.bucket.set_faults([Fault::Rate(4 * MIB)]);
        let object = world.get(KEY).await.expect("open");
        let mut reader = object.read_at(all(&object));
        let mut got = take(&mut reader, 2 * MIB).await.to_vec();
        world.bucket.put(KEY, sample(2, 12 * MIB));
        if ignores_conditions {
            world.bucket.set_faults([Fault::IgnoreConditions]);
        }
        let rest = collect_until_error(&mut reader).await;
        got.extend_from_slice(&rest.0);
        assert_eq!(rest.1, Some(Error::Changed));
        same(&got.clone().into(), &old.slice(..got.len()));
        world.bucket.set_faults([]);
        same(&world.read(KEY).await.expect("read"), &sample(2, 12 * MIB));
    }
}

#[tokio::test(start_paused = true)]
async fn a_tag_that_repeats_mixes_no_versions() {
    for (tag, size) in [("\"same\"", 12 * MIB + 1), ("W/\"same\"", 12 * MIB)] {
        let world = World::plain();
        let old = sample(1, 12 * MIB);
        world.bucket.put_tagged(KEY, tag, old.clone());
        let faults = [Fault::Rate(4 * MIB), Fault::IgnoreConditions];
        world.bucket.set_faults(faults);
        let object = world.get(KEY).await.expect("open");
        let mut reader = object.read_at(all(&object));
        let mut got = take(&mut reader, 2 * MIB).await.to_vec();
        tokio::time::advance(Duration::from_secs(2)).await;
        world.bucket.put_tagged(KEY, tag, sample(2, size));
        let rest = collect_until_error(&mut reader).await;
        got.extend_from_slice(&rest.0);
        assert_eq!(rest.1, Some(Error::Changed), "{tag}");
        same(&got.clone().into(), &old.slice(..got.len()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_breaks_goes_on_only_on_its_own_version() {
    let world = World::plain();
    world.bucket.put(KEY, sample(1, MIB));
    world
        .bucket
        .fail_next([Fault::Reset(500 * KIB), Fault::Rate(100 * KIB)]);
    let object = world.get(KEY).await.expect("open");
    world.bucket.put(KEY, sample(2, MIB));
    let mut reader = object.read_at(all(&object));
    let (got, error) = collect_until_error(&mut reader).await;
    assert_eq!(error, Some(Error::Changed));
    same(&got.clone().into(), &sample(1, MIB).slice(..got.len()));
    same(&world.read(KEY).await.expect("read"), &sample(2, MIB));
}

#[tokio::test(start_paused = true)]
async fn with_version_ids_a_begun_answer_ends_whole() {
    let world = Setup::bucket(FakeOrigin::new().with_versions()).build();
    let old = sample(1, 12 * MIB);
    world.bucket.put(KEY, old.clone());
    let object = world.get(KEY).await.expect("open");
    let mut reader = object.read_at(all(&object));
    let mut got = take(&mut reader, MIB).await.to_vec();
    world.bucket.put(KEY, sample(2, 12 * MIB));
    world.bucket.delete(KEY);
    let (rest, error) = collect_until_error(&mut reader).await;
    got.extend_from_slice(&rest);
    assert_eq!(error, None);
    same(&got.into(), &old);
}

#[tokio::test(start_paused = true)]
async fn what_is_cached_of_a_version_is_served_whole_after_it_changed() {
    let world = World::plain();
    world.bucket.put(KEY, sample(1, 3 * MIB));
    world.read(KEY).await.expect("read");
    world.bucket.put(KEY, sample(2, 3 * MIB));
    same(
        &world.read(KEY).await.expect("fresh, and all of it cached"),
        &sample(1, 3 * MIB),
    );
    world.store.forget_everything();
    assert_eq!(world.read(KEY).await, Err(Error::Changed));
    same(&world.read(KEY).await.expect("read"), &sample(2, 3 * MIB));
}

#[tokio::test(start_paused = true)]
async fn there_and_back_again_is_the_old_version() {
    let world = Setup::profile(|p| p.stale_while_revalidate = Duration::ZERO).build();
    for version in [1, 2, 1, 2, 1] {
        world.bucket.put(KEY, sample(version, 3 * CHUNK));
        pass(secs(61)).await;
        same(
            &world.read(KEY).await.expect("read"),
            &sample(version, 3 * CHUNK),
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_keeps_what_the_disk_holds_and_purges_stand() {
    let mut world = World::plain();
    let bytes = sample(1, 3 * MIB);
    world.bucket.put(KEY, bytes.clone());
    world.bucket.put("purged", sample(2, 100));
    let clock = clock();
    world.restart(clock.clone());
    world.read(KEY).await.expect("read");
    world.read("purged").await.expect("read");
    world.purge("purged").await;
    let asked = world.asked();
    world.restart(clock);
    same(&world.read(KEY).await.expect("read"), &bytes);
    assert_eq!(world.asked(), asked, "warm");
    world.read("purged").await.expect("read");
    assert_eq!(world.asked().0, asked.0 + 1);
}

/// After the clock was set back, requests and `stat` trust no earlier confirmation.
#[tokio::test(start_paused = true)]
async fn after_the_clock_was_set_back_all_is_confirmed_once() {
    let mut world = World::plain();
    let (now, set_back) = (clock(), Arc::new(AtomicU64::new(0)));
    let by = set_back.clone();
    world.restart(Arc::new(move || {
        Timestamp(now().0 - by.load(Ordering::Relaxed) * 1000)
    }));
    world.bucket.put(KEY, sample(1, MIB));
    world.read(KEY).await.expect("read");
    assert_eq!(world.read("missing").await, Err(Error::NotFound));
    // Clocks are corrected by a second now and then.
    set_back.store(1, Ordering::Relaxed);
    let before = world.bucket.gets();
    world.read(KEY).await.expect("read");
    assert_eq!(world.read("missing").await, Err(Error::NotFound));
    assert_eq!(world.bucket.gets(), before);

    let known = async || world.engine.stat(&world.source, &valid("missing")).await;
    assert!(known().await.is_some());
    set_back.store(24 * 3600, Ordering::Relaxed);
    assert!(known().await.is_none());
    world.bucket.put(KEY, sample(2, MIB));
    world.bucket.put("missing", "here");
    same(&world.read(KEY).await.expect("read"), &sample(2, MIB));
    same(&world.read("missing").await.expect("read"), &"here".into());
    let before = world.bucket.gets();
    world.read(KEY).await.expect("read");
    assert_eq!(world.bucket.gets(), before, "it is confirmed by now");
}

/// An object that changed between its look-up and its open is not opened on the version that is gone, unless that
/// version is fresh.
#[tokio::test(start_paused = true)]
async fn an_open_for_certain_finds_a_version_that_is_there() {
    let world = World::plain();
    world.bucket.put(KEY, sample(1, MIB));
    let certain = || OpenOptions {
        certain: true,
        ..first(RangeSpec::Bounded { first: 0, last: 99 })
    };
    world.open(KEY, OpenOptions::default()).await.expect("open");
    pass(secs(59)).await;
    let asked = world.asked();
    world.open(KEY, certain()).await.expect("open");
    assert_eq!(world.asked(), asked, "it is fresh");
    pass(secs(2)).await;
    let (gets, heads) = world.asked();
    let object = world.open(KEY, certain()).await.expect("open");
    let read = collect(object.read_at(ByteRange::new(0, 100))).await;
    same(&read.expect("there"), &sample(1, MIB).slice(..100));
    assert_eq!(
        world.asked(),
        (gets + 1, heads),
        "they come with the answer"
    );
    world.purge(KEY).await;
    world.open(KEY, OpenOptions::default()).await.expect("open");
    pass(secs(61)).await;
    world.bucket.put(KEY, sample(2, MIB));
    let object = world.open(KEY, certain()).await.expect("open");
    same(&whole(&object).await.expect("there"), &sample(2, MIB));
    pass(secs(61)).await;
    world.bucket.put(KEY, sample(3, MIB));
    let object = world.open(KEY, certain()).await.expect("open");
    same(&whole(&object).await.expect("cached"), &sample(2, MIB));
}

/// A cached version that is no longer fresh is confirmed, and its bytes are not fetched again.
#[tokio::test(start_paused = true)]
async fn an_open_for_certain_brings_nothing_that_is_cached() {
    for stale in [Duration::ZERO, secs(600)] {
        let world = Setup::profile(|p| p.stale_while_revalidate = stale).build();
        world.bucket.put(KEY, sample(1, MIB));
        world.read(KEY).await.expect("read");
        pass(secs(61)).await;
        let (bytes, heads) = (world.bucket.bytes(), world.asked().1);
        let certain = OpenOptions {
            certain: true,
            ..first(RangeSpec::From(0))
        };
        let object = world.open(KEY, certain).await.expect("open");
        same(&whole(&object).await.expect("cached"), &sample(1, MIB));
        settle().await;
        assert_eq!((world.bucket.bytes(), world.asked().1), (bytes, heads));
    }
}
