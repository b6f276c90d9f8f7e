use super::*;
use proptest::prelude::*;

#[test]
fn decodes_once_and_keeps_what_is_literal() {
    let rows = [
        ("a%20b", "a b"),
        ("a+b", "a+b"),
        ("a%2Bb", "a+b"),
        ("100%25", "100%"),
        ("a%252F", "a%2F"),
        ("x//y/", "x//y/"),
        ("%C3%BC", "ü"),
        ("%E2%98%83/...", "☃/..."),
        ("bad%zz", "bad%zz"),
    ];
    for (path, key) in rows {
        assert_eq!(ObjectKey::from_path("", path).expect(path).as_str(), key);
    }
    assert_eq!(
        ObjectKey::from_path("p/", "k").expect("valid").as_str(),
        "p/k"
    );
    assert_eq!(
        ObjectKey::from_path("/", "k").expect("valid").as_str(),
        "/k"
    );
}

#[test]
fn refuses_traversal_nul_and_the_too_long() {
    let rows = [
        ("", KeyError::Empty),
        ("a/../b", KeyError::DotSegment),
        ("a/%2e%2E/b", KeyError::DotSegment),
        (".", KeyError::DotSegment),
        ("a/.", KeyError::DotSegment),
        ("a%2F..%2Fb", KeyError::DotSegment),
        ("a%00", KeyError::NotText),
        ("a%ff", KeyError::NotText),
        ("/a", KeyError::LeadingSlash),
        ("%2Fa", KeyError::LeadingSlash),
        ("/", KeyError::LeadingSlash),
    ];
    for (path, error) in rows {
        assert_eq!(ObjectKey::from_path("", path), Err(error), "{path}");
    }
    assert_eq!(ObjectKey::new(&"k".repeat(1025)), Err(KeyError::TooLong));
    assert!(ObjectKey::new(&"k".repeat(1024)).is_ok());
}

proptest! {
    #[test]
    fn any_key_survives_encoding(key in "[^\0]{1,60}") {
        prop_assume!(!key.starts_with('/'));
        prop_assume!(!key.split('/').any(|s| s == "." || s == ".."));
        let encoded = percent_encoding::utf8_percent_encode(&key, percent_encoding::NON_ALPHANUMERIC);
        let read = ObjectKey::from_path("", &encoded.to_string()).expect("a valid key");
        prop_assert_eq!(read.as_str(), key);
    }
}
