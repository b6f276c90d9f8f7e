//! Networks of clients that are admitted without credentials.

use core::net::IpAddr;
use tidegate_plan::Network;

/// The networks of an access.
#[derive(Debug)]
pub(crate) struct Networks(Vec<Network>);

impl Networks {
    pub(crate) fn new(networks: Vec<Network>) -> Self {
        Self(networks)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether an address lies in one of them. A client without an address lies in none, not even in `::/0`.
    pub(crate) fn contain(&self, address: Option<IpAddr>) -> bool {
        address.is_some_and(|address| self.0.iter().any(|network| network.contains(address)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_lies_in_one_of_several() {
        let parse = |text: &&str| text.parse().expect("a network");
        let networks = Networks::new(["10.0.0.0/8", "fd00::/8"].iter().map(parse).collect());
        for (address, inside) in [
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("11.0.0.1", false),
            ("fdab::1", true),
            ("::1", false),
        ] {
            let address = address.parse().expect("an address");
            assert_eq!(networks.contain(Some(address)), inside, "{address}");
        }
        let all = Networks::new(vec!["0.0.0.0/0".parse().expect("a network")]);
        assert!(!all.contain(None), "a peer on a Unix socket has no address");
        assert!(!all.is_empty() && Networks::new(vec![]).is_empty());
    }
}
