//! Lines in the log while work takes long: one every few seconds, so that a wait can be told from a fault.

use std::time::{Duration, Instant};

/// The time between two lines, and before the first.
pub const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Tells when the next line is due.
#[derive(Debug)]
pub struct ProgressLines {
    next: Instant,
}

impl ProgressLines {
    /// Returns the lines of work that begins at `now`. Short work has none.
    #[must_use]
    pub fn begin(now: Instant) -> Self {
        Self {
            next: now + LINE_INTERVAL,
        }
    }

    /// Returns whether a line is due at `now`; the one after it is then due later.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now >= self.next;
        if is_due {
            self.next = now + LINE_INTERVAL;
        }
        is_due
    }
}

/// Runs work, and calls `tell` every few seconds until it is done.
pub async fn told_of<T>(work: impl Future<Output = T>, tell: impl Fn()) -> T {
    told_every(LINE_INTERVAL, work, tell).await
}

/// Runs work, and calls `tell` each time an interval has passed until it is done.
pub async fn told_every<T>(
    interval: Duration,
    work: impl Future<Output = T>,
    tell: impl Fn(),
) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        match tokio::time::timeout(interval, work.as_mut()).await {
            Ok(done) => return done,
            Err(_) => tell(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn short_work_has_no_line_and_long_work_one_every_few_seconds() {
        let begun = Instant::now();
        let mut lines = ProgressLines::begin(begun);
        let mut due = |millis| lines.is_due(begun + Duration::from_millis(millis));
        let told = [0, 4999, 5000, 5001, 9999, 10_000, 60_000, 60_001].map(&mut due);
        assert_eq!(told, [false, false, true, false, false, true, true, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_told_of_until_it_is_done() {
        let told = Cell::new(0);
        let work = async {
            tokio::time::sleep(Duration::from_secs(17)).await;
            7
        };
        assert_eq!(told_of(work, || told.set(told.get() + 1)).await, 7);
        assert_eq!(told.get(), 3);
    }
}
