//! Secrets in files: read again once the store refuses the old ones, and named by file, line and key if they are wrong.

use tidegate_origin::settings::Credentials;

use crate::fake_s3::{BUCKET, FakeS3};
use crate::serving::Serving;
use crate::{World, configuration, serving};

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

/// Each mistake of a secret or a key set is told with the file and the line of its key.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_secret_is_told_with_its_line_and_key() {
    let world = World::new().await;
    let serving = serving(&world).await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(file("short"), "short\n").expect("written");
    std::fs::write(file("set"), "{\"keys\":[]}").expect("written");
    let (short, gone, set) = (file("short"), file("gone"), file("set"));
    for (line, key, said) in [
        (
            format!("tokens.alice = {{ file = \"{gone}\" }}"),
            "tokens.alice",
            "cannot read",
        ),
        (
            format!("tokens.alice = {{ file = \"{short}\" }}"),
            "tokens.alice",
            "is shorter",
        ),
        (
            format!("signed.keys.k1 = {{ file = \"{gone}\" }}"),
            "signed.keys.k1",
            "cannot read",
        ),
        (
            format!("signed.keys.k1 = {{ file = \"{short}\" }}"),
            "signed.keys.k1",
            "is shorter",
        ),
        (
            format!("jwt.secret = {{ file = \"{short}\" }}"),
            "jwt.secret",
            "is shorter",
        ),
        (format!("jwt.jwks = \"{gone}\""), "jwt.jwks", "No such file"),
        (format!("jwt.jwks = \"{set}\""), "jwt.jwks", "has no key"),
    ] {
        let wrong = format!("[access.members]\n{line}\n");
        serving.configure(&configuration(&world, &wrong));
        tells_where(&serving, &line, &format!("access.members.{key}"), said).await;
    }
    for (secret, said) in [(&gone, "cannot read"), (&short, "is shorter")] {
        let line = format!("write_token = {{ file = \"{secret}\" }}");
        let wrong = format!("writable = true\n{line}\n");
        serving.configure(&configuration(&world, &wrong));
        tells_where(&serving, &line, "route[0].write_token", said).await;
    }
}

/// Reloads, and checks that the answer has this line's number in the file, its key, and what is wrong with it.
async fn tells_where(serving: &Serving, line: &str, key: &str, said: &str) {
    let file = serving.config();
    let text = std::fs::read_to_string(&file).expect("written");
    let number = text.lines().position(|one| one == line).expect("its line") + 1;
    let got = serving.post("/reload").await;
    assert_eq!(got.status, 422, "{line}: {}", got.text());
    let start = format!("{}:{number}:", file.display());
    let answer = got.text();
    assert!(answer.contains(&start), "{start}: {answer}");
    assert!(answer.contains(&format!("`{key}`: ")), "{key}: {answer}");
    assert!(answer.contains(said), "{said}: {answer}");
    assert_eq!(serving.get("/o/1").await.status, 200, "{line}");
}
