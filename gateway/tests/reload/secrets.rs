//! Secrets in files: read again once the store refuses the old ones.

use tidegate_origin::settings::Credentials;

use crate::fake_s3::{BUCKET, FakeS3};
use crate::serving::Serving;

const EXPIRED: &str = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/xml\r\ncontent-length: 41\r\n\r\n\
                       <Error><Code>ExpiredToken</Code></Error> ";

/// The token of a session is exchanged by the program that renews it, without a reload.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_has_expired_is_read_again_from_its_file() {
    let store = FakeS3::start().await;
    store.bucket.put("k", "bytes");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, "first-token\n").expect("written");
    let settings = store.settings();
    let Credentials::Static { access_key_id, .. } = &settings.credentials else {
        panic!("the store has a key")
    };
    let mut serving = Serving::configured(&format!(
        "[admin]\n[[origin]]\nname = \"media\"\nbucket = \"{BUCKET}\"\nendpoint = \"{}\"\npath_style = true\n\
         access_key_id = \"{access_key_id}\"\nsecret_access_key = \"secret\"\n\
         session_token = {{ file = \"{}\" }}\n",
        settings.endpoint.as_deref().expect("an endpoint"),
        file.display()
    ));
    serving.start().await;
    let token = || {
        let last = store.requests().pop().expect("it was asked");
        last.headers.get("x-amz-security-token").cloned()
    };
    assert_eq!(token().as_deref(), Some("first-token"));
    std::fs::write(&file, "second-token\n").expect("written");
    store.answer_next(EXPIRED);
    let got = serving.get("/k").await;
    assert_eq!((got.status, &*got.body), (200, &b"bytes"[..]));
    assert_eq!(token().as_deref(), Some("second-token"));
}
