//! What an origin's connections have yielded lately: how long the first byte takes, and how many
//! bytes a second come after it.

use std::sync::Mutex;
use std::time::Duration;

use crate::plan::tiering::Connection;

/// How much of an average the newest measurement makes up.
const WEIGHT: f64 = 0.2;

/// Bodies shorter than this come out of buffers and say nothing about a connection's rate.
const TELLING: u64 = 128 << 10;

/// Running averages over the requests to one origin. See the module's head.
#[derive(Debug, Default)]
pub(super) struct Pace(Mutex<Averages>);

#[derive(Debug, Default, Clone, Copy)]
struct Averages {
    first_byte: Option<f64>,
    rate: Option<f64>,
}

fn mix(old: Option<f64>, new: f64) -> Option<f64> {
    Some(old.map_or(new, |old| old + WEIGHT * (new - old)))
}

impl Pace {
    fn averages(&self) -> std::sync::MutexGuard<'_, Averages> {
        self.0
            .lock()
            .expect("no code panics while it holds this lock")
    }

    /// A request's first byte took this long.
    pub(super) fn answered(&self, after: Duration) {
        let mut averages = self.averages();
        averages.first_byte = mix(averages.first_byte, after.as_secs_f64());
    }

    /// A body of `bytes` took this long after its first byte.
    pub(super) fn delivered(&self, bytes: u64, within: Duration) {
        if bytes >= TELLING {
            let mut averages = self.averages();
            averages.rate = mix(averages.rate, bytes as f64 / within.as_secs_f64().max(1e-6));
        }
    }

    /// Bytes a second of one connection.
    pub(super) fn rate(&self) -> Option<f64> {
        self.averages().rate
    }

    /// How long a request usually waits for its first byte.
    pub(super) fn first_byte(&self) -> Option<Duration> {
        self.averages().first_byte.map(Duration::from_secs_f64)
    }

    /// What one more connection yields.
    pub(super) fn connection(&self) -> Connection {
        Connection::new(self.first_byte(), self.rate())
    }

    /// How many bytes before a body's end the next request has to start, so that its first byte
    /// comes when this body's last one does.
    pub(super) fn lead(&self) -> u64 {
        let averages = self.averages();
        match (averages.first_byte, averages.rate) {
            (Some(first_byte), Some(rate)) => (first_byte * rate) as u64,
            _ => 0,
        }
    }
}
