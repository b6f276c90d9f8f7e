//! `[cache]` and `[[cache.disk]]`: the sizes and disks of the cache.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use tidegate_plan::ByteSize;
use tidegate_plan::tags::DEFAULT_TAGS_HEADER;

/// The sizes and disks of the cache.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Cache {
    /// Chunks kept in memory.
    pub memory: ByteSize,
    /// All other memory: bytes in flight, read-ahead, bytes that slow clients pin.
    pub budget: ByteSize,
    /// Size of a chunk, a power of two from 4KiB to 16MiB; another one empties the disks.
    pub chunk: ByteSize,
    /// The `x-amz-meta-*` header in which objects name their tags, for purges; separated by spaces or commas.
    pub tags_header: String,
    /// Disks behind the memory; none: memory only; several: each takes one share of the chunks.
    pub disk: Vec<Disk>,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            memory: ByteSize(512 << 20),
            budget: ByteSize(256 << 20),
            chunk: ByteSize(256 << 10),
            tags_header: DEFAULT_TAGS_HEADER.to_owned(),
            disk: Vec::new(),
        }
    }
}

/// One disk of the cache.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["path", "capacity"]))]
pub struct Disk {
    /// A folder of its own.
    #[schemars(extend("examples" = ["/var/cache/tidegate"]))]
    pub path: PathBuf,
    /// The space that the cache may take there.
    #[schemars(extend("examples" = ["100GiB"]))]
    pub capacity: ByteSize,
    /// The space of the file system that stays free, whichever program fills it.
    pub min_free: ByteSize,
}

impl Default for Disk {
    /// Path and capacity have to be given: empty and zero stand for missing.
    fn default() -> Self {
        Self {
            path: PathBuf::new(),
            capacity: ByteSize(0),
            min_free: ByteSize(5 << 30),
        }
    }
}
