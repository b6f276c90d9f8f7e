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
mod tests;
