//! An origin whose settings change while it is in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_origin::settings::Credentials;
use tidegate_origin::{LiveOrigin, Metrics, Origin as _, OriginError, ReadAgain, Settings};
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

async fn connect(settings: Settings, read_again: ReadAgain) -> LiveOrigin {
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
async fn settings_of_another_bucket_are_not_taken() {
    let server = FakeS3::start().await;
    let settings = server.settings();
    let origin = connect(settings.clone(), Arc::new(|| None)).await;
    let mut other = settings.clone();
    other.bucket = "other".to_owned();
    assert!(origin.prepare(other).await.expect("settings").is_none());
    assert!(
        origin
            .prepare(settings.clone())
            .await
            .expect("settings")
            .is_none(),
        "the same"
    );
    let mut longer = settings;
    longer.max_queue += 1;
    let prepared = origin.prepare(longer.clone()).await.expect("settings");
    origin.exchange(prepared.expect("others"));
    assert!(
        origin.prepare(longer).await.expect("settings").is_none(),
        "in force"
    );
}
