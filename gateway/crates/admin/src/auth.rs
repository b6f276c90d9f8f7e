//! Authorization of changes, by the admin token.

use std::sync::{Arc, Mutex, MutexGuard};

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::{Instant, sleep};

use super::Admin;
use tidegate_plan::Client;
use tidegate_plan::wrong_tokens::WrongTokens;
use tidegate_telemetry::locks::Recover as _;

/// The listener's token, and the wrong tokens that were shown lately. All callers count as one client: they come from
/// this machine, or through a proxy.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    admin: Admin,
    wrong: Arc<Mutex<WrongTokens>>,
    since: Instant,
}

/// The slot of a delayed answer, released when it is sent or its caller leaves.
struct DelayedAnswer<'a>(&'a Guard);

impl Drop for DelayedAnswer<'_> {
    fn drop(&mut self) {
        self.0.wrong().end_wait(Client::Local);
    }
}

impl Guard {
    pub(super) fn new(admin: Admin) -> Self {
        Self {
            admin,
            wrong: Arc::default(),
            since: Instant::now(),
        }
    }

    fn wrong(&self) -> MutexGuard<'_, WrongTokens> {
        self.wrong.lock().recover()
    }

    /// Logs a wrong token and waits as long as its answer has to; returns whether it had a slot to wait in.
    async fn slow_down(&self, path: &str) -> bool {
        let verdict = self.wrong().record(Client::Local, self.since.elapsed());
        if let Some(count) = verdict.log {
            tracing::warn!(path, count, "admin request without the right token");
        }
        let Some(delay) = verdict.delay else {
            return false;
        };
        let _delayed = DelayedAnswer(self);
        sleep(delay).await;
        true
    }
}

/// Lets a request pass that shows the token. 403 while none is configured, 401 (RFC 9110, 15.5.2) if it is missing or
/// wrong, 429 if too many wrong ones wait; the body of a refused request is not read.
pub(super) async fn require_token(
    State(guard): State<Guard>,
    request: Request,
    next: Next,
) -> Response {
    let Some(token) = &guard.admin.token else {
        let body = "no admin token is configured: nothing can be changed here\n";
        return (StatusCode::FORBIDDEN, body).into_response();
    };
    if token.is_shown_by(request.headers()) {
        return next.run(request).await;
    }
    // A request without a token is not a guess.
    let is_guess = request.headers().contains_key(header::AUTHORIZATION);
    if is_guess && !guard.slow_down(request.uri().path()).await {
        let body = "too many wrong tokens\n";
        return (StatusCode::TOO_MANY_REQUESTS, body).into_response();
    }
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer realm=\"tidegate\"")];
    let body = "this needs the admin token\n";
    (StatusCode::UNAUTHORIZED, challenge, body).into_response()
}
