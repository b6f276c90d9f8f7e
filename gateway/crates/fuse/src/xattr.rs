//! Extended attributes: the gateway's knowledge of a file.

use tidegate_engine::{Coverage, Object, Tier};
use tidegate_plan::ByteRange;

/// Every name. They are not listed: programs that copy listed attributes would ask for the version of each file, and
/// not all files have all of them.
const XATTR_NAMES: [&str; 5] = [
    "user.tidegate.etag",
    "user.tidegate.version",
    "user.tidegate.content_type",
    "user.tidegate.cached",
    PENDING_XATTR,
];

/// The stage of uncommitted bytes; `no` if there are none.
pub(crate) const PENDING_XATTR: &str = "user.tidegate.pending";

/// Returns whether it is one of these names: others are answered without a look at the file.
pub(crate) fn is_ours(name: &str) -> bool {
    XATTR_NAMES.contains(&name)
}

/// Returns the value of one of these names, if the file has it.
pub(crate) fn value(name: &str, object: &Object) -> Option<String> {
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

/// Returns the cached part of a file, and the tier in which the slowest part of it lies.
fn cached(object: &Object) -> &'static str {
    match object.locate(ByteRange::new(0, object.version().size)) {
        Coverage::All(Tier::Memory) => "memory",
        Coverage::All(Tier::Disk) => "disk",
        Coverage::Some => "some",
        Coverage::Nothing => "none",
    }
}
