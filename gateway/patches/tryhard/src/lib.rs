//! A stand-in for the crate [tryhard](https://docs.rs/tryhard/0.5.2), as far as `async-nats` uses it.
//!
//! All versions of tryhard turn on tokio's feature `test-util`, and Cargo then turns it on for the whole binary. With it,
//! each look of a runtime at its clock takes a mutex that all of its threads share, at every turn of the event loop
//! ([ADR 35](../../../docs/adr/0035-one-write-an-answer.md)). `[patch.crates-io]` puts this crate in its place, until tryhard or
//! async-nats can do without.

use std::time::Duration;

use tokio::time::sleep;

/// Returns an attempt that may be made again after it has failed.
pub fn retry_fn<A>(attempt: A) -> Retry<A> {
    Retry {
        attempt,
        retries: 0,
    }
}

/// An attempt, and how often it is made again.
#[derive(Debug)]
pub struct Retry<A> {
    attempt: A,
    retries: u32,
}

impl<A> Retry<A> {
    /// Sets how often the attempt is made again at most.
    #[must_use]
    pub fn retries(self, retries: u32) -> Self {
        Self { retries, ..self }
    }

    /// Makes the attempt until it succeeds. `backoff` returns the pause before a retry, from its number, counted from 1, and the
    /// error before it.
    ///
    /// # Errors
    /// That of the last attempt.
    pub async fn custom_backoff<F, T, E>(
        mut self,
        mut backoff: impl FnMut(u32, &E) -> Duration,
    ) -> Result<T, E>
    where
        A: FnMut() -> F,
        F: Future<Output = Result<T, E>>,
    {
        for retry in 1..=self.retries {
            match (self.attempt)().await {
                Ok(value) => return Ok(value),
                Err(error) => sleep(backoff(retry, &error)).await,
            }
        }
        (self.attempt)().await
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// Returns what became of attempts of which the first `failures` fail, and after how many seconds.
    async fn outcome(failures: u32, retries: u32) -> (Result<u32, u32>, u64) {
        let (begun, mut made) = (Instant::now(), 0);
        let attempt = || {
            made += 1;
            let result = if made > failures { Ok(made) } else { Err(made) };
            async move { result }
        };
        let backoff = |retry: u32, failed: &u32| {
            assert_eq!(retry, *failed);
            Duration::from_secs(u64::from(retry))
        };
        let result = retry_fn(attempt).retries(retries).custom_backoff(backoff);
        (result.await, begun.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_is_made_until_it_succeeds_or_no_retry_is_left() {
        assert_eq!(outcome(0, 3).await, (Ok(1), 0));
        assert_eq!(outcome(2, 3).await, (Ok(3), 1 + 2));
        assert_eq!(outcome(3, 3).await, (Ok(4), 1 + 2 + 3));
        assert_eq!(outcome(4, 3).await, (Err(4), 1 + 2 + 3));
        assert_eq!(outcome(1, 0).await, (Err(1), 0));
        assert_eq!(outcome(1, u32::MAX).await, (Ok(2), 1));
    }
}
