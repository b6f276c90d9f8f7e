use super::*;
use tidegate_plan::{ETag, Timestamp};

fn version(size: u64, rows: &[(&'static str, &'static str)]) -> Arc<Version> {
    let header = |&(name, value): &(&'static str, &'static str)| {
        let value = HeaderValue::from_static(value);
        (HeaderName::from_static(name), value)
    };
    Arc::new(Version {
        etag: ETag::parse("\"abc\"").expect("a tag"),
        size,
        last_modified: Some(Timestamp(784_111_777_000)),
        version_id: None,
        headers: rows.iter().map(header).collect(),
    })
}

fn cached_headers(key: &str, size: u64, rows: &[(&'static str, &'static str)]) -> CachedHeaders {
    let key = ObjectKey::new(key).expect("a key");
    CachedHeaders::new(&version(size, rows), &key, &RouteSettings::default())
}

fn get<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().expect("text"))
}

#[test]
fn guesses_only_where_the_object_says_nothing() {
    let rows = [
        ("a.jpg", None, "image/jpeg"),
        ("a.jpg", Some("application/octet-stream"), "image/jpeg"),
        ("a.mp3", Some("binary/octet-stream"), "audio/mpeg"),
        ("a.jpg", Some("image/webp"), "image/webp"),
        ("a.jpg", Some("Application/Octet-Stream; x=y"), "image/jpeg"),
        ("unknown", None, "application/octet-stream"),
        (
            "unknown",
            Some("binary/octet-stream"),
            "binary/octet-stream",
        ),
        ("dir.d/x", Some(""), "application/octet-stream"),
        ("dir.d/x", Some(" ; q=1"), "application/octet-stream"),
        // Only passive types are guessed.
        (
            "a.html",
            Some("application/octet-stream"),
            "application/octet-stream",
        ),
        ("a.html", Some("binary/octet-stream"), "binary/octet-stream"),
        ("a.html", None, "application/octet-stream"),
        ("a.HTM", None, "application/octet-stream"),
        ("a.xhtml", None, "application/octet-stream"),
        ("a.svg", None, "application/octet-stream"),
        ("a.svgz", None, "application/octet-stream"),
        ("a.xml", None, "application/octet-stream"),
        ("a.js", None, "application/octet-stream"),
        ("a.mjs", None, "application/octet-stream"),
        ("a.css", None, "application/octet-stream"),
        ("a.wasm", None, "application/octet-stream"),
        ("a.swf", None, "application/octet-stream"),
        ("a.mhtml", None, "application/octet-stream"),
        ("a.pdf", None, "application/pdf"),
        ("a.woff2", None, "font/woff2"),
        ("a.txt", None, "text/plain"),
        ("a.mp4", None, "video/mp4"),
        ("a.m4b", None, "audio/mp4"),
        ("hls/1.ts", None, "video/mp2t"),
        ("hls/i.m3u8", None, "application/vnd.apple.mpegurl"),
        ("a.vtt", Some("binary/octet-stream"), "text/vtt"),
        ("a.srt", None, "application/x-subrip"),
        ("a.epub", None, "application/epub+zip"),
        ("a.nfo", None, "text/x-nfo"),
        ("dash/a.mpd", None, "application/octet-stream"),
        // A type of its own is kept, whatever it is.
        ("a.bin", Some("text/html"), "text/html"),
        ("a.html", Some("text/plain"), "text/plain"),
    ];
    for (key, own, expected) in rows {
        let headers: Vec<_> = own.map(|kind| ("content-type", kind)).into_iter().collect();
        let headers = cached_headers(key, 9, &headers);
        assert_eq!(
            get(headers.full.base(), "content-type"),
            Some(expected),
            "{key} {own:?}"
        );
        assert_eq!(
            get(headers.full.base(), "x-content-type-options"),
            Some("nosniff")
        );
    }
}

/// RFC 9110, 5.5: such bytes are opaque.
#[test]
fn values_that_are_no_text_are_passed_on() {
    let rows = [
        ("content-type", &b"text/plain; x=\xff"[..]),
        ("content-disposition", b"inline; filename=\"M\xfcller\""),
        ("content-language", b"\xe4"),
        ("cache-control", b"max-age=60, x=\"\xe4\""),
    ];
    let mut version = Arc::unwrap_or_clone(version(9, &[]));
    version.headers = rows
        .map(|(name, value)| {
            let value = HeaderValue::from_bytes(value).expect("a value");
            (HeaderName::from_static(name), value)
        })
        .into();
    let key = ObjectKey::new("a.pdf").expect("a key");
    let headers = CachedHeaders::new(&Arc::new(version), &key, &RouteSettings::default());
    for (name, value) in rows {
        assert_eq!(headers.full.base()[name].as_bytes(), value, "{name}");
    }
}

#[test]
fn a_route_may_guess_all_types_or_none() {
    let octets = "application/octet-stream";
    for (rule, page, picture) in [
        (GuessTypes::Passive, octets, "image/jpeg"),
        (GuessTypes::All, "text/html", "image/jpeg"),
        (GuessTypes::Off, octets, octets),
    ] {
        let route = RouteSettings {
            guess_types: rule,
            ..RouteSettings::default()
        };
        for (key, expected) in [("a.html", page), ("a.jpg", picture)] {
            let key = ObjectKey::new(key).expect("a key");
            let headers =
                CachedHeaders::new(&version(9, &[("content-type", octets)]), &key, &route);
            assert_eq!(
                get(headers.full.base(), "content-type"),
                Some(expected),
                "{rule:?}"
            );
        }
    }
}

/// By default, no known ending leads to an active type.
#[test]
fn no_known_ending_is_answered_as_something_active() {
    for ending in [
        "html", "htm", "shtml", "xht", "svg", "xsl", "xslt", "rdf", "atom", "rss", "mathml", "js",
        "jsx", "json", "vbs", "hta", "jar", "class", "eml", "mht", "vml", "xbl", "dtd", "xul",
    ] {
        let headers = cached_headers(&format!("k.{ending}"), 9, &[]);
        let kind = get(headers.full.base(), "content-type").expect("one");
        assert!(
            kind == "application/octet-stream" || media_type::is_passive(kind),
            "{ending}: {kind}"
        );
        assert!(
            !kind.contains("xml") && !kind.contains("html"),
            "{ending}: {kind}"
        );
    }
}

#[test]
fn compresses_text_and_no_media() {
    let text = ("content-type", "text/css; charset=utf-8");
    let rows = [
        (600, vec![text], true),
        (511, vec![text], false),
        (
            600,
            vec![("content-type", "application/vnd.apple.mpegurl")],
            true,
        ),
        (600, vec![("content-type", "audio/x-mpegurl")], true),
        (600, vec![("content-type", "application/x-subrip")], true),
        (600, vec![("content-type", "video/mp2t")], false),
        (4 << 20, vec![text], true),
        ((4 << 20) + 1, vec![text], false),
        (600, vec![text, ("content-encoding", "gzip")], false),
        (
            600,
            vec![text, ("cache-control", "public, No-Transform")],
            false,
        ),
        (600, vec![("content-type", "image/svg+xml")], true),
        (600, vec![("content-type", "application/ld+json")], true),
        (600, vec![("content-type", "image/png")], false),
        (600, vec![("content-type", "video/mp4")], false),
        (600, vec![("content-type", "application/pdf")], false),
    ];
    for (size, headers, expected) in rows {
        let headers = cached_headers("k", size, &headers);
        assert_eq!(headers.compressible, expected, "{headers:?}");
        let vary = expected.then_some("Accept-Encoding");
        assert_eq!(get(headers.full.base(), "vary"), vary);
        assert_eq!(get(headers.not_modified.base(), "vary"), vary);
        for (coding, tag) in [
            (Coding::Brotli, "W/\"abc-br\""),
            (Coding::Gzip, "W/\"abc-gzip\""),
        ] {
            assert_eq!(headers.tag(coding), if expected { tag } else { "\"abc\"" });
        }
    }
    let route = RouteSettings {
        precompressed: vec![Coding::Zstd],
        ..RouteSettings::default()
    };
    let key = ObjectKey::new("k").expect("a key");
    for (kind, vary) in [("text/css", Some("Accept-Encoding")), ("image/png", None)] {
        let headers = CachedHeaders::new(&version(100, &[("content-type", kind)]), &key, &route);
        assert!(!headers.compressible, "too small");
        assert_eq!(get(headers.full.base(), "vary"), vary, "{kind}");
    }
}

#[test]
fn a_route_overrides_but_not_what_the_protocol_needs() {
    let route = RouteSettings {
        cache_control: Some(HeaderValue::from_static("max-age=7")),
        headers: vec![
            (
                HeaderName::from_static("x-own"),
                HeaderValue::from_static("1"),
            ),
            (ETAG, HeaderValue::from_static("\"forged\"")),
        ],
        ..RouteSettings::default()
    };
    let own = [
        ("cache-control", "private"),
        ("expires", "0"),
        ("x-amz-meta-a", "b"),
        ("x-amz-meta-uid", "1000"),
        ("content-disposition", "inline"),
    ];
    let key = ObjectKey::new("k.png").expect("a key");
    let headers = CachedHeaders::new(&version(9, &own), &key, &route);
    let full = [
        ("cache-control", Some("max-age=7")),
        ("expires", None),
        ("x-own", Some("1")),
        ("etag", Some("\"abc\"")),
        ("last-modified", Some("Sun, 06 Nov 1994 08:49:37 GMT")),
        ("accept-ranges", Some("bytes")),
        ("x-amz-meta-a", Some("b")),
        ("x-amz-meta-uid", None),
        ("content-disposition", Some("inline")),
        ("content-type", Some("image/png")),
    ];
    for (name, expected) in full {
        assert_eq!(get(headers.full.base(), name), expected, "{name}");
    }
    // RFC 9110, 15.4.5: the headers that a 304 must repeat, and none about the content.
    for (name, expected) in &full[..5] {
        assert_eq!(get(headers.not_modified.base(), name), *expected, "{name}");
    }
    for name in ["content-type", "content-disposition", "accept-ranges"] {
        assert_eq!(get(headers.not_modified.base(), name), None, "{name}");
    }
}

#[test]
fn headers_are_made_once_a_version() {
    let cache = HeaderCache::new();
    let route = RouteSettings::default();
    let key = ObjectKey::new("k").expect("a key");
    let versions: Vec<_> = (1..5000).map(|size| version(size, &[])).collect();
    for version in &versions {
        let headers = cache.get(version, &key, &route);
        assert!(Arc::ptr_eq(&headers, &cache.get(version, &key, &route)));
    }
    let used = cache.slots.iter().filter(|slot| slot.load().is_some());
    assert!(
        used.count() > HEADER_CACHE_SLOTS / 2,
        "addresses are spread"
    );
}

#[test]
fn any_line_of_cache_control_may_forbid_a_coding() {
    for (lines, encodable) in [
        (&[][..], true),
        (&["max-age=60"], true),
        (&["No-Transform"], false),
        (&["max-age=60", "public, no-transform"], false),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/css"));
        for line in lines {
            headers.append(CACHE_CONTROL, HeaderValue::from_static(line));
        }
        assert_eq!(is_encodable(&headers), encodable, "{lines:?}");
    }
}
