//! `[state]`: metadata that outlives a restart.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use tidegate_plan::{ByteSize, Period};

/// Metadata: the version of each key, and the purges.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct State {
    /// A folder; left out: beside the first disk, and without disks in memory.
    #[schemars(extend("examples" = ["/var/lib/tidegate"]))]
    pub path: Option<PathBuf>,
    /// The largest size of its database; then keys confirmed longest ago make room for new ones.
    pub size: ByteSize,
    /// The longest that a request waits for what is known of its object; then the bucket is asked.
    pub read_timeout: Period,
    /// The longest that a purge, a pin or a change of an object waits for the disk.
    pub write_timeout: Period,
}

impl Default for State {
    fn default() -> Self {
        Self {
            path: None,
            size: ByteSize(2 << 30),
            read_timeout: Period(Duration::from_millis(250)),
            write_timeout: Period::secs(5),
        }
    }
}
