//! The purges that a request names.

use super::*;
use tidegate_plan::tags::MAX_TAG;

#[test]
fn a_path_in_the_query_is_taken_as_it_stands() {
    let rows = [
        ("path=/a%20b+c.jpg", "/a%20b+c.jpg", false, PurgeKind::Hard),
        ("prefix=true&path=/a/", "/a/", true, PurgeKind::Hard),
        (
            "path=/a=b&prefix=false&soft=true",
            "/a=b",
            false,
            PurgeKind::Soft,
        ),
    ];
    for (query, path, prefix, kind) in rows {
        let purge = from_query(query).expect(query);
        let extent = extent(path.to_owned(), prefix).expect("a path");
        assert_eq!((purge.extent, purge.kind), (extent, kind), "{query}");
    }
}

#[test]
fn a_batch_is_bounded_and_checked_whole() {
    let read = |text: &str| from_json(text.as_bytes());
    let many = |text: &str| match read(text) {
        Ok(PurgeRequests::Many(purges)) => purges.len(),
        _ => 0,
    };
    assert_eq!(many(r#"{"paths": ["/a", "/b"], "prefixes": ["/c/"]}"#), 3);
    for bad in [
        r#"{"paths": []}"#,
        r#"{"paths": ["/a", "b"]}"#,
        r#"{"paths": ["/a"], "prefix": true}"#,
        r#"{"prefixes": "/a"}"#,
        r#"{"path": "/a", "paths": ["/b"]}"#,
        r#"{"path": "/a", "soft": "yes"}"#,
        r#"{"tags": []}"#,
        r#"{"tags": ["a b"]}"#,
        r#"{"tags": ["a", ""]}"#,
        r#"{"tags": ["a\u0000"]}"#,
        r#"{"tags": ["ä"]}"#,
        r#"{"tag": "a"}"#,
        r#"{"keys": []}"#,
        r#"{"keys": ["a", "b/../c"]}"#,
        r#"{"keys": ["a"], "host": "h"}"#,
        r#"{"keys": ["a"], "path": "/a"}"#,
        r#"{"paths": ["/a"], "origin": "o"}"#,
        r#"{"path": "/a", "origin": "o"}"#,
        r#"{"path": "/a", "path": "/b"}"#,
        r#"{"paths": ["/a"], "paths": ["/b"]}"#,
        "[]",
    ] {
        assert!(read(bad).is_err(), "{bad}");
    }
    let count = |count| json!({ "paths": vec!["/a"; count] }).to_string();
    assert_eq!(many(&count(MAX_PURGES)), MAX_PURGES);
    assert!(read(&count(MAX_PURGES + 1)).is_err());
    let tags = |count, tag: &str| json!({ "tags": vec![tag; count], "soft": true }).to_string();
    assert_eq!(many(&tags(MAX_PURGES, "a")), MAX_PURGES);
    for (bad, why) in [
        (
            tags(MAX_PURGES + 1, "a"),
            "10001 paths, prefixes, tags and keys",
        ),
        (tags(1, &"x".repeat(MAX_TAG + 1)), "longer than 1024 bytes"),
    ] {
        let error = read(&bad).expect_err("refused");
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_key_is_taken_as_its_bucket_has_it() {
    let body =
        r#"{"keys": ["a b%20c", "/x"], "origin": "o", "paths": ["/p"], "host": "h", "soft": true}"#;
    let Ok(PurgeRequests::Many(purges)) = from_json(body.as_bytes()) else {
        panic!("{body}")
    };
    let key = |key: &str| {
        let key = ObjectKey::new(key).expect("a key");
        (PurgeExtent::Key(key, Some("o".to_owned())), None)
    };
    let path = PurgeExtent::Path("/p".to_owned());
    let expected = [(path, Some("h".to_owned())), key("a b%20c"), key("/x")];
    let expected = expected.map(|(extent, host)| Purge {
        extent,
        host,
        kind: PurgeKind::Soft,
    });
    assert_eq!(purges, expected);
}

#[test]
fn refuses_what_it_does_not_understand() {
    let bad = [
        "prefix=true",
        "path=/a&path=/b",
        "path=/a&recursive=true",
        "path=/a&prefix=yes",
        "path=/a&soft=1",
        "path=/a&host=%ff",
        "path=%2Fa",
        "path=a",
        "path=/a?ver=6.4",
    ];
    for query in bad {
        assert!(from_query(query).is_err(), "{query}");
    }
}
