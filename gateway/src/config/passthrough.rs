//! `[passthrough]`: files that the kernel reads by itself.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::Config;
use crate::plan::ByteSize;

/// Plain files of whole objects.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Passthrough {
    /// The space that these files may take, at least 1 MiB; 0: there are none. At most 1024 files.
    ///
    /// A file that a program has closed but still maps takes its space beside that.
    pub size: ByteSize,
    /// A folder for them, in which they have no names; left out: the first disk's.
    ///
    /// Not on an overlay. On a tmpfs, which has a `min_free` of 0 and a size of its own, they take memory, and no disk
    /// can fail under them.
    #[schemars(extend("examples" = ["/var/cache/tidegate"]))]
    pub path: Option<PathBuf>,
    /// The space of the file system that stays free, whichever program fills it.
    ///
    /// On a cache disk it is at least one and a half times the disk's own `min_free`: the cache goes first.
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
    /// The folder of plain files that the kernel reads by itself: `passthrough.path`, else the first disk's folder.
    /// `None`: there are none, or there is no such folder.
    #[must_use]
    pub fn passthrough_path(&self) -> Option<PathBuf> {
        let of_disk = || Some(self.cache.disk.first()?.path.clone());
        let wanted = self.passthrough.size.0 > 0;
        wanted.then(|| self.passthrough.path.clone().or_else(of_disk))?
    }
}
