//! A page of a bucket's keys, for warming.

use super::{Engine, Error, ReadContext};
use tidegate_origin::{After, List};

/// Objects of a bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Their keys, in order, and their sizes in bytes.
    pub objects: Vec<(String, u64)>,
    /// The start of the next page, for [`Engine::keys`]; `None` on the last page.
    pub after: Option<String>,
}

/// The prefixes that tell a place after a key from a token of the bucket.
const KEY: &str = "key:";
const TOKEN: &str = "token:";

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
    ) -> Result<Page, Error> {
        let after = after.map(|after| match after.strip_prefix(TOKEN) {
            Some(token) => After::Token(token.to_owned()),
            None => After::Key(after.strip_prefix(KEY).unwrap_or(after).to_owned()),
        });
        let request = List {
            prefix: prefix.to_owned(),
            delimiter: false,
            after,
            limit,
        };
        let origin = source.origin.clone();
        let asked = async move { origin.list(request).await.map_err(Error::from) };
        let listing = self.core.carry_out(asked).await?;
        let objects = listing.objects.into_iter();
        Ok(Page {
            objects: objects.map(|object| (object.key, object.size)).collect(),
            after: listing.next.map(|next| match next {
                After::Key(key) => format!("{KEY}{key}"),
                After::Token(token) => format!("{TOKEN}{token}"),
            }),
        })
    }
}
