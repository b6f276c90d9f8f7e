//! The identity of an object, of its versions and of its bucket, and the meaning of its name.

mod bucket;
mod change;
mod etag;
pub mod folder;
pub mod key;
pub mod media_type;
pub mod tags;
pub mod tree;
pub mod version;

pub use bucket::Bucket;
pub use change::{ChangeKind, FolderChange, KeyChange, Sequencer};
pub use etag::ETag;
pub use key::{KeyError, ObjectKey};
pub use version::{ObjectId, OriginId, Version, VersionId};
