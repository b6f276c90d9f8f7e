//! Memory, chunks and disks.

use http::HeaderName;

use super::super::problem::KeyPath;
use super::super::{Cache, Disk};
use super::Check;
use tidegate_plan::{ByteSize, Geometry};

/// The fewest chunks: with fewer, readers would wait for each other's memory.
const MIN_CHUNKS: u64 = 16;

/// The names of headers that are an object's own metadata begin so.
const METADATA: &str = "x-amz-meta-";

impl Check<'_, '_> {
    pub(super) fn cache(&mut self, cache: &Cache) {
        if Geometry::new(cache.chunk.0).is_none() {
            let message = format!("`{}` is no power of two from 4KiB to 16MiB", cache.chunk);
            self.error(&KeyPath::of("cache", "chunk"), message);
        } else {
            for (key, size) in [("memory", cache.memory), ("budget", cache.budget)] {
                let least = ByteSize(cache.chunk.0 * MIN_CHUNKS);
                if size < least && (key, size.0) != ("memory", 0) {
                    let message = format!(
                        "`{size}` is too little; {MIN_CHUNKS} chunks of {} need {least}",
                        cache.chunk
                    );
                    self.error(&KeyPath::of("cache", key), message);
                }
            }
        }
        let is_right = |name: HeaderName| name.as_str().starts_with(METADATA) && name != METADATA;
        if !cache.tags_header.parse().is_ok_and(is_right) {
            let message = format!(
                "`{}` is no header that objects are kept with: say `x-amz-meta-…`",
                cache.tags_header.escape_debug()
            );
            self.error(&KeyPath::of("cache", "tags_header"), message);
        }
        for (index, disk) in cache.disk.iter().enumerate() {
            self.disk(index, disk, &cache.disk[..index]);
        }
    }

    fn disk(&mut self, index: usize, disk: &Disk, before: &[Disk]) {
        let path = KeyPath::of("cache", "disk").index(index);
        let (folder, capacity) = (path.key("path"), path.key("capacity"));
        if !disk.path.as_os_str().is_empty()
            && let Some(first) = before.iter().position(|one| one.path == disk.path)
        {
            let message = format!("the same folder as `cache.disk[{first}]`");
            self.error(&folder, message);
        }
        if self.document.has(&folder) && disk.path.as_os_str().is_empty() {
            self.error(&folder, "is empty");
        }
        if self.document.has(&capacity) && disk.capacity.0 == 0 {
            self.error(
                &capacity,
                "a disk without capacity keeps nothing; leave the disk out",
            );
        }
        let min_free = path.key("min_free");
        if self.document.has(&min_free) && disk.min_free >= disk.capacity && disk.capacity.0 > 0 {
            let message = format!(
                "more stays free ({}) than the cache may take ({}); are they the wrong way round?",
                disk.min_free, disk.capacity
            );
            self.warn(&min_free, message);
        }
    }
}
