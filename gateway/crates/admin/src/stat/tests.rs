//! The endpoint over a real engine and a bucket in memory.

use serde_json::{Value, json};

use super::super::tests::bucket::CHUNK;
use super::super::tests::{Parts, asked, running};
use tidegate_plan::ByteRange;

async fn stat(t: &Parts, query: &str) -> Value {
    let (status, body) = asked(&t.admin, &format!("GET /stat?{query}"), None, "").await;
    assert_eq!(status, 200, "{body}");
    let body: Value = serde_json::from_str(&body).expect("JSON");
    body["objects"][0].clone()
}

#[tokio::test]
async fn says_which_bytes_are_where() {
    let t = running(None);
    let size = 10 * CHUNK + 100;
    let bytes = vec![b'x'; usize::try_from(size).expect("small")];
    t.bucket
        .origin
        .put_with("a b", bytes, &[("content-type", "text/x-test")]);
    let nothing = stat(&t, "path=/a%20b").await;
    assert_eq!(
        nothing,
        json!({ "key": "a b", "origin": "media", "host": null, "known": false,
                "missing": false, "note": null, "pending": null })
    );
    assert_eq!(
        t.bucket.origin.log().len(),
        0,
        "nothing was asked of the origin"
    );

    let range = |start: u64, end: u64| ByteRange::new(start * CHUNK, (end * CHUNK).min(size));
    t.bucket.read("a b", range(2, 4)).await;
    t.bucket.store.evict_memory();
    t.bucket.read("a b", range(3, 5)).await;
    t.bucket.read("a b", range(9, 11)).await;
    let asked = t.bucket.origin.log().len();
    let found = stat(&t, "path=/a%20b&host=media.example").await;
    assert_eq!(t.bucket.origin.log().len(), asked);
    assert_eq!(
        (&found["cached"], &found["state"]),
        (&json!("partly"), &json!("fresh"))
    );
    assert_eq!(found["freshness"], "fresh for another 1m");
    assert_eq!(found["version"]["size"], size);
    assert_eq!(found["version"]["content_type"], "text/x-test");
    let absent = size - (3 * CHUNK + CHUNK + 100);
    assert_eq!(found["bytes"]["absent"], absent, "{found}");
    let ends: Vec<_> = found["ranges"].as_array().expect("runs").iter().collect();
    assert_eq!(ends.first().map(|run| &run["end"]), Some(&json!(2 * CHUNK)));
    assert_eq!(ends.last().map(|run| &run["end"]), Some(&json!(size)));
}

#[tokio::test]
async fn says_that_there_is_none_for_as_long_as_that_is_believed() {
    let t = running(None);
    let key = tidegate_plan::ObjectKey::new("gone").expect("a key");
    let engine = t.bucket.engine();
    let opened = engine.open(&t.bucket.source, &key, Default::default());
    opened.await.expect_err("it is not there");
    let missing = stat(&t, "path=/gone").await;
    assert_eq!(
        (&missing["known"], &missing["missing"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(missing["missing_for"], 5.0);
}

/// A walk over all chunks of a very large object would be as long as the object.
#[tokio::test]
async fn a_very_large_object_is_looked_at_in_part_and_the_answer_says_so() {
    let t = running(None);
    let size = 5 << 40;
    t.bucket.remember("large", size).await;
    let found = stat(&t, "path=/large").await;
    let seen = found["bytes"]["absent"].as_u64().expect("a number");
    let unseen = found["bytes"]["unseen"].as_u64().expect("a number");
    assert_eq!((seen, seen + unseen), (CHUNK << 18, size));
    assert_eq!(found["cached"], "partly", "nobody has looked at the rest");
    assert_eq!(found["ranges"][0]["end"], seen);
    t.bucket.remember("small", CHUNK).await;
    let found = stat(&t, "path=/small").await;
    assert_eq!(
        (&found["cached"], &found["bytes"]["unseen"]),
        (&json!("no"), &json!(0))
    );
}

#[tokio::test]
async fn refuses_what_it_does_not_understand() {
    let t = running(None);
    for (query, status) in [
        ("", 400),
        ("?path=a", 400),
        ("?path=/a?x=1", 400),
        ("?path=/a&path=/b", 400),
        ("?path=/a&all=true", 400),
        ("?path=/a&host=%ff", 400),
        ("?path=/../a", 400),
        ("?path=/a&host=nowhere", 404),
    ] {
        let (found, said) = asked(&t.admin, &format!("GET /stat{query}"), None, "").await;
        assert_eq!(found, status, "{query}: {said}");
    }
}
