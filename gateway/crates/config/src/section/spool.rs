//! `[spool]`: files that are being written, until they are in the bucket.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use tidegate_plan::ByteSize;

/// The folder of files written through mounts, until they are in the bucket.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Spool {
    /// A folder of its own, on a disk that outlives a restart; left out: with the metadata.
    ///
    /// That is `spool` in `state.path`, else beside the first disk's `state`, else in `$XDG_STATE_HOME/tidegate`
    /// (`~/.local/state/tidegate`).
    #[schemars(extend("examples" = ["/var/lib/tidegate/spool"]))]
    pub path: Option<PathBuf>,
    /// The space that it may take; a program that writes faster than the bucket takes it waits for room.
    ///
    /// The first and last 64 MiB of each open object stay in it; if the spool is below 512 MiB, an eighth of its size.
    /// It also needs room for several parts: of 16 MiB, from 14 GiB of an object on of up to 1 GiB.
    pub size: ByteSize,
    /// Whether an object that outgrows the spool can be changed anywhere until it is closed.
    ///
    /// Such an object is sent under a staging key, and copied to its own key on the server in the end: free at AWS, a
    /// second write of all its bytes in most other stores. Without it, a program that has written in order cannot get
    /// back bytes that have left the spool.
    pub read_back: bool,
}

impl Default for Spool {
    fn default() -> Self {
        Self {
            path: None,
            size: ByteSize(16 << 30),
            read_back: false,
        }
    }
}
