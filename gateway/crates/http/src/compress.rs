//! Answers in a coding that the client prefers to identity: from a sibling in the bucket if the route says so, else
//! encoded by the engine.

use std::time::Duration;

use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::time::timeout;

use super::Frontend;
use super::block::Block;
use super::body::Content;
use super::delivery::Delivery;
use super::handler::{Asked, Opened};
use super::reply::Reply;
use super::status::Held;
use tidegate_engine::{Open, Variant, VariantState};
use tidegate_plan::precondition;
use tidegate_plan::{Accepted, ByteRange, Coding, ETag};

/// The codings of the engine, best first.
pub(super) const OWN: [Coding; 2] = [Coding::Brotli, Coding::Gzip];

/// The time that a ready answer waits for the look-up of its siblings.
const SIBLINGS_TIMEOUT: Duration = Duration::from_secs(1);

impl Asked<'_> {
    /// Returns the codings in which the engine may send this object to this client, the best first.
    fn codings(&self, opened: &Opened) -> impl Iterator<Item = Coding> + use<> {
        let encodes = opened.block.compressible && opened.object.may_be_encoded();
        let offered = if encodes { &OWN[..] } else { &[] };
        Accepted::of(&self.parts.headers).best(offered)
    }

    /// Returns the coding in which the engine is to send it.
    pub(super) fn coding(&self, opened: &Opened) -> Option<Coding> {
        match opened.block.compressible {
            true => self.codings(opened).next(),
            false => None,
        }
    }

    /// Returns whether the client has a variant of this version that it could be sent.
    pub(super) fn knows_variant(&self, opened: &Opened) -> bool {
        opened.block.compressible
            && self.parts.headers.contains_key(IF_NONE_MATCH)
            && self.named(opened).is_some()
    }

    /// Returns the ETag for a 304: the one that the client has, as it wrote it. If it named none, the one that it would
    /// be sent.
    pub(super) async fn tag_not_modified(&self, opened: &Opened) -> Option<ETag> {
        let own = &opened.version.etag;
        let best = self.coding(opened)?;
        let named = self.named(opened);
        let named = named.or_else(|| precondition::named(&self.parts.headers, own));
        if named.is_some() {
            return named;
        }
        match opened.object.variant_state(best).await {
            VariantState::Identity => None,
            VariantState::Variant(_) | VariantState::Nothing => Some(own.variant(best)),
        }
    }

    fn named(&self, opened: &Opened) -> Option<ETag> {
        let (headers, own) = (&self.parts.headers, &opened.version.etag);
        let mut codings = self.codings(opened);
        codings.find_map(|coding| precondition::named(headers, &own.variant(coding)))
    }
}

impl Frontend {
    /// Returns the whole object in `coding`, or its headers for HEAD; `None`: to be sent as it is.
    pub(super) async fn encoded(
        &self,
        asked: &Asked<'_>,
        opened: &Opened,
        coding: Coding,
    ) -> Option<Reply> {
        let mut headers = opened.block.full.clone();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
        headers.insert(ETAG, opened.block.tag(coding).clone());
        headers.remove(ACCEPT_RANGES);
        let known = opened.object.variant_state(coding).await;
        let is_head = asked.parts.method == Method::HEAD;
        let (held, variant) = match known {
            VariantState::Identity => return None,
            VariantState::Variant(variant) => (Held::All, variant),
            VariantState::Nothing if is_head => {
                // The length is unknown before it is made.
                headers.remove(CONTENT_LENGTH);
                let nothing = Content::Nothing;
                return Some(self.finish(
                    asked,
                    opened,
                    StatusCode::OK,
                    headers,
                    Held::All,
                    nothing,
                ));
            }
            VariantState::Nothing => {
                let whole = ByteRange::new(0, opened.version.size);
                let held = Held::of(&opened.object, &[whole]);
                (held, opened.object.variant(coding).await?)
            }
        };
        headers.insert(CONTENT_LENGTH, variant.size().into());
        let content = match is_head {
            true => Content::Nothing,
            false => self.variant(variant).await?,
        };
        Some(self.finish(asked, opened, StatusCode::OK, headers, held, content))
    }

    /// Returns the bytes of a variant, the first of them ready; `None`: they have just gone.
    async fn variant(&self, variant: Variant) -> Option<Content> {
        let range = ByteRange::new(0, variant.size());
        let mut reader = variant.read_at(range);
        reader.prime().await.ok()?;
        let delivery = Delivery::single(variant, reader, range, self.allowance.clone());
        Some(Content::Variant(delivery.into()))
    }

    /// Returns the sibling in the bucket that is to be sent in the object's place. Never for a range, which is a range
    /// of identity.
    pub(super) async fn sibling(&self, asked: &Asked<'_>, opened: &Opened) -> Option<Opened> {
        let route = &asked.route.settings;
        if asked.ranges.is_some() || !opened.block.encodable {
            return None;
        }
        let codings = Accepted::of(&asked.parts.headers).best(&route.precompressed);
        let found = async {
            for coding in codings {
                if let Some(sibling) = self.sibling_in(asked, opened, coding).await {
                    return Some(sibling);
                }
            }
            None
        };
        timeout(SIBLINGS_TIMEOUT, found).await.ok().flatten()
    }

    async fn sibling_in(
        &self,
        asked: &Asked<'_>,
        opened: &Opened,
        coding: Coding,
    ) -> Option<Opened> {
        let key = coding.sibling(&asked.key)?;
        let how = Open {
            certain: false,
            ..asked.how()
        };
        let mut sibling = self.opened(asked, &key, how).await.ok()?;
        // An older sibling was made of other bytes. If a time is missing, its age is unknown.
        let (own, original) = (&sibling.version, &opened.version);
        let is_current = own.last_modified?.secs() >= original.last_modified?.secs();
        if !is_current || own.size == 0 {
            return None;
        }
        sibling.block = sibling.block.stands_for(&opened.block, coding).into();
        Some(sibling)
    }
}

impl Block {
    /// Returns the headers of a sibling in the place of its original: its own, with the original's type.
    fn stands_for(&self, original: &Self, coding: Coding) -> Self {
        let vary = |headers: &mut HeaderMap| {
            let values = headers.get_all(VARY).iter();
            if !values.into_iter().any(|value| value == "Accept-Encoding") {
                headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
            }
        };
        let (mut full, mut bare) = (self.full.clone(), self.bare.clone());
        match original.full.get(CONTENT_TYPE) {
            Some(kind) => full.insert(CONTENT_TYPE, kind.clone()),
            None => full.remove(CONTENT_TYPE),
        };
        full.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
        full.remove(ACCEPT_RANGES);
        vary(&mut full);
        vary(&mut bare);
        Self {
            full,
            bare,
            tags: None,
            encodable: false,
            compressible: false,
        }
    }
}
