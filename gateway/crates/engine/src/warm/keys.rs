//! A page of a bucket's keys, for warming.

use crate::{Engine, Error, ReadContext};
use tidegate_origin::cause::run_for;
use tidegate_origin::{Cause, List, PageStart};

/// Objects of a bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyPage {
    /// Their keys, in order, and their sizes in bytes.
    pub objects: Vec<(String, u64)>,
    /// The start of the next page, for [`Engine::keys`]; `None` on the last page.
    pub after: Option<String>,
}

/// The prefixes that tell a position after a key from a token of the bucket.
const KEY_PREFIX: &str = "key:";
const TOKEN_PREFIX: &str = "token:";

impl Engine {
    /// Asks the bucket for up to `limit` keys that begin with `prefix`, in one request.
    ///
    /// # Errors
    /// The origin's failure.
    pub async fn keys(
        &self,
        source: &ReadContext,
        prefix: &str,
        after: Option<&str>,
        limit: u16,
    ) -> Result<KeyPage, Error> {
        let after = after.map(|after| match after.strip_prefix(TOKEN_PREFIX) {
            Some(token) => PageStart::Token(token.to_owned()),
            None => PageStart::Key(after.strip_prefix(KEY_PREFIX).unwrap_or(after).to_owned()),
        });
        let request = List {
            prefix: prefix.to_owned(),
            delimiter: false,
            after,
            limit,
        };
        let origin = source.origin.clone();
        let asked = async move {
            let listed = run_for(Cause::Warm, origin.list(request));
            listed.await.map_err(Error::from)
        };
        let listing = self.core.run_on_origin_runtime(asked).await?;
        let objects = listing.objects.into_iter();
        Ok(KeyPage {
            objects: objects.map(|object| (object.key, object.size)).collect(),
            after: listing.next.map(|next| match next {
                PageStart::Key(key) => format!("{KEY_PREFIX}{key}"),
                PageStart::Token(token) => format!("{TOKEN_PREFIX}{token}"),
            }),
        })
    }
}
