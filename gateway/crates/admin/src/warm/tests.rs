//! The endpoints over a real engine and a bucket in memory.

use serde_json::{Value, json};

use super::super::tests::bucket::CHUNK;
use super::super::tests::{Parts, asked, running};
use tidegate_plan::{ByteRange, Profile, profile::DiskUse};

const TOKEN: Option<&str> = Some("s3cret");

/// Returns the last lines of each path.
async fn warm(t: &Parts, body: &Value) -> Vec<Value> {
    let (status, text) = asked(&t.admin, "POST /warm", TOKEN, &body.to_string()).await;
    assert_eq!(status, 200, "{text}");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    lines.filter(|line: &Value| line["done"] == true).collect()
}

fn bucket_with(t: &Parts, keys: &[&str], size: u64) {
    for key in keys {
        let bytes = vec![b'x'; usize::try_from(size).expect("small")];
        t.bucket.origin.put_with(key, bytes, &[]);
    }
}

#[tokio::test]
async fn warms_what_is_missing_and_counts_what_is_there() {
    let t = running(TOKEN);
    let size = 10 * CHUNK + 1;
    bucket_with(&t, &["a", "b", "c"], size);
    t.bucket.read("a", ByteRange::new(0, 4 * CHUNK)).await;
    let said = warm(&t, &json!({ "paths": ["/a"], "host": null, "rate": null })).await;
    let expected = json!({ "path": "/a", "done": true, "size": size, "fetched": size - 4 * CHUNK,
                           "cached": 4 * CHUNK, "left_out": 0 });
    assert_eq!(said, [expected]);
    let gets = t.bucket.origin.gets();
    let again = warm(&t, &json!({ "paths": ["/a"], "rate": "1GiB" })).await;
    assert_eq!(
        (&again[0]["cached"], &again[0]["fetched"]),
        (&json!(size), &json!(0))
    );
    assert_eq!(t.bucket.origin.gets(), gets, "nothing is fetched twice");

    let said = warm(
        &t,
        &json!({ "paths": ["/b", "/gone", "/../x", "/c"], "concurrency": 1 }),
    )
    .await;
    let errors: Vec<_> = said.iter().map(|line| line["error"].clone()).collect();
    let none = Value::Null;
    let expected = [
        none.clone(),
        json!("no such object"),
        json!("the key has a dot segment"),
        none,
    ];
    assert_eq!(errors, expected);
}

#[tokio::test]
async fn the_profile_says_where_to() {
    let t = running(TOKEN);
    let size = 4 * CHUNK;
    for (disk, bulk, on_disk, left_out) in [
        (DiskUse::First, false, 4, 0),
        (DiskUse::Second, false, 4, 0),
        (DiskUse::Second, true, 4, 0),
        (DiskUse::Off, false, 0, 0),
        (DiskUse::Off, true, 0, size),
    ] {
        let profile = Profile {
            disk,
            bulk,
            read_ahead: 0,
            ..Profile::web()
        };
        t.bucket.source.profile.store(std::sync::Arc::new(profile));
        let key = format!("{disk:?}{bulk}");
        bucket_with(&t, &[&key], size);
        let before = t.bucket.store.counts().disk_inserts;
        let said = warm(&t, &json!({ "paths": [format!("/{key}")] })).await;
        assert_eq!(said[0]["left_out"], left_out, "{key}: {said:?}");
        let written = t.bucket.store.counts().disk_inserts - before;
        assert_eq!(written, on_disk, "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rate_is_kept() {
    let t = running(TOKEN);
    bucket_with(&t, &["a", "b"], 512 * CHUNK);
    let began = tokio::time::Instant::now();
    let body = json!({ "paths": ["/a", "/b"], "rate": 64 * CHUNK });
    let said = warm(&t, &body).await;
    assert!(said.iter().all(|line| line["left_out"] == 0), "{said:?}");
    let took = began.elapsed().as_secs();
    // 1,024 chunks at 64 a second, except the last piece.
    assert!((15..=17).contains(&took), "{took}");
}

#[tokio::test]
async fn lists_a_page_at_a_time() {
    let t = running(TOKEN);
    bucket_with(&t, &["x/a b", "x/b", "x/..c", "x/d", "y"], 5);
    assert_eq!(asked(&t.admin, "GET /list?path=/x/", None, "").await.0, 401);
    let page = async |query: &str| {
        let line = format!("GET /list?path=/x/&limit=2{query}");
        let (status, body) = asked(&t.admin, &line, TOKEN, "").await;
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<Value>(&body).expect("JSON")
    };
    let first = page("").await;
    let path = |path: &str| json!({ "path": path, "size": 5 });
    assert_eq!(
        (&first["objects"], &first["unreachable"]),
        (&json!([path("/x/a%20b")]), &json!(1))
    );
    let after = first["after"].as_str().expect("there is more");
    let encoded = percent_encoding::utf8_percent_encode(after, percent_encoding::NON_ALPHANUMERIC);
    let second = page(&format!("&after={encoded}")).await;
    assert_eq!(second["objects"], json!([path("/x/b"), path("/x/d")]));
    assert_eq!(second["after"], Value::Null);
}

#[tokio::test]
async fn refuses_what_it_does_not_understand() {
    let t = running(TOKEN);
    let long = format!(r#"{{"paths": ["/{}"]}}"#, "a".repeat(9000));
    for (line, body, expected) in [
        ("POST /warm", "", 400),
        ("POST /warm", r#"{"paths": ["a"]}"#, 400),
        ("POST /warm", r#"{"paths": ["/a?x"]}"#, 400),
        ("POST /warm", r#"{"paths": ["/a"], "rate": 0}"#, 400),
        ("POST /warm", r#"{"paths": ["/a"], "concurrency": 0}"#, 400),
        (
            "POST /warm",
            r#"{"paths": ["/a"], "concurrency": 1000}"#,
            400,
        ),
        ("POST /warm", long.as_str(), 400),
        ("GET /list", "", 400),
        ("GET /list?path=/&limit=0", "", 400),
        ("GET /list?path=/&limit=1001", "", 400),
        ("GET /list?path=/&after=%ff", "", 400),
        ("GET /list?path=/&host=nowhere", "", 404),
    ] {
        let (status, said) = asked(&t.admin, line, TOKEN, body).await;
        assert_eq!(status, expected, "{line}: {said}");
    }
    assert_eq!(asked(&t.admin, "POST /warm", None, "{}").await.0, 401);
}
