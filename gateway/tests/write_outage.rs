//! The origin goes and comes back under writers: none hangs, and every promised object arrives.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use tidegate::embedded::EmbeddedOrigin;
use tidegate_engine::ReadContext;
use tidegate_plan::ObjectKey;
use tidegate_write::Writers;
use tidegate_write::{Commit, OpenMode};

#[path = "support/door.rs"]
#[expect(dead_code, reason = "other suites let it hang")]
mod door;
#[path = "support/writers.rs"]
mod writers;

use door::Door;
use writers::{PART, start};

const WRITERS: u64 = 8;

fn key(number: u64) -> ObjectKey {
    ObjectKey::new(&format!("object-{number}")).expect("a key")
}

fn content(number: u64) -> Bytes {
    let length = 2 * PART + number * 1000;
    let word = |at: u64| (number << 40 ^ at).to_le_bytes();
    let bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(word).collect();
    bytes.into()
}

async fn behind(door: &Door, embedded: &EmbeddedOrigin) -> tidegate_origin::Settings {
    let mut settings = embedded.settings("embedded");
    settings.endpoint = Some(format!("http://{}", door.address()));
    settings
}

/// Writes an object; the door is shut after half of it.
async fn write(writers: &Writers, source: &Arc<ReadContext>, number: u64, door: &Door) {
    let writer = writers
        .open(source, &key(number), OpenMode::Create, Vec::new())
        .await;
    let writer = writer.expect("opened, for nothing is asked of the origin");
    let bytes = content(number);
    let half = bytes.len() / 2;
    writer
        .write_at(0, bytes.slice(..half))
        .await
        .expect("written");
    door.shut();
    writer
        .write_at(half as u64, bytes.slice(half..))
        .await
        .expect("written");
    writer.commit(Commit::Background).await.expect("promised");
}

#[tokio::test(flavor = "multi_thread")]
async fn closes_wait_for_no_upload_and_everything_arrives_in_the_end() {
    let (folder, spool) = (tempfile::tempdir(), tempfile::tempdir());
    let (folder, spool) = (folder.expect("a folder"), spool.expect("a folder"));
    let embedded = EmbeddedOrigin::start(folder.path()).await.expect("starts");
    let address = embedded.endpoint().replace("http://", "");
    let door = Door::to(address.parse().expect("an address")).await;
    let settings = behind(&door, &embedded).await;
    let (_engine, source, writers) = start(spool.path(), 1 << 30, &settings).await;
    join_all((0..WRITERS).map(|number| write(&writers, &source, number, &door))).await;
    let pending = writers.pending();
    assert_eq!(pending.len() as u64, WRITERS, "{pending:?}");
    door.open();
    writers.settled().await;
    for number in 0..WRITERS {
        let file = folder.path().join("media").join(key(number).as_str());
        let bytes = std::fs::read(file).expect("there");
        assert!(bytes == content(number), "{number}");
    }
    assert_eq!(writers.spooled().0, 0);
}
