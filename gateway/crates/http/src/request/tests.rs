use super::*;
use crate::settings::RouteSettings;
use http::{Request, Version};
use tidegate_plan::KeyError;

fn parts(version: Version, uri: &str, rows: &[(&'static str, &str)]) -> Parts {
    let mut request = Request::builder().version(version).uri(uri);
    for (name, value) in rows {
        request = request.header(*name, *value);
    }
    request.body(()).expect("a request").into_parts().0
}

#[test]
fn the_host_is_named_once() {
    let rows = [
        (Version::HTTP_11, "/k", vec![("host", "a:80")], Ok("a:80")),
        (Version::HTTP_11, "/k", vec![], Err(RequestError::Host)),
        (
            Version::HTTP_11,
            "/k",
            vec![("host", "a"), ("host", "b")],
            Err(RequestError::Host),
        ),
        (Version::HTTP_11, "http://b/k", vec![("host", "a")], Ok("b")),
        (Version::HTTP_10, "/k", vec![], Ok("")),
        (Version::HTTP_2, "http://a/k", vec![], Ok("a")),
    ];
    for (version, uri, headers, expected) in rows {
        let parts = parts(version, uri, &headers);
        assert_eq!(host(&parts), expected, "{uri} {headers:?}");
    }
}

const VALID_HOSTS: &[&str] = &[
    "",
    "h",
    "media.example.org",
    "MEDIA.example.",
    "my_app-1",
    "tidegate_gateway_1:8080",
    "h:",
    "h:0",
    "h:65535",
    "127.0.0.1:80",
    "[::1]",
    "[::1]:8080",
    "[::ffff:10.0.0.1]:",
    "[fe80::1%25eth0]",
    "a~b!$&'()*+,;=c",
];

const MALFORMED_HOSTS: &[&str] = &[
    "a b/c",
    "a b",
    "a/b",
    "/",
    "h:notaport",
    "h:65536",
    "h:+80",
    "h:-1",
    "h:8 0",
    "h:80:80",
    ":80",
    ":",
    "::1",
    "[::1",
    "[::1]x",
    "[::1]80",
    "[::1]:x",
    "[]",
    "[h]",
    "[::1%]",
    "::1]",
    "\"x\"",
    "u@h",
    "u:p@h",
    "http://h",
    "h?x",
    "h#x",
    "h\\x",
    "h\tx",
    "<h>",
    "{h}",
    "h^",
    "a%20b",
    "m\u{fc}nchen.example",
];

#[test]
fn a_host_is_a_name_or_an_address_with_a_port_at_most() {
    let rows = VALID_HOSTS.iter().map(|host| (*host, true));
    for (text, is_valid) in rows.chain(MALFORMED_HOSTS.iter().map(|host| (*host, false))) {
        for (version, uri, expected) in [
            (Version::HTTP_11, "/k", text),
            (Version::HTTP_10, "/k", text),
            (Version::HTTP_11, "http://b/k", "b"),
        ] {
            let found = parts(version, uri, &[("host", text)]);
            let expected = is_valid.then_some(expected).ok_or(RequestError::Host);
            assert_eq!(host(&found), expected, "{text:?}");
        }
    }
}

#[test]
fn clients_may_ask_for_fresh_answers() {
    let rows = [
        (vec![("cache-control", "no-cache")], true),
        (vec![("cache-control", "x=1, Max-Age=0")], true),
        (vec![("cache-control", "max-age=10")], false),
        (vec![("pragma", "no-cache")], true),
        (
            vec![("pragma", "no-cache"), ("cache-control", "max-stale")],
            false,
        ),
        (vec![], false),
    ];
    for (headers, expected) in rows {
        let parts = parts(Version::HTTP_11, "/", &headers);
        assert_eq!(wants_fresh(&parts.headers), expected, "{headers:?}");
    }
}

#[test]
fn a_path_names_a_key_or_an_index() {
    let plain = RouteSettings {
        key_prefix: "p/".into(),
        ..RouteSettings::default()
    };
    let index = RouteSettings {
        index: Some("index.html".into()),
        ..RouteSettings::default()
    };
    let rows = [
        (&plain, "a%20b", Ok("p/a b")),
        (&plain, "dir/", Ok("p/dir/")),
        (&plain, "", Err(KeyError::Empty)),
        (&plain, "a/%2e%2e/b", Err(KeyError::DotSegment)),
        (&index, "", Ok("index.html")),
        (&index, "dir/", Ok("dir/index.html")),
        (&index, "dir", Ok("dir")),
    ];
    for (settings, below, expected) in rows {
        let found = settings.key(below);
        assert_eq!(
            found.as_ref().map(ObjectKey::as_str),
            expected.as_ref().copied(),
            "{below}"
        );
    }
}
