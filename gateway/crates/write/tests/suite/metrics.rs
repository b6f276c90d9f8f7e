//! The stages of drafts, and the age of the oldest write that is not in the bucket, as `/metrics` shows them.

use std::sync::Arc;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tidegate_engine::ReadContext;
use tidegate_origin::fake::Fault;
use tidegate_origin::{FakeOrigin, Metrics, OriginError, Settings, stack};
use tidegate_plan::Profile;
use tidegate_write::{Commit, FolderRename, OpenMode, WriteError, Writer};

use crate::support::engine::{Setup, sample, secs, settle, valid};
use crate::support::spool::{Desk, PART, Terms, put};

/// Returns the age in seconds, and the numbers of drafts that are open, sending, waiting and refused.
fn shown(desk: &Desk) -> (u64, [u64; 4]) {
    let mut registry = Registry::default();
    desk.writers.register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).expect("text");
    let value = |name: &str| {
        let mut lines = text.lines();
        let found = lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        found.unwrap_or_else(|| panic!("{name} is not in\n{text}"))
    };
    let stage = |stage: &str| value(&format!("write_pending{{stage=\"{stage}\"}}"));
    let stages = ["open", "sending", "waiting", "refused"].map(stage);
    (value("write_oldest_unsent_seconds"), stages)
}

/// Closes a file, whose object follows behind.
async fn close(writer: Writer) {
    let closed = writer.commit(Commit::Background).await;
    closed.expect("in the spool");
    drop(writer);
    settle().await;
}

/// A file that a program has open for hours is no write that the bucket has not taken.
#[tokio::test(start_paused = true)]
async fn the_oldest_unsent_write_of_a_closed_file_is_the_first_since_the_last_publish() {
    let desk = Desk::new(Terms::background());
    assert_eq!(shown(&desk), (0, [0; 4]));
    let down = || [Fault::Refuse(OriginError::Unavailable("down"))];
    let writer = desk.create("a").await;
    put(&writer, 0, &sample(1, PART / 2)).await;
    tokio::time::advance(secs(60)).await;
    put(&writer, 0, &sample(2, PART / 2)).await;
    tokio::time::advance(secs(40)).await;
    assert_eq!(shown(&desk), (0, [1, 0, 0, 0]), "it is open");
    desk.bucket().set_faults(down());
    close(writer).await;
    let (age, stages) = shown(&desk);
    assert!((100..=102).contains(&age), "{age}: the first write counts");
    assert_eq!(stages[0], 0, "{stages:?}");
    desk.bucket().set_faults([]);
    desk.writers.settled().await;
    assert_eq!(shown(&desk).0, 0);

    tokio::time::advance(secs(500)).await;
    let writer = desk.change("a").await;
    desk.bucket().set_faults(down());
    put(&writer, 0, &sample(3, PART / 2)).await;
    tokio::time::advance(secs(7)).await;
    close(writer).await;
    let (age, _) = shown(&desk);
    assert!((7..=9).contains(&age), "{age}: it was published before");
    desk.bucket().set_faults([]);
    desk.writers.settled().await;
    settle().await;
    assert_eq!(shown(&desk), (0, [0; 4]));
}

#[tokio::test(start_paused = true)]
async fn a_draft_that_the_bucket_does_not_take_waits_and_ages() {
    let desk = Desk::new(Terms::background());
    let down = OriginError::Unavailable("down");
    desk.bucket().set_faults([Fault::Refuse(down)]);
    desk.write("a", &sample(1, PART / 2)).await;
    tokio::time::sleep(secs(90)).await;
    let (age, stages) = shown(&desk);
    assert!((90..=92).contains(&age), "{age}");
    assert_eq!(stages.iter().sum::<u64>(), 1);
    assert_eq!(stages[2], 1, "{stages:?}");

    desk.bucket().set_faults([]);
    desk.writers.settled().await;
    settle().await;
    assert_eq!(shown(&desk), (0, [0; 4]));
    drop(desk.open("a", OpenMode::Change).await.expect("it is there"));
}

/// Those of a change, and those of the look-ups that it needs.
#[tokio::test(start_paused = true)]
async fn the_requests_of_a_write_are_counted_as_its_own() {
    let mut world = Setup::bucket(FakeOrigin::new().with_min_part(1)).build();
    let (bucket, metrics) = (Arc::new(world.bucket.clone()), Metrics::default());
    let origin = stack(bucket, &Settings::new("media", "bucket"), &metrics);
    world.source = Arc::new(ReadContext::new(origin, Profile::web()));
    let folder = tempfile::tempdir().expect("a folder");
    let desk = Desk::over(world, folder, &Terms::default());
    for key in ["d/a", "d/old"] {
        desk.bucket().put(key, sample(1, PART));
    }
    let (source, writers) = (&desk.world.source, &desk.writers);
    let exists = desk.open("d/old", OpenMode::CreateNew).await;
    assert_eq!(exists.err(), Some(WriteError::Exists));
    let writer = desk.change("d/a").await;
    put(&writer, 0, &sample(2, PART)).await;
    writer.commit(Commit::Close).await.expect("committed");
    drop(writer);
    let renamed = writers.rename(source, &valid("d/a"), &valid("d/b")).await;
    renamed.expect("renamed");
    let lock = writers.lock_folders(source, ["d/", "e/"]).await;
    let renamed = writers.rename_folder(source, ("d/", "e/"), 9, &lock).await;
    assert!(matches!(renamed, Ok(FolderRename::Copied(_))));
    let removed = writers.remove(source, &valid("e/b")).await;
    removed.expect("removed");

    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).expect("text");
    let counted = text.lines().filter(|line| line.contains("requests_total{"));
    let counted = Vec::from_iter(counted);
    assert!(counted.len() > 4, "{text}");
    for line in counted {
        assert!(line.contains(r#"cause="write""#), "{line}");
    }
}
