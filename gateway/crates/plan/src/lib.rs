//! Pure decision rules. Time and randomness are arguments.
//!
//! Nothing here knows tokio, I/O or a clock, so every rule can be tested by listing cases or by
//! drawing them at random.

pub mod attributes;
pub mod diagnosis;
mod disk;
pub mod folder_prefetch;
pub mod freshness;
mod generations;
mod layout;
mod object;
pub mod profile;
pub mod readahead;
mod request;
mod text;
mod time;
mod traffic;
pub mod upload;

pub use disk::{DiskState, admission, meter, placement, tiering};
pub use generations::Generations;
pub use layout::{ByteRange, Extents, Geometry, PartSizes, RangeSpec, parts};
pub use object::{Bucket, ChangeKind, ETag, FolderChange, KeyChange, Sequencer};
pub use object::{KeyError, ObjectId, ObjectKey, OriginId, Version, VersionId};
pub use object::{folder, key, media_type, tags, tree, version};
pub use profile::Profile;
pub use request::{
    AcceptedCodings, Coding, LogRate, MAX_RANGES, MIN_TOKEN, Ranges, Selection, ShortToken, Token,
    has_header, is_same_secret,
};
pub use request::{digest, precondition, route, wrong_tokens};
#[cfg(feature = "serde")]
pub use text::serial;
pub use text::template;
pub use text::{ByteSize, Listen, Network, Period, RoundedDuration, hex};
pub use time::Timestamp;
pub use traffic::{Client, lanes, pacer, retry};
