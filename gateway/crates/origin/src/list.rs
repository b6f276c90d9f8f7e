//! A page of a bucket's keys: the request and its answer (S3 API reference, `ListObjectsV2`).

use tidegate_plan::{ETag, Timestamp};

use crate::OriginError;

/// The most entries that S3 puts on one page.
pub const MAX_PAGE_KEYS: u16 = 1000;

/// One page of the keys that start with a prefix, in order of their bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct List {
    /// The prefix of the keys; empty for all keys.
    pub prefix: String,
    /// Whether keys with a `/` after the prefix are grouped into the folder that ends with it.
    pub delimiter: bool,
    /// The beginning of the page; `None` means the first key.
    pub after: Option<PageStart>,
    /// The most objects and folders together, from 1 to [`MAX_PAGE_KEYS`].
    pub limit: u16,
}

/// The beginning of a page.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PageStart {
    /// The page begins after this key, which need not exist. With a delimiter, a folder that holds
    /// later keys is on the page even if the key lies in it.
    Key(String),
    /// The page begins at the end of another page of the same request.
    Token(String),
}

/// The contents of a page.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// Objects, in order of their keys.
    pub objects: Vec<ListedObject>,
    /// Folders, each with the prefix and the `/` it ends with, in order.
    pub folders: Vec<String>,
    /// The beginning of the next page; `None` on the last. A page may be empty and not be the last.
    pub next: Option<PageStart>,
}

/// The most empty pages in a row of one listing.
const MAX_EMPTY_PAGES: u32 = 100;

/// Counts the empty pages in a row of one listing: a broken store may send them without an end.
#[derive(Debug, Default)]
pub struct EmptyPages(u32);

impl EmptyPages {
    /// Returns the beginning of the page behind this one.
    ///
    /// # Errors
    /// [`OriginError::BadAnswer`]: too many pages were empty.
    pub fn next(&mut self, page: &Listing) -> Result<Option<PageStart>, OriginError> {
        let is_empty = page.objects.is_empty() && page.folders.is_empty();
        self.0 = if is_empty { self.0 + 1 } else { 0 };
        match page.next.is_some() && self.0 > MAX_EMPTY_PAGES {
            true => Err(OriginError::BadAnswer(
                "a listing of empty pages without an end",
            )),
            false => Ok(page.next.clone()),
        }
    }
}

/// A listing's entry for an object. It is not a version: headers are missing, and the ETag may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedObject {
    /// The key as it is, even if it is no valid [`ObjectKey`](tidegate_plan::ObjectKey), as with dot
    /// segments.
    pub key: String,
    /// Length in bytes.
    pub size: u64,
    /// Its validator, if the store lists it.
    pub etag: Option<ETag>,
    /// The time of its last write, to the second.
    pub last_modified: Option<Timestamp>,
}
