//! `[passthrough]`: what the kernel reads by itself.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::Config;
use crate::plan::ByteSize;

/// Plain files of whole objects.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Passthrough {
    /// How much these files may take, at least 1 MiB; 0: there are none. At most 1024 files.
    ///
    /// What a program has closed and has mapped still takes its space beside that.
    pub size: ByteSize,
    /// A folder for them, where they have no names; left out: the first disk's.
    ///
    /// Not on an overlay. On a tmpfs, which has a `min_free` of 0 and a size of its own, they take memory, and
    /// no disk can fail under them.
    #[schemars(extend("examples" = ["/var/cache/tidegate"]))]
    pub path: Option<PathBuf>,
    /// How much of the file system stays free, whoever fills it.
    ///
    /// On a cache disk half as much again as that is to have free, if that is more: the cache goes first.
    pub min_free: ByteSize,
}

impl Default for Passthrough {
    fn default() -> Self {
        Self {
            size: ByteSize(0),
            path: None,
            min_free: ByteSize(5 << 30),
        }
    }
}

impl Config {
    /// Where plain files lie that the kernel reads by itself: `passthrough.path`, else the first disk's
    /// folder. `None`: there are none, or there is no such place.
    #[must_use]
    pub fn passthrough_path(&self) -> Option<PathBuf> {
        let of_disk = || Some(self.cache.disk.first()?.path.clone());
        let wanted = self.passthrough.size.0 > 0;
        wanted.then(|| self.passthrough.path.clone().or_else(of_disk))?
    }
}
