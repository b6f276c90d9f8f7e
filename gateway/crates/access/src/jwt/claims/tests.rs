use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Option<Claims> {
    Claims::read(text.as_bytes(), Some("paths"))
}

#[test]
fn times_are_read_to_the_ends_of_their_range() {
    for (text, seconds) in [
        ("0", Some(0)),
        ("1700000000", Some(1_700_000_000)),
        ("1700000000.9", Some(1_700_000_000)),
        ("1.7e9", Some(1_700_000_000)),
        ("-1", Some(0)),
        ("-9223372036854775808", Some(0)),
        ("9223372036854775807", Some(i64::MAX as u64)),
        ("9223372036854775808", Some(1 << 63)),
        ("18446744073709551615", Some(u64::MAX)),
        ("18446744073709551616", Some(u64::MAX)),
        ("1e300", Some(u64::MAX)),
        ("-1e300", Some(0)),
        ("1e999", None),
        ("\"1700000000\"", None),
        ("null", None),
        ("[1]", None),
        ("true", None),
    ] {
        let claims = read(&format!("{{\"exp\":{text}}}"));
        let found = claims.and_then(|claims| claims.expires);
        assert_eq!(found, seconds.map(NumericDate), "{text}");
    }
}

#[test]
fn a_claim_has_one_value_of_its_type() {
    let texts = |all: &[&str]| Some(Texts(all.iter().map(|text| (*text).into()).collect()));
    let claims = read(r#"{"aud":"a","paths":["/b/","/c"],"x":1,"x":2}"#).expect("claims");
    assert_eq!(claims.audience, texts(&["a"]));
    assert_eq!(claims.prefixes, texts(&["/b/", "/c"]));
    for bad in [
        r#"{"exp":1,"exp":2}"#,
        r#"{"iss":"a","iss":"a"}"#,
        r#"{"paths":["/"],"paths":["/b/"]}"#,
        r#"{"aud":1}"#,
        r#"{"aud":[1]}"#,
        r#"{"iss":["a"]}"#,
        r#"{"nbf":"soon"}"#,
        r#"{"exp":1} {"exp":2}"#,
        r#"["exp"]"#,
        "",
        "{",
    ] {
        assert!(read(bad).is_none(), "{bad}");
    }
    let deep = format!("{{\"x\":{}", "[".repeat(100_000));
    assert!(read(&deep).is_none());
}

proptest! {
    #[test]
    fn any_text_is_read_or_not(text in ".{0,64}") {
        let _ = read(&text);
    }
}
