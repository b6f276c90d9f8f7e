//! Networks in human notation: `10.0.0.0/8`, `fd00::/8`, or one address.
//!
//! Addresses come from `core::net`, which cannot do I/O.

use std::fmt;
use std::str::FromStr;

use core::net::IpAddr;

/// The addresses that begin with the same bits. IPv4 networks mapped into IPv6 are read as what they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    /// The first address; the bits behind the prefix are zero.
    address: IpAddr,
    /// The prefix's length.
    bits: u8,
}

impl Network {
    /// Returns whether `address` lies within; an IPv4 address mapped into IPv6 counts as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4() && masked(address, self.bits) == self.address
    }

    /// Returns whether there is an address within both.
    #[must_use]
    pub fn overlaps(&self, other: Self) -> bool {
        self.contains(other.address) || other.contains(self.address)
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no IP address and no network such as 10.0.0.0/8");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits: u8 = bits.map_or(Ok(width), str::parse).map_err(|_| wrong())?;
        if bits > width {
            return Err(wrong());
        }
        // The last 32 bits of an address in `::ffff:0:0/96` are one of IPv4 (RFC 4291, 2.5.5.2).
        let (address, bits) = match (address.to_canonical(), bits.checked_sub(96)) {
            (canonical, Some(bits)) if canonical != address => (canonical, bits),
            _ => (address, bits),
        };
        let network = masked(address, bits);
        if network != address {
            return Err(format!(
                "`{text}` has bits behind its prefix; write {network}/{bits}"
            ));
        }
        Ok(Self { address, bits })
    }
}

/// Returns the address with all bits behind the prefix cleared.
fn masked(address: IpAddr, bits: u8) -> IpAddr {
    let bits = u32::from(bits);
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            IpAddr::V4((v4.to_bits() & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            IpAddr::V6((v6.to_bits() & mask).into())
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_networks_and_addresses() {
        for (text, again) in [
            ("127.0.0.1", "127.0.0.1/32"),
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("::1", "::1/128"),
            ("fd00::/8", "fd00::/8"),
            ("::/0", "::/0"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:192.0.2.1", "192.0.2.1/32"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
            ("::/80", "::/80"),
        ] {
            let network: Network = text.parse().expect(text);
            assert_eq!(network.to_string(), again);
        }
    }

    #[test]
    fn knows_what_lies_within() {
        let rows = [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.0.0.1", true),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.6", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "::1", false),
            ("fd00::/8", "fdab::1", true),
            ("::/0", "2001:db8::1", true),
            ("::ffff:10.0.0.0/104", "10.1.2.3", true),
            ("::ffff:10.0.0.0/104", "::ffff:10.1.2.3", true),
            ("::ffff:10.0.0.0/104", "11.0.0.1", false),
            ("::ffff:0:0/96", "203.0.113.9", true),
        ];
        for (network, address, inside) in rows {
            let network: Network = network.parse().expect(network);
            assert_eq!(
                network.contains(address.parse().expect(address)),
                inside,
                "{address}"
            );
        }
    }

    #[test]
    fn networks_overlap_if_one_lies_in_the_other() {
        let rows = [
            ("10.0.0.0/8", "10.1.0.0/16", true),
            ("10.0.0.0/8", "10.0.0.0/8", true),
            ("10.0.0.0/8", "11.0.0.0/8", false),
            ("0.0.0.0/0", "192.0.2.7", true),
            ("0.0.0.0/0", "::1", false),
            ("fd00::/8", "fc00::/7", true),
        ];
        for (one, other, expected) in rows {
            let [one, other]: [Network; 2] = [one, other].map(|text| text.parse().expect(text));
            let found = (one.overlaps(other), other.overlaps(one));
            assert_eq!(found, (expected, expected), "{one} {other}");
        }
    }

    #[test]
    fn refuses_what_is_no_network() {
        for bad in [
            "",
            "nginx",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.0/-1",
            "::/129",
        ] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
        assert_eq!(
            "::ffff:10.0.0.1/104".parse::<Network>(),
            Err("`::ffff:10.0.0.1/104` has bits behind its prefix; write 10.0.0.0/8".into())
        );
        assert_eq!(
            "10.0.0.1/8".parse::<Network>(),
            Err("`10.0.0.1/8` has bits behind its prefix; write 10.0.0.0/8".into())
        );
    }
}
