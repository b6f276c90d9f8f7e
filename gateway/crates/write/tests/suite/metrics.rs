//! The stages of drafts, and the age of the oldest write that is not in the bucket, as `/metrics` shows them.

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tidegate_origin::OriginError;
use tidegate_origin::fake::Fault;
use tidegate_write::{Commit, OpenMode};

use crate::support::engine::{sample, secs, settle};
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

#[tokio::test(start_paused = true)]
async fn the_oldest_unsent_write_is_the_first_since_the_last_publish() {
    let desk = Desk::plain();
    assert_eq!(shown(&desk), (0, [0; 4]));
    let writer = desk.create("a").await;
    put(&writer, 0, &sample(1, PART / 2)).await;
    tokio::time::advance(secs(60)).await;
    put(&writer, 0, &sample(2, PART / 2)).await;
    tokio::time::advance(secs(40)).await;
    assert_eq!(shown(&desk), (100, [1, 0, 0, 0]), "the first write counts");

    writer.commit(Commit::Close).await.expect("published");
    assert_eq!(shown(&desk).0, 0);
    tokio::time::advance(secs(500)).await;
    put(&writer, 0, &sample(3, PART / 2)).await;
    tokio::time::advance(secs(7)).await;
    assert_eq!(shown(&desk), (7, [1, 0, 0, 0]), "it was published before");
    writer.commit(Commit::Close).await.expect("published");
    drop(writer);
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
