//! Closed drafts that wait for publication while their object is changed another way, and while that change fails: the
//! last acknowledged change counts, and a failed one has changed nothing.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use tidegate_engine::Error;
use tidegate_origin::FakeOrigin;
use tidegate_origin::fake::Fault;
use tidegate_plan::digest::Digests;
use tidegate_write::WriteError;
use tidegate_write::receive::{ClientDisconnect, IncomingObject, WriteCondition};
use tidegate_write::{Commit, OpenMode};

use crate::support::engine::{self, same, sample, valid};
use crate::support::spool::{Desk, PART, Terms, down, put, source, until};

mod renames;

const KEY: &str = "folder/object";

/// Returns a desk with a closed object that cannot be published.
async fn waiting(bytes: &Bytes) -> Desk {
    let desk = Desk::new(Terms::background());
    desk.bucket().put(KEY, "before");
    desk.world.read(KEY).await.expect("there");
    desk.bucket().set_faults([down()]);
    desk.write(KEY, bytes).await;
    until(|| desk.writers.pending().iter().all(|it| it.trouble.is_some())).await;
    desk
}

async fn received(desk: &Desk, bytes: &Bytes) -> Result<(), WriteError> {
    let incoming = IncomingObject {
        headers: vec![],
        wanted: WriteCondition::Anything,
        length: Some(bytes.len() as u64),
        digests: Digests::default(),
    };
    let body = stream::iter([Ok::<_, ClientDisconnect>(bytes.clone())]);
    let (write_path, key) = (desk.writers.write_path(), valid(KEY));
    let received = write_path.receive(source(desk), &key, incoming, body);
    received.await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn what_is_put_over_http_is_newer_than_what_waits() {
    for length in [100, 5 * PART] {
        let desk = waiting(&sample(1, length)).await;
        let newer = sample(2, 3000);
        received(&desk, &newer).await.expect_err("it is down");
        assert_eq!(desk.writers.pending().len(), 1, "it waits still");
        desk.bucket().set_faults([]);
        // The bucket is asked again only after a pause, for a PUT as well.
        while received(&desk, &newer).await.is_err() {
            engine::pass(engine::secs(1)).await;
        }
        desk.writers.settled().await;
        engine::pass(engine::secs(200)).await;
        same(&desk.object(KEY).expect("there"), &newer);
        same(&desk.world.read(KEY).await.expect("there"), &newer);
        until(|| desk.writers.spooled().0 == 0 && desk.writers.pending().is_empty()).await;
        assert!(desk.bucket().uploads_under_way().is_empty());
    }
}

/// More objects than are published at a time.
const MANY: usize = 40;

/// A waiting draft that is opened to be replaced is empty from then on, and the empty one is not closed.
#[tokio::test(start_paused = true)]
async fn what_is_cut_to_nothing_while_it_waits_for_its_turn_is_not_published() {
    let desk = Desk::new(Terms::background());
    desk.bucket().put(KEY, "before");
    desk.bucket()
        .set_faults([Fault::Latency(Duration::from_secs(1))]);
    let other = |number| format!("other/{number}");
    for number in 0..MANY {
        desk.write(&other(number), &sample(1, 100)).await;
    }
    desk.write(KEY, &sample(1, 100)).await;
    engine::settle().await;
    let writer = desk.create(KEY).await;
    engine::pass(engine::secs(60)).await;
    let published = (0..MANY).filter(|number| desk.object(&other(*number)).is_some());
    assert_eq!(published.count(), MANY);
    assert_eq!(desk.object(KEY), Some("before".into()));
    let newer = sample(2, 300);
    put(&writer, 0, &newer).await;
    writer.commit(Commit::Background).await.expect("promised");
    drop(writer);
    desk.writers.settled().await;
    same(&desk.object(KEY).expect("there"), &newer);
}

/// A program is half way through a closed draft for so long that the draft is published as it is. While that waits for its
/// turn, the program begins anew.
#[tokio::test(start_paused = true)]
async fn what_is_begun_anew_after_the_wait_for_its_close_is_not_published() {
    let desk = Desk::new(Terms::background());
    desk.bucket().put(KEY, "before");
    let writer = desk.create(KEY).await;
    put(&writer, 0, &"closed".into()).await;
    writer.commit(Commit::Background).await.expect("promised");
    put(&writer, 6, &" and half".into()).await;
    engine::pass(engine::secs(57)).await;
    desk.bucket().set_faults([Fault::Latency(engine::secs(10))]);
    for number in 0..MANY {
        desk.write(&format!("other/{number}"), &sample(1, 100))
            .await;
    }
    // The wait for the close ends, and every turn is taken.
    engine::pass(engine::secs(5)).await;
    assert_eq!(desk.bucket().count("put"), 32);
    writer.truncate(0).await.expect("cut");
    desk.bucket().set_faults([]);
    engine::pass(engine::secs(60)).await;
    assert_eq!(desk.object(KEY), Some("before".into()));
    put(&writer, 0, &"anew".into()).await;
    writer.commit(Commit::Background).await.expect("promised");
    drop(writer);
    desk.writers.settled().await;
    assert_eq!(desk.object(KEY), Some("anew".into()));
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_over_http_does_not_come_back() {
    let desk = waiting(&sample(1, 100)).await;
    let write_path = desk.writers.write_path().clone();
    let delete = async || {
        let wanted = WriteCondition::Anything;
        write_path.delete(source(&desk), &valid(KEY), &wanted).await
    };
    delete().await.expect_err("it is down");
    assert_eq!(desk.writers.pending().len(), 1);
    desk.bucket().set_faults([]);
    delete().await.expect("deleted");
    engine::pass(engine::secs(200)).await;
    assert_eq!(desk.object(KEY), None);
    until(|| desk.writers.spooled().0 == 0 && desk.writers.pending().is_empty()).await;
}

/// An open handle is another writer, and the last of two wins.
#[tokio::test(start_paused = true)]
async fn a_writer_that_has_it_open_goes_on() {
    let desk = Desk::new(Terms::background());
    let writer = desk.create(KEY).await;
    put(&writer, 0, &"of the mount".into()).await;
    received(&desk, &"over HTTP".into()).await.expect("written");
    assert_eq!(desk.object(KEY), Some("over HTTP".into()));
    writer.commit(Commit::Close).await.expect("committed");
    assert_eq!(desk.object(KEY), Some("of the mount".into()));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_leaves_what_waits() {
    let bytes = sample(1, 100);
    let desk = waiting(&bytes).await;
    let (source, key) = (source(&desk).clone(), valid(KEY));
    let removed = desk.writers.remove(&source, &key).await;
    assert_eq!(removed, Err(WriteError::Origin(Error::Unavailable)));
    assert_eq!(desk.writers.pending().len(), 1);
    desk.bucket().set_faults([]);
    same(
        &desk.world.read(KEY).await.expect("there"),
        &"before".into(),
    );
    desk.writers.settled().await;
    same(&desk.object(KEY).expect("there"), &bytes);
    desk.writers.remove(&source, &key).await.expect("deleted");
    assert_eq!(desk.world.read(KEY).await, Err(Error::NotFound));
}

/// The origin hangs in the middle of a commit, and a caller that wants to begin anew, or to delete, stops waiting for
/// it.
#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_waiting_for_a_commit_has_changed_nothing() {
    let desk = Desk::new(Terms::background());
    let bytes = sample(1, 100);
    desk.bucket()
        .fail_next([Fault::Latency(Duration::from_secs(25))]);
    desk.write(KEY, &bytes).await;
    // Longer than a closed file waits for a rename.
    engine::pass(Duration::from_millis(200)).await;
    let open = desk.open(KEY, OpenMode::Create);
    let gave_up = tokio::time::timeout(Duration::from_secs(1), open).await;
    assert!(gave_up.is_err(), "it is being published");
    let (key, source) = (valid(KEY), source(&desk).clone());
    let remove = desk.writers.remove(&source, &key);
    let gave_up = tokio::time::timeout(Duration::from_secs(1), remove).await;
    assert!(gave_up.is_err(), "it is still");
    desk.writers.settled().await;
    engine::pass(engine::secs(60)).await;
    same(&desk.object(KEY).expect("there"), &bytes);
    until(|| desk.writers.pending().is_empty()).await;
}

/// A closed draft waits for the bucket, and a writer begins to replace it: half of that is not published. If the writer
/// only changes it, it contains the closed bytes, and is published in bounded time.
#[tokio::test(start_paused = true)]
async fn what_is_half_written_waits_for_its_close() {
    for how in [OpenMode::Create, OpenMode::Change] {
        let desk = Desk::new(Terms::background());
        desk.bucket().set_faults([down()]);
        desk.write(KEY, &"first".into()).await;
        until(|| desk.writers.pending().iter().all(|it| it.trouble.is_some())).await;
        let writer = desk.open(KEY, how).await.expect("opened");
        let at = writer.size();
        put(&writer, at, &"half ".into()).await;
        desk.bucket().set_faults([]);
        engine::pass(Duration::from_secs(50)).await;
        assert_eq!(desk.object(KEY), None);
        engine::pass(Duration::from_secs(100)).await;
        let closed = (how == OpenMode::Change).then(|| "firsthalf ".into());
        assert_eq!(desk.object(KEY), closed);
        put(&writer, at + 5, &"and half".into()).await;
        writer.commit(Commit::Background).await.expect("durable");
        desk.writers.settled().await;
        let whole = match how {
            OpenMode::Change => "firsthalf and half",
            _ => "half and half",
        };
        assert_eq!(desk.object(KEY), Some(whole.into()));
        // If a writer leaves without a close, its bytes are published.
        put(&writer, 0, &"H".into()).await;
        drop(writer);
        desk.writers.settled().await;
        assert!(desk.object(KEY).is_some_and(|now| now.starts_with(b"H")));
    }
}

/// Slow HTTP clients that send bodies hold all the memory that there is for them.
#[tokio::test(start_paused = true)]
async fn a_small_file_waits_for_no_client_that_sends() {
    let setup = engine::Setup {
        bucket: FakeOrigin::new().with_min_part(1),
        budget: 80 * engine::MIB,
        ..engine::Setup::default()
    };
    let folder = tempfile::tempdir().expect("a folder");
    let desk = Desk::over(setup.build(), folder, &Terms::default());
    let mut clients = Vec::new();
    for length in [None, Some(8 * engine::MIB)] {
        let incoming = IncomingObject {
            headers: vec![],
            wanted: WriteCondition::Anything,
            length,
            digests: Digests::default(),
        };
        let (write_path, source) = (desk.writers.write_path().clone(), source(&desk).clone());
        clients.push(tokio::spawn(async move {
            let body = stream::pending::<Result<Bytes, ClientDisconnect>>();
            write_path
                .receive(&source, &valid(KEY), incoming, body)
                .await
        }));
    }
    engine::settle().await;
    let small = "small".into();
    let written = tokio::time::timeout(Duration::from_secs(5), desk.write(KEY, &small));
    written.await.expect("at once");
    assert_eq!(desk.object(KEY), Some(small));
    for client in clients {
        assert!(!client.is_finished());
        client.abort();
    }
}
