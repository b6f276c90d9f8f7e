//! `[log]`: the format and content of the log.

mod trace;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use trace::Trace;

/// The format and content of the log. It goes to standard error.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// Text for people, JSON for programs.
    pub format: LogFormat,
    /// The least level that is logged: off, error, warn, info, debug, trace; also by module, after
    /// a comma.
    ///
    /// For example `info,tidegate_engine=debug`.
    pub level: String,
    /// Log one line a request.
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

/// The format of a line of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}
