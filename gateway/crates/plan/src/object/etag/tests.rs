use super::*;

fn tag(text: &str) -> ETag {
    ETag::parse(text).expect("a valid tag")
}

#[test]
fn the_table_of_rfc_9110_8_8_3_2() {
    let rows = [
        ("W/\"1\"", "W/\"1\"", false, true),
        ("W/\"1\"", "W/\"2\"", false, false),
        ("W/\"1\"", "\"1\"", false, true),
        ("\"1\"", "\"1\"", true, true),
    ];
    for (a, b, strong, weak) in rows {
        assert_eq!(tag(a).strong_eq(&tag(b)), strong, "{a} {b}");
        assert_eq!(tag(a).weak_eq(&tag(b)), weak, "{a} {b}");
    }
}

#[test]
fn tags_follow_from_bytes_as_in_s3() {
    // MinIO's answer to parts of 5 MiB of `a`, 5 MiB of `b`, and one `c`.
    let mib = |byte: u8| vec![byte; 5 << 20];
    let parts = [mib(b'a'), mib(b'b'), vec![b'c']].map(|part| ETag::of_bytes([&part[..]]));
    let whole = ETag::of_parts(&parts).expect("tags of bytes");
    assert_eq!(whole.as_str(), "\"0a97f1336a2298a6c3e9adaa562a9eec-3\"");
    assert_eq!(
        ETag::of_bytes([]).as_str(),
        "\"d41d8cd98f00b204e9800998ecf8427e\""
    );
    assert_eq!(ETag::of_parts([&whole]), None);
}

#[test]
fn every_coding_has_a_weak_tag_of_its_own() {
    assert_eq!(tag("\"a\"").variant(Coding::Brotli), tag("W/\"a-br\""));
    assert_eq!(tag("W/\"a\"").variant(Coding::Gzip), tag("W/\"a-gzip\""));
}

#[test]
fn refuses_what_is_no_tag_and_quotes_a_bare_word() {
    for bad in ["", "\"", "\"a\"b\"", "W/", "a b", "\"a", "w/\"a\"x"] {
        assert_eq!(ETag::parse(bad), None, "{bad:?}");
    }
    assert_eq!(tag("abc-2").as_str(), "\"abc-2\"");
    assert_eq!(tag("\"\"").as_str(), "\"\"");
}
