//! The client's address: the peer, or the one that a trusted proxy names.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName};

use tidegate_plan::Network;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Returns the client's address. `peer` is `None` on a Unix socket, whose peers are trusted.
///
/// `X-Forwarded-For` is read from its end, over the addresses of trusted proxies, to the first
/// other address: no trusted proxy wrote the text before it.
pub(crate) fn client_address(
    peer: Option<IpAddr>,
    headers: &HeaderMap,
    trusted: &[Network],
) -> Option<IpAddr> {
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    let mut found = peer;
    if !headers.contains_key(&FORWARDED_FOR) {
        return found;
    }
    if peer.is_some_and(|peer| !is_trusted(peer)) {
        return found;
    }
    for value in headers.get_all(&FORWARDED_FOR).iter().rev() {
        for hop in value.to_str().unwrap_or("").rsplit(',') {
            let Ok(address) = hop.trim().parse::<IpAddr>() else {
                return found;
            };
            found = Some(address.to_canonical());
            if !is_trusted(address) {
                return found;
            }
        }
    }
    found
}

/// Returns whether an address is that of a proxy which is not trusted, so that it is not the client's: a request names
/// another one, and its peer is not believed.
pub(crate) fn is_of_stranger(
    peer: Option<IpAddr>,
    headers: &HeaderMap,
    trusted: &[Network],
) -> bool {
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    headers.contains_key(&FORWARDED_FOR) && peer.is_some_and(|peer| !is_trusted(peer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(list: &[&str]) -> Vec<Network> {
        list.iter().map(|text| text.parse().expect(text)).collect()
    }

    #[test]
    fn believes_only_whom_a_trusted_proxy_names() {
        let trusted = networks(&["127.0.0.1", "10.0.0.0/8"]);
        let rows = [
            (
                Some("203.0.113.1"),
                vec!["198.51.100.1"],
                Some("203.0.113.1"),
            ),
            (Some("127.0.0.1"), vec![], Some("127.0.0.1")),
            (
                Some("127.0.0.1"),
                vec!["198.51.100.1"],
                Some("198.51.100.1"),
            ),
            (
                Some("127.0.0.1"),
                vec!["1.1.1.1, 198.51.100.1, 10.0.0.3"],
                Some("198.51.100.1"),
            ),
            (
                Some("127.0.0.1"),
                vec!["1.1.1.1", "198.51.100.1"],
                Some("198.51.100.1"),
            ),
            (Some("127.0.0.1"), vec!["10.0.0.9"], Some("10.0.0.9")),
            (
                Some("127.0.0.1"),
                vec!["1.1.1.1, unknown"],
                Some("127.0.0.1"),
            ),
            (None, vec!["2001:db8::7"], Some("2001:db8::7")),
            (None, vec![], None),
        ];
        for (peer, lines, expected) in rows {
            let mut headers = HeaderMap::new();
            for line in &lines {
                headers.append(&FORWARDED_FOR, line.parse().expect("text"));
            }
            let parse = |text: &str| text.parse::<IpAddr>().expect(text);
            let found = client_address(peer.map(parse), &headers, &trusted);
            assert_eq!(found, expected.map(parse), "{peer:?} {lines:?}");
            let stranger = peer == Some("203.0.113.1");
            let found = is_of_stranger(peer.map(parse), &headers, &trusted);
            assert_eq!(found, stranger, "{peer:?} {lines:?}");
        }
    }
}
