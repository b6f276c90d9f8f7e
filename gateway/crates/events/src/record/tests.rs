//! Messages as stores send them, and messages that no store sends.

use super::*;

/// A message of MinIO, with its keys beside `Records`.
const MINIO: &str = r#"{"EventName":"s3:ObjectCreated:Put","Key":"media/a b/x.jpg","Records":[{"eventVersion":"2.0",
"eventSource":"minio:s3","awsRegion":"","eventTime":"2026-11-26T02:30:00.123Z","eventName":"s3:ObjectCreated:Put",
"userIdentity":{"principalId":"minioadmin"},"requestParameters":{"sourceIPAddress":"127.0.0.1"},
"responseElements":{"x-amz-request-id":"18"},"s3":{"s3SchemaVersion":"1.0","configurationId":"Config",
"bucket":{"name":"media","ownerIdentity":{"principalId":"minioadmin"},"arn":"arn:aws:s3:::media"},
"object":{"key":"a+b%2Fx%2B1.jpg","size":5,"eTag":"5d41402abc4b2a76b9719d911017c592","contentType":"image/jpeg",
"sequencer":"187B5C2A1B0F3D4E"}},"source":{"host":"127.0.0.1","port":"","userAgent":"x"}}]}"#;

/// An event of EventBridge (S3 user guide, "EventBridge event message structure").
const EVENT_BRIDGE: &str = r#"{"version":"0","id":"17793124-05d4-b198-2fde-7ededc63b103","detail-type":"Object Created",
"source":"aws.s3","account":"111122223333","time":"2021-11-12T00:00:00Z","region":"ca-central-1",
"resources":["arn:aws:s3:::amzn-s3-demo-bucket1"],"detail":{"version":"0","bucket":{"name":"amzn-s3-demo-bucket1"},
"object":{"key":"a+b%2Fc","size":5,"etag":"b1946ac92492d2347c6235b4d2611184","version-id":"IYV3p45BT0ac8hjHg1houSdS1a.Mro8e",
"sequencer":"617f08299329d189"},"request-id":"N4N7GDK58NMKJ12R","requester":"123456789012","reason":"PutObject"}}"#;

fn record(name: &str, key: &str) -> String {
    format!(
        r#"{{"eventName":"{name}","s3":{{"bucket":{{"name":"b"}},"object":{{"key":"{key}","size":1,"eTag":"e"}}}}}}"#
    )
}

fn message(records: &[String]) -> String {
    format!(r#"{{"Records":[{}]}}"#, records.join(","))
}

fn read_text(text: &str) -> Result<Events, RecordError> {
    read(text.as_bytes())
}

#[test]
fn a_record_of_minio_is_a_change() {
    let events = read_text(MINIO).expect("readable");
    let expected = KeyChange {
        bucket: "media".to_owned(),
        key: ObjectKey::new("a b/x+1.jpg").expect("a key"),
        kind: ChangeKind::Created,
        etag: ETag::parse("\"5d41402abc4b2a76b9719d911017c592\""),
        size: Some(5),
        time: Some(Timestamp(1_795_660_200_123)),
        sequencer: Sequencer::parse("187B5C2A1B0F3D4E"),
        is_overtaken: false,
    };
    assert_eq!(events.changes, [expected]);
    assert_eq!((events.ignored, events.unknown, events.invalid), (0, 0, 0));
}

#[test]
fn an_event_of_event_bridge_has_its_key_as_it_is() {
    let events = read_text(EVENT_BRIDGE).expect("readable");
    let [change] = &events.changes[..] else {
        panic!("{events:?}")
    };
    assert_eq!(change.key.as_str(), "a+b%2Fc");
    assert_eq!(change.bucket, "amzn-s3-demo-bucket1");
    assert_eq!(change.time, Some(Timestamp(1_636_675_200_000)));
    assert_eq!(change.sequencer, Sequencer::parse("617F08299329D189"));
    let removed = EVENT_BRIDGE.replace("Object Created", "Object Deleted");
    let removed = read_text(&removed).expect("readable").changes;
    assert_eq!(
        (removed[0].kind, &removed[0].etag),
        (ChangeKind::Removed, &None)
    );
    let tagged = EVENT_BRIDGE.replace("Object Created", "Object Tags Added");
    assert_eq!(read_text(&tagged).expect("readable").ignored, 1);
    let without = EVENT_BRIDGE.replace("\"detail\"", "\"other\"");
    assert_eq!(read_text(&without).expect("readable").invalid, 1);
}

#[test]
fn each_event_has_its_kind() {
    let created = Some(ChangeKind::Created);
    let removed = Some(ChangeKind::Removed);
    for (name, kind) in [
        ("ObjectCreated:Put", created),
        ("s3:ObjectCreated:CompleteMultipartUpload", created),
        ("ObjectCreated:Copy", created),
        ("ObjectRestore:Completed", created),
        ("ObjectRestore:Delete", created),
        ("ObjectSynced:Create", created),
        ("ObjectRemoved:Delete", removed),
        ("s3:ObjectRemoved:DeleteMarkerCreated", removed),
        ("LifecycleExpiration:Delete", removed),
        ("LifecycleExpiration:DeleteMarkerCreated", removed),
        ("s3:ObjectLifecycle:Expiration:Current", removed),
        ("ObjectSynced:Delete", removed),
        ("s3:ObjectCreated:PutTagging", None),
        ("ObjectCreated:DeleteTagging", None),
        ("s3:ObjectCreated:PutRetention", None),
        ("s3:ObjectCreated:PutLegalHold", None),
        ("ObjectTagging:Put", None),
        ("s3:ObjectAcl:Put", None),
        ("s3:ObjectAccessed:Get", None),
        ("LifecycleTransition", None),
        ("Replication:OperationFailedReplication", None),
    ] {
        let events = read_text(&message(&[record(name, "k")])).expect(name);
        let found = events.changes.first().map(|change| change.kind);
        assert_eq!(found, kind, "{name}");
        assert_eq!(events.ignored, u64::from(kind.is_none()), "{name}");
    }
    for name in ["", "s3:", "ObjectDreamed:Of", "objectcreated:put"] {
        let events = read_text(&message(&[record(name, "k")])).expect(name);
        assert_eq!((events.changes.len(), events.unknown), (0, 1), "{name}");
    }
}

#[test]
fn keys_are_decoded_like_a_form() {
    for (encoded, key) in [
        ("a+b", Some("a b")),
        ("a%2Bb", Some("a+b")),
        (
            "M%C3%A4rchen/Momo+%E2%80%93+1.mp3",
            Some("Märchen/Momo – 1.mp3"),
        ),
        ("100%25", Some("100%")),
        ("%2525", Some("%25")),
        ("%ff", None),
    ] {
        let events = read_text(&message(&[record("ObjectCreated:Put", encoded)]));
        let events = events.expect("readable");
        let found = events.changes.first().map(|change| change.key.as_str());
        assert_eq!(found, key, "{encoded}");
        assert_eq!(events.invalid, u64::from(key.is_none()), "{encoded}");
    }
}

/// A client of the bucket could otherwise end what events prove, each time that it writes one.
#[test]
fn a_key_that_no_request_can_name_is_ignored() {
    let long = "x".repeat(5000);
    let ceph = |record: String| record.replacen('{', r#"{"eventSource":"ceph:s3","#, 1);
    for key in ["", "./x", "a/../b", "a/%2E%2E/b", "a%00b", &long] {
        let record = record("ObjectCreated:Put", key);
        let encoded = read_text(&message(std::slice::from_ref(&record))).expect("readable");
        assert!(encoded.changes.is_empty(), "{key}");
        assert_eq!((encoded.ignored, encoded.invalid), (1, 0), "{key}");
        let either = read_text(&message(&[ceph(record)])).expect("readable");
        let count = either.changes.len() as u64 + either.ignored;
        assert_eq!((count, either.invalid), (1, 0), "{key}");
    }
    let bridged = EVENT_BRIDGE.replace("a+b%2Fc", "a/../b");
    let events = read_text(&bridged).expect("readable");
    assert_eq!(
        (events.changes.len(), events.ignored, events.invalid),
        (0, 1, 0)
    );
}

#[test]
fn a_key_of_ceph_may_be_encoded_or_not() {
    let of = |key: &str| {
        let record =
            record("ObjectCreated:Put", key).replacen('{', r#"{"eventSource":"ceph:s3","#, 1);
        let events = read_text(&message(&[record])).expect("readable");
        let keys = events
            .changes
            .into_iter()
            .map(|change| change.key.as_str().to_owned());
        keys.collect::<Vec<_>>()
    };
    assert_eq!(of("a+b"), ["a b", "a+b"]);
    assert_eq!(of("plain/key"), ["plain/key"]);
    assert_eq!(of("100%25"), ["100%", "100%25"]);
    assert_eq!(of("%ff"), ["%ff"]);
}

#[test]
fn a_record_that_cannot_be_read_spoils_no_other() {
    let good = record("ObjectCreated:Put", "good");
    for bad in [
        "null",
        "1",
        "[]",
        "{}",
        r#"{"eventName":"ObjectCreated:Put"}"#,
        r#"{"eventName":"ObjectCreated:Put","s3":{"bucket":{"name":"b"}}}"#,
        r#"{"eventName":7,"s3":{"bucket":{"name":"b"},"object":{"key":"k"}}}"#,
        r#"{"eventName":"ObjectCreated:Put","s3":{"bucket":{"name":"b"},"object":{"key":"k","size":-1}}}"#,
    ] {
        let text = message(&[bad.to_owned(), good.clone()]);
        let events = read_text(&text).expect(bad);
        assert_eq!((events.changes.len(), events.invalid), (1, 1), "{bad}");
    }
}

#[test]
fn records_are_bounded() {
    let of = |count: usize| read_text(&message(&vec![record("ObjectCreated:Put", "k"); count]));
    assert_eq!(of(1000).expect("readable").changes.len(), 1000);
    assert_eq!(
        of(MAX_RECORDS).expect("readable").changes.len(),
        MAX_RECORDS
    );
    assert_eq!(of(MAX_RECORDS + 1), Err(RecordError::TooMany));
}

#[test]
fn other_messages_are_refused() {
    for foreign in [
        "",
        "\u{0}",
        "[[]]",
        "7",
        "{}",
        r#"{"detail":{}}"#,
        r#"{"source":"aws.ec2","detail":{}}"#,
        r#"{"Event":"x"}"#,
    ] {
        assert_eq!(read_text(foreign), Err(RecordError::Foreign), "{foreign}");
    }
    let deep = format!(
        "{}{}",
        r#"{"Records":"#.repeat(100_000),
        "}".repeat(100_000)
    );
    for bad in [
        "{",
        r#"{"Records":{}}"#,
        r#"{"Records":7}"#,
        r#"{"Records":[1,]}"#,
        r#"{"Records":[1]} {}"#,
        &deep,
    ] {
        let found = read_text(bad);
        let is_unreadable = matches!(found, Err(RecordError::Unreadable { .. }));
        assert!(is_unreadable, "{bad:.40}: {found:?}");
    }
    let no_text = read(b"{\"Records\":[\"\xff\"]}");
    assert!(matches!(no_text, Err(RecordError::Unreadable { .. })));
}

/// Nesting in a key that is not read costs no stack.
#[test]
fn depth_in_unknown_keys_is_skipped() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let text = message(&[record("ObjectCreated:Put", "k")]);
    let text = text.replacen('{', &format!(r#"{{"other":{deep},"#), 1);
    let events = read_text(&text);
    assert_eq!(events.map(|events| events.changes.len()), Ok(1));
}

#[test]
fn a_test_event_changes_nothing() {
    let text = r#"{"Service":"Amazon S3","Event":"s3:TestEvent","Time":"2014-10-13T15:57:02.089Z","Bucket":"b"}"#;
    assert_eq!(read_text(text).expect("readable").ignored, 1);
}
