//! Messages as they travel, and hostile ones.

use super::*;

#[test]
fn messages_are_read_as_they_were_written() {
    let key = ObjectKey::new("a b/\u{fc}\u{1}.jpg").expect("a key");
    let bucket = || "media".to_owned();
    let purged = |extents: &[Extent], soft| FleetChange::Purged {
        bucket: bucket(),
        extents: extents.to_vec(),
        soft,
    };
    let by_key = Extent::Key(key.clone());
    let by_prefix = Extent::Prefix(String::new());
    let by_tag = Extent::Tag(Tag::new("post-1").expect("a tag"));
    let changes = [
        purged(std::slice::from_ref(&by_key), false),
        purged(std::slice::from_ref(&by_prefix), true),
        purged(std::slice::from_ref(&by_tag), false),
        purged(&[by_key, by_prefix, by_tag], true),
        FleetChange::Changed(KeyChange::of("media", &key, ChangeKind::Created)),
        FleetChange::Changed(KeyChange {
            etag: ETag::parse("\"a\""),
            size: Some(5),
            time: Some(Timestamp(7)),
            sequencer: Sequencer::parse("0A"),
            is_overtaken: true,
            ..KeyChange::of("media", &key, ChangeKind::Removed)
        }),
        FleetChange::Pinned {
            bucket: bucket(),
            prefix: "a/".to_owned(),
            limit: Some(u64::MAX),
        },
        FleetChange::Pinned {
            bucket: bucket(),
            prefix: "a/".to_owned(),
            limit: None,
        },
    ];
    let others = [
        Content::Heartbeat(Presence::default()),
        Content::Heartbeat(Presence::new(Some("a.example".to_owned()), vec![bucket()])),
        Content::Bye,
        Content::Missed,
    ];
    for content in changes.map(Content::Change).into_iter().chain(others) {
        let message = FleetMessage {
            from: u64::MAX,
            sequence: 7,
            at: 9,
            content,
        };
        assert_eq!(FleetMessage::read(&message.write()), Ok(message));
    }
}

#[test]
fn a_change_of_which_only_the_kind_is_known_is_read_by_gateways_of_before() {
    let key = ObjectKey::new("a").expect("a key");
    let change = KeyChange::of("b", &key, ChangeKind::Created);
    let purge = FleetChange::Purged {
        bucket: "b".to_owned(),
        extents: vec![Extent::Key(key)],
        soft: false,
    };
    for (change, told) in [
        (
            FleetChange::Changed(change),
            r#"{"kind":"created","bucket":"b","key":"a"}"#,
        ),
        (
            purge,
            r#"{"kind":"purge","bucket":"b","key":"a","soft":false}"#,
        ),
    ] {
        let message = FleetMessage {
            from: 1,
            sequence: 1,
            at: 1,
            content: Content::Change(change),
        };
        let text = String::from_utf8(message.write()).expect("JSON");
        assert!(text.contains(told), "{text}");
    }
}

#[test]
fn a_heartbeat_is_read_with_a_name_and_without_one() {
    let read = |body: &str| {
        let text = format!(r#"{{"v":1,"from":1,"seq":1,"at":1,"body":{body}}}"#);
        FleetMessage::read(text.as_bytes()).map(|message| message.content)
    };
    let without = Ok(Content::Heartbeat(Presence::default()));
    assert_eq!(read(r#"{"kind":"heartbeat"}"#), without);
    let long = format!(r#"{{"kind":"heartbeat","name":"{}"}}"#, "x".repeat(256));
    assert_eq!(read(&long), without, "too long to be shown");
    // Gateways from before names had no field in a heartbeat, as there is none in this message.
    let later = read(r#"{"kind":"bye","name":"a"}"#);
    assert_eq!(later, Ok(Content::Bye), "they read one with a name");
}

#[test]
fn a_heartbeat_fits_however_many_buckets_there_are() {
    for (number, says) in [(0, true), (100, true), (1000, false)] {
        let buckets = (0..number).map(|n| format!("{n:063}")).collect();
        let presence = Presence::new(None, buckets);
        assert_eq!(presence.buckets.is_some(), says, "{number}");
        let message = FleetMessage {
            from: 1,
            sequence: 1,
            at: 1,
            content: Content::Heartbeat(presence),
        };
        assert!(message.write().len() <= MAX_MESSAGE);
    }
}

#[test]
fn the_longest_key_fits() {
    let key = "\u{1}".repeat(1024);
    let message = FleetMessage {
        from: 1,
        sequence: u64::MAX,
        at: u64::MAX,
        content: Content::Change(FleetChange::Changed(KeyChange {
            etag: ETag::parse(&"e".repeat(MAX_ETAG - 2)),
            size: Some(u64::MAX),
            time: Some(Timestamp(u64::MAX)),
            sequencer: Sequencer::parse(&"f".repeat(Sequencer::MAX_BYTES)),
            is_overtaken: true,
            ..KeyChange::of(
                &"b".repeat(63),
                &ObjectKey::new(&key).expect("a key"),
                ChangeKind::Created,
            )
        })),
    };
    assert!(message.write().len() < MAX_MESSAGE);
}

#[test]
fn hostile_messages_are_refused() {
    let of = |body: &str| format!(r#"{{"v":1,"from":1,"seq":1,"at":1,"body":{body}}}"#);
    let long = "x".repeat(1025);
    for text in [
        String::new(),
        "[".repeat(MAX_MESSAGE),
        " ".repeat(MAX_MESSAGE + 1),
        r#"{"v":2,"from":1,"seq":1,"at":1,"body":{"kind":"bye"}}"#.to_owned(),
        r#"{"v":1,"from":-1,"seq":1,"at":1,"body":{"kind":"bye"}}"#.to_owned(),
        of(r#"{"kind":"shutdown"}"#),
        of(r#"{"kind":"purge","bucket":"b","soft":false}"#),
        of(r#"{"kind":"purge","bucket":"b","key":"a","prefix":"b","soft":false}"#),
        of(r#"{"kind":"purge","bucket":"b","all":[],"soft":false}"#),
        of(r#"{"kind":"purge","bucket":"b","all":[{"key":"a"}],"prefix":"b","soft":false}"#),
        of(r#"{"kind":"purge","bucket":"b","all":[{"key":"a"},{"key":"../a"}],"soft":false}"#),
        of(r#"{"kind":"purge","bucket":"b","all":[{"key":"a","tag":"t"}],"soft":false}"#),
        of(r#"{"kind":"created","bucket":"b","key":"a","event":{"other":1}}"#),
        of(r#"{"kind":"purge","bucket":"b","tag":"a b","soft":false}"#),
        of(r#"{"kind":"created","bucket":"b","key":"../a"}"#),
        of(r#"{"kind":"pin","bucket":"b","prefix":"a","limit":0}"#),
        of(&format!(
            r#"{{"kind":"unpin","bucket":"b","prefix":"{long}"}}"#
        )),
    ] {
        assert!(FleetMessage::read(text.as_bytes()).is_err(), "{text}");
    }
}
