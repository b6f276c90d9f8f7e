//! Delayed answers to wrong tokens (`tidegate_plan::wrong_tokens` sets the delay).

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::request_error::RequestError;
use tidegate_plan::Client;
use tidegate_plan::wrong_tokens::WrongTokens;
use tidegate_telemetry::locks::Recover as _;

/// The clients of this frontend that have shown wrong tokens.
#[derive(Debug)]
pub(crate) struct TokenGuard {
    tokens: Mutex<WrongTokens>,
    since: Instant,
}

/// The slot of a delayed answer, released when it is sent or its client leaves.
struct DelayedAnswer<'a>(&'a TokenGuard, Client);

impl Drop for DelayedAnswer<'_> {
    fn drop(&mut self) {
        self.0.lock().end_wait(self.1);
    }
}

impl TokenGuard {
    pub(crate) fn new() -> Self {
        Self {
            tokens: Mutex::default(),
            since: Instant::now(),
        }
    }

    /// Logs a wrong token, and waits as long as its answer has to. Never receives the token.
    pub(crate) async fn refuse(&self, address: Option<IpAddr>, path: &str) -> RequestError {
        match self.record(address, path) {
            None => RequestError::TooManyTokens,
            Some((delay, _delayed)) => {
                sleep(delay).await;
                RequestError::Token
            }
        }
    }

    /// Logs a wrong token on a route that is hidden, and counts it. The answer does not wait: that would tell that there is
    /// a token to guess. Its length alone protects it ([`MIN_TOKEN`](tidegate_plan::MIN_TOKEN)).
    pub(crate) fn refuse_hidden(&self, address: Option<IpAddr>, path: &str) -> RequestError {
        drop(self.record(address, path));
        RequestError::NoRoute
    }

    /// Returns how long the answer to a wrong token has to wait, and its slot meanwhile; `None` if too many wait already.
    fn record(&self, address: Option<IpAddr>, path: &str) -> Option<(Duration, DelayedAnswer<'_>)> {
        let client = Client::from(address);
        let verdict = self.lock().record(client, self.since.elapsed());
        if let Some(count) = verdict.log {
            let client = address.map(tracing::field::display);
            tracing::warn!(client, path, count, "a write without the right token");
        }
        verdict
            .delay
            .map(|delay| (delay, DelayedAnswer(self, client)))
    }

    fn lock(&self) -> MutexGuard<'_, WrongTokens> {
        self.tokens.lock().recover()
    }
}
