//! The addresses that may be asked, so that a host which others name does not lead to the machines around the gateway.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The rule for the addresses of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addresses {
    /// Every address: the operator names the hosts.
    Any,
    /// Addresses of the public internet alone. A name counts by the addresses that it has when a connection is made.
    Outward,
    /// This address, whatever the name: names are not looked up.
    At(SocketAddr),
}

impl Addresses {
    /// Returns whether the rule admits an address.
    pub(crate) fn admit(self, address: IpAddr) -> bool {
        match self {
            Self::Any | Self::At(_) => true,
            Self::Outward => is_outward(address.to_canonical()),
        }
    }
}

/// Returns whether an address belongs to the public internet (the registries of RFC 6890).
fn is_outward(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_outward_v4(address),
        IpAddr::V6(address) => is_outward_v6(address),
    }
}

fn is_outward_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_documentation()
        || address.is_multicast()
        // "This network", shared addresses of providers, protocol assignments, benchmarks, reserved and broadcast.
        || a == 0
        || (a == 100 && (64..128).contains(&b))
        || (a, b, c) == (192, 0, 0)
        || (a == 198 && (18..20).contains(&b))
        || a >= 240;
    !is_special
}

fn is_outward_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    // Global unicast alone, without documentation. 6to4, Teredo and NAT64 may embed any IPv4 address.
    let is_global = a & 0xe000 == 0x2000;
    let is_special = (a, b) == (0x2001, 0x0db8) || (a, b) == (0x2001, 0) || a == 0x2002;
    is_global && !is_special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_machines_around_are_not_asked() {
        for inward in [
            "127.0.0.1",
            "10.0.0.1",
            "172.16.9.9",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "192.0.0.8",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "203.0.113.7",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.1.2.3",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "2001::1",
        ] {
            let address: IpAddr = inward.parse().expect("an address");
            assert!(!Addresses::Outward.admit(address), "{inward}");
            assert!(Addresses::Any.admit(address), "{inward}");
        }
        for outward in [
            "1.1.1.1",
            "100.128.0.1",
            "172.32.0.1",
            "198.20.0.1",
            "2606:4700::1111",
            "::ffff:1.1.1.1",
        ] {
            let address: IpAddr = outward.parse().expect("an address");
            assert!(Addresses::Outward.admit(address), "{outward}");
        }
    }
}
