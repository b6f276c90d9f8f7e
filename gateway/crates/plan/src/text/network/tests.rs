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
