//! A page of a bucket's keys: the question, and its answer (S3 API reference, `ListObjectsV2`).

use crate::plan::{ETag, Timestamp};

/// The most that S3 puts on one page.
pub const PAGE: u16 = 1000;

/// One page of the keys that start with a prefix, in order of their bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct List {
    /// What the keys start with; empty for all of them.
    pub prefix: String,
    /// Whether keys that go on with a `/` after the prefix are rolled up into the folder that ends
    /// with it.
    pub delimiter: bool,
    /// Where to begin; `None`: with the first.
    pub after: Option<After>,
    /// How many objects and folders together at most, from 1 to [`PAGE`].
    pub limit: u16,
}

/// Where a page begins.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum After {
    /// Behind this key, which need not exist. With a delimiter, a folder that holds keys behind it
    /// is on the page, even if the key lies in it.
    Key(String),
    /// Where another page of the same question ended.
    Token(String),
}

/// What is on a page.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// Objects, in order of their keys.
    pub objects: Vec<Listed>,
    /// Folders, each with the prefix and the `/` it ends with, in order.
    pub folders: Vec<String>,
    /// Where the next page begins; `None` on the last. A page may be empty and not be the last.
    pub next: Option<After>,
}

/// What a listing says of an object. It is no version: headers are missing, and so may be the ETag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The key as it is, also where it is none that we would ask for: one with dot segments.
    pub key: String,
    /// Length in bytes.
    pub size: u64,
    /// Its validator, where the store tells it.
    pub etag: Option<ETag>,
    /// When it was written, to the second as everywhere else.
    pub last_modified: Option<Timestamp>,
}
