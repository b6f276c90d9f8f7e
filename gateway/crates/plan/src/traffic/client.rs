//! The client of a request, as the unit among which scarce resources are divided.

use core::net::IpAddr;

/// A party that gets a share of a scarce resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Client {
    /// The process itself: its mounts and writers, and its own requests.
    #[default]
    Own,
    /// Warming that the operator started.
    Warm,
    /// An IPv4 address.
    V4(u32),
    /// An IPv6 network of 64 bits: one client has at least as many addresses (RFC 6177).
    V6(u64),
    /// A peer on a Unix socket that names no address.
    Local,
}

impl From<Option<IpAddr>> for Client {
    fn from(address: Option<IpAddr>) -> Self {
        match address.map(|address| address.to_canonical()) {
            None => Self::Local,
            Some(IpAddr::V4(address)) => Self::V4(address.to_bits()),
            Some(IpAddr::V6(address)) => Self::V6((address.to_bits() >> 64) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_an_address_or_a_network_of_64_bits() {
        let of = |text: &str| Client::from(Some(text.parse().expect(text)));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:0:0:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(Client::from(None), Client::Local);
    }
}
