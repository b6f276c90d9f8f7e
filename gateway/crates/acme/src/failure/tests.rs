use super::*;

fn problem(kind: &str, detail: &str) -> Problem {
    Problem {
        r#type: Some(format!("{PREFIX}{kind}")),
        detail: Some(detail.to_owned()),
        status: None,
        subproblems: vec![],
    }
}

#[test]
fn a_problem_says_what_to_do() {
    let (account, challenge) = (Step::Account, Step::Challenge);
    for (step, kind, expected, word) in [
        (account, "rateLimited", FailureKind::Limited, ""),
        (challenge, "connection", FailureKind::Refused, "port 443"),
        (challenge, "unauthorized", FailureKind::Refused, "port 443"),
        (challenge, "dns", FailureKind::Refused, "record"),
        (
            account,
            "unauthorized",
            FailureKind::Refused,
            "account.json",
        ),
        (Step::Other, "unauthorized", FailureKind::Refused, ""),
        (Step::Other, "connection", FailureKind::Refused, ""),
        (account, "rejectedIdentifier", FailureKind::Refused, "names"),
        (Step::Other, "caa", FailureKind::Refused, "CAA"),
        (account, "serverInternal", FailureKind::Failed, ""),
        (
            account,
            "accountDoesNotExist",
            FailureKind::UnknownAccount,
            "",
        ),
        (challenge, "x", FailureKind::Refused, ""),
    ] {
        let failure = Failure::at(step, Error::Api(problem(kind, "because")));
        assert_eq!(failure.kind, expected, "{kind}");
        assert!(failure.hint.contains(word), "{step:?} {kind}");
        assert_eq!(failure.hint.is_empty(), word.is_empty(), "{step:?} {kind}");
        assert!(failure.reason.contains("because"), "{failure}");
    }
}

#[test]
fn a_reason_is_bounded_and_one_line() {
    let failure = Failure::of(Step::Other, &problem("x", &"a\nb".repeat(10_000)));
    assert_eq!(failure.reason.chars().count(), MAX_REASON);
    assert!(!failure.reason.contains('\n'));
}
