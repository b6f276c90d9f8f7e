//! The reasons why no certificate was issued, in words that say what to do.

use std::time::Duration;

use instant_acme::{Error, Problem};

/// The beginning of the types of problems (RFC 8555, 6.7).
const PREFIX: &str = "urn:ietf:params:acme:error:";

/// The longest reason, in characters: a directory may send a page.
const MAX_REASON: usize = 600;

/// The reason why an order came to nothing.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) reason: String,
    /// The step that the operator can take; empty if the directory's own words say it.
    pub(crate) hint: &'static str,
    /// The time for which the directory has asked to be left alone.
    pub(crate) asked: Option<Duration>,
}

/// The kinds of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The directory has refused the order, or has found that the name does not lead here.
    Refused,
    /// There were too many orders.
    Limited,
    /// The account is not known to the directory.
    UnknownAccount,
    /// The directory was not reached, or its answer makes no sense, or a file could not be written.
    Failed,
}

impl Failure {
    /// Returns a failure that the directory has no part in, or has not explained.
    pub(crate) fn new(reason: impl ToString) -> Self {
        Self {
            kind: FailureKind::Failed,
            reason: bounded(&reason.to_string()),
            hint: "",
            asked: None,
        }
    }

    /// Returns the failure that a problem stands for.
    pub(crate) fn of(problem: &Problem) -> Self {
        let kind = problem.r#type.as_deref().unwrap_or_default();
        let kind = kind.strip_prefix(PREFIX).unwrap_or(kind);
        let (kind, hint) = match kind {
            "rateLimited" => (FailureKind::Limited, ""),
            "accountDoesNotExist" => (FailureKind::UnknownAccount, ""),
            "badNonce" | "serverInternal" => (FailureKind::Failed, ""),
            "dns" => (
                FailureKind::Refused,
                "the name needs an A or AAAA record that leads to this gateway",
            ),
            "connection" | "tls" | "unauthorized" | "incorrectResponse" => (
                FailureKind::Refused,
                "port 443 of the name must lead to a listener of this gateway that says `tls = true`, with no proxy \
                 between that ends TLS",
            ),
            "caa" => (
                FailureKind::Refused,
                "a CAA record of the name forbids this authority",
            ),
            "rejectedIdentifier" => (
                FailureKind::Refused,
                "the authority issues nothing for this name: take it out of `tls.acme.names`",
            ),
            "externalAccountRequired" => (
                FailureKind::Refused,
                "this authority wants an account that it has made itself: set `tls.acme.external_account` to its number and key",
            ),
            "invalidContact" | "unsupportedContact" => (
                FailureKind::Refused,
                "the authority does not take `tls.acme.contact`",
            ),
            _ => (FailureKind::Refused, ""),
        };
        Self {
            kind,
            reason: bounded(&problem.to_string()),
            hint,
            asked: None,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match &error {
            Error::Api(problem) => Self::of(problem),
            _ => Self::new(error),
        }
    }
}

/// Returns a text of bounded length without control characters, which a directory may have put in.
fn bounded(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(plain).take(MAX_REASON).collect()
}

#[cfg(test)]
mod tests {
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
        for (kind, expected, word) in [
            ("rateLimited", FailureKind::Limited, ""),
            ("connection", FailureKind::Refused, "port 443"),
            ("dns", FailureKind::Refused, "record"),
            ("rejectedIdentifier", FailureKind::Refused, "tls.acme.names"),
            ("serverInternal", FailureKind::Failed, ""),
            ("accountDoesNotExist", FailureKind::UnknownAccount, ""),
            ("x", FailureKind::Refused, ""),
        ] {
            let failure = Failure::from(Error::Api(problem(kind, "because")));
            assert_eq!(failure.kind, expected, "{kind}");
            assert!(failure.hint.contains(word), "{kind}");
            assert!(failure.reason.contains("because"), "{failure}");
        }
    }

    #[test]
    fn a_reason_is_bounded_and_one_line() {
        let failure = Failure::of(&problem("x", &"a\nb".repeat(10_000)));
        assert_eq!(failure.reason.chars().count(), MAX_REASON);
        assert!(!failure.reason.contains('\n'));
    }
}
