//! A page of a bucket's keys, for who wants to warm them.

use super::{Engine, Error, Source};
use crate::origin::{After, List};

/// Objects of a bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Their keys, in order, and their sizes in bytes.
    pub objects: Vec<(String, u64)>,
    /// Where the next page begins, for [`Engine::keys`]; `None` on the last.
    pub after: Option<String>,
}

/// What tells a place behind a key from one that the bucket named.
const KEY: &str = "key:";
const TOKEN: &str = "token:";

impl Engine {
    /// Asks the bucket for up to `limit` of the keys that begin with `prefix`: one request.
    ///
    /// # Errors
    /// Why the origin does not tell.
    pub async fn keys(
        &self,
        source: &Source,
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
