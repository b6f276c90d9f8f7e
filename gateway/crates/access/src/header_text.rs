//! Headers and queries as fields.

use http::HeaderMap;
use http::header::COOKIE;

/// Returns the cookies of a request, as `NAME=VALUE`. Others than ours may be no text.
pub(crate) fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let lines = headers.get_all(COOKIE).iter();
    lines
        .flat_map(|line| fields(line.as_bytes(), b';'))
        .map(<[u8]>::trim_ascii)
}

/// Splits a text at each separator. A text without any is one field.
pub(crate) fn fields(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = memchr::memchr(separator, text);
        rest = end.map(|end| &text[end + 1..]);
        Some(end.map_or(text, |end| &text[..end]))
    })
}

/// Returns the value of `NAME=VALUE`.
pub(crate) fn value_of<'t>(pair: &'t [u8], name: &str) -> Option<&'t [u8]> {
    pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

/// Returns a value without the quotes around it: some libraries write them.
pub(crate) fn unquoted(mut value: &[u8]) -> &[u8] {
    while let [b'"', rest @ ..] | [rest @ .., b'"'] = value {
        value = rest;
    }
    value
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_fields_of_a_text_are_those_between_its_separators() {
        for (text, expected) in [
            ("", &[""][..]),
            ("a", &["a"]),
            (";", &["", ""]),
            ("a;b", &["a", "b"]),
            (";a;;b;", &["", "a", "", "b", ""]),
        ] {
            let found: Vec<_> = fields(text.as_bytes(), b';').collect();
            let expected: Vec<_> = expected.iter().map(|one| one.as_bytes()).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn cookies_are_those_of_all_lines() {
        let mut headers = HeaderMap::new();
        for line in [&b"a=1;\tb=\"2\" ; c"[..], b"d=\xe9; e=5", b"f=6"] {
            headers.append(COOKIE, HeaderValue::from_bytes(line).expect("a value"));
        }
        let found: Vec<_> = cookies(&headers).collect();
        assert_eq!(
            found,
            [&b"a=1"[..], b"b=\"2\"", b"c", b"d=\xe9", b"e=5", b"f=6"]
        );
        for (pair, name, value) in [
            ("a=1", "a", Some("1")),
            ("a=", "a", Some("")),
            ("ab=1", "a", None),
            ("a", "a", None),
            ("A=1", "a", None),
        ] {
            let found = value_of(pair.as_bytes(), name);
            assert_eq!(found, value.map(str::as_bytes), "{pair}");
        }
        for (value, expected) in [("\"2\"", "2"), ("2", "2"), ("\"", ""), ("a\"b\"\"", "a\"b")] {
            assert_eq!(unquoted(value.as_bytes()), expected.as_bytes());
        }
    }
}
