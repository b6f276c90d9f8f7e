//! Readers over HTTP: of an object that is cached, and of one that is known to be missing.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use http::StatusCode;

use super::reported::ReportingStore;
use super::{KEY, Measured, answers, body, reads};
use crate::client::Connection;
use crate::measure::Latency;

/// The changes of one round.
pub(super) const CHANGES: u64 = 3;

/// Measures rounds of changes: from the answer of the store to the first right answer of the gateway.
pub(super) async fn measure(store: &ReportingStore, rounds: u64) -> Result<Vec<Measured>> {
    let mut connection = Connection::open(store.peer()?.addr()).await?;
    let mut replaced = Latency::default();
    let (mut created, mut removed) = (Latency::default(), Latency::default());
    for nth in 0..rounds {
        replaced.record(replace(store, &mut connection, nth).await?);
        created.record(create(store, &mut connection, nth).await?);
        removed.record(remove(store, &mut connection, nth).await?);
    }
    Ok(vec![
        ("PUT to fresh read", replaced),
        ("PUT of a missing object to 200", created),
        ("DELETE to 404", removed),
    ])
}

/// Replaces an object that is cached.
async fn replace(
    store: &ReportingStore,
    connection: &mut Connection,
    nth: u64,
) -> Result<Duration> {
    let (path, new) = (store.peer()?.path(KEY), body(nth));
    store.bucket.put(KEY, new.clone()).await?;
    let answered = Instant::now();
    reads(connection, &path, &new).await?;
    Ok(answered.elapsed())
}

/// Creates an object that the gateway knows to be missing.
async fn create(store: &ReportingStore, connection: &mut Connection, nth: u64) -> Result<Duration> {
    let (key, new) = (format!("new-{nth}"), body(nth));
    let path = store.peer()?.path(&key);
    let (answer, _) = connection.get(&path, &[]).await?;
    let status = answer.head.status;
    ensure!(status == StatusCode::NOT_FOUND, "{path}: {status}");
    store.bucket.put(&key, new.clone()).await?;
    let answered = Instant::now();
    reads(connection, &path, &new).await?;
    Ok(answered.elapsed())
}

/// Removes the object that [`create`] has made.
async fn remove(store: &ReportingStore, connection: &mut Connection, nth: u64) -> Result<Duration> {
    let key = format!("new-{nth}");
    store.bucket.delete(&key).await?;
    let answered = Instant::now();
    let path = store.peer()?.path(&key);
    answers(connection, &path, |answer| {
        answer.head.status == StatusCode::NOT_FOUND
    })
    .await?;
    Ok(answered.elapsed())
}
