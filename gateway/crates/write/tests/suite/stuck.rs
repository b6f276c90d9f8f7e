//! A stuck or panicking write blocks no other writer, and a key has one writer of this process at a time.

use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use tidegate_cache::{Entry, MetaStore as _};
use tidegate_engine::{Error, OpenOptions};
use tidegate_origin::fake::Fault;
use tidegate_origin::{FakeOrigin, OriginError};
use tidegate_plan::ETag;
use tidegate_plan::digest::Digests;
use tidegate_write::WriteError;
use tidegate_write::receive::{ClientDisconnect, IncomingObject, WriteCondition};
use tidegate_write::{Commit, OpenMode};

use crate::support::engine::{MIB, Setup, pass, same, sample, secs, settle, valid};
use crate::support::spool::{Desk, PART, Terms, put, source, until};

const KEY: &str = "folder/object";
const OTHER: &str = "folder/other";

/// A time longer than anything that comes to its end.
const LONG: Duration = secs(600);

/// Runs an HTTP PUT whose client announced no length.
fn received(
    desk: &Desk,
    key: &str,
    bytes: &Bytes,
) -> impl Future<Output = Result<ETag, WriteError>> + Send + 'static {
    let incoming = IncomingObject {
        headers: vec![],
        wanted: WriteCondition::Anything,
        length: None,
        digests: Digests::default(),
    };
    let (write_path, source, key) = (
        desk.writers.write_path().clone(),
        source(desk).clone(),
        valid(key),
    );
    let body = stream::iter([Ok::<_, ClientDisconnect>(bytes.clone())]);
    async move { write_path.receive(&source, &key, incoming, body).await }
}

/// A panic anywhere on the way is a passing fault: nothing is stranded, and the gate is free.
#[tokio::test(start_paused = true)]
async fn a_panic_in_a_send_or_a_commit_strands_nothing() {
    // An object of one request; then the beginning of an upload, a part, and the completion.
    for (length, before) in [(100, 0), (5 * PART, 0), (5 * PART, 2), (5 * PART, 6)] {
        for commit in [Commit::Close, Commit::Background] {
            let desk = Desk::new(Terms {
                commit,
                ..Terms::default()
            });
            for _ in 0..before {
                desk.bucket().fail_next([]);
            }
            desk.bucket().fail_next([Fault::Panic]);
            let bytes = sample(1, length);
            let writer = desk.create(KEY).await;
            put(&writer, 0, &bytes).await;
            let closed = tokio::time::timeout(LONG, writer.commit(commit)).await;
            if let Err(error) = closed.expect("it is not stuck") {
                assert!(error.is_passing(), "{error}");
            }
            drop(writer);
            let settled = tokio::time::timeout(LONG, desk.writers.settled()).await;
            settled.unwrap_or_else(|_| panic!("{length}, {before}, {commit:?}: stuck"));
            same(&desk.object(KEY).expect("tried again"), &bytes);
            let again = tokio::time::timeout(LONG, desk.open(KEY, OpenMode::Create)).await;
            drop(again.expect("the gate is free").expect("opened"));
            until(|| desk.bucket().uploads_under_way().is_empty()).await;
        }
    }
}

/// Returns a desk with three objects whose commits hang, and whose clients' PUTs wait for them.
async fn stuck() -> Desk {
    let setup = Setup {
        bucket: FakeOrigin::new().with_min_part(1),
        // Senders get half of it, enough for three that announce no length.
        budget: 192 * MIB,
        ..Setup::default()
    };
    let folder = tempfile::tempdir().expect("a folder");
    let desk = Desk::over(setup.build(), folder, &Terms::background());
    desk.bucket().set_faults([Fault::Latency(secs(25))]);
    for n in 0..3 {
        desk.write(&format!("stuck/{n}"), &sample(n, 100)).await;
    }
    // Longer than a closed file waits for a rename.
    pass(Duration::from_millis(200)).await;
    desk.bucket().set_faults([]);
    desk
}

#[tokio::test(start_paused = true)]
async fn three_that_wait_for_commits_stop_no_fourth() {
    let desk = stuck().await;
    let waiting: Vec<_> = (0..3)
        .map(|n| tokio::spawn(received(&desk, &format!("stuck/{n}"), &sample(9, 100))))
        .collect();
    settle().await;
    let begun = tokio::time::Instant::now();
    let bytes = sample(4, 3000);
    let written = received(&desk, KEY, &bytes).await;
    written.expect("it waits for nobody");
    assert!(begun.elapsed() < secs(1), "{:?}", begun.elapsed());
    same(&desk.object(KEY).expect("there"), &bytes);
    for waiting in waiting {
        let refused = waiting.await.expect("no panic");
        let overloaded = matches!(refused, Err(WriteError::Origin(Error::Overloaded { .. })));
        assert!(overloaded, "{refused:?}");
    }
    assert!(begun.elapsed() < secs(10), "the wait is bounded");
    desk.writers.settled().await;
    same(&desk.object("stuck/0").expect("there"), &sample(0, 100));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_while_it_waits_gives_its_memory_back() {
    let desk = stuck().await;
    let memory = desk.world.used();
    let client = tokio::spawn(received(&desk, "stuck/0", &sample(9, 100)));
    settle().await;
    assert!(desk.world.used() > memory);
    client.abort();
    settle().await;
    assert_eq!(desk.world.used(), memory);
    desk.writers.settled().await;
    same(&desk.object("stuck/0").expect("there"), &sample(0, 100));
}

/// If the source may have changed since the copy, the rename leaves it.
#[tokio::test(start_paused = true)]
async fn a_rename_deletes_nothing_on_doubt() {
    let desk = Desk::plain();
    desk.bucket().put(KEY, "bytes");
    // The source is looked at, copied, and looked at again.
    for _ in 0..3 {
        desk.bucket().fail_next([]);
    }
    desk.bucket()
        .fail_next([Fault::Refuse(OriginError::Forbidden)]);
    let (from, to) = (valid(KEY), valid(OTHER));
    let renamed = desk.writers.rename(source(&desk), &from, &to).await;
    assert_eq!(renamed, Err(WriteError::Origin(Error::Forbidden)));
    assert_eq!(desk.object(KEY), Some("bytes".into()));
    assert_eq!(desk.object(OTHER), Some("bytes".into()));
}

/// A PUT between the last look at the source and its deletion is not deleted. A PUT to the new name is not replaced by
/// the copy afterwards.
#[tokio::test(start_paused = true)]
async fn what_is_put_while_it_is_renamed_is_there_in_the_end() {
    for (key, steps) in [(KEY, 4), (OTHER, 1)] {
        let desk = Desk::plain();
        desk.bucket().put(KEY, "old");
        for _ in 0..steps {
            desk.bucket().fail_next([]);
        }
        desk.bucket().fail_next([Fault::Latency(secs(2))]);
        let (from, to) = (valid(KEY), valid(OTHER));
        let (writers, origin) = (desk.writers.clone(), source(&desk).clone());
        let rename =
            tokio::spawn(async move { writers.rename(&origin, &from, &to).await.map(drop) });
        pass(secs(1)).await;
        let put = received(&desk, key, &"put".into()).await;
        put.expect("acknowledged");
        rename.await.expect("no panic").expect("renamed");
        assert_eq!(desk.object(key), Some("put".into()), "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_while_it_is_renamed_waits_its_turn() {
    let desk = Desk::plain();
    desk.bucket().put(KEY, "old");
    desk.bucket().fail_next([]);
    desk.bucket().fail_next([Fault::Latency(secs(2))]);
    let (from, to) = (valid(KEY), valid(OTHER));
    let (writers, origin) = (desk.writers.clone(), source(&desk).clone());
    let rename = tokio::spawn(async move { writers.rename(&origin, &from, &to).await.map(drop) });
    pass(secs(1)).await;
    let key = valid(OTHER);
    let deleted = desk
        .writers
        .write_path()
        .delete(source(&desk), &key, &WriteCondition::Anything)
        .await;
    deleted.expect("deleted");
    rename.await.expect("no panic").expect("renamed");
    assert_eq!((desk.object(KEY), desk.object(OTHER)), (None, None));
}

/// A listing contradicts a cached version, and another one is committed while the doubt is recorded.
#[tokio::test(start_paused = true)]
async fn a_doubt_brings_no_old_version_back_over_a_committed_one() {
    let desk = Desk::plain();
    desk.bucket().put(KEY, "old");
    let known = desk.world.read(KEY).await;
    assert_eq!(known, Ok("old".into()));
    desk.bucket().put(KEY, "changed by somebody else");
    pass(secs(1)).await;
    let writer = desk.create(KEY).await;
    put(&writer, 0, &"new".into()).await;
    let (tell, told) = mpsc::channel();
    let (ended, end) = mpsc::channel();
    desk.world.meta.after_peek(move || {
        std::thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().build().expect("a runtime");
            let committed = runtime.block_on(writer.commit(Commit::Close));
            // The waiting hook may have given up.
            let _ = tell.send(());
            ended.send(committed).expect("it is waited for");
            runtime.block_on(async { drop(writer) });
        });
        // If the commit is blocked until then, it goes on after this.
        let _ = told.recv_timeout(secs(1));
    });
    let listed = desk.world.engine.list(source(&desk), "folder/", None).await;
    listed.expect("a list");
    end.recv().expect("it ends").expect("committed");
    let id = source(&desk).object(&valid(KEY));
    let tag = desk.bucket().object(KEY).expect("there").0.etag.clone();
    match desk.world.meta.peek(&id) {
        None => {}
        Some(Entry::Present(record)) => assert_eq!(record.version.etag, tag),
        Some(entry) => panic!("{entry:?}"),
    }
    let opened = desk
        .world
        .open(KEY, OpenOptions::default())
        .await
        .expect("there");
    assert_eq!(opened.version().etag, tag);
}

/// Another program writes the object between the look and the deletion.
#[tokio::test(start_paused = true)]
async fn a_deletion_after_a_look_deletes_no_other_version() {
    for is_renamed in [true, false] {
        let desk = Desk::plain();
        let version = desk.bucket().put(KEY, "old");
        let late = Fault::Latency(secs(2));
        desk.bucket().fail_from("delete", [late], []);
        let (old, new) = (valid(KEY), valid(OTHER));
        let wanted = WriteCondition::Version(version.etag.clone());
        let deletes = async {
            match is_renamed {
                true => (desk.writers.rename(source(&desk), &old, &new).await).map(drop),
                false => {
                    let path = desk.writers.write_path();
                    path.delete(source(&desk), &old, &wanted).await
                }
            }
        };
        let put = async {
            until(|| desk.bucket().count("delete") == 1).await;
            desk.bucket().put(KEY, "newer");
        };
        let (deleted, ()) = tokio::join!(deletes, put);
        assert_eq!(deleted, Err(WriteError::Changed));
        assert_eq!(desk.object(KEY), Some("newer".into()));
        assert_eq!(desk.world.read(KEY).await, Ok("newer".into()));
        assert_eq!(desk.object(OTHER), is_renamed.then(|| "old".into()));
    }
}

/// Another program makes an object between the look and the copy.
#[tokio::test(start_paused = true)]
async fn a_rename_that_must_not_replace_replaces_nothing() {
    let desk = Desk::plain();
    desk.bucket().put(KEY, "ours");
    let late = Fault::Latency(secs(2));
    desk.bucket().fail_from("copy", [late], []);
    let (old, new) = (valid(KEY), valid(OTHER));
    let put = async {
        until(|| desk.bucket().count("copy") == 1).await;
        desk.bucket().put(OTHER, "theirs");
    };
    let renames = desk.writers.rename_over(source(&desk), &old, &new, true);
    let (renamed, ()) = tokio::join!(renames, put);
    assert_eq!(renamed, Err(WriteError::Exists));
    assert_eq!(desk.object(OTHER), Some("theirs".into()));
    assert_eq!(desk.object(KEY), Some("ours".into()));
}
