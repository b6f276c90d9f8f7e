//! `POST /events/NAME`: a bucket reports its changes.
//!
//! The request shows the token of the subscription, not the admin token; or it is a message of AWS SNS, which is signed. The
//! answer is 200 when the changes hold. 400: the message cannot be read, and sending it again does not help. 413: it is
//! longer than 8 MiB. 429: too many wrong tokens or forged messages. 503: the changes may not hold, and the message should be sent again.
//!
//! A store names this listener as its operator does, so that any host is accepted: the token, which no page of a browser
//! has, protects it. A name that is not configured is answered like a wrong token.

use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_core::future::BoxFuture;
use tidegate_plan::Token;

use super::Admin;
use super::ask;
use super::auth::{self, Guesses};

/// The beginning of the path of every subscription.
pub(super) const PATH: &str = "/events/";

/// The longest message, in bytes.
const MAX_BODY: usize = 8 << 20;

/// The header by which SNS says that a message is its own.
const SNS_HEADER: &str = "x-amz-sns-message-type";

/// The subscriptions that are fed by webhooks.
pub trait Events: Send + Sync {
    /// Returns the token of a subscription; `None` if there is no such subscription, or it takes none.
    fn token(&self, name: &str) -> Option<Token>;

    /// Returns the longest signed message that a subscription takes without a token; `None` if it takes none.
    fn max_signed(&self, name: &str) -> Option<usize>;

    /// Takes a message that has shown the token; returns when its changes hold.
    fn deliver<'a>(
        &'a self,
        name: &'a str,
        message: Bytes,
    ) -> BoxFuture<'a, Result<(), EventsError>>;

    /// Takes a message whose signature is still to be checked; returns when its changes hold.
    fn deliver_signed<'a>(
        &'a self,
        name: &'a str,
        message: Bytes,
    ) -> BoxFuture<'a, Result<(), EventsError>>;

    /// Takes that a message with the right token was not read: its changes are missing.
    fn missed(&self, name: &str);
}

/// A message with the right token; reported as missed unless it was taken: its sender may leave at any time.
struct PendingMessage<'a> {
    events: &'a dyn Events,
    name: &'a str,
    is_taken: bool,
}

impl Drop for PendingMessage<'_> {
    fn drop(&mut self) {
        if !self.is_taken {
            self.events.missed(self.name);
        }
    }
}

/// The reason why a message was not taken, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventsError {
    /// The message cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// The signature does not count.
    #[error("{0}")]
    Forbidden(String),
    /// The signature could not be checked: its certificate was not to be had. The message may be sent again.
    #[error("{0}")]
    Unverified(String),
    /// The changes may not hold. The message may be sent again.
    #[error("{0}")]
    NotApplied(String),
}

/// Answers `POST /events/NAME`.
pub(super) async fn receive(
    State((admin, guesses)): State<(Admin, Guesses)>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    let events = &*admin.events;
    let is_admitted = events
        .token(&name)
        .is_some_and(|token| token.is_shown_by(request.headers()));
    if is_admitted {
        let mut message = PendingMessage {
            events,
            name: &name,
            is_taken: false,
        };
        return match read(request, MAX_BODY).await {
            Ok(body) => {
                let taken = events.deliver(&name, body).await;
                message.is_taken = true;
                answer(taken)
            }
            Err(refusal) => refusal,
        };
    }
    let is_signed = request.headers().contains_key(SNS_HEADER)
        && !request.headers().contains_key(header::AUTHORIZATION);
    if let Some(max) = events.max_signed(&name).filter(|_| is_signed) {
        return receive_signed((events, &name), request, max, &guesses).await;
    }
    let needed = "this needs the token of the subscription\n";
    let (path, headers) = (request.uri().path(), request.headers());
    guesses.refuse(path, headers, needed).await
}

/// Takes a message that is to show by its signature that it counts. The answer to a forged one is as slow as to a wrong token,
/// and so is that to one whose certificate was not to be had, as forged ones name any.
async fn receive_signed(
    (events, name): (&dyn Events, &str),
    request: Request,
    max: usize,
    guesses: &Guesses,
) -> Response {
    let path = request.uri().path().to_owned();
    let body = match read(request, max).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let taken = events.deliver_signed(name, body).await;
    let may_be_forged = matches!(
        taken,
        Err(EventsError::Forbidden(_) | EventsError::Unverified(_))
    );
    if may_be_forged && !guesses.slow_down(&path).await {
        return auth::too_many_guesses();
    }
    answer(taken)
}

async fn read(request: Request, max: usize) -> Result<Bytes, Response> {
    let body = ask::bounded_body(request, max).await;
    body.map_err(|(status, why)| (status, format!("{why}\n")).into_response())
}

fn answer(taken: Result<(), EventsError>) -> Response {
    let (status, why) = match taken {
        Ok(()) => return StatusCode::OK.into_response(),
        Err(EventsError::Unreadable(why)) => (StatusCode::BAD_REQUEST, why),
        Err(EventsError::Forbidden(why)) => (StatusCode::FORBIDDEN, why),
        Err(EventsError::Unverified(why) | EventsError::NotApplied(why)) => {
            (StatusCode::SERVICE_UNAVAILABLE, why)
        }
    };
    (status, format!("{why}\n")).into_response()
}

#[cfg(test)]
pub(super) mod tests;
