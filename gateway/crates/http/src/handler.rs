//! One request, from its head to an answer whose first bytes are ready.
//!
//! Method, target and host are checked; the route gives the key; the engine opens the object on one
//! version; the preconditions and the range decide which bytes are sent; and the reader is primed.
//! If the object changed before that, everything begins again on its new version. After that the
//! body needs no handler.

use std::sync::Arc;
use std::time::Duration;

use http::header::{AGE, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use tokio::time::Instant;

use super::ask::{directives, host, wants_fresh};
use super::block::{Block, value};
use super::body::Content;
use super::cors;
use super::delivery::Delivery;
use super::multipart::Multipart;
use super::reply::{Reply, options, timing};
use super::rescue::Cause;
use super::status::{CACHE_STATUS, CacheResult, Held, cache_status};
use super::{Frontend, RouteState};
use tidegate_engine::{Error, Object, Open, Reader};
use tidegate_plan::Ranges;
use tidegate_plan::precondition::{self, Decision, Validators};
use tidegate_plan::{ByteRange, Client, ObjectKey, RangeSpec, Version};

/// The attempts to answer while the object changes just as its answer is about to begin.
const ATTEMPTS: u32 = 3;

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");
const TIMING_WANTED: &str = "tidegate-timing";

/// A request whose target names a route and, below it, an object.
pub(super) struct Asked<'a> {
    pub(super) parts: &'a Parts,
    pub(super) route: &'a RouteState,
    pub(super) key: ObjectKey,
    pub(super) ranges: Option<Ranges>,
    started: Instant,
    client: Client,
}

/// An object opened for a request, and the headers of its answers.
pub(super) struct Opened {
    pub(super) object: Object,
    pub(super) version: Arc<Version>,
    pub(super) block: Arc<Block>,
    took: Duration,
}

impl Frontend {
    /// Answers one request.
    pub(super) async fn reply(&self, parts: &Parts, started: Instant, client: Client) -> Reply {
        let (route, below) = match self.check(parts) {
            Ok(found) => found,
            Err(cause) => return Reply::error(&cause, Duration::ZERO, &parts.method),
        };
        let mut reply = if parts.method == Method::OPTIONS {
            return options(&route.settings, &parts.headers);
        } else {
            match self.object(route, below, parts, (started, client)).await {
                Ok(reply) => reply,
                Err(cause) => {
                    if let Cause::Engine(Error::BadOrigin(what)) = &cause {
                        tracing::warn!(path = parts.uri.path(), what, "bad answer of the origin");
                    }
                    let negative_ttl = route.source.profile.load().negative_ttl;
                    Reply::error(&cause, negative_ttl, &parts.method)
                }
            }
        };
        if let Some(cors) = &route.settings.cors {
            cors::apply(cors, &parts.headers, reply.answer.headers_mut());
        }
        reply
    }

    /// Checks everything that needs no object; returns the route, and the path below it.
    fn check<'a>(&self, parts: &'a Parts) -> Result<(&RouteState, &'a str), Cause> {
        let target = parts
            .uri
            .path_and_query()
            .map_or(0, |text| text.as_str().len());
        if target > self.settings.max_uri_bytes {
            return Err(Cause::Target);
        }
        let known = matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let found = self.table.find(host(parts)?, parts.uri.path());
        let route = found.map(|(index, below)| (&self.routes[index], below));
        if !known {
            let writable = route.is_some_and(|(route, _)| route.settings.write_token.is_some());
            return Err(Cause::Method { writable });
        }
        route.ok_or(Cause::NoRoute)
    }

    async fn object(
        &self,
        route: &RouteState,
        below: &str,
        parts: &Parts,
        (started, client): (Instant, Client),
    ) -> Result<Reply, Cause> {
        let asked = Asked {
            parts,
            route,
            key: route.settings.key(below)?,
            // RFC 9110, 14.2: Range is defined for GET alone.
            ranges: (parts.method == Method::GET)
                .then(|| precondition::requested_ranges(&parts.headers))
                .flatten(),
            started,
            client,
        };
        if let Some(draft) = self.write_path.closed_draft(&route.source, &asked.key)
            && let Some(reply) = Box::pin(self.drafted(&asked, draft)).await
        {
            return reply;
        }
        for _ in 0..ATTEMPTS {
            match self.attempt(&asked).await {
                Err(Cause::Engine(Error::Changed)) => {}
                reply => return reply,
            }
        }
        Err(Cause::Restless)
    }

    async fn attempt(&self, asked: &Asked<'_>) -> Result<Reply, Cause> {
        let opened = self.opened(asked, &asked.key, asked.how()).await?;
        if !asked.route.settings.precompressed.is_empty()
            && let Some(sibling) = Box::pin(self.sibling(asked, &opened)).await
        {
            match Box::pin(self.decided(asked, sibling)).await {
                // The original can still be sent.
                Err(Cause::Engine(_)) => {}
                reply => return reply,
            }
        }
        self.decided(asked, opened).await
    }

    /// Opens an object, and prepares its headers.
    pub(super) async fn opened(
        &self,
        asked: &Asked<'_>,
        key: &ObjectKey,
        how: Open,
    ) -> Result<Opened, Error> {
        let object = self.engine.open(&asked.route.source, key, how).await?;
        let version = object.version().clone();
        let route = asked.route;
        let block = route.blocks.get(&version, key, &route.settings);
        Ok(Opened {
            object,
            version,
            block,
            took: asked.started.elapsed(),
        })
    }

    async fn decided(&self, asked: &Asked<'_>, opened: Opened) -> Result<Reply, Cause> {
        let current = Validators {
            etag: &opened.version.etag,
            last_modified: opened.version.last_modified,
        };
        let (headers, size) = (&asked.parts.headers, opened.version.size);
        match precondition::decide(headers, asked.ranges.as_ref(), current, size) {
            Decision::Failed => Err(Cause::Precondition),
            _ if asked.knows_variant(&opened) => Ok(self.not_modified(asked, &opened).await),
            Decision::Unsatisfiable => Err(Cause::Range(size)),
            Decision::NotModified => Ok(self.not_modified(asked, &opened).await),
            Decision::Whole => self.whole(asked, opened).await,
            Decision::Single(range) => self.single(asked, opened, range).await,
            Decision::Several(pieces) => Box::pin(self.several(asked, opened, &pieces)).await,
        }
    }

    async fn not_modified(&self, asked: &Asked<'_>, opened: &Opened) -> Reply {
        let mut headers = opened.block.bare.clone();
        if opened.block.compressible
            && let Some(tag) = Box::pin(asked.tag_not_modified(opened)).await
        {
            headers.insert(ETAG, value(tag.as_str()));
        }
        let nothing = Content::Nothing;
        self.finish(
            asked,
            opened,
            StatusCode::NOT_MODIFIED,
            headers,
            Held::All,
            nothing,
        )
    }

    async fn whole(&self, asked: &Asked<'_>, opened: Opened) -> Result<Reply, Cause> {
        if let Some(coding) = asked.coding(&opened)
            && let Some(reply) = Box::pin(self.encoded(asked, &opened, coding)).await
        {
            return Ok(reply);
        }
        let headers = opened.block.full.clone();
        let range = ByteRange::new(0, opened.version.size);
        let (held, content) = if asked.parts.method == Method::HEAD || range.is_empty() {
            (Held::All, Content::Nothing)
        } else {
            self.begin(&opened, range).await?
        };
        Ok(self.finish(asked, &opened, StatusCode::OK, headers, held, content))
    }

    async fn single(
        &self,
        asked: &Asked<'_>,
        opened: Opened,
        range: ByteRange,
    ) -> Result<Reply, Cause> {
        let mut headers = opened.block.full.clone();
        headers.insert(CONTENT_LENGTH, range.len().into());
        let (last, size) = (range.end - 1, opened.version.size);
        let value = HeaderValue::try_from(format!("bytes {}-{last}/{size}", range.start))
            .expect("numbers are a valid header value");
        headers.insert(CONTENT_RANGE, value);
        let (held, content) = self.begin(&opened, range).await?;
        let status = StatusCode::PARTIAL_CONTENT;
        Ok(self.finish(asked, &opened, status, headers, held, content))
    }

    async fn several(
        &self,
        asked: &Asked<'_>,
        opened: Opened,
        pieces: &[ByteRange],
    ) -> Result<Reply, Cause> {
        let held = Held::of(&opened.object, pieces);
        let reader = primed(&opened.object, pieces[0]).await?;
        let mut headers = opened.block.full.clone();
        let salt = u64::try_from(asked.started.elapsed().as_nanos()).unwrap_or(0);
        let parts = Multipart::new(pieces, opened.version.size, headers.get(CONTENT_TYPE), salt);
        headers.insert(CONTENT_TYPE, parts.content_type());
        headers.insert(CONTENT_LENGTH, parts.len().into());
        let (object, allowance) = (opened.object.clone(), self.allowance.clone());
        let delivery = Delivery::several(object, reader, parts, allowance);
        let (status, content) = (
            StatusCode::PARTIAL_CONTENT,
            Content::Object(delivery.into()),
        );
        Ok(self.finish(asked, &opened, status, headers, held, content))
    }

    /// Returns the bytes of one range, the first of them ready, and how many of them were cached.
    async fn begin(&self, opened: &Opened, range: ByteRange) -> Result<(Held, Content), Cause> {
        // Before the read: afterwards they are cached in any case.
        let held = Held::of(&opened.object, &[range]);
        let reader = primed(&opened.object, range).await?;
        let (object, allowance) = (opened.object.clone(), self.allowance.clone());
        let delivery = Delivery::single(object, reader, range, allowance);
        Ok((held, Content::Object(delivery.into())))
    }

    /// Adds the headers that say how the answer was made.
    pub(super) fn finish(
        &self,
        asked: &Asked<'_>,
        opened: &Opened,
        status: StatusCode,
        mut headers: HeaderMap,
        held: Held,
        content: Content,
    ) -> Reply {
        let outcome = opened.object.outcome();
        headers.insert(CACHE_STATUS, cache_status(&outcome, held));
        if outcome.forward.is_none() || !outcome.age.is_zero() {
            headers.insert(AGE, outcome.age.as_secs().into());
        } else {
            headers.remove(AGE);
        }
        if self.settings.server_timing && asked.parts.headers.contains_key(TIMING_WANTED) {
            headers.insert(SERVER_TIMING, timing(opened.took, asked.started.elapsed()));
        }
        let mut reply = Reply::new(status, headers, content);
        reply.cache = CacheResult::of(&outcome, held);
        reply
    }
}

impl Asked<'_> {
    pub(super) fn how(&self) -> Open {
        let headers = &self.parts.headers;
        let first = match self.parts.method {
            Method::HEAD => None,
            _ => Some(
                self.ranges
                    .as_ref()
                    .map_or(RangeSpec::From(0), Ranges::first),
            ),
        };
        Open {
            first,
            revalidate: self.route.settings.client_no_cache && wants_fresh(headers),
            only_if_cached: directives(headers).any(|own| own == "only-if-cached"),
            client: self.client,
            ..Open::default()
        }
    }
}

async fn primed(object: &Object, range: ByteRange) -> Result<Reader, Error> {
    let mut reader = object.read_at(range);
    reader.prime().await?;
    Ok(reader)
}
