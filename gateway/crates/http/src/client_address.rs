//! The client's address: the peer, or the one that a trusted proxy names.

use std::net::{IpAddr, SocketAddr};

use http::header::{FORWARDED, VIA};
use http::{HeaderMap, HeaderName};

use tidegate_plan::{Network, has_header};
use tidegate_socket::Peer;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// The address that a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientAddress {
    /// The address for the log, for limits and for shares: the client's or, where no header names it in a way that can be
    /// believed, that of the last proxy before it. `None` on a Unix socket whose peer names none.
    ///
    /// Clients that are not known then share the limits of their proxy. Nothing that they send gives them a count of
    /// their own, or that of another client.
    pub counted: Option<IpAddr>,
    source: AddressSource,
}

/// The source of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressSource {
    /// A trusted proxy names it.
    Named,
    /// The peer, and nothing names another one in `X-Forwarded-For`.
    Peer,
    /// A proxy: `X-Forwarded-For` names another address that cannot be read, or not be believed.
    Proxy,
}

impl ClientAddress {
    /// Returns the address for what it opens, the networks of an access. `None` if it may be that of a proxy: it would
    /// admit all clients of the proxy. `headers` are those that the address was found in.
    ///
    /// The headers of other proxies are looked at here, and not for each request to an open route: a proxy that sends
    /// them without `X-Forwarded-For` hides its client.
    #[must_use]
    pub fn admitting(&self, headers: &HeaderMap) -> Option<IpAddr> {
        let of_client = match self.source {
            AddressSource::Named => true,
            AddressSource::Peer => ![FORWARDED, VIA, REAL_IP]
                .iter()
                .any(|name| headers.contains_key(name)),
            AddressSource::Proxy => false,
        };
        self.counted.filter(|_| of_client)
    }
}

/// Returns the scheme of the client's request: that of `X-Forwarded-Proto`, if a trusted proxy names the client; else that
/// of the connection.
pub(crate) fn scheme((address, peer): (ClientAddress, &Peer), headers: &HeaderMap) -> &'static str {
    let mut lines = headers.get_all(&FORWARDED_PROTO).iter();
    let mut is_secure = || {
        lines
            .next_back()
            .is_some_and(|value| value.as_bytes() == b"https")
    };
    match address.source {
        AddressSource::Named if headers.contains_key(&FORWARDED_PROTO) => match is_secure() {
            true => "https",
            false => "http",
        },
        _ if peer.is_encrypted => "https",
        _ => "http",
    }
}

/// Returns the client's address, and whether it can be believed. `peer` is `None` on a Unix socket, whose peers are
/// trusted.
///
/// `X-Forwarded-For` is read from its end, over the addresses of trusted proxies, to the first other address: no trusted
/// proxy wrote the text before it. An entry that cannot be read is the client's as well: it is no reason to take the
/// proxy behind it for the client.
#[must_use]
pub fn client_address(
    peer: Option<IpAddr>,
    headers: &HeaderMap,
    trusted: &[Network],
) -> ClientAddress {
    let found = |counted, source| ClientAddress { counted, source };
    if !has_header(headers, &FORWARDED_FOR) {
        return found(peer, AddressSource::Peer);
    }
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    if peer.is_some_and(|peer| !is_trusted(peer)) {
        return found(peer, AddressSource::Proxy);
    }
    let mut last = peer;
    for value in headers.get_all(FORWARDED_FOR).iter().rev() {
        for hop in value.as_bytes().rsplit(|byte| *byte == b',') {
            let Some(address) = read_hop(hop) else {
                return found(last, AddressSource::Proxy);
            };
            last = Some(address);
            if !is_trusted(address) {
                return found(last, AddressSource::Named);
            }
        }
    }
    found(last, AddressSource::Named)
}

/// Reads an address, with or without a port: some proxies write `192.0.2.1:4711` and `[2001:db8::1]:4711`.
fn read_hop(hop: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(hop.trim_ascii()).ok()?;
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let address = match bare {
        Some(bare) => bare.parse().ok().map(IpAddr::V6),
        None => text.parse().ok(),
    };
    let with_port = || text.parse::<SocketAddr>().ok().map(|it| it.ip());
    address.or_else(with_port).map(|it| it.to_canonical())
}

#[cfg(test)]
mod tests;
