//! `POST /purge`, over the listener.

use serde_json::{Value, json};

use super::*;

#[tokio::test]
async fn purges_from_query_or_json() {
    let t = start(Some("s3cret")).await;
    let answer = t
        .ask("POST /purge?path=/a%20b&prefix=true", TOKEN, "")
        .await;
    assert!(
        answer.ends_with("\r\n\r\n{\"purged\":[\"/a%20b\"]}\n"),
        "{answer}"
    );
    assert!(answer.contains("\r\ncontent-type: application/json\r\n"));
    let body = r#"{"path": "/x+y", "host": "media.example"}"#;
    assert_eq!(t.status("POST /purge", TOKEN, body).await, 200);
    let purge = |path: &str, prefix, host: Option<&str>| Purge {
        path: path.to_owned(),
        prefix,
        host: host.map(str::to_owned),
    };
    let asked = [
        purge("/a%20b", true, None),
        purge("/x+y", false, Some("media.example")),
    ];
    assert_eq!(t.purged(), asked);

    for (query, body) in [
        ("", ""),
        ("?path=/a", r#"{"path": "/a"}"#),
        ("", r#"{"path": "a"}"#),
        ("", r#"{"path": "/a", "recursive": true}"#),
        ("", "path=/a"),
    ] {
        let line = format!("POST /purge{query}");
        assert_eq!(t.status(&line, TOKEN, body).await, 400, "{query} {body}");
    }
    let long = format!(r#"{{"path": "/{}"}}"#, "a".repeat(purge::MAX_BODY));
    assert_eq!(t.status("POST /purge", TOKEN, &long).await, 413);
    let long = "a".repeat(MAX_BODY + 1);
    assert_eq!(t.status("PUT /pins", TOKEN, &long).await, 413);
    assert_eq!(t.purged(), []);
}

/// Returns the count of an answer, and its paths without a route.
fn said(answer: &str) -> (u64, Value) {
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    let body: Value = serde_json::from_str(body).expect("JSON");
    let purged = body["purged"].as_u64().expect("a number");
    (purged, body["no_route"].clone())
}

#[tokio::test]
async fn purges_many_at_once() {
    let t = start(Some("s3cret")).await;
    let paths: Vec<_> = (0..2000).map(|n| format!("/{n}")).collect();
    let body = json!({ "paths": paths, "prefixes": ["/p/"], "host": "h" });
    let answer = t.ask("POST /purge", TOKEN, &body.to_string()).await;
    assert_eq!(said(&answer), (2001, json!([])));
    let purged = t.purged();
    assert_eq!(purged.iter().filter(|purge| purge.prefix).count(), 1);
    assert!(
        purged
            .iter()
            .all(|purge| purge.host.as_deref() == Some("h"))
    );
    *t.told.fails.lock().expect("not poisoned") = Some(PurgeError::Place(PlaceError::NoRoute));
    let answer = t.ask("POST /purge", TOKEN, r#"{"paths": ["/x"]}"#).await;
    assert_eq!(said(&answer), (0, json!(["/x"])));
    let lost = PurgeError::NotDurable("full".to_owned());
    *t.told.fails.lock().expect("not poisoned") = Some(lost);
    assert_eq!(
        t.status("POST /purge", TOKEN, r#"{"paths": ["/x"]}"#).await,
        500
    );
}

#[tokio::test]
async fn a_failed_purge_says_so() {
    let t = start(Some("s3cret")).await;
    for (error, expected) in [
        (PurgeError::Place(PlaceError::NoRoute), 404),
        (
            PurgeError::Place(PlaceError::BadPath("dots".to_owned())),
            400,
        ),
        (PurgeError::NotDurable("disk full".to_owned()), 500),
    ] {
        *t.told.fails.lock().expect("not poisoned") = Some(error);
        let got = t.status("POST /purge?path=/a", TOKEN, "").await;
        assert_eq!(got, expected);
    }
}
