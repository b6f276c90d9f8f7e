use super::*;
use crate::ETag;
use http::{HeaderName, HeaderValue, header};
use proptest::prelude::*;

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn profile() -> Profile {
    Profile {
        name: "test",
        read_ahead: 0,
        streams: 1,
        ttl: secs(60),
        force_ttl: false,
        stale_while_revalidate: secs(600),
        stale_if_error: secs(86_400),
        negative_ttl: secs(5),
        list_pages: 10,
        disk: crate::profile::DiskUse::First,
        bulk: false,
    }
}

fn version(headers: &[(HeaderName, &str)]) -> Version {
    Version {
        etag: ETag::parse("\"a\"").expect("a tag"),
        size: 1,
        last_modified: None,
        version_id: None,
        headers: headers
            .iter()
            .map(|(n, v)| (n.clone(), HeaderValue::from_str(v).expect("a value")))
            .collect(),
    }
}

fn under(cache_control: &str) -> Policy {
    Policy::new(
        &version(&[(header::CACHE_CONTROL, cache_control)]),
        &profile(),
        Timestamp(0),
    )
}

#[test]
fn the_shorter_of_object_and_profile() {
    for (value, lifetime) in [
        ("", 60),
        ("max-age=10", 10),
        ("max-age=3600", 60),
        ("max-age=10, s-maxage=20", 20),
        ("MAX-AGE=\"7\"", 7),
        ("max-age=oops", 0),
        ("max-age=+10", 0),
        ("max-age=99999999999999999999", 60),
        ("max-age=5, max-age=9", 5),
        ("no-cache", 0),
        ("no-cache=\"set-cookie, x\", max-age=30", 0),
        ("public, max-age=31536000, immutable", 31_536_000),
        ("immutable", 31_536_000),
    ] {
        assert_eq!(under(value).lifetime, secs(lifetime), "{value}");
    }
}

/// RFC 9110, 5.3: several lines are one list. A byte that is no text spoils its own directive alone.
#[test]
fn every_line_counts_and_so_does_one_with_bytes_that_are_no_text() {
    for lines in [
        &[&b"max-age=30"[..], b"no-store"][..],
        &[b"no-store, x=\"\xe4\""],
        &[b"x=\"\xe4\", private"],
        &[b"max-age=30", b"x=\xff", b"no-store"],
    ] {
        let mut version = version(&[]);
        version.headers = lines
            .iter()
            .map(|line| {
                let value = HeaderValue::from_bytes(line).expect("a value");
                (header::CACHE_CONTROL, value)
            })
            .collect();
        let policy = Policy::new(&version, &profile(), Timestamp(0));
        assert!(!policy.storable, "{lines:?}");
    }
}

#[test]
fn what_may_not_be_stored_or_served_stale() {
    for (value, storable, stale) in [
        ("", true, true),
        ("no-store", false, true),
        ("private", false, true),
        ("must-revalidate", true, false),
        ("proxy-revalidate", true, false),
        ("s-maxage=5", true, false),
        ("no-cache", true, false),
        ("max-age=5", true, true),
    ] {
        let policy = under(value);
        assert_eq!(policy.storable, storable, "{value}");
        assert_eq!(policy.serves_on_error(secs(3600)), stale, "{value}");
        assert_eq!(
            policy.judge(secs(61), false) == Judgement::WhileRevalidating,
            stale,
            "{value}"
        );
    }
}

#[test]
fn force_ttl_overrules_and_expires_counts() {
    let forced = Profile {
        force_ttl: true,
        ..profile()
    };
    let v = version(&[(header::CACHE_CONTROL, "no-store, max-age=0")]);
    let policy = Policy::new(&v, &forced, Timestamp(0));
    assert_eq!((policy.storable, policy.lifetime), (true, secs(60)));

    let confirmed = Timestamp::from_secs(784_111_777 - 10);
    let v = version(&[(header::EXPIRES, "Sun, 06 Nov 1994 08:49:37 GMT")]);
    assert_eq!(Policy::new(&v, &profile(), confirmed).lifetime, secs(10));
    let v = version(&[(header::EXPIRES, "0")]);
    assert_eq!(
        Policy::new(&v, &profile(), confirmed).lifetime,
        Duration::ZERO
    );
}

#[test]
fn events_outlast_the_lifetime_of_the_object_but_not_its_no_cache() {
    let covered = |value, profile: &Profile| {
        let version = version(&[(header::CACHE_CONTROL, value)]);
        Policy::covered(&version, profile, Timestamp(0))
    };
    for (value, lifetime) in [
        ("max-age=0", 60),
        ("", 60),
        ("immutable", 31_536_000),
        ("no-cache", 0),
    ] {
        assert_eq!(
            covered(value, &profile()).lifetime,
            secs(lifetime),
            "{value}"
        );
    }
    let forced = Profile {
        force_ttl: true,
        ttl: Duration::ZERO,
        ..profile()
    };
    assert_eq!(covered("no-cache", &forced).lifetime, MIN_COVERED_LIFETIME);
    assert!(!covered("no-store", &profile()).storable);
}

/// The version is fresh for a minute, and may be stale for ten more, or for a day while the origin fails.
#[test]
fn each_time_ends_with_its_last_millisecond() {
    let policy = under("");
    let last = |end| secs(end) - Duration::from_millis(1);
    for (age, expected) in [
        (last(60), Judgement::Fresh),
        (secs(60), Judgement::WhileRevalidating),
        (last(660), Judgement::WhileRevalidating),
        (secs(660), Judgement::Stale),
    ] {
        assert_eq!(policy.judge(age, false), expected, "{age:?}");
    }
    assert!(policy.serves_on_error(last(86_460)));
    assert!(!policy.serves_on_error(secs(86_460)));
}

#[test]
fn a_doubted_version_is_confirmed_at_any_age() {
    assert_eq!(
        under("immutable").judge(Duration::ZERO, true),
        Judgement::Stale
    );
}

proptest! {
    #[test]
    fn only_ever_gets_staler(age in 0u64..100_000, more in 0u64..100_000, cc in "[a-z0-9=, -]{0,40}") {
        let policy = under(&cc);
        let rank = |j| match j {
            Judgement::Fresh => 0,
            Judgement::WhileRevalidating => 1,
            Judgement::Stale => 2,
        };
        let (young, old) = (secs(age), secs(age + more));
        prop_assert!(rank(policy.judge(young, false)) <= rank(policy.judge(old, false)));
        prop_assert!(policy.serves_on_error(young) || !policy.serves_on_error(old));
        prop_assert!(policy.lifetime <= secs(60) || cc.contains("immutable"));
    }
}

#[test]
fn a_soft_purge_ends_the_lifetime_when_it_comes() {
    let policy = under("max-age=40");
    let judge = |age, softened: Option<u64>| {
        policy.judge(policy.counted_age(secs(age), softened.map(secs)), false)
    };
    assert_eq!(judge(10, None), Judgement::Fresh);
    assert_eq!(judge(10, Some(0)), Judgement::WhileRevalidating);
    assert_eq!(judge(610, Some(599)), Judgement::WhileRevalidating);
    assert_eq!(judge(611, Some(600)), Judgement::Stale);
    // A version that was stale before gains nothing.
    assert_eq!(judge(640, Some(0)), Judgement::Stale);
    let counted = |age, softened| policy.counted_age(secs(age), Some(secs(softened)));
    assert!(policy.serves_on_error(counted(100, 86_399)));
    assert!(!policy.serves_on_error(counted(100, 86_400)));
    for cache_control in ["no-cache", "max-age=40, must-revalidate"] {
        let policy = under(cache_control);
        let counted = policy.counted_age(secs(10), Some(Duration::ZERO));
        assert_eq!(
            policy.judge(counted, false),
            Judgement::Stale,
            "{cache_control}"
        );
        assert!(!policy.serves_on_error(counted), "{cache_control}");
    }
}
