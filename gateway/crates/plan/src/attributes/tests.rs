//! The forms of other programs, and the own form read back.

use proptest::prelude::*;

use super::*;

fn headers(pairs: &[(&'static str, &str)]) -> Vec<(HeaderName, HeaderValue)> {
    let header = |(name, value): &(&'static str, &str)| {
        let value = HeaderValue::try_from(*value).expect("a value");
        (HeaderName::from_static(name), value)
    };
    pairs.iter().map(header).collect()
}

fn time(secs: i64, nanos: u32) -> Option<UnixTime> {
    Some(UnixTime::new(secs, nanos))
}

/// Metadata as the programs write it, from their sources: s3fs 1.95 (`std::to_string(mode)`, `str(timespec)`), geesefs
/// (`%d` of mode and seconds), rclone with `--metadata` (`%0o`, `swift.TimeToFloatString`).
#[test]
fn files_of_other_programs() {
    let s3fs = headers(&[
        ("content-type", "text/plain"),
        ("x-amz-meta-atime", "1600000000.000000005"),
        ("x-amz-meta-ctime", "1600000001"),
        ("x-amz-meta-gid", "1001"),
        ("x-amz-meta-mode", "33261"),
        ("x-amz-meta-mtime", "1600000000.000000025"),
        ("x-amz-meta-uid", "1000"),
    ]);
    let script = Attributes {
        mode: Some(0o100_755),
        uid: Some(1000),
        gid: Some(1001),
        modified: time(1_600_000_000, 25),
        accessed: time(1_600_000_000, 5),
    };
    assert_eq!(Attributes::of(&s3fs), script);
    let geesefs = headers(&[
        ("x-amz-meta-mode", "33261"),
        ("x-amz-meta-mtime", "1600000000"),
        ("x-amz-meta-uid", "1000"),
    ]);
    let alike = Attributes {
        gid: None,
        modified: time(1_600_000_000, 0),
        accessed: None,
        ..script
    };
    assert_eq!(Attributes::of(&geesefs), alike);
    let rclone = headers(&[
        ("x-amz-meta-atime", "2020-09-13T12:26:40.5Z"),
        ("x-amz-meta-gid", "1001"),
        ("x-amz-meta-mode", "100755"),
        ("x-amz-meta-mtime", "1600000000.5"),
        ("x-amz-meta-uid", "1000"),
    ]);
    let alike = Attributes {
        modified: time(1_600_000_000, 500_000_000),
        accessed: None,
        ..script
    };
    assert_eq!(Attributes::of(&rclone), alike);
    assert_eq!(Attributes::of(&headers(&[])), Attributes::default());
}

#[test]
fn links_of_other_programs() {
    let s3fs = headers(&[("x-amz-meta-mode", "41471")]);
    assert!(Attributes::of(&s3fs).is_link());
    assert_eq!(link_target(&s3fs), None, "it is the object's content");
    let geesefs = headers(&[("x-amz-meta---symlink-target", "..%2fa%20b/%c3%a9")]);
    assert!(Attributes::of(&geesefs).is_link());
    assert_eq!(link_target(&geesefs).as_deref(), Some("../a b/é"));
    for bad in ["", "a%00b", "%ff"] {
        let odd = headers(&[("x-amz-meta---symlink-target", bad)]);
        assert_eq!(link_target(&odd), None, "{bad}");
    }
    let own = [link_header("../ä b").expect("short")];
    assert_eq!(link_target(&own).as_deref(), Some("../ä b"));
    assert_eq!(link_header(&"x".repeat(1025)), None);
}

#[test]
fn modes_are_octal_or_decimal() {
    for (text, mode) in [
        ("33188", 0o100_644),
        ("0100644", 0o100_644),
        ("100644", 0o100_644),
        ("16877", 0o040_755),
        ("40755", 0o040_755),
        ("41471", 0o120_777),
        ("120777", 0o120_777),
        ("0644", 0o644),
        ("420", 0o644),
        ("0", 0),
        (" 0100755 ", 0o100_755),
        ("0104755", 0o104_755),
    ] {
        assert_eq!(parse_mode(text), Some(mode), "{text}");
    }
    for bad in [
        "",
        "-1",
        "rw-r--r--",
        "0x1a4",
        "99999",
        "0900",
        "4294967296",
        "0777777777",
    ] {
        assert_eq!(parse_mode(bad), None, "{bad}");
    }
    for (text, owner) in [("0", Some(0)), ("4294967294", Some(u32::MAX - 1))] {
        assert_eq!(parse_owner(text), owner);
    }
    for bad in ["", "-1", "+1", "4294967295", "4294967296", "root"] {
        assert_eq!(parse_owner(bad), None, "{bad}");
    }
}

#[test]
fn times_have_nanoseconds_and_may_be_before_1970() {
    for (text, secs, nanos) in [
        ("1700000000", 1_700_000_000, 0),
        ("1700000000.25", 1_700_000_000, 250_000_000),
        ("1.1234567891", 1, 123_456_789),
        ("-1", -1, 0),
        ("-1.5", -2, 500_000_000),
        ("-0.25", -1, 750_000_000),
        ("253402300800", 253_402_300_800, 0),
    ] {
        assert_eq!(UnixTime::parse(text), time(secs, nanos), "{text}");
    }
    for bad in [
        "",
        ".5",
        "--1",
        "1e9",
        "soon",
        "1.-5",
        "+1",
        "99999999999999999999",
    ] {
        assert_eq!(UnixTime::parse(bad), None, "{bad}");
    }
    for (secs, nanos, text) in [
        (1_700_000_000, 0, "1700000000"),
        (1_700_000_000, 1, "1700000000.000000001"),
        (-2, 500_000_000, "-1.500000000"),
        (-1, 0, "-1"),
    ] {
        assert_eq!(UnixTime::new(secs, nanos).to_string(), text);
    }
}

/// The three readers' own rules for the written form: C's `strtol` with base 0, Go's `ParseUint` with base 0, and Go's
/// `ParseInt` with base 8. All of them read a leading zero as octal.
#[test]
fn the_written_form_is_read_by_all_three() {
    let attributes = Attributes {
        mode: Some(0o100_644),
        ..Attributes::default()
    };
    let mut stored = headers(&[("x-amz-meta-mode", "33261"), ("cache-control", "no-cache")]);
    attributes.store(&mut stored);
    let expected = headers(&[
        ("cache-control", "no-cache"),
        ("x-amz-meta-mode", "0100644"),
    ]);
    assert_eq!(stored, expected);
}

fn any_time() -> impl Strategy<Value = Option<UnixTime>> {
    let any = (-1_i64 << 40..1_i64 << 40, 0_u32..NANOS_PER_SEC);
    proptest::option::of(any.prop_map(|(secs, nanos)| UnixTime::new(secs, nanos)))
}

proptest! {
    #[test]
    fn what_is_stored_is_read_back(
        permissions in proptest::option::of((0_u32..=PERMISSION_BITS, 0..TYPES.len())),
        uid in proptest::option::of(0..u32::MAX),
        gid in proptest::option::of(0..u32::MAX),
        modified in any_time(),
        accessed in any_time(),
    ) {
        let mode = permissions.map(|(bits, index)| TYPES[index] | bits);
        let attributes = Attributes { mode, uid, gid, modified, accessed };
        let mut stored = Vec::new();
        attributes.store(&mut stored);
        prop_assert_eq!(Attributes::of(&stored), attributes);
    }

    #[test]
    fn no_text_is_too_odd(text in "[ -~]{0,24}") {
        let _ = UnixTime::parse(&text);
        let _ = parse_mode(&text);
        let _ = parse_owner(&text);
        let _ = link_target(&[(LINK_HEADER, HeaderValue::try_from(text).expect("text"))]);
    }
}
