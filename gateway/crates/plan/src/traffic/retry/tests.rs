use super::*;
use proptest::prelude::*;

const MS: fn(u64) -> Duration = Duration::from_millis;

#[test]
fn doubles_from_the_base_to_the_cap() {
    let backoff = Backoff {
        base: MS(100),
        cap: MS(500),
    };
    let longest: Vec<_> = (0..4).map(|n| backoff.pause(n, 1.0)).collect();
    assert_eq!(longest, [100, 200, 400, 500].map(MS));
    assert_eq!(backoff.pause(0, 0.0), MS(50));
    assert_eq!(backoff.pause(u32::MAX, 1.0), MS(500));
}

#[test]
fn keeps_to_what_the_origin_asks_for_within_its_patience() {
    let retry = Retry {
        max_retry_after: MS(3000),
        ..Retry::default()
    };
    assert_eq!(retry.pause(0, Some(MS(3000)), 0.0), Some(MS(3000)));
    assert_eq!(retry.pause(0, Some(MS(3001)), 0.0), None);
    assert_eq!(retry.pause(retry.retries, None, 0.0), None);
}

#[test]
fn a_pause_is_requested_in_seconds_or_by_a_date() {
    let date = httpdate::parse_http_date("Thu, 26 Nov 2026 08:00:00 GMT").expect("a date");
    let asked = |value: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, value.parse().expect("a value"));
        retry_after(&headers, date.into()).map(|pause| pause.as_secs())
    };
    assert_eq!(asked(" 120"), Some(120));
    assert_eq!(asked("Thu, 26 Nov 2026 09:00:00 GMT"), Some(3600));
    assert_eq!(asked("Thu, 26 Nov 2026 07:00:00 GMT"), Some(0));
    for none in ["soon", "-1", ""] {
        assert_eq!(asked(none), None, "{none}");
    }
    assert_eq!(retry_after(&HeaderMap::new(), date.into()), None);
}

proptest! {
    #[test]
    fn tries_are_bounded_and_pauses_too(
        retries in 0..20_u32,
        retry_after in prop::option::of(0..10_000_u64),
        draw in 0.0..1.0_f64,
    ) {
        let retry = Retry { retries, ..Retry::default() };
        let pauses: Vec<_> = (0..)
            .map_while(|done| retry.pause(done, retry_after.map(MS), draw))
            .collect();
        prop_assert!(pauses.len() <= retries as usize);
        let longest = retry.backoff.cap.max(retry.max_retry_after + retry.backoff.base);
        prop_assert!(pauses.iter().all(|pause| *pause <= longest));
        if let Some(retry_after) = retry_after {
            prop_assert!(pauses.iter().all(|pause| *pause >= MS(retry_after)));
        }
    }
}
