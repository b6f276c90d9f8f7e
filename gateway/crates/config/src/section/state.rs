//! `[state]`: metadata that outlives a restart.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use tidegate_plan::ByteSize;

/// Metadata: the version of each key, and the purges.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct State {
    /// A folder; left out: beside the first disk, and without disks in memory.
    #[schemars(extend("examples" = ["/var/lib/tidegate"]))]
    pub path: Option<PathBuf>,
    /// The largest size of its database; then keys confirmed longest ago make room for new ones.
    pub size: ByteSize,
}

impl Default for State {
    fn default() -> Self {
        Self {
            path: None,
            size: ByteSize(2 << 30),
        }
    }
}
