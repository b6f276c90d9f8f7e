//! Events of the bucket that report writes: this process's own, and those of others that come during one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use tidegate_engine::{InvalidationSubscriber, Scope};
use tidegate_origin::fake::Fault;
use tidegate_plan::digest::Digests;
use tidegate_plan::{ChangeKind, ETag, KeyChange, OriginId, Sequencer};
use tidegate_write::WritePath;
use tidegate_write::receive::{ClientDisconnect, IncomingObject, WriteCondition};
use tokio::task::JoinHandle;

use crate::support::engine::{KEY, World, same, sample, secs, settle, valid};
use crate::support::spool::{Desk, Terms};

async fn put(world: &World, bytes: &Bytes) -> ETag {
    let body = stream::iter([Ok::<_, ClientDisconnect>(bytes.clone())]);
    let incoming = IncomingObject {
        headers: vec![(
            http::header::CONTENT_TYPE,
            "text/x-test".parse().expect("a value"),
        )],
        wanted: WriteCondition::Anything,
        length: Some(bytes.len() as u64),
        digests: Digests::default(),
    };
    let write_path = WritePath::new(&world.engine);
    let key = valid(KEY);
    let put = write_path.receive(&world.source, &key, incoming, body);
    put.await.expect("written")
}

/// Reports the version that the bucket has now, as an event does.
async fn report(world: &World) {
    let (version, _) = world.bucket.object(KEY).expect("there");
    let change = KeyChange {
        etag: Some(version.etag.clone()),
        size: Some(version.size),
        time: version.last_modified,
        ..KeyChange::of("bucket", &valid(KEY), ChangeKind::Created)
    };
    let origin = world.source.origin.id();
    world.engine.apply_change(origin, &change).await;
}

/// Begins a write, whose answer takes 2 s.
async fn begin_put(world: &World, bytes: &Bytes) -> JoinHandle<ETag> {
    world.bucket.fail_next([Fault::Latency(secs(2))]);
    let (world, bytes) = (world.clone(), bytes.clone());
    let writing = tokio::spawn(async move { put(&world, &bytes).await });
    settle().await;
    writing
}

fn asked(world: &World) -> (u64, u64, u64) {
    let (gets, heads) = world.asked();
    (gets, heads, world.bucket.lists())
}

#[tokio::test(start_paused = true)]
async fn the_event_of_an_own_write_keeps_its_chunks() {
    let world = World::plain();
    let bytes = sample(1, 300_000);
    put(&world, &bytes).await;
    report(&world).await;
    same(&world.read(KEY).await.expect("read"), &bytes);
    assert_eq!(asked(&world), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_event_before_the_answer_of_an_own_write_keeps_its_chunks() {
    let world = World::plain();
    let bytes = sample(1, 300_000);
    let writing = begin_put(&world, &bytes).await;
    // The delay comes before the write is carried out, in this fake: the event of the version itself comes first.
    let etag = ETag::of_bytes([&bytes[..]]);
    let change = KeyChange {
        etag: Some(etag.clone()),
        size: Some(bytes.len() as u64),
        ..KeyChange::of("bucket", &valid(KEY), ChangeKind::Created)
    };
    let origin = world.source.origin.id();
    world.engine.apply_change(origin, &change).await;
    assert_eq!(writing.await.expect("no panic"), etag);
    same(&world.read(KEY).await.expect("read"), &bytes);
    assert_eq!(asked(&world), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_version_that_was_overtaken_while_it_was_written_is_confirmed_first() {
    let world = World::plain();
    let (ours, theirs) = (sample(1, 300_000), sample(2, 1000));
    let writing = begin_put(&world, &ours).await;
    let other = world.bucket.put(KEY, theirs.clone());
    report(&world).await;
    writing.await.expect("no panic");
    // Another client is the last one, as its event said.
    let again = world.bucket.put(KEY, theirs.clone());
    assert_eq!(other.etag, again.etag);
    same(&world.read(KEY).await.expect("read"), &theirs);
    assert_eq!(world.asked().0, 1);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_was_created_during_a_deletion_is_not_missing() {
    let desk = Desk::new(Terms::default());
    let (world, theirs) = (&desk.world, sample(2, 1000));
    put(world, &sample(1, 1000)).await;
    let key = valid(KEY);
    let removed = || desk.writers.remove(&world.source, &key);
    removed().await.expect("removed");
    assert!(world.read(KEY).await.is_err());
    assert_eq!(asked(world), (0, 0, 0), "known to be missing");

    world.bucket.put(KEY, theirs.clone());
    report(world).await;
    removed().await.expect("removed");
    world.bucket.put(KEY, theirs.clone());
    same(
        &world.read(KEY).await.expect("the bucket is asked"),
        &theirs,
    );
}

/// Counts what frontends are told.
#[derive(Debug, Default)]
struct Told(AtomicUsize);

impl InvalidationSubscriber for Told {
    fn purged<'a>(&'a self, _: OriginId, _: &'a Scope) -> BoxFuture<'a, ()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(()))
    }
}

/// Reports that the object is gone, as an event does.
async fn report_removed(world: &World) {
    let origin = world.source.origin.id();
    let change = KeyChange::of("bucket", &valid(KEY), ChangeKind::Removed);
    world.engine.apply_change(origin, &change).await;
}

#[tokio::test(start_paused = true)]
async fn the_event_of_an_own_removal_tells_no_frontend_and_that_of_another_does() {
    let desk = Desk::new(Terms::default());
    let world = &desk.world;
    put(world, &sample(1, 1000)).await;
    let told = Arc::new(Told::default());
    let subscriber: Arc<dyn InvalidationSubscriber> = told.clone();
    world.engine.subscribe(Arc::downgrade(&subscriber));
    let count = || told.0.load(Ordering::Relaxed);
    let key = valid(KEY);
    desk.writers
        .remove(&world.source, &key)
        .await
        .expect("removed");
    let before = count();
    report_removed(world).await;
    assert_eq!(count(), before);
    // Another client has written and removed it since.
    report_removed(world).await;
    assert_eq!(count(), before + 1);
    assert!(world.read(KEY).await.is_err());
    assert_eq!(
        asked(world),
        (1, 0, 0),
        "it may have removed a delete marker: the bucket is asked"
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_is_confirmed_if_its_event_comes_while_a_later_one_is_applied() {
    let world = World::plain();
    let (ours, theirs) = (sample(1, 300_000), sample(2, 1000));
    let writing = begin_put(&world, &ours).await;
    let event = |bytes: &Bytes, sequencer| KeyChange {
        etag: Some(ETag::of_bytes([&bytes[..]])),
        size: Some(bytes.len() as u64),
        sequencer: Sequencer::parse(sequencer),
        ..KeyChange::of("bucket", &valid(KEY), ChangeKind::Created)
    };
    let (first, second) = (event(&ours, "01"), event(&theirs, "02"));
    // As a subscription applies both at once: it remembers a sequencer only when its change holds, and marks neither.
    let origin = world.source.origin.id();
    world.engine.apply_change(origin, &second).await;
    world.engine.apply_change(origin, &first).await;
    writing.await.expect("no panic");
    world.bucket.put(KEY, theirs.clone());
    same(&world.read(KEY).await.expect("read"), &theirs);
}
