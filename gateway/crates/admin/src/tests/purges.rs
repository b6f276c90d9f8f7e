//! `POST /purge`, over the listener.

use serde_json::{Value, json};

use super::*;
use tidegate_engine::PurgeKind;

#[tokio::test]
async fn purges_from_query_or_json() {
    let t = start(Some("s3cret")).await;
    let answer = t
        .ask("POST /purge?path=/a%20b&prefix=true", TOKEN, "")
        .await;
    assert!(
        answer.ends_with("\r\n\r\n{\"known\":0,\"purged\":[\"/a%20b\"]}\n"),
        "{answer}"
    );
    assert!(answer.contains("\r\ncontent-type: application/json\r\n"));
    let body = r#"{"path": "/x+y", "host": "media.example"}"#;
    assert_eq!(t.status("POST /purge", TOKEN, body).await, 200);
    let soft = r#"{"path": "/s", "soft": true}"#;
    assert_eq!(t.status("POST /purge", TOKEN, soft).await, 200);
    let purge = |extent, host: Option<&str>, kind| Purge {
        extent,
        host: host.map(str::to_owned),
        kind,
    };
    let path = |path: &str| PurgeExtent::Path(path.to_owned());
    let asked = [
        purge(
            PurgeExtent::Prefix("/a%20b".to_owned()),
            None,
            PurgeKind::Hard,
        ),
        purge(path("/x+y"), Some("media.example"), PurgeKind::Hard),
        purge(path("/s"), None, PurgeKind::Soft),
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
    let lists =
        json!({ "paths": paths, "prefixes": ["/p/"], "tags": ["t"], "host": "h", "soft": true });
    let answer = t.ask("POST /purge", TOKEN, &lists.to_string()).await;
    assert_eq!(said(&answer), (2002, json!([])));
    assert!(answer.contains("\"known\":2000"), "{answer}");
    let purged = t.purged();
    let is_prefix = |purge: &&Purge| matches!(purge.extent, PurgeExtent::Prefix(_));
    assert_eq!(purged.iter().filter(is_prefix).count(), 1);
    let is_tag =
        |purge: &&Purge| matches!(&purge.extent, PurgeExtent::Tag(tag) if tag.as_str() == "t");
    assert_eq!(purged.iter().filter(is_tag).count(), 1);
    assert!(purged.iter().all(|purge| purge.kind == PurgeKind::Soft));
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
async fn a_bad_path_among_many_purges_nothing() {
    let t = start(Some("s3cret")).await;
    let lists = json!({ "paths": ["/x", "/a/../b", "/y"] }).to_string();
    let answer = t.ask("POST /purge", TOKEN, &lists).await;
    assert_eq!(status(&answer), 400);
    assert!(answer.ends_with("\r\n\r\n/a/../b: dots\n"), "{answer}");
    assert_eq!(t.purged(), []);
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
