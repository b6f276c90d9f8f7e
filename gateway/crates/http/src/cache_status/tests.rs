use super::*;
use std::time::Duration;

fn outcome(forward: Option<ForwardReason>, ttl_ms: i64) -> OpenOutcome {
    OpenOutcome {
        forward,
        collapsed: false,
        stored: true,
        age: Duration::ZERO,
        ttl_ms,
    }
}

#[test]
fn says_what_happened() {
    let all = CachedPart::All;
    let rows = [
        (None, all, 59_999, "hit; ttl=59", CacheResult::Hit),
        (None, all, -1, "hit; ttl=-1", CacheResult::Stale),
        (
            None,
            CachedPart::Part,
            5000,
            "fwd=partial; stored; ttl=5",
            CacheResult::Partial,
        ),
        (
            None,
            CachedPart::Nothing,
            0,
            "fwd=miss; stored; ttl=0",
            CacheResult::Miss,
        ),
        (
            Some(ForwardReason::Miss),
            CachedPart::Nothing,
            9000,
            "fwd=uri-miss; stored; ttl=9",
            CacheResult::Miss,
        ),
        (
            Some(ForwardReason::Stale),
            CachedPart::Nothing,
            9000,
            "fwd=stale; stored; ttl=9",
            CacheResult::Miss,
        ),
        (
            Some(ForwardReason::Revalidated),
            all,
            9000,
            "fwd=stale; fwd-status=304; stored; ttl=9",
            CacheResult::Revalidated,
        ),
        (
            Some(ForwardReason::Request),
            CachedPart::Part,
            9000,
            "fwd=request; stored; ttl=9",
            CacheResult::Miss,
        ),
    ];
    for (forward, found, ttl, text, result) in rows {
        let outcome = outcome(forward, ttl);
        assert_eq!(cache_status(&outcome, found), format!("tidegate; {text}"));
        assert_eq!(CacheResult::of(&outcome, found), result, "{text}");
    }
    let collapsed = OpenOutcome {
        collapsed: true,
        stored: false,
        ..outcome(Some(ForwardReason::Miss), 0)
    };
    let value = cache_status(&collapsed, CachedPart::Nothing);
    assert_eq!(value, "tidegate; fwd=uri-miss; collapsed; ttl=0");
}
