//! Requests that no client signs, and random ones: all are refused.

use proptest::prelude::*;

use super::*;

#[test]
fn what_no_client_signs_is_refused() {
    let access = access();
    let host = format!("host:{HOST}\n");
    for (names, lines) in [
        ("x-a", "x-a:1\n".to_owned()),
        ("", String::new()),
        ("Host", host.clone()),
        ("host%3Bhost", format!("{host}{host}")),
        ("x-a%3Bhost", format!("x-a:1\n{host}")),
    ] {
        let mut sent = Sent::new("/test.txt", &sign("", (names, &lines)));
        sent.headers.append("x-a", HeaderValue::from_static("1"));
        assert_eq!(
            sent.refusal(&access, BEGIN),
            Some(Refusal::Signature),
            "{names}"
        );
    }
    let many = "&a".repeat(100);
    let sent = Sent::new(
        "/test.txt",
        &sign("&a", ("host", &host))
            .replace("&a=", "")
            .replace("&a", &many),
    );
    assert_eq!(sent.refusal(&access, BEGIN), Some(Refusal::Signature));
    for (from, to) in [
        ("AWS4-HMAC-SHA256", "AWS4-HMAC-SHA1"),
        ("aws4_request", "aws5_request"),
        ("%2Fs3", ""),
        ("%2Fs3", "%2Fs3%2Fs3"),
        ("EXAMPLE%2F20130524", "EXAMPLE%2F20130525"),
        ("EXAMPLE%2F20130524", "EXAMPLE%2F"),
        ("EXAMPLE%2F20130524", "EXAMPLE%2F2013052"),
        ("T000000Z", "T000000"),
        ("T000000Z", "T250000Z"),
        ("=86400", "=0"),
        ("=86400", "=604801"),
        ("=86400", "=-1"),
        ("=86400", "=+86400"),
        ("=86400", "=99999999999999999999999999"),
        ("=86400", "="),
        ("=86400", "=%FF"),
        ("&X-Amz-Expires=86400", ""),
        ("&X-Amz-Date", "&X-Amz-Date=20130524T000000Z&X-Amz-Date"),
        ("&X-Amz-Signature=", "&X-Amz-Signature=&X-Amz-Signature="),
        ("&X-Amz-Signature=", "&X-Amz-%53ignature=0&X-Amz-Signature="),
        ("=aeeed", "=AEEED"),
    ] {
        let sent = Sent::new("/test.txt", &EXAMPLE.replace(from, to));
        assert_eq!(
            sent.refusal(&access, BEGIN),
            Some(Refusal::Signature),
            "{from} {to}"
        );
    }
}

/// Returns a part of a request in its meaning: without the spelling that a client may choose.
fn meaning(sent: &Sent) -> (Vec<u8>, Vec<Vec<u8>>) {
    let decode = |text: &str| percent_decode_str(text).collect::<Vec<u8>>();
    let mut pairs: Vec<_> = sent.query.split('&').map(decode).collect();
    pairs.sort();
    (decode(&sent.path), pairs)
}

proptest! {
    #[test]
    fn one_flipped_byte_anywhere_refuses(at in 0..1000_usize, flip in 1..=255_u8) {
        let access = access();
        let good = Sent::example();
        prop_assert_eq!(good.refusal(&access, BEGIN), None);
        let mut bad = good.clone();
        let parts = [&mut bad.path, &mut bad.host, &mut bad.query];
        let mut at = at % (good.path.len() + good.host.len() + good.query.len());
        for part in parts {
            if at >= part.len() {
                at -= part.len();
                continue;
            }
            let mut bytes = part.clone().into_bytes();
            bytes[at] ^= flip;
            // A client sends visible ASCII, and no path without its slash.
            if let Ok(text) = String::from_utf8(bytes) && text.bytes().all(|b| b.is_ascii_graphic()) {
                *part = text;
            }
            break;
        }
        prop_assume!(bad.path.starts_with('/') && (meaning(&bad) != meaning(&good) || !bad.host.eq_ignore_ascii_case(&good.host)));
        prop_assert!(bad.refusal(&access, BEGIN).is_some(), "{:?}", bad);
    }

    #[test]
    fn any_query_is_judged(query in "(X-Amz-(Signature|Date|Expires|Credential|Algorithm|SignedHeaders)=[ -~ü]{0,12}&?){0,7}") {
        let refusal = Sent::new("/test.txt", &query).refusal(&access(), BEGIN);
        prop_assert!(refusal.is_some());
    }
}
