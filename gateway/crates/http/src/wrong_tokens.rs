//! Delayed answers to wrong tokens (`plan/wrong_tokens` sets the delay).

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::{Instant, sleep};

use super::rescue::Cause;
use tidegate_plan::Client;
use tidegate_plan::wrong_tokens::WrongTokens;

/// The clients of this frontend that have shown wrong tokens.
#[derive(Debug)]
pub(super) struct TokenGuard {
    wrong: Mutex<WrongTokens>,
    since: Instant,
}

/// The slot of a waiting answer, released when it is sent or its client leaves.
struct Waiting<'a>(&'a TokenGuard, Client);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.lock().end_wait(self.1);
    }
}

impl TokenGuard {
    pub(super) fn new() -> Self {
        Self {
            wrong: Mutex::default(),
            since: Instant::now(),
        }
    }

    /// Logs a wrong token, and waits as long as its answer has to. Never receives the token.
    pub(super) async fn refuse(&self, address: Option<IpAddr>, path: &str) -> Cause {
        let client = Client::from(address);
        let verdict = self.lock().record(client, self.since.elapsed());
        if let Some(count) = verdict.log {
            let client = address.map(tracing::field::display);
            tracing::warn!(client, path, count, "a write without the right token");
        }
        let Some(delay) = verdict.delay else {
            return Cause::TooManyTokens;
        };
        let _waiting = Waiting(self, client);
        sleep(delay).await;
        Cause::Token
    }

    fn lock(&self) -> MutexGuard<'_, WrongTokens> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
