//! PUT and DELETE, on routes that allow them, for clients that show the route's token.
//!
//! An object is written as its bytes arrive ([`tidegate_write::receive`]). It is there, whole, once the client gets the
//! answer: 201 if there was none before, else 204. Preconditions (RFC 9110, 13) are passed to the bucket, which judges
//! them when the object is to appear. Those that it does not know are judged on the version that the key has when the
//! request comes in, and this version must then still be current.

mod request_body;
mod stored_headers;
mod unsupported;
pub(crate) mod wrong_tokens;

use std::convert::Infallible;
use std::fmt::Display;
use std::net::IpAddr;
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_LENGTH, ETAG, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::sync::oneshot;
use tracing::Level;

use self::request_body::RequestBody;
use self::stored_headers::stored_headers;
use crate::RouteState;
use crate::body::Content;
use crate::reply::Reply;
use crate::request_error::RequestError;
use crate::server::sent_body::SentBody;
use crate::{Frontend, find_route};
use tidegate_access::without_signature;
use tidegate_engine::{Error, OpenOptions};
use tidegate_plan::ObjectKey;
use tidegate_plan::digest::Digests;
use tidegate_plan::precondition::{self, ConditionVerdict, RequestedState, Validators};
use tidegate_write::WriteError;
use tidegate_write::receive::{IncomingObject, WriteCondition};

/// Returns whether a method writes.
pub(crate) fn writes(method: &Method) -> bool {
    matches!(*method, Method::PUT | Method::DELETE)
}

impl Frontend {
    /// Answers one request that writes.
    pub(crate) async fn write(
        &self,
        (parts, body): (&Parts, SentBody),
        client: Option<IpAddr>,
        max_uri_bytes: usize,
    ) -> Reply {
        match self
            .handle_write((parts, body), client, max_uri_bytes)
            .await
        {
            Ok(reply) => reply,
            Err(error) => {
                log_failure(&without_signature(parts.uri.path()), &error);
                Reply::error(&error, Duration::ZERO, &parts.method)
            }
        }
    }

    async fn handle_write(
        &self,
        (parts, body): (&Parts, SentBody),
        client: Option<IpAddr>,
        max_uri_bytes: usize,
    ) -> Result<Reply, RequestError> {
        let routes = self.routes.load();
        let (_, found) = find_route(&routes, parts, max_uri_bytes)?;
        let (route, below) = found.ok_or(RequestError::NoRoute)?;
        let hidden = route.settings.is_hidden();
        let Some(token) = &route.settings.write_token else {
            return Err(match hidden {
                true => RequestError::NoRoute,
                false => RequestError::Method { writable: false },
            });
        };
        if !token.is_shown_by(&parts.headers) {
            let path = without_signature(parts.uri.path());
            // A request without a token is not a guess.
            return Err(match (parts.headers.contains_key(AUTHORIZATION), hidden) {
                (true, false) => self.tokens.refuse(client, &path).await,
                (false, false) => RequestError::Token,
                (true, true) => self.tokens.refuse_hidden(client, &path),
                (false, true) => RequestError::NoRoute,
            });
        }
        let key = route.settings.key(below).map_err(RequestError::Key)?;
        unsupported::check(parts)?;
        match parts.method {
            Method::DELETE => self.delete(route, &key, parts).await,
            _ => self.put(route, &key, parts, body).await,
        }
    }

    async fn put(
        &self,
        route: &RouteState,
        key: &ObjectKey,
        parts: &Parts,
        body: SentBody,
    ) -> Result<Reply, RequestError> {
        let digests = Digests::from_headers(&parts.headers).map_err(|_| RequestError::Digest)?;
        let incoming = IncomingObject {
            headers: stored_headers(&parts.headers)?,
            wanted: self.required_state(route, key, &parts.headers).await?,
            length: content_length(&parts.headers),
            digests,
        };
        let (known, is_known) = oneshot::channel::<Infallible>();
        let is_new = self.is_new(route, key, incoming.wanted.clone(), known);
        let stall = self.settings.load().settings.stall_timeout;
        let body = RequestBody::new(body, parts.version, stall, is_known);
        let stored = self.write_path.receive(&route.source, key, incoming, body);
        let stored = async { stored.await.map_err(RequestError::from) };
        let (is_new, etag) = tokio::try_join!(is_new, stored)?;
        let status = match is_new {
            true => StatusCode::CREATED,
            false => StatusCode::NO_CONTENT,
        };
        let mut headers = HeaderMap::new();
        if let Ok(etag) = HeaderValue::from_str(etag.as_str()) {
            headers.insert(ETAG, etag);
        }
        if is_new {
            headers.insert(CONTENT_LENGTH, 0.into());
        }
        Ok(Reply::new(status, headers, Content::Nothing))
    }

    /// Returns whether there is no object yet, to tell 201 from 204. Looked up in parallel with the body, whose end
    /// waits until `known` is dropped: else the look-up could find the new object.
    async fn is_new(
        &self,
        route: &RouteState,
        key: &ObjectKey,
        wanted: WriteCondition,
        known: oneshot::Sender<Infallible>,
    ) -> Result<bool, RequestError> {
        let is_new = match wanted {
            WriteCondition::Absent => true,
            WriteCondition::Version(_) => false,
            WriteCondition::Anything => {
                let opened = self.engine.open(&route.source, key, OpenOptions::default());
                opened.await.err() == Some(Error::NotFound)
            }
        };
        drop(known);
        Ok(is_new)
    }

    async fn delete(
        &self,
        route: &RouteState,
        key: &ObjectKey,
        parts: &Parts,
    ) -> Result<Reply, RequestError> {
        let wanted = self.required_state(route, key, &parts.headers).await?;
        self.write_path.delete(&route.source, key, &wanted).await?;
        let status = StatusCode::NO_CONTENT;
        Ok(Reply::new(status, HeaderMap::new(), Content::Nothing))
    }

    /// Returns the state that the key must have for the request.
    async fn required_state(
        &self,
        route: &RouteState,
        key: &ObjectKey,
        headers: &HeaderMap,
    ) -> Result<WriteCondition, RequestError> {
        match precondition::requested_state(headers) {
            RequestedState::Nothing => return Ok(WriteCondition::Anything),
            RequestedState::Absent => return Ok(WriteCondition::Absent),
            RequestedState::Version(etag) => {
                return Ok(WriteCondition::Version(etag));
            }
            RequestedState::Judge => {}
        }
        let current = OpenOptions {
            revalidate: true,
            ..OpenOptions::default()
        };
        let object = match self.engine.open(&route.source, key, current).await {
            Ok(object) => object,
            // RFC 9110, 13.1.1 and 13.1.2: if there is no object, no ETag matches.
            Err(Error::NotFound) => {
                return match headers.contains_key(http::header::IF_MATCH) {
                    true => Err(RequestError::Precondition),
                    false => Ok(WriteCondition::Absent),
                };
            }
            Err(error) => return Err(error.into()),
        };
        let version = object.version();
        let validators = Validators {
            etag: &version.etag,
            last_modified: version.last_modified,
            confirmed: object.confirmed(),
        };
        let mut headers = headers.clone();
        headers.remove(http::header::IF_MODIFIED_SINCE);
        match precondition::evaluate(&headers, validators) {
            ConditionVerdict::Proceed => Ok(WriteCondition::Version(version.etag.clone())),
            _ => Err(RequestError::Precondition),
        }
    }
}

/// Logs a failed write, if an operator may be able to repair the cause.
fn log_failure(path: &str, error: &RequestError) {
    match log_entry(error) {
        Some((Level::WARN, error)) => tracing::warn!(path, %error, "an object was not written"),
        Some((_, error)) => tracing::debug!(path, %error, "an object was not written"),
        None => {}
    }
}

/// Returns the log level and text of a failure, if it is logged. Conflicts between clients and failures that pass by
/// themselves are not worth a line each.
fn log_entry(error: &RequestError) -> Option<(Level, &dyn Display)> {
    match error {
        RequestError::Write(error) => match error {
            WriteError::Changed | WriteError::Exists | WriteError::Interrupted => {
                Some((Level::DEBUG, error))
            }
            _ => Some((Level::WARN, error)),
        },
        RequestError::Engine(error) => match error {
            Error::BadOrigin(_) | Error::Forbidden => Some((Level::WARN, error)),
            _ => Some((Level::DEBUG, error)),
        },
        _ => None,
    }
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    // RFC 9112, 6.3: with both, the length is ignored.
    if headers.contains_key(TRANSFER_ENCODING) {
        return None;
    }
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_that_an_operator_can_repair_are_warnings() {
        let rows = [
            (Error::BadOrigin("no such bucket").into(), Some(Level::WARN)),
            (Error::Forbidden.into(), Some(Level::WARN)),
            (
                WriteError::Origin(Error::Forbidden).into(),
                Some(Level::WARN),
            ),
            (WriteError::Unsupported.into(), Some(Level::WARN)),
            (WriteError::Digest.into(), Some(Level::WARN)),
            (Error::Unavailable.into(), Some(Level::DEBUG)),
            (WriteError::Changed.into(), Some(Level::DEBUG)),
            (WriteError::Interrupted.into(), Some(Level::DEBUG)),
            (RequestError::Precondition, None),
            (RequestError::Token, None),
        ];
        for (cause, level) in rows {
            let found = log_entry(&cause).map(|(level, _)| level);
            assert_eq!(found, level, "{cause:?}");
        }
    }
}
