//! GET, HEAD and OPTIONS: from a request's head to an answer whose first bytes are ready.
//!
//! Method, target and host are checked; the route gives the key; the engine opens the object on one
//! version; the preconditions and the range decide which bytes are sent; and the reader yields the first of them.
//! If the object changed before that, everything begins again on its new version. After that the
//! body needs no handler.

mod access;
mod answer_headers;
mod cached_headers;
mod draft;
mod encoding;
mod limits;
mod private;

use std::time::Duration;

use http::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use tokio::time::Instant;

use self::access::{AdmissionFailure, ClosedRequest};
use self::cached_headers::header_value;
pub(crate) use self::cached_headers::{CachedHeaders, HeaderCache};
pub(crate) use self::private::lets_share;
use crate::body::Content;
use crate::body::client_memory::ChargedBytes;
use crate::body::delivery::Delivery;
use crate::body::multipart::Multipart;
use crate::cache_status::{CacheResult, CachedPart};
use crate::client_address::ClientAddress;
use crate::reply::{Reply, cors, options, timing};
use crate::request::{ObjectRequest, OpenedObject};
use crate::request_error::RequestError;
use crate::{Frontend, RouteState, find_route};
use tidegate_access::without_signature;
use tidegate_engine::{Error, Object, OpenOptions};
use tidegate_plan::precondition::{self, Decision, Validators};
use tidegate_plan::{ByteRange, Client, has_header};
use tidegate_socket::Peer;
use tidegate_telemetry::trace::{self, Kind};

/// The attempts to answer while the object changes just as its answer is about to begin.
const MAX_ATTEMPTS: u32 = 3;

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");
const TIMING_REQUEST_HEADER: HeaderName = HeaderName::from_static("tidegate-timing");

impl Frontend {
    /// Answers one request that does not write, of the client with this address at the other end of `peer`.
    pub(crate) async fn read(
        &self,
        parts: &Parts,
        started: Instant,
        (address, peer): (ClientAddress, &Peer),
        max_uri_bytes: usize,
    ) -> Reply {
        let routes = self.routes.load();
        let found = find_route(&routes, parts, max_uri_bytes);
        // RFC 9110, 9.3.7: it asks about the server as a whole, and is no more than a ping.
        if found.is_ok() && parts.method == Method::OPTIONS && parts.uri.path() == "*" {
            return Reply::new(StatusCode::NO_CONTENT, HeaderMap::new(), Content::Nothing);
        }
        let found = found.and_then(|(host, route)| Ok((host, readable(route, &parts.method)?)));
        let (host, (route, below)) = match found {
            Ok(found) => found,
            Err(error) => return Reply::error(&error, Duration::ZERO, &parts.method),
        };
        if parts.method == Method::OPTIONS {
            return options(&route.settings, &parts.headers);
        }
        let (mut below, mut share) = (below, None);
        if !route.settings.is_open() {
            let request = ClosedRequest {
                routes: &routes,
                route,
                below,
                host,
                parts,
                started,
                address,
                peer,
            };
            let admitted = match self.admit(&request, &mut share) {
                Ok(below) => Ok(below),
                Err(AdmissionFailure::Refused(error)) => Err(error),
                // Boxed, so that other requests do not carry its state.
                Err(AdmissionFailure::Undecided(undecided)) => {
                    Box::pin(self.admit_by_others(request, undecided, &mut share)).await
                }
            };
            below = match admitted {
                Ok(below) => below,
                Err(error) => return access::refusal(route, parts, &error),
            };
        }
        let times = (started, address.counted.into());
        let answer = self.answer_object(route, below, parts, times);
        let mut reply = complete(route, parts, answer.await);
        if let Some(share) = share {
            let content = reply.answer.body_mut();
            *content = share.limit(std::mem::replace(content, Content::Nothing));
        }
        reply
    }

    /// Answers GET or HEAD of an object: from its closed draft if it has one, else from the version that it has now.
    async fn answer_object(
        &self,
        route: &RouteState,
        below: &str,
        parts: &Parts,
        (started, client): (Instant, Client),
    ) -> Result<Reply, RequestError> {
        let request = &ObjectRequest {
            parts,
            route,
            key: route.settings.key(below)?,
            // RFC 9110, 14.2: Range is defined for GET alone.
            ranges: (parts.method == Method::GET)
                .then(|| precondition::requested_ranges(&parts.headers))
                .flatten(),
            started,
            wants_timing: has_header(&parts.headers, &TIMING_REQUEST_HEADER)
                && self.settings.load().settings.server_timing,
            client,
        };
        if self.engine.is_object_hidden(&route.source, &request.key) {
            return Err(Error::NotFound.into());
        }
        if let Some(draft) = self.write_path.closed_draft(&route.source, &request.key)
            && let Some(reply) = Box::pin(self.answer_draft(request, draft)).await
        {
            return reply;
        }
        // Before the version is looked for: it may be published meanwhile.
        let draft = self
            .write_path
            .unreadable_draft(&route.source, &request.key);
        match (self.answer_version(request).await, draft) {
            (Err(RequestError::Engine(Error::NotFound)), Some(draft)) => {
                Box::pin(self.answer_published(request, draft)).await
            }
            (reply, _) => reply,
        }
    }

    /// Answers from the version that the object has now.
    async fn answer_version(&self, request: &ObjectRequest<'_>) -> Result<Reply, RequestError> {
        let route = request.route;
        for _ in 0..MAX_ATTEMPTS {
            let options = request.open_options();
            let opened = match self.tracer.is_some() {
                false => self.engine.open(&route.source, &request.key, options).await,
                // Boxed, so that a request that is not traced does not carry its state.
                true => Box::pin(self.open_traced(request, options)).await,
            };
            let object = match opened {
                Ok(object) => object,
                Err(Error::Changed) => continue,
                Err(error) => return Err(error.into()),
            };
            let opened = OpenedObject::new(request, &request.key, object);
            if !route.settings.precompressed.is_empty()
                && let Some(reply) = Box::pin(self.answer_precompressed(request, &opened)).await
            {
                return reply;
            }
            match self.answer_opened(request, &opened).await {
                Err(RequestError::Engine(Error::Changed)) => {}
                reply => return reply,
            }
        }
        Err(RequestError::KeepsChanging)
    }

    /// Opens the object as a step of the request's trace.
    async fn open_traced(
        &self,
        request: &ObjectRequest<'_>,
        options: OpenOptions,
    ) -> Result<Object, Error> {
        let mut span = trace::span("look-up", Kind::Internal);
        let opened = self
            .engine
            .open(&request.route.source, &request.key, options);
        let opened = trace::within(span.as_ref(), opened).await;
        if let (Some(span), Ok(object)) = (&mut span, &opened) {
            // A look-up that asked the bucket has a step below it.
            span.set("tidegate.known", object.outcome().forward.is_none());
        }
        opened
    }

    /// Reads the first bytes as a step of the request's trace, which says where they were.
    async fn read_traced(&self, object: &Object, range: ByteRange) -> Result<Content, Error> {
        let mut span = trace::span("first bytes", Kind::Internal);
        if let Some(span) = &mut span {
            span.set("tidegate.tier", object.locate(range).place());
        }
        let read = Delivery::single(object, range, &self.client_memory);
        trace::within(span.as_ref(), read).await
    }

    /// Decides by the preconditions and the range which bytes of an opened object are sent, and waits for the first.
    async fn answer_opened(
        &self,
        request: &ObjectRequest<'_>,
        opened: &OpenedObject,
    ) -> Result<Reply, RequestError> {
        let version = opened.object.version();
        let current = Validators {
            etag: &version.etag,
            last_modified: version.last_modified,
            confirmed: opened.object.confirmed(),
        };
        let (asked, size) = (&request.parts.headers, version.size);
        let range = match precondition::decide(asked, request.ranges.as_ref(), current, size) {
            Decision::Failed => return Err(RequestError::Precondition),
            _ if request.has_variant(opened) => {
                return Ok(self.answer_not_modified(request, opened).await);
            }
            Decision::Unsatisfiable => return Err(RequestError::Range(size)),
            Decision::NotModified => return Ok(self.answer_not_modified(request, opened).await),
            Decision::Several(pieces) => {
                return Box::pin(self.answer_ranges(request, opened, &pieces)).await;
            }
            Decision::Single(range) => Some(range),
            Decision::Whole => None,
        };
        if range.is_none()
            && let Some(coding) = request.coding(opened)
            && let Some(reply) = Box::pin(self.answer_encoded(request, opened, coding)).await
        {
            return Ok(reply);
        }
        let bytes = range.unwrap_or(ByteRange::new(0, size));
        let (cached, content) = if request.parts.method == Method::HEAD || bytes.is_empty() {
            (CachedPart::All, Content::Nothing)
        } else if let Some(content) = self.held_content(&opened.object, bytes) {
            (CachedPart::All, content)
        } else {
            // Before the read: afterwards they are cached in any case.
            let cached = CachedPart::of(&opened.object, &[bytes]);
            let content = match self.tracer.is_some() {
                false => Delivery::single(&opened.object, bytes, &self.client_memory).await?,
                true => Box::pin(self.read_traced(&opened.object, bytes)).await?,
            };
            (cached, content)
        };
        let mut headers = opened.headers.full.of(&opened.object.outcome(), cached);
        let mut status = StatusCode::OK;
        if let Some(range) = range {
            headers.insert(CONTENT_LENGTH, range.len().into());
            headers.insert(CONTENT_RANGE, content_range(range, size));
            status = StatusCode::PARTIAL_CONTENT;
        }
        Ok(self.finish(request, opened, status, headers, (cached, content)))
    }

    /// Returns a range that memory holds and that needs no reader, if clients have room for it.
    fn held_content(&self, object: &Object, range: ByteRange) -> Option<Content> {
        // If clients hold so much that these bytes do not fit, they are read in pieces.
        if self.tracer.is_some() || !self.client_memory.fits(Object::MAX_HELD) {
            return None;
        }
        let held = object.held(range)?;
        let bytes = ChargedBytes::charge(held.bytes, held.keeps, &self.client_memory)?;
        Some(Content::Ready(bytes.into()))
    }

    async fn answer_not_modified(
        &self,
        request: &ObjectRequest<'_>,
        opened: &OpenedObject,
    ) -> Reply {
        let outcome = opened.object.outcome();
        let mut headers = opened.headers.not_modified.of(&outcome, CachedPart::All);
        if opened.headers.compressible
            && let Some(tag) = Box::pin(request.tag_not_modified(opened)).await
        {
            headers.insert(ETAG, header_value(tag.as_str()));
        }
        let content = (CachedPart::All, Content::Nothing);
        self.finish(request, opened, StatusCode::NOT_MODIFIED, headers, content)
    }

    async fn answer_ranges(
        &self,
        request: &ObjectRequest<'_>,
        opened: &OpenedObject,
        pieces: &[ByteRange],
    ) -> Result<Reply, RequestError> {
        let cached = CachedPart::of(&opened.object, pieces);
        let mut headers = opened.headers.full.of(&opened.object.outcome(), cached);
        let salt = u64::try_from(request.started.elapsed().as_nanos()).unwrap_or(0);
        let size = opened.object.version().size;
        let parts = Multipart::new(pieces, size, headers.get(CONTENT_TYPE), salt);
        headers.insert(CONTENT_TYPE, parts.content_type());
        headers.insert(CONTENT_LENGTH, parts.len().into());
        let (object, memory) = (&opened.object, &self.client_memory);
        let content = Delivery::several(object, pieces[0], parts, memory).await?;
        let status = StatusCode::PARTIAL_CONTENT;
        Ok(self.finish(request, opened, status, headers, (cached, content)))
    }

    /// Makes the reply: `Server-Timing` if the client asked for it, and what the cache had, for log and metrics.
    fn finish(
        &self,
        request: &ObjectRequest<'_>,
        opened: &OpenedObject,
        status: StatusCode,
        mut headers: HeaderMap,
        (cached, content): (CachedPart, Content),
    ) -> Reply {
        if let Some(open_time) = opened.open_time {
            let ready = request.started.elapsed();
            headers.insert(SERVER_TIMING, timing(open_time, ready));
        }
        let mut reply = Reply::new(status, headers, content);
        reply.cache = CacheResult::of(&opened.object.outcome(), cached);
        reply
    }
}

/// Returns the route that was found for a request, if the method reads.
fn readable<'s, 'p>(
    route: Option<(&'s RouteState, &'p str)>,
    method: &Method,
) -> Result<(&'s RouteState, &'p str), RequestError> {
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return route.ok_or(RequestError::NoRoute);
    }
    Err(RequestError::Method {
        writable: route.is_some_and(|(route, _)| {
            route.settings.write_token.is_some() && !route.settings.is_hidden()
        }),
    })
}

/// Returns the reply of an answer or a failure, with the headers that let a script read it.
#[inline]
fn complete(route: &RouteState, parts: &Parts, answer: Result<Reply, RequestError>) -> Reply {
    let mut reply = match answer {
        Ok(reply) => reply,
        Err(error) => failure(route, parts, &error),
    };
    if let Some(cors) = &route.settings.cors {
        cors::apply(cors, &parts.headers, reply.answer.headers_mut());
    }
    reply
}

/// Returns the answer to a request that failed.
fn failure(route: &RouteState, parts: &Parts, error: &RequestError) -> Reply {
    if let RequestError::Engine(Error::BadOrigin(what)) = error {
        let path = &*without_signature(parts.uri.path());
        tracing::warn!(path, what, "bad answer of the origin");
    }
    let negative_ttl = route.source.profile.load().negative_ttl;
    let mut reply = Reply::error(error, negative_ttl, &parts.method);
    if route.settings.is_private() {
        private::make_private(reply.answer.headers_mut());
    }
    reply
}

fn content_range(range: ByteRange, size: u64) -> HeaderValue {
    let last = range.end - 1;
    HeaderValue::try_from(format!("bytes {}-{last}/{size}", range.start))
        .expect("numbers are a valid header value")
}
