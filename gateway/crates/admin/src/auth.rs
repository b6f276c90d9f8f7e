//! Authorization of changes, by the admin token.

use std::sync::{Arc, Mutex, MutexGuard};

use arc_swap::ArcSwapOption;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::{Instant, sleep};

use super::Admin;
use tidegate_plan::wrong_tokens::WrongTokens;
use tidegate_plan::{Client, Token};
use tidegate_telemetry::locks::Recover as _;

/// The token that a change must show, which a reload exchanges. Without one, changes are refused.
#[derive(Debug, Clone, Default)]
pub struct AdminToken(Arc<ArcSwapOption<Token>>);

impl AdminToken {
    /// Returns one that is this token until it is replaced.
    #[must_use]
    pub fn new(token: Option<Token>) -> Self {
        let own = Self::default();
        own.replace(token);
        own
    }

    /// Puts another token in force.
    pub fn replace(&self, token: Option<Token>) {
        self.0.store(token.map(Arc::new));
    }

    /// Returns the token in force.
    #[must_use]
    pub fn in_force(&self) -> Option<Token> {
        self.0.load().as_deref().cloned()
    }
}

/// The wrong tokens that were shown lately. All callers count as one client: they come from this machine, or through a
/// proxy.
#[derive(Debug, Clone)]
pub struct Guesses {
    wrong: Arc<Mutex<WrongTokens>>,
    since: Instant,
}

/// The listener's token, and the guesses at it.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    admin: Admin,
    guesses: Guesses,
}

/// The slot of a delayed answer, released when it is sent or its caller leaves.
struct DelayedAnswer<'a>(&'a Guesses);

impl Drop for DelayedAnswer<'_> {
    fn drop(&mut self) {
        self.0.wrong().end_wait(Client::Local);
    }
}

impl Default for Guesses {
    fn default() -> Self {
        Self::new()
    }
}

impl Guesses {
    /// Returns a count of no guesses.
    #[must_use]
    pub fn new() -> Self {
        Self {
            wrong: Arc::default(),
            since: Instant::now(),
        }
    }

    fn wrong(&self) -> MutexGuard<'_, WrongTokens> {
        self.wrong.lock().recover()
    }

    /// Logs a wrong token and waits as long as its answer has to; returns whether it had a slot to wait in.
    pub async fn slow_down(&self, path: &str) -> bool {
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

    /// Returns the answer to a request without the right token; `needed` names the token. A wrong one is delayed.
    pub async fn refuse(&self, path: &str, headers: &HeaderMap, needed: &'static str) -> Response {
        // A request without a token is not a guess.
        let is_guess = headers.contains_key(header::AUTHORIZATION);
        if is_guess && !self.slow_down(path).await {
            return too_many_guesses();
        }
        let challenge = [(header::WWW_AUTHENTICATE, "Bearer realm=\"tidegate\"")];
        (StatusCode::UNAUTHORIZED, challenge, needed).into_response()
    }
}

/// Returns the answer to a wrong token that has no slot to wait in.
pub(super) fn too_many_guesses() -> Response {
    let body = "too many wrong tokens\n";
    (StatusCode::TOO_MANY_REQUESTS, body).into_response()
}

impl Guard {
    pub(super) fn new(admin: Admin, guesses: Guesses) -> Self {
        Self { admin, guesses }
    }
}

/// Lets a request pass that shows the token. 403 while none is configured, 401 (RFC 9110, 15.5.2) if it is missing or
/// wrong, 429 if too many wrong ones wait; the body of a refused request is not read.
pub(super) async fn require_token(
    State(guard): State<Guard>,
    request: Request,
    next: Next,
) -> Response {
    let Some(token) = guard.admin.token.in_force() else {
        let body = "no admin token is configured: nothing can be changed here\n";
        return (StatusCode::FORBIDDEN, body).into_response();
    };
    if token.is_shown_by(request.headers()) {
        return next.run(request).await;
    }
    let needed = "this needs the admin token\n";
    let (path, headers) = (request.uri().path(), request.headers());
    guard.guesses.refuse(path, headers, needed).await
}
