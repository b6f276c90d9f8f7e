//! `[log]`: what is logged, and how.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is logged, and how. Logs go to standard error.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// Text for people, JSON for programs.
    pub format: LogFormat,
    /// From which level on: off, error, warn, info, debug, trace; also by module, after a comma.
    ///
    /// For example `info,tidegate::engine=debug`.
    pub level: String,
    /// One line a request.
    pub access: bool,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            format: LogFormat::default(),
            level: "info".into(),
            access: false,
        }
    }
}

/// How a line of the log is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}
