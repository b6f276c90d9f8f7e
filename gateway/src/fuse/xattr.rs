//! What the gateway knows of a file, as extended attributes.

use crate::engine::{Found, Object, Tier};
use crate::plan::ByteRange;

/// Every name, each with the NUL that `listxattr` wants behind it.
pub(super) const NAMES: &str = "user.tidegate.etag\0user.tidegate.version\0user.tidegate.content_type\0user.tidegate.cached\0user.tidegate.pending\0";

/// What waits to be committed, and for what; `no` where nothing does.
pub(super) const PENDING: &str = "user.tidegate.pending";

/// Whether it is one of ours: others are answered without a look at the file.
pub(super) fn is_ours(name: &str) -> bool {
    NAMES.split_terminator('\0').any(|ours| ours == name)
}

/// The value of one of ours, if the file has it.
pub(super) fn value(name: &str, object: &Object) -> Option<String> {
    let version = object.version();
    match name.rsplit('.').next()? {
        "etag" => Some(version.etag.as_str().to_owned()),
        "version" => version.version_id.clone(),
        "content_type" => version
            .header(&http::header::CONTENT_TYPE)
            .map(str::to_owned),
        "cached" => Some(cached(object).to_owned()),
        _ => None,
    }
}

/// How much of the file is cached, and where the slowest of that lies.
fn cached(object: &Object) -> &'static str {
    match object.locate(ByteRange::new(0, object.version().size)) {
        Found::All(Tier::Memory) => "memory",
        Found::All(Tier::Disk) => "disk",
        Found::Some => "some",
        Found::Nothing => "none",
    }
}
