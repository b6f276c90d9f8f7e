//! The errors of a connection, as lines of the log.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use tidegate_telemetry::locks::Recover as _;

/// The time between two lines of the same error. A refused login fails again every two seconds, and may for days.
const INTERVAL: Duration = Duration::from_secs(60);

/// The errors of the last [`INTERVAL`] that were logged.
#[derive(Debug, Default)]
pub(super) struct LoggedErrors(Mutex<HashMap<String, Instant>>);

impl LoggedErrors {
    /// Returns whether a line of this error is due now.
    pub(super) fn is_due(&self, error: &impl ToString) -> bool {
        let now = Instant::now();
        let mut logged = self.0.lock().recover();
        logged.retain(|_, at| now.duration_since(*at) < INTERVAL);
        let error = error.to_string();
        let is_due = !logged.contains_key(&error);
        if is_due {
            logged.insert(error, now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_same_error_is_a_line_a_minute() {
        let logged = LoggedErrors::default();
        assert!(logged.is_due(&"refused"));
        assert!(logged.is_due(&"no route"));
        assert!(!logged.is_due(&"refused"));
        tokio::time::advance(INTERVAL - Duration::from_millis(1)).await;
        assert!(!logged.is_due(&"refused"));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(logged.is_due(&"refused"));
    }
}
