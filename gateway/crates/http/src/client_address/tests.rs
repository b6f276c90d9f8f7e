use http::HeaderValue;

use super::*;

/// Returns the address that is counted, and the one that opens networks, for a peer of which `127.0.0.1` and
/// `10.0.0.0/8` are trusted.
fn found(peer: &str, lines: &[(HeaderName, &[u8])]) -> (String, String) {
    let trusted: Vec<Network> = ["127.0.0.1", "10.0.0.0/8"]
        .map(|text| text.parse().expect(text))
        .into();
    let mut headers = HeaderMap::new();
    for (name, line) in lines {
        headers.append(name, HeaderValue::from_bytes(line).expect("a value"));
    }
    let peer = (peer != "-").then(|| peer.parse().expect(peer));
    let found = client_address(peer, &headers, &trusted);
    let text = |address: Option<IpAddr>| address.map_or("-".into(), |it| it.to_string());
    (text(found.counted), text(found.admitting(&headers)))
}

#[test]
fn believes_only_whom_a_trusted_proxy_names() {
    let (own, all) = ("127.0.0.1", "198.51.100.1");
    let rows: [(&str, &[&[u8]], &str, &str); 24] = [
        ("203.0.113.1", &[], "203.0.113.1", "203.0.113.1"),
        ("203.0.113.1", &[b"198.51.100.1"], "203.0.113.1", "-"),
        ("203.0.113.1", &[b"\xff"], "203.0.113.1", "-"),
        (own, &[], own, own),
        (own, &[b"198.51.100.1"], all, all),
        (own, &[b"1.1.1.1, 198.51.100.1, 10.0.0.3"], all, all),
        (own, &[b"1.1.1.1", b"198.51.100.1"], all, all),
        (own, &[b"\xff, 198.51.100.1"], all, all),
        (own, &[b"\xff", b"198.51.100.1"], all, all),
        (own, &[b"10.0.0.9"], "10.0.0.9", "10.0.0.9"),
        (own, &[b"198.51.100.1:80"], all, all),
        (own, &[b"[2001:db8::7]:80"], "2001:db8::7", "2001:db8::7"),
        (own, &[b"[2001:db8::7]"], "2001:db8::7", "2001:db8::7"),
        (own, &[b"::ffff:198.51.100.1, 10.0.0.3:1"], all, all),
        // The client is not known: it counts as its proxy, and has no address.
        (own, &[b"1.1.1.1, unknown"], own, "-"),
        (own, &[b"1.1.1.1\xff"], own, "-"),
        (own, &[b"1.1.1.1, \xff, 10.0.0.3"], "10.0.0.3", "-"),
        (own, &[b"1.1.1.1", b"\xff"], own, "-"),
        (own, &[b""], own, "-"),
        (own, &[b"1.1.1.1,"], own, "-"),
        (own, &[b"[198.51.100.1]"], own, "-"),
        (own, &[b"198.51.100.1:99999"], own, "-"),
        ("-", &[b"2001:db8::7"], "2001:db8::7", "2001:db8::7"),
        ("-", &[b"\xff"], "-", "-"),
    ];
    for (peer, values, counted, admitting) in rows {
        let lines: Vec<_> = values.iter().map(|value| (FORWARDED_FOR, *value)).collect();
        let expected = (counted.to_owned(), admitting.to_owned());
        assert_eq!(found(peer, &lines), expected, "{peer} {values:?}");
    }
    assert_eq!(found("-", &[]), ("-".to_owned(), "-".to_owned()));
}

#[test]
fn a_trusted_proxy_names_the_scheme_else_it_is_the_connections() {
    let trusted: Vec<Network> = vec!["127.0.0.1".parse().expect("a network")];
    for (peer, tls, client, proto, expected) in [
        ("127.0.0.1", false, "192.0.2.1", "https", "https"),
        ("127.0.0.1", true, "192.0.2.1", "http", "http"),
        ("127.0.0.1", true, "192.0.2.1", "", "https"),
        ("127.0.0.1", false, "192.0.2.1", "HTTPS\"", "http"),
        ("127.0.0.1", false, "unknown", "https", "http"),
        ("203.0.113.1", false, "192.0.2.1", "https", "http"),
        ("203.0.113.1", true, "192.0.2.1", "http", "https"),
        ("203.0.113.1", true, "", "", "https"),
        ("203.0.113.1", false, "", "", "http"),
    ] {
        let mut headers = HeaderMap::new();
        for (name, value) in [(FORWARDED_FOR, client), (FORWARDED_PROTO, proto)] {
            if !value.is_empty() {
                headers.insert(name, HeaderValue::from_static(value));
            }
        }
        let address = client_address(peer.parse().ok(), &headers, &trusted);
        let peer = Peer::unnamed(None, tls);
        assert_eq!(
            scheme((address, &peer), &headers),
            expected,
            "{address:?} {tls} {client} {proto}"
        );
    }
}

#[test]
fn a_proxy_that_hides_its_client_lends_it_no_address() {
    for name in [FORWARDED, VIA, REAL_IP] {
        for peer in ["127.0.0.1", "203.0.113.1"] {
            let line = (name.clone(), &b"for=192.0.2.1"[..]);
            let (counted, admitting) = found(peer, std::slice::from_ref(&line));
            assert_eq!((&*counted, &*admitting), (peer, "-"), "{name}");
        }
        let both = [
            (FORWARDED_FOR, &b"198.51.100.1"[..]),
            (name.clone(), b"1.1 proxy"),
        ];
        assert_eq!(found("127.0.0.1", &both).1, "198.51.100.1", "{name}");
    }
}
