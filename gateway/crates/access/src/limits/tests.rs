use core::net::{IpAddr, Ipv4Addr};

use super::table::Table;
use super::*;

const S: fn(u64) -> Duration = Duration::from_secs;
const MS: fn(u64) -> Duration = Duration::from_millis;

fn client(text: &str) -> Client {
    Client::from(Some(text.parse().expect("an address")))
}

fn numbered(n: u32) -> Client {
    Client::from(Some(IpAddr::V4(Ipv4Addr::from(n))))
}

fn rate(requests: u32) -> Option<Rate> {
    let requests = NonZeroU32::new(requests)?;
    Some(Rate {
        requests,
        time: S(1),
    })
}

fn limits(rules: LimitRules) -> Limits {
    Limits::new(rules)
}

/// Returns how long the next request has to wait; zero: it is admitted.
fn wait(limits: &Limits, client: Client, now: Duration) -> Duration {
    match limits.enter(limits.key(client, None), now) {
        Ok(_) => Duration::ZERO,
        Err(ReachedLimit::Requests { retry_after }) => retry_after,
        Err(ReachedLimit::Connections) => panic!("not limited here"),
    }
}

#[test]
fn a_burst_is_admitted_and_then_the_rate() {
    let limits = limits(LimitRules {
        requests: rate(10),
        burst: 3,
        ..LimitRules::default()
    });
    let one = client("192.0.2.1");
    let waits: Vec<_> = (0..4).map(|_| wait(&limits, one, S(5))).collect();
    assert_eq!(waits, [S(0), S(0), S(0), MS(100)]);
    assert_eq!(wait(&limits, one, MS(5050)), MS(50));
    assert_eq!(wait(&limits, one, MS(5100)), S(0));
    assert_eq!(wait(&limits, one, MS(5100)), MS(100));
    assert_eq!(wait(&limits, client("192.0.2.2"), MS(5100)), S(0));
    // A request whose time was taken before another one's.
    assert!(wait(&limits, one, S(0)) > S(0));
    let quiet: Vec<_> = (0..4).map(|_| wait(&limits, one, S(100))).collect();
    assert_eq!(quiet, [S(0), S(0), S(0), MS(100)]);
}

/// `governor` counts in 64 bits of nanoseconds, and its product would run over.
#[test]
fn any_rate_and_burst_can_be_counted() {
    for (requests, time, burst) in [
        (1, S(3600), u32::MAX),
        (1, Duration::MAX, 2),
        (u32::MAX, S(1), u32::MAX),
        (u32::MAX, Duration::ZERO, 0),
    ] {
        let requests = NonZeroU32::new(requests).expect("not zero");
        let limits = limits(LimitRules {
            requests: Some(Rate { requests, time }),
            burst,
            ..LimitRules::default()
        });
        let one = client("192.0.2.1");
        assert_eq!(wait(&limits, one, S(0)), S(0), "{requests} {burst}");
        let _ = wait(&limits, one, S(1));
    }
}

#[test]
fn a_burst_that_takes_longer_than_a_year_is_cut() {
    let rate = Rate {
        requests: NonZeroU32::MIN,
        time: S(3600),
    };
    assert_eq!(rate.max_burst(), 8760);
    let limits = limits(LimitRules {
        requests: Some(rate),
        burst: u32::MAX,
        ..LimitRules::default()
    });
    let one = client("192.0.2.1");
    let admitted = (0..9000).filter(|_| wait(&limits, one, S(1)).is_zero());
    assert_eq!(admitted.count(), 8760);
}

#[test]
fn a_limit_is_shared_by_a_network_a_key_or_all() {
    let by = |per| {
        limits(LimitRules {
            per,
            ..LimitRules::default()
        })
    };
    let (a, b) = (client("2001:db8::1"), client("2001:db8::2"));
    let other = client("2001:db8:0:1::1");
    let address = by(LimitScope::Address);
    assert_eq!(address.key(a, None), address.key(b, Some("k1")));
    assert_ne!(address.key(a, None), address.key(other, None));
    let key = by(LimitScope::Key);
    assert!(key.counts_by_key() && !address.counts_by_key());
    assert_eq!(key.key(a, Some("k1")), key.key(other, Some("k1")));
    assert_ne!(key.key(a, Some("k1")), key.key(a, Some("k2")));
    assert_ne!(key.key(a, None), key.key(other, None));
    let route = by(LimitScope::Route);
    assert_eq!(route.key(a, Some("k1")), route.key(other, None));
}

#[test]
fn a_million_addresses_take_no_more_memory_and_hide_no_offender() {
    let limits = limits(LimitRules {
        requests: rate(1),
        burst: 100,
        ..LimitRules::default()
    });
    let offender = client("203.0.113.7");
    while wait(&limits, offender, S(1)).is_zero() {}
    for n in 0..1_000_000 {
        assert!(wait(&limits, numbered(n), S(1)).is_zero());
    }
    assert!(!wait(&limits, offender, S(1)).is_zero());
    let slots = Table::new(false).slots();
    assert_eq!(slots, 65_536);
    assert!(size_of::<Sharer>() <= 16, "{}", size_of::<Sharer>());
    assert_eq!(Table::new(true).slots(), 8);
}

#[test]
fn places_are_taken_and_given_back() {
    let limits = limits(LimitRules {
        connections: NonZeroU32::new(2),
        requests: rate(1),
        burst: 3,
        ..LimitRules::default()
    });
    let key = limits.key(client("192.0.2.1"), None);
    let first = limits.enter(key, S(0)).expect("a place");
    let second = limits.enter(key, S(0)).expect("a place");
    assert!(first.is_some() && second.is_some());
    assert_eq!(
        limits.enter(key, S(0)).err(),
        Some(ReachedLimit::Connections)
    );
    let other = limits.key(client("192.0.2.2"), None);
    assert!(limits.enter(other, S(0)).is_ok());
    drop(first);
    // The refusal above has used up none of the burst.
    let third = limits.enter(key, S(0)).expect("a place");
    assert!(third.is_some());
    drop((second, third));
    let refused = limits.enter(key, S(0)).err();
    assert!(matches!(refused, Some(ReachedLimit::Requests { .. })));
    let (left, _) = limits.places.counts();
    assert_eq!(left, 0, "also of the one that was refused");
}

#[test]
fn places_of_a_hundred_thousand_addresses_take_the_memory_of_those_under_way() {
    let limits = limits(LimitRules {
        connections: NonZeroU32::new(1),
        ..LimitRules::default()
    });
    let enter = |n| limits.enter(limits.key(numbered(n), None), S(0));
    let held: Vec<_> = (0..2_000).map(|n| enter(n).expect("a place")).collect();
    for n in 2_000..100_000 {
        assert!(enter(n).is_ok(), "{n}");
    }
    let (requests, entries) = limits.places.counts();
    assert_eq!(requests, held.len());
    assert!(entries <= 2 * held.len() + 16 * 64, "{entries}");
    // Those that stay are counted as before.
    for n in 0..2_000 {
        assert_eq!(enter(n).err(), Some(ReachedLimit::Connections), "{n}");
    }
    drop(held);
    assert!((0..2_000).all(|n| enter(n).is_ok()));
}

#[test]
fn bytes_wait_for_those_before_them() {
    let limits = limits(LimitRules {
        bytes: NonZeroU64::new(1000),
        ..LimitRules::default()
    });
    let key = limits.key(client("192.0.2.1"), None);
    assert!(limits.limits_bytes());
    // One second's bytes at once, and then at the rate.
    assert_eq!(limits.send(key, S(10), 1000), Ok(()));
    assert_eq!(limits.send(key, S(10), 500), Ok(()));
    assert_eq!(limits.send(key, S(10), 1), Err(MS(500)));
    assert_eq!(limits.send(key, MS(10_499), 1), Err(MS(1)));
    assert_eq!(limits.send(key, MS(10_500), 1), Ok(()));
    let other = limits.key(client("192.0.2.2"), None);
    assert_eq!(limits.send(other, S(10), usize::MAX), Ok(()));
    assert!(limits.send(other, S(10), 1).is_err());
    let none = Limits::new(LimitRules::default());
    assert_eq!(none.send(key, S(0), usize::MAX), Ok(()));
}

#[test]
fn a_rate_is_kept_over_time() {
    let limits = limits(LimitRules {
        bytes: NonZeroU64::new(100_000),
        ..LimitRules::default()
    });
    let key = limits.key(client("192.0.2.1"), None);
    let (mut now, mut sent) = (S(0), 0);
    while now < S(10) {
        match limits.send(key, now, limits.piece()) {
            Ok(()) => sent += limits.piece(),
            Err(wait) => now += wait,
        }
    }
    assert!((1_000_000..1_110_000).contains(&sent), "{sent}");
}

#[test]
fn pieces_are_of_a_twentieth_of_a_second_within_bounds() {
    for (rate, piece) in [(1, 1 << 10), (1 << 20, (1 << 20) / 20), (u64::MAX, 1 << 20)] {
        let limits = Limits::new(LimitRules {
            bytes: NonZeroU64::new(rate),
            ..LimitRules::default()
        });
        assert_eq!(limits.piece(), piece, "{rate}");
    }
}
