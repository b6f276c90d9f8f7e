//! Written objects stay in the cache: a read sends nothing to the bucket, however they were published.

use bytes::Bytes;
use futures_util::stream;
use tidegate_engine::OpenOptions;
use tidegate_engine::names::NameKind;
use tidegate_origin::fake::Fault;
use tidegate_plan::digest::Digests;
use tidegate_plan::{ETag, RangeSpec, Timestamp};
use tidegate_write::WriteError;
use tidegate_write::receive::{ClientDisconnect, IncomingObject, WriteCondition};
use tidegate_write::{Commit, OpenMode, WritePath};

use crate::support::engine::{CHUNK, KEY, World, pass, same, sample, secs, valid};
use crate::support::spool::{Desk, Terms, put, source};

mod parts;

/// Bytes of a part: four chunks.
const PART: u64 = 4 * CHUNK;

/// Returns the requests to the bucket: GETs, HEADs and pages of listings.
fn asked(world: &World) -> (u64, u64, u64) {
    let (gets, heads) = world.asked();
    (gets, heads, world.bucket.lists())
}

/// Reads an object over HTTP, whole and a range of it, and looks its name up as a mount does: all without the bucket.
#[track_caller]
fn reads_without_asking<'a>(
    world: &'a World,
    key: &'a str,
    truth: &'a Bytes,
) -> impl Future<Output = ()> + 'a {
    let caller = std::panic::Location::caller();
    async move {
        let before = asked(world);
        same(&world.read(key).await.expect("read"), truth);
        if truth.len() > 2 {
            let last = truth.len() as u64 - 2;
            let range = RangeSpec::Bounded { first: 1, last };
            let found = world.range(key, range).await.expect("read");
            same(&found, &truth.slice(1..truth.len() - 1));
        }
        let found = world.engine.look_up(&world.source, key, true).await;
        let NameKind::File(facts) = found.expect("found").entry else {
            panic!("{key} is a file, {caller}");
        };
        assert_eq!(facts.size, truth.len() as u64, "{caller}");
        assert_eq!(asked(world), before, "{caller}");
    }
}

fn desk(commit: Commit) -> Desk {
    Desk::new(Terms {
        part: PART,
        commit,
        ..Terms::default()
    })
}

/// Runs an HTTP PUT whose body arrives in pieces of 70,000 bytes.
async fn receive(
    world: &World,
    key: &str,
    bytes: &Bytes,
    wanted: WriteCondition,
) -> Result<ETag, WriteError> {
    let pieces: Vec<_> = bytes.chunks(70_000).map(Bytes::copy_from_slice).collect();
    let body = stream::iter(pieces.into_iter().map(Ok::<_, ClientDisconnect>));
    let incoming = IncomingObject {
        headers: vec![(
            http::header::CONTENT_TYPE,
            "text/x-test".parse().expect("a value"),
        )],
        wanted,
        length: Some(bytes.len() as u64),
        digests: Digests::default(),
    };
    let (source, key) = (&world.source, valid(key));
    let write_path = WritePath::new(&world.engine);
    write_path.receive(source, &key, incoming, body).await
}

#[tokio::test(start_paused = true)]
async fn a_small_object_is_read_without_the_bucket() {
    for commit in [Commit::Close, Commit::Background] {
        for size in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 77, PART] {
            let desk = desk(commit);
            let bytes = sample(size, size);
            desk.write(KEY, &bytes).await;
            desk.writers.settled().await;
            assert_eq!(asked(&desk.world), (0, 0, 0));
            reads_without_asking(&desk.world, KEY, &bytes).await;
            assert_eq!(desk.bucket().writes(), ["put"]);
            // An overwritten object is another version.
            let other = sample(size + 1, size + 1);
            desk.write(KEY, &other).await;
            desk.writers.settled().await;
            if size < PART {
                reads_without_asking(&desk.world, KEY, &other).await;
            }
            assert_eq!(desk.world.used(), 0, "no memory is kept");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_put_over_http_is_read_without_the_bucket() {
    for size in [0, 1, CHUNK, 3 * CHUNK + 77, 8 << 20] {
        let world = World::plain();
        let bytes = sample(size, size);
        receive(&world, KEY, &bytes, WriteCondition::Anything)
            .await
            .expect("written");
        let object = world
            .open(KEY, OpenOptions::default())
            .await
            .expect("known");
        let kind = object.version().header(&http::header::CONTENT_TYPE);
        assert_eq!(kind, Some("text/x-test"));
        let before = asked(&world);
        same(&world.read(KEY).await.expect("read"), &bytes);
        assert_eq!((asked(&world), before), ((0, 0, 0), (0, 0, 0)));
        // A mount shows the store's time, and asks for it once.
        let (stored, _) = world.bucket.object(KEY).expect("there");
        for _ in 0..2 {
            let found = world.engine.look_up(&world.source, KEY, false).await;
            let NameKind::File(facts) = found.expect("found").entry else {
                panic!("a file");
            };
            assert_eq!(facts.modified, stored.last_modified);
        }
        assert_eq!(asked(&world), (0, 1, 0));
        assert_eq!(world.used(), 0);
    }
}

/// The first confirmation learns the store's `Last-Modified` without a second request.
#[tokio::test(start_paused = true)]
async fn a_confirmation_learns_the_time_with_one_request() {
    let desk = desk(Commit::Close);
    let bytes = sample(1, 3 * CHUNK);
    desk.write(KEY, &bytes).await;
    let version = || async {
        let object = desk.world.open(KEY, OpenOptions::default()).await;
        object.expect("known").version().clone()
    };
    assert_eq!(
        version().await.last_modified,
        None,
        "no date but the store's own"
    );
    pass(secs(3600)).await;
    same(&desk.world.read(KEY).await.expect("read"), &bytes);
    assert_eq!((asked(&desk.world), desk.bucket().bytes()), ((1, 0, 0), 0));
    let (stored, _) = desk.bucket().object(KEY).expect("there");
    assert_eq!(version().await.last_modified, stored.last_modified);
    assert!(stored.last_modified.is_some_and(|time| time > Timestamp(0)));
}

/// So does one of the next process, and a listing.
#[tokio::test(start_paused = true)]
async fn after_a_restart_a_confirmation_learns_the_time_with_one_request_too() {
    let terms = Terms {
        part: PART,
        ..Terms::default()
    };
    let desk = desk(Commit::Close);
    let bytes = sample(1, 3 * CHUNK);
    for key in [KEY, "f/listed"] {
        desk.write(key, &bytes).await;
    }
    let desk = desk.switched_off([], &terms).await;
    desk.writers.settled().await;
    pass(secs(3600)).await;
    let before = asked(&desk.world);
    drop(desk.world.get(KEY).await.expect("there"));
    let after = asked(&desk.world);
    assert_eq!((after.0 - before.0, after.1 - before.1), (1, 0));
    let listed = desk.world.engine.list(source(&desk), "f/", None).await;
    assert_eq!(listed.expect("a page").names.len(), 1);
    let before = asked(&desk.world);
    drop(desk.world.get("f/listed").await.expect("there"));
    assert_eq!(asked(&desk.world), before);
}

/// Headers mended later in the bucket keep the ETag, and move the time away from the write's.
#[tokio::test(start_paused = true)]
async fn headers_that_were_mended_elsewhere_are_asked_for() {
    let desk = desk(Commit::Close);
    let bytes = sample(1, 3 * CHUNK);
    desk.write(KEY, &bytes).await;
    for other in 0..5 {
        desk.bucket()
            .put(&format!("other/{other}"), "some time passes");
    }
    desk.bucket()
        .put_with(KEY, bytes.clone(), &[("content-type", "text/mended")]);
    pass(secs(3600)).await;
    let object = desk.world.get(KEY).await.expect("confirmed");
    let kind = object.version().header(&http::header::CONTENT_TYPE);
    assert_eq!(kind, Some("text/mended"));
    assert_eq!(asked(&desk.world), (1, 1, 0));
    same(&desk.world.read(KEY).await.expect("read"), &bytes);
    assert_eq!(desk.bucket().bytes(), 0, "the bytes are the same");
}

/// After the next confirmation the write of another process is read, with nothing of ours.
#[tokio::test(start_paused = true)]
async fn another_etag_at_the_next_confirmation_is_another_version() {
    let desk = desk(Commit::Close);
    desk.write(KEY, &sample(1, 3 * CHUNK)).await;
    let theirs = sample(2, 3 * CHUNK);
    desk.bucket().put(KEY, theirs.clone());
    pass(secs(3600)).await;
    same(&desk.world.read(KEY).await.expect("read"), &theirs);
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_kept_is_not_filed() {
    let desk = desk(Commit::Close);
    let source = source(&desk);
    let headers = vec![(
        http::header::CACHE_CONTROL,
        "no-store".parse().expect("a value"),
    )];
    let writer = desk
        .writers
        .open(source, &valid(KEY), OpenMode::Create, headers)
        .await;
    let writer = writer.expect("opened");
    put(&writer, 0, &sample(1, CHUNK)).await;
    writer.commit(Commit::Close).await.expect("committed");
    assert_eq!(desk.world.store.counts().inserts, 0);
    same(
        &desk.world.read(KEY).await.expect("read"),
        &sample(1, CHUNK),
    );
    assert_eq!(desk.world.asked().0, 1);
}

/// If a write's answer is lost, its bytes come from the bucket, whatever its result.
#[tokio::test(start_paused = true)]
async fn a_write_in_doubt_files_nothing() {
    let desk = desk(Commit::Close);
    let bytes = sample(1, 3 * CHUNK);
    let new = desk
        .open(KEY, OpenMode::CreateNew)
        .await
        .expect("there is none");
    put(&new, 0, &bytes).await;
    desk.bucket().fail_next([Fault::LoseAnswer]);
    new.commit(Commit::Close).await.expect("found to be ours");
    assert_eq!(desk.world.store.counts().inserts, 0);
    same(&desk.world.read(KEY).await.expect("read"), &bytes);
    assert_eq!(desk.world.asked().0, 1);
    drop(new);

    let refused = desk
        .open("other", OpenMode::CreateNew)
        .await
        .expect("there is none");
    put(&refused, 0, &bytes).await;
    desk.bucket().put("other", "theirs");
    let inserts = desk.world.store.counts().inserts;
    assert_eq!(
        refused.commit(Commit::Close).await,
        Err(WriteError::Changed)
    );
    assert_eq!(desk.world.store.counts().inserts, inserts);
    // The object was known to be missing.
    pass(secs(10)).await;
    let read = desk.world.read("other").await;
    assert_eq!(read, Ok("theirs".into()));
}

/// A store without memory to spare, or that does not cache such objects, costs one GET.
#[tokio::test(start_paused = true)]
async fn what_no_tier_takes_is_fetched() {
    let desk = desk(Commit::Close);
    let bytes = sample(1, 3 * CHUNK);
    desk.write(KEY, &bytes).await;
    desk.world.store.forget_everything();
    same(&desk.world.read(KEY).await.expect("read"), &bytes);
    assert_eq!(desk.world.asked(), (1, 0));
}

/// The disk keeps it by the profile's rule, for the next process.
#[tokio::test(start_paused = true)]
async fn what_was_written_is_on_disk_after_a_restart() {
    let desk = desk(Commit::Close);
    let (small, large) = (sample(1, CHUNK + 1), sample(2, 3 * PART));
    desk.write("small", &small).await;
    desk.write(KEY, &large).await;
    let terms = Terms::default();
    let again = desk.switched_off([], &terms).await;
    let before = asked(&again.world);
    same(&again.world.read("small").await.expect("read"), &small);
    same(&again.world.read(KEY).await.expect("read"), &large);
    assert_eq!(asked(&again.world), before);
}
