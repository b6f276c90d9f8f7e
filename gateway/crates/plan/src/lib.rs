//! Pure decision rules. Time and randomness are arguments.
//!
//! Nothing here knows tokio, I/O or a clock, so every rule can be tested by listing cases or by
//! drawing them at random.

pub mod admission;
pub mod bucket;
pub mod client;
pub mod coding;
pub mod diagnosis;
pub mod digest;
pub mod duration;
pub mod etag;
pub mod extents;
pub mod folder;
pub mod folder_prefetch;
pub mod freshness;
pub mod geometry;
pub mod key;
pub mod lanes;
pub mod listen;
pub mod media_type;
pub mod meter;
pub mod network;
pub mod pacer;
pub mod parts;
pub mod placement;
pub mod precondition;
pub mod profile;
pub mod range;
pub mod readahead;
pub mod retry;
pub mod route;
#[cfg(feature = "serde")]
pub mod serial;

pub mod size;
pub mod standing;
pub mod tiering;
pub mod time;
pub mod token;
pub mod upload;
pub mod version;
pub mod wrong_tokens;

pub use bucket::Bucket;
pub use client::Client;
pub use coding::{Accepted, Coding};
pub use duration::Period;
pub use etag::ETag;
pub use extents::Extents;
pub use geometry::Geometry;
pub use key::{KeyError, ObjectKey};
pub use listen::Listen;
pub use network::Network;
pub use parts::PartSizes;
pub use profile::Profile;
pub use range::{ByteRange, RangeSpec};
pub use size::ByteSize;
pub use time::Timestamp;
pub use token::Token;
pub use version::{ObjectId, OriginId, Version, VersionId};
