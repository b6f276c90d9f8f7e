//! An origin whose settings change while it is in use.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use tidegate_origin::settings::Credentials;
use tidegate_origin::{LiveOrigin, Metrics, Origin as _, OriginError, Settings, SettingsReader};
use tidegate_plan::ObjectKey;

use crate::fake_s3::FakeS3;

const REFUSAL: &str = "HTTP/1.1 403 Forbidden\r\ncontent-type: application/xml\r\ncontent-length: 50\r\n\r\n\
                       <Error><Code>InvalidAccessKeyId</Code></Error>    ";

fn signed_by(settings: &Settings, id: &str) -> Settings {
    Settings {
        credentials: Credentials::Static {
            access_key_id: id.to_owned(),
            secret_access_key: "s".to_owned(),
            session_token: None,
        },
        ..settings.clone()
    }
}

async fn connect(settings: Settings, read_again: SettingsReader) -> LiveOrigin {
    let connected = LiveOrigin::connect(settings, &Metrics::default(), read_again).await;
    connected.expect("settings")
}

/// Returns the ids of the keys that signed the requests so far.
fn signers(server: &FakeS3) -> Vec<String> {
    let of_one = |headers: &std::collections::HashMap<String, String>| {
        let text = headers.get("authorization")?;
        let (_, rest) = text.split_once("Credential=")?;
        Some(rest.split('/').next()?.to_owned())
    };
    let requests = server.requests();
    requests
        .iter()
        .filter_map(|request| of_one(&request.headers))
        .collect()
}

#[tokio::test]
async fn a_refused_request_is_sent_again_with_the_secrets_that_are_there_by_now() {
    let server = FakeS3::start().await;
    server.bucket.put("k", "v");
    let key = ObjectKey::new("k").expect("a key");
    let settings = signed_by(&server.settings(), "old");
    let readings = Arc::new(AtomicUsize::new(0));
    let read_again = {
        let (readings, new) = (readings.clone(), signed_by(&settings, "new"));
        Arc::new(move || {
            readings.fetch_add(1, Ordering::Relaxed);
            Some(new.clone())
        })
    };
    let origin = connect(settings, read_again).await;
    server.answer_next(REFUSAL);
    origin.head(&key).await.expect("sent again");
    assert_eq!(signers(&server), ["old", "new"]);

    // A store that goes on refusing is not asked twice for each request, and the files rest.
    server.answer_next(REFUSAL);
    assert_eq!(origin.head(&key).await, Err(OriginError::Forbidden));
    assert_eq!(signers(&server), ["old", "new", "new"]);
    assert_eq!(readings.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_head_that_is_refused_without_a_reason_is_sent_again_with_new_secrets() {
    // As AWS answers a HEAD with an expired token; a GET's answer names the reason.
    let bare = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
    let named = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/xml\r\ncontent-length: 41\r\n\r\n\
                 <Error><Code>ExpiredToken</Code></Error> ";
    let server = FakeS3::start().await;
    server.bucket.put("k", "v");
    let key = ObjectKey::new("k").expect("a key");
    let origin = async |old: &str, new: &str| {
        let new = signed_by(&server.settings(), new);
        let read_again = Arc::new(move || Some(new.clone()));
        connect(signed_by(&server.settings(), old), read_again).await
    };
    server.answer_next(bare);
    let probed = origin("a", "b").await.probe().await;
    probed.expect("sent again");
    assert_eq!(signers(&server), ["a", "b"]);
    server.answer_next(bare);
    server.answer_next(named);
    let head = origin("c", "d").await.head(&key).await;
    head.expect("sent again");
    assert_eq!(signers(&server), ["a", "b", "c", "c", "d"]);
}

/// Returns a reader of secrets that says when it begins, and goes on once it is told to.
fn held(found: Settings) -> (SettingsReader, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (begins, began) = mpsc::channel();
    let (goes_on, waits) = mpsc::channel::<()>();
    let waits = Mutex::new(waits);
    let read = move || {
        begins.send(()).ok()?;
        waits.lock().ok()?.recv().ok()?;
        Some(found.clone())
    };
    (Arc::new(read), began, goes_on)
}

#[tokio::test]
async fn all_requests_that_are_refused_at_once_are_sent_again() {
    const READERS: usize = 8;
    let server = FakeS3::start().await;
    server.bucket.put("k", "v");
    let settings = signed_by(&server.settings(), "old");
    let (slow, began, refused) = held(signed_by(&settings, "new"));
    let origin = Arc::new(connect(settings, slow).await);
    let head = || {
        let origin = origin.clone();
        tokio::spawn(async move { origin.head(&ObjectKey::new("k").expect("a key")).await })
    };
    server.answer_next(REFUSAL);
    let first = head();
    let reading = tokio::task::spawn_blocking(move || began.recv());
    reading.await.expect("no panic").expect("it is read");
    for _ in 1..READERS {
        server.answer_next(REFUSAL);
    }
    let others: Vec<_> = (1..READERS).map(|_| head()).collect();
    while server.requests().len() < READERS {
        tokio::task::yield_now().await;
    }
    refused.send(()).expect("it waits");
    for asked in others.into_iter().chain([first]) {
        asked.await.expect("no panic").expect("sent again");
    }
    let (old, new): (Vec<_>, Vec<_>) = signers(&server).into_iter().partition(|id| id == "old");
    assert_eq!((old.len(), new.len()), (READERS, READERS));
}

/// Returns a reader of secrets that `text` holds by then.
fn reads(settings: &Settings, text: &Arc<Mutex<&'static str>>) -> SettingsReader {
    let (settings, text) = (settings.clone(), text.clone());
    Arc::new(move || Some(signed_by(&settings, *text.lock().expect("held shortly"))))
}

#[tokio::test]
async fn a_refusal_after_a_reload_does_not_bring_back_the_secrets_before_it() {
    let server = FakeS3::start().await;
    server.bucket.put("k", "v");
    let key = ObjectKey::new("k").expect("a key");
    let [old, new] = ["old", "new"].map(|id| Arc::new(Mutex::new(id)));
    let settings = signed_by(&server.settings(), "old");
    let origin = connect(settings.clone(), reads(&settings, &old)).await;
    let prepared = origin.prepare(signed_by(&settings, "new"), reads(&settings, &new));
    let prepared = prepared.await.expect("settings");
    origin.exchange(prepared.expect("the same bucket"));
    server.answer_next(REFUSAL);
    assert_eq!(origin.head(&key).await, Err(OriginError::Forbidden));
    origin.head(&key).await.expect("served");
    assert_eq!(signers(&server), ["new", "new"]);
}

#[tokio::test]
async fn the_place_of_secrets_that_stay_is_exchanged() {
    let server = FakeS3::start().await;
    server.bucket.put("k", "v");
    let key = ObjectKey::new("k").expect("a key");
    let settings = signed_by(&server.settings(), "same");
    let origin = connect(settings.clone(), Arc::new(|| None)).await;
    let elsewhere = Arc::new(Mutex::new("same"));
    let prepared = origin.prepare(settings.clone(), reads(&settings, &elsewhere));
    let prepared = prepared.await.expect("settings");
    origin.exchange(prepared.expect("the same bucket"));
    *elsewhere.lock().expect("held shortly") = "next";
    server.answer_next(REFUSAL);
    origin.head(&key).await.expect("sent again");
    assert_eq!(signers(&server), ["same", "next"]);
}

#[tokio::test]
async fn secrets_that_a_reload_brings_during_a_reading_stay_in_force() {
    let server = FakeS3::start().await;
    server.bucket.put("k", "v");
    let key = ObjectKey::new("k").expect("a key");
    let settings = signed_by(&server.settings(), "old");
    let (slow, began, reloaded) = held(signed_by(&settings, "stale"));
    let origin = Arc::new(connect(settings.clone(), slow).await);
    server.answer_next(REFUSAL);
    let asked = tokio::spawn({
        let (origin, key) = (origin.clone(), key.clone());
        async move { origin.head(&key).await }
    });
    let reading = tokio::task::spawn_blocking(move || began.recv());
    reading.await.expect("no panic").expect("it is read");
    let new = signed_by(&settings, "new");
    let prepared = origin.prepare(new, Arc::new(|| None)).await;
    origin.exchange(prepared.expect("settings").expect("the same bucket"));
    reloaded.send(()).expect("it waits");
    asked.await.expect("no panic").expect("sent again");
    origin.head(&key).await.expect("served");
    assert_eq!(signers(&server), ["old", "new", "new"]);
}
