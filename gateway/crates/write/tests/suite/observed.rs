//! The changes that an observer is told of: those that the bucket has carried out, and those that it may have.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::stream;
use tidegate_engine::ChangeObserver;
use tidegate_origin::OriginError;
use tidegate_origin::fake::Fault;
use tidegate_plan::digest::Digests;
use tidegate_plan::{ChangeKind, ObjectKey, OriginId};
use tidegate_write::receive::{ClientDisconnect, IncomingObject, WriteCondition};
use tidegate_write::{OpenMode, WriteError};

use crate::support::engine::{sample, valid};
use crate::support::spool::{Desk, PART, Terms, put, source, until};

/// An observer that remembers.
#[derive(Debug, Default)]
struct Seen(Mutex<Vec<String>>);

impl ChangeObserver for Seen {
    fn changed(&self, _: OriginId, key: &ObjectKey, kind: ChangeKind) {
        let sign = match kind {
            ChangeKind::Created => '+',
            ChangeKind::Removed => '-',
        };
        let mut seen = self.0.lock().expect("changes");
        seen.push(format!("{sign}{}", key.as_str()));
    }
}

impl Seen {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("changes"))
    }
}

fn observed(terms: Terms) -> (Desk, Arc<Seen>) {
    let (desk, seen) = (Desk::new(terms), Arc::new(Seen::default()));
    desk.world.engine.observe_changes(seen.clone());
    (desk, seen)
}

async fn receive(
    desk: &Desk,
    key: &str,
    wanted: WriteCondition,
    bytes: Bytes,
) -> Result<(), WriteError> {
    let incoming = IncomingObject {
        headers: vec![],
        wanted,
        length: Some(bytes.len() as u64),
        digests: Digests::default(),
    };
    let body = stream::iter([Ok::<_, ClientDisconnect>(bytes)]);
    let path = desk.writers.write_path();
    let key = valid(key);
    let received = path.receive(source(desk), &key, incoming, body);
    received.await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn puts_and_deletions_over_http() {
    let (desk, seen) = observed(Terms::default());
    let anything = WriteCondition::Anything;
    for length in [100, 20 << 20] {
        let put = receive(&desk, "a", anything.clone(), sample(1, length)).await;
        put.expect("written");
        assert_eq!(seen.take(), ["+a"], "{length}");
    }
    let refused = receive(&desk, "a", WriteCondition::Absent, sample(2, 100)).await;
    assert_eq!(refused, Err(WriteError::Changed));
    assert!(seen.take().is_empty(), "nothing was changed");
    let path = desk.writers.write_path();
    let deleted = path.delete(source(&desk), &valid("a"), &anything).await;
    deleted.expect("deleted");
    assert_eq!(seen.take(), ["-a"]);
}

#[tokio::test(start_paused = true)]
async fn a_change_in_doubt_is_told_and_one_that_was_refused_is_not() {
    let (desk, seen) = observed(Terms::default());
    let anything = WriteCondition::Anything;
    desk.bucket().fail_next([Fault::LoseAnswer]);
    // The write is sent again, and may succeed then.
    let _ = receive(&desk, "a", anything.clone(), sample(1, 100)).await;
    assert_eq!(seen.take(), ["+a"], "it was carried out");
    // The last one opens the breaker.
    for (error, expected) in [
        (OriginError::Forbidden, &[][..]),
        (OriginError::Throttled { retry_after: None }, &[]),
        (OriginError::Unavailable("500"), &["+a"]),
    ] {
        desk.bucket().set_faults([Fault::Refuse(error.clone())]);
        let put = receive(&desk, "a", anything.clone(), sample(1, 100)).await;
        assert!(put.is_err(), "{error:?}");
        assert_eq!(seen.take(), expected, "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn drafts_of_mounts_once_they_are_in_the_bucket() {
    let (desk, seen) = observed(Terms::background());
    for length in [100, 5 * PART] {
        let writer = desk.open("f/a", OpenMode::Create).await.expect("opened");
        put(&writer, 0, &sample(1, length)).await;
        assert!(seen.take().is_empty(), "it is not closed");
        writer.commit(desk.commit).await.expect("in the spool");
        drop(writer);
        until(|| desk.writers.pending().is_empty()).await;
        assert_eq!(seen.take(), ["+f/a"], "{length}");
    }
    let (source, writers) = (source(&desk), &desk.writers);
    let renamed = writers.rename(source, &valid("f/a"), &valid("f/b")).await;
    renamed.expect("renamed");
    assert_eq!(seen.take(), ["+f/b", "-f/a"]);
    let made = writers.make_folder(source, &valid("g/"), None).await;
    made.expect("made");
    assert_eq!(seen.take(), ["+g/"]);
    let removed = writers.remove(source, &valid("f/b")).await;
    removed.expect("removed");
    assert_eq!(seen.take(), ["-f/b"]);
}
