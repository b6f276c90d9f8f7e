//! Answers in a coding that the client prefers to identity: from a precompressed object in the bucket if the route
//! says so, else encoded by the engine.

use std::time::Duration;

use http::header::{ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, ETAG, IF_NONE_MATCH};
use http::{HeaderValue, Method, StatusCode};
use tokio::time::timeout;

use super::cached_headers::ENGINE_CODINGS;
use crate::Frontend;
use crate::body::Content;
use crate::body::delivery::Delivery;
use crate::cache_status::CachedPart;
use crate::reply::Reply;
use crate::request::{ObjectRequest, OpenedObject};
use crate::request_error::RequestError;
use tidegate_engine::{OpenOptions, VariantState};
use tidegate_plan::precondition;
use tidegate_plan::{AcceptedCodings, ByteRange, Coding, ETag};

/// The time that a ready answer waits for the look-up of a precompressed object.
const PRECOMPRESSED_TIMEOUT: Duration = Duration::from_secs(1);

impl ObjectRequest<'_> {
    /// Returns the codings in which the engine may send this object to this client, the best first.
    fn codings(&self, opened: &OpenedObject) -> impl Iterator<Item = Coding> + use<> {
        let encodes = opened.headers.compressible && opened.object.may_be_encoded();
        let offered = if encodes { &ENGINE_CODINGS[..] } else { &[] };
        AcceptedCodings::from_headers(&self.parts.headers).preferred(offered)
    }

    /// Returns the coding in which the engine is to send it.
    pub(crate) fn coding(&self, opened: &OpenedObject) -> Option<Coding> {
        match opened.headers.compressible {
            true => self.codings(opened).next(),
            false => None,
        }
    }

    /// Returns whether the client has a variant of this version that it could be sent.
    pub(crate) fn has_variant(&self, opened: &OpenedObject) -> bool {
        opened.headers.compressible
            && self.parts.headers.contains_key(IF_NONE_MATCH)
            && self.variant_tag(opened).is_some()
    }

    /// Returns the ETag for a 304: the one that the client has, as it wrote it. If it named none, the one that it would
    /// be sent.
    pub(crate) async fn tag_not_modified(&self, opened: &OpenedObject) -> Option<ETag> {
        let own = &opened.object.version().etag;
        let best = self.coding(opened)?;
        let named = self.variant_tag(opened);
        let named = named.or_else(|| precondition::matching_tag(&self.parts.headers, own));
        if named.is_some() {
            return named;
        }
        match opened.object.variant_state(best).await {
            VariantState::Identity => None,
            VariantState::Variant(_) | VariantState::Nothing => Some(own.variant(best)),
        }
    }

    /// Returns the client's ETag of a variant of this version that it could be sent.
    fn variant_tag(&self, opened: &OpenedObject) -> Option<ETag> {
        let (headers, own) = (&self.parts.headers, &opened.object.version().etag);
        let mut codings = self.codings(opened);
        codings.find_map(|coding| precondition::matching_tag(headers, &own.variant(coding)))
    }
}

impl Frontend {
    /// Returns the whole object in `coding`, or its headers for HEAD; `None`: to be sent as it is.
    pub(super) async fn answer_encoded(
        &self,
        request: &ObjectRequest<'_>,
        opened: &OpenedObject,
        coding: Coding,
    ) -> Option<Reply> {
        let is_head = request.parts.method == Method::HEAD;
        let (cached, variant) = match opened.object.variant_state(coding).await {
            VariantState::Identity => return None,
            VariantState::Variant(variant) => (CachedPart::All, Some(variant)),
            VariantState::Nothing if is_head => (CachedPart::All, None),
            VariantState::Nothing => {
                let whole = ByteRange::new(0, opened.object.version().size);
                let cached = CachedPart::of(&opened.object, &[whole]);
                (cached, Some(opened.object.variant(coding).await?))
            }
        };
        let mut headers = opened.headers.full.of(&opened.object.outcome(), cached);
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
        headers.insert(ETAG, opened.headers.tag(coding).clone());
        headers.remove(ACCEPT_RANGES);
        match &variant {
            Some(variant) => headers.insert(CONTENT_LENGTH, variant.size().into()),
            // The length is unknown before it is made.
            None => headers.remove(CONTENT_LENGTH),
        };
        let content = match variant {
            Some(variant) if !is_head => {
                let range = ByteRange::new(0, variant.size());
                // `None`: its bytes have just gone.
                let content = Delivery::single(&variant, range, &self.client_memory).await;
                content.ok()?
            }
            _ => Content::Nothing,
        };
        Some(self.finish(request, opened, StatusCode::OK, headers, (cached, content)))
    }

    /// Answers from a precompressed object in the place of the opened one; `None`: the original is to be sent. Never
    /// for a range, which is a range of identity.
    pub(super) async fn answer_precompressed(
        &self,
        request: &ObjectRequest<'_>,
        opened: &OpenedObject,
    ) -> Option<Result<Reply, RequestError>> {
        if request.ranges.is_some() || !opened.headers.encodable {
            return None;
        }
        let offered = &request.route.settings.precompressed;
        let codings = AcceptedCodings::from_headers(&request.parts.headers).preferred(offered);
        let found = async {
            for coding in codings {
                if let Some(found) = self.precompressed(request, opened, coding).await {
                    return Some(found);
                }
            }
            None
        };
        let found = timeout(PRECOMPRESSED_TIMEOUT, found).await.ok()??;
        match Box::pin(self.answer_opened(request, &found)).await {
            // The original can still be sent.
            Err(RequestError::Engine(_)) => None,
            reply => Some(reply),
        }
    }

    async fn precompressed(
        &self,
        request: &ObjectRequest<'_>,
        original: &OpenedObject,
        coding: Coding,
    ) -> Option<OpenedObject> {
        let key = coding.encoded_key(&request.key)?;
        let options = OpenOptions {
            certain: false,
            ..request.open_options()
        };
        let object = self.engine.open(&request.route.source, &key, options).await;
        let mut opened = OpenedObject::new(request, &key, object.ok()?);
        // An older one was made of other bytes. If a time is missing, its age is unknown.
        let [own, other] = [&opened, original].map(|it| it.object.version().last_modified);
        if own?.secs() < other?.secs() || opened.object.version().size == 0 {
            return None;
        }
        let headers = opened.headers.in_place_of(&original.headers, coding);
        opened.headers = headers.into();
        Some(opened)
    }
}
