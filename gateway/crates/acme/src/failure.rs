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

/// The steps of an order whose problems mean something of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The account that is kept is looked for, or begins an order.
    Account,
    /// The directory looks whether the name leads here.
    Challenge,
    /// Any other one.
    Other,
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

    /// Returns the failure of a step.
    pub(crate) fn at(step: Step, error: Error) -> Self {
        match &error {
            Error::Api(problem) => Self::of(step, problem),
            _ => Self::new(error),
        }
    }

    /// Returns the failure that a problem of a step stands for.
    pub(crate) fn of(step: Step, problem: &Problem) -> Self {
        let kind = problem.r#type.as_deref().unwrap_or_default();
        let kind = kind.strip_prefix(PREFIX).unwrap_or(kind);
        Self {
            kind: match kind {
                "rateLimited" => FailureKind::Limited,
                "accountDoesNotExist" => FailureKind::UnknownAccount,
                "badNonce" | "serverInternal" => FailureKind::Failed,
                _ => FailureKind::Refused,
            },
            reason: bounded(&problem.to_string()),
            hint: hint(step, kind),
            asked: None,
        }
    }
}

/// Returns what the operator can do about a kind of problem at a step.
fn hint(step: Step, kind: &str) -> &'static str {
    match (step, kind) {
        // A directory says so of an account that was deactivated (RFC 8555, 7.3.6).
        (Step::Account, "unauthorized") => {
            "the authority does not accept this account, which may be deactivated: remove `account.json` from the folder \
             of this authority below that of `tls.acme`, and the next order makes another account"
        }
        (Step::Challenge, "dns") => "the name needs an A or AAAA record that leads to this gateway",
        (Step::Challenge, "connection" | "tls" | "unauthorized" | "incorrectResponse") => {
            "port 443 of the name must lead to a listener of this gateway that says `tls = true`, with no proxy between \
             that ends TLS"
        }
        (_, "caa") => "a CAA record of the name forbids this authority",
        (_, "rejectedIdentifier") => {
            "the authority issues nothing for this name: take it out of `tls.acme.names`"
        }
        (_, "externalAccountRequired") => {
            "this authority wants an account that it has made itself: set `tls.acme.external_account` to its number and key"
        }
        (_, "invalidContact" | "unsupportedContact") => {
            "the authority does not take `tls.acme.contact`"
        }
        _ => "",
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::at(Step::Other, error)
    }
}

/// Returns a text of bounded length without control characters, which a directory may have put in.
fn bounded(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(plain).take(MAX_REASON).collect()
}

#[cfg(test)]
mod tests;
