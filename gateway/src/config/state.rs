//! `[state]`: what must outlive a restart.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

/// Metadata: which version each key has, and what was purged.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct State {
    /// A folder; left out: beside the first disk, and without disks in memory.
    #[schemars(extend("examples" = ["/var/lib/tidegate"]))]
    pub path: Option<PathBuf>,
}
