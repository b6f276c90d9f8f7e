use super::*;

fn at(seconds: u64) -> Option<Timestamp> {
    Some(Timestamp::from(UNIX_EPOCH + Duration::from_secs(seconds)))
}

fn tag(value: &str) -> Option<ETagCondition> {
    Some(ETagCondition::ETag(ETag::Strong(value.into())))
}

/// Judges the object `"a"`, modified at 100.
fn judge(conditions: &Conditions) -> Verdict {
    conditions.judge(&ETag::Strong("a".into()), &at(100).expect("a time"))
}

#[test]
fn tags_go_before_dates_and_if_match_before_if_none_match() {
    use Verdict::{Failed, NotModified, Proceed};
    let weak = Some(ETagCondition::ETag(ETag::Weak("a".into())));
    let any = Some(ETagCondition::Any);
    // If-Match, If-Unmodified-Since, If-None-Match, If-Modified-Since
    let rows = [
        (None, None, None, None, Proceed),
        (tag("a"), None, None, None, Proceed),
        (tag("b"), None, None, None, Failed),
        (weak.clone(), None, None, None, Failed),
        (any.clone(), None, None, None, Proceed),
        (tag("a"), at(99), None, None, Proceed),
        (None, at(99), None, None, Failed),
        (None, at(100), None, None, Proceed),
        (None, None, tag("a"), None, NotModified),
        (None, None, weak, None, NotModified),
        (None, None, any, None, NotModified),
        (None, None, tag("b"), at(200), Proceed),
        (None, None, None, at(100), NotModified),
        (None, None, None, at(99), Proceed),
        (tag("b"), None, tag("a"), None, Failed),
        (tag("a"), None, tag("a"), None, NotModified),
    ];
    for (if_match, if_unmodified_since, if_none_match, if_modified_since, verdict) in rows {
        let conditions = Conditions {
            if_match,
            if_unmodified_since,
            if_none_match,
            if_modified_since,
        };
        assert_eq!(judge(&conditions), verdict, "{conditions:?}");
    }
}
