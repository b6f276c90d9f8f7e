use super::*;

fn refused(challenge: Challenge) -> RequestError {
    RequestError::Access {
        refusal: Refusal::Expired,
        challenge,
    }
}

#[test]
fn a_refusal_says_why_and_offers_what_would_help() {
    let digest = HeaderValue::from_static("Digest realm=\"a\"");
    for (challenge, offered) in [
        (Challenge::None, 0),
        (Challenge::Bearer, 1),
        (Challenge::BearerOrBasic, 2),
        (Challenge::PassedOn(vec![digest]), 1),
    ] {
        let (_, headers, _) = answer(&refused(challenge), Duration::ZERO);
        assert_eq!(headers[CACHE_STATUS], "tidegate; detail=access-expired");
        let schemes = headers.get_all(WWW_AUTHENTICATE).iter();
        assert_eq!(schemes.count(), offered);
    }
}

#[test]
fn an_outage_of_the_server_that_decides_is_told_as_one() {
    let error = RequestError::Access {
        refusal: Refusal::Unanswered,
        challenge: Challenge::BearerOrBasic,
    };
    let (status, headers, _) = answer(&error, Duration::ZERO);
    assert_eq!(
        (status.as_u16(), &headers[RETRY_AFTER]),
        (503, &HeaderValue::from_static("2"))
    );
    assert!(!headers.contains_key(WWW_AUTHENTICATE));
}

#[test]
fn a_limit_says_when_to_come_again() {
    let retry_after = Duration::from_millis(2100);
    for (limited, after, status) in [
        (ReachedLimit::Requests { retry_after }, "3", "requests"),
        (ReachedLimit::Connections, "2", "connections"),
    ] {
        let (found, headers, _) = answer(&RequestError::Limited(limited), Duration::ZERO);
        assert_eq!(
            (found.as_u16(), &headers[RETRY_AFTER]),
            (429, &after.parse().expect("a value"))
        );
        let detail = format!("tidegate; detail=limit-{status}");
        assert_eq!(headers[CACHE_STATUS], detail.as_str());
    }
}

#[test]
fn every_cause_has_its_status() {
    let overloaded = |retry_after: Option<Duration>| Error::Overloaded { retry_after }.into();
    let late = Duration::from_millis(7001);
    let rows = [
        (Error::NotFound.into(), 404, None),
        (Error::Forbidden.into(), 403, None),
        (Error::NotCached.into(), 504, None),
        (Error::Changed.into(), 503, Some("2")),
        (Error::Unavailable.into(), 503, Some("2")),
        (overloaded(None), 503, Some("2")),
        (overloaded(Some(late)), 503, Some("8")),
        (Error::Timeout.into(), 504, None),
        (Error::BadOrigin("secret").into(), 502, None),
        (RequestError::KeepsChanging, 503, Some("2")),
        (RequestError::NoRoute, 404, None),
        (RequestError::Method { writable: false }, 405, None),
        (RequestError::Token, 401, None),
        (refused(Challenge::Bearer), 401, None),
        (refused(Challenge::None), 403, None),
        (RequestError::Refused("why"), 400, None),
        (
            RequestError::Framing(StatusCode::LENGTH_REQUIRED, "why"),
            411,
            None,
        ),
        (WriteError::HeadersTooLarge.into(), 400, None),
        (WriteError::Changed.into(), 412, None),
        (WriteError::TooLarge.into(), 413, None),
        (WriteError::Digest.into(), 400, None),
        (WriteError::Closing.into(), 503, Some("2")),
        (WriteError::StorageFull.into(), 507, None),
        (
            WriteError::Origin(Error::Unavailable).into(),
            503,
            Some("2"),
        ),
        (KeyError::Empty.into(), 404, None),
        (KeyError::LeadingSlash.into(), 404, None),
        (KeyError::DotSegment.into(), 400, None),
        (KeyError::NotText.into(), 400, None),
        (KeyError::TooLong.into(), 400, None),
        (RequestError::Host, 400, None),
        (RequestError::Target, 414, None),
        (RequestError::Precondition, 412, None),
        (RequestError::Range(7), 416, None),
    ];
    for (cause, status, retry) in rows {
        let (found, headers, text) = answer(&cause, Duration::from_secs(5));
        assert_eq!(found, status, "{cause:?}");
        let after = headers
            .get(RETRY_AFTER)
            .map(|value| value.to_str().expect("text"));
        assert_eq!(after, retry, "{cause:?}");
        assert_eq!(headers[CONTENT_LENGTH], text.len().to_string().as_str());
        assert!(!String::from_utf8_lossy(&text).contains("secret"));
        let missing = cause == RequestError::Engine(Error::NotFound);
        let cache = if missing { "max-age=5" } else { "no-store" };
        assert_eq!(headers[CACHE_CONTROL], cache, "{cause:?}");
    }
}

#[test]
fn an_answer_says_what_would_do() {
    let (_, headers, _) = answer(&RequestError::Range(7), Duration::ZERO);
    assert_eq!(headers[CONTENT_RANGE], "bytes */7");
    let (_, headers, _) = answer(&RequestError::Method { writable: false }, Duration::ZERO);
    assert_eq!(headers[ALLOW], "GET, HEAD, OPTIONS");
    let (_, headers, _) = answer(&RequestError::Method { writable: true }, Duration::ZERO);
    assert_eq!(headers[ALLOW], "GET, HEAD, OPTIONS, PUT, DELETE");
    for (negative_ttl, cache) in [(0, "no-store"), (2, "max-age=2"), (600, "max-age=5")] {
        let negative_ttl = Duration::from_secs(negative_ttl);
        let (_, headers, _) = answer(&Error::NotFound.into(), negative_ttl);
        assert_eq!(headers[CACHE_CONTROL], cache);
    }
}
