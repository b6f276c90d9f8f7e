//! The admission of requests to the console: by the admin token, or by a session that it has opened.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};

use crate::Console;
use crate::section::LIVE_PATH;
use crate::sessions::OwnSession;

/// The header in which a script shows the CSRF token of its session.
pub(crate) const CSRF_HEADER: &str = "x-csrf-token";

/// The way in which a request was admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Admitted {
    /// By the token.
    Token,
    /// By a session.
    Session(OwnSession),
    /// Because everyone may read.
    Reader,
}

impl Admitted {
    /// Returns the session, if it is one.
    pub(crate) fn session(&self) -> Option<&OwnSession> {
        match self {
            Self::Session(own) => Some(own),
            Self::Token | Self::Reader => None,
        }
    }

    /// Returns whether a request of the API may change something: with the token, or with a session and its CSRF token.
    fn may_change(&self, headers: &HeaderMap) -> bool {
        match self {
            Self::Token => true,
            Self::Reader => false,
            Self::Session(own) => {
                let shown = headers
                    .get(CSRF_HEADER)
                    .and_then(|value| value.to_str().ok());
                shown.is_some_and(|csrf| own.is_shown(csrf))
            }
        }
    }
}

impl Console {
    /// Returns the way in which a request is admitted, by its headers. A request for a live part does not count as a use of
    /// its session, because an open page sends it without its reader.
    fn admit(&self, path: &str, headers: &HeaderMap) -> Option<Admitted> {
        let token = self.admin.token.in_force();
        if token.is_some_and(|token| token.is_shown_by(headers)) {
            return Some(Admitted::Token);
        }
        if headers.contains_key(header::AUTHORIZATION) {
            return None;
        }
        let own = match path == LIVE_PATH {
            true => self.sessions.look_up(headers),
            false => self.sessions.find(headers),
        };
        match own {
            Some(own) => Some(Admitted::Session(own)),
            None => self.open_to_read.then_some(Admitted::Reader),
        }
    }

    /// Returns the answer to a request that is not admitted. A wrong token is counted, logged and delayed.
    async fn refuse(&self, path: &str, headers: &HeaderMap) -> Response {
        let needed = "this needs the admin token\n";
        self.guesses.refuse(path, headers, needed).await
    }
}

/// Lets requests of the API pass: reads by token, session or for all; changes by token or session with its CSRF token.
pub(crate) async fn require_api(
    State(console): State<Console>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(admitted) = console.admit(request.uri().path(), request.headers()) else {
        let (path, headers) = (request.uri().path(), request.headers());
        return console.refuse(path, headers).await;
    };
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if !reads && !admitted.may_change(request.headers()) {
        let body = "a change needs the admin token, or a session and its CSRF token\n";
        return (StatusCode::FORBIDDEN, body).into_response();
    }
    request.extensions_mut().insert(admitted);
    next.run(request).await
}

/// Lets admitted requests for pages pass. Sends other readers to the login, and refuses a wrong token. Each form checks its
/// own CSRF token.
pub(crate) async fn require_page(
    State(console): State<Console>,
    mut request: Request,
    next: Next,
) -> Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    match console.admit(request.uri().path(), request.headers()) {
        Some(admitted) if reads || admitted.session().is_some() => {
            request.extensions_mut().insert(admitted);
            next.run(request).await
        }
        Some(_) => {
            let body = "a change of a page needs a session: log in\n";
            (StatusCode::FORBIDDEN, body).into_response()
        }
        None if request.headers().contains_key(header::AUTHORIZATION) => {
            let (path, headers) = (request.uri().path(), request.headers());
            console.refuse(path, headers).await
        }
        None if reads => Redirect::to("/console/login").into_response(),
        None => (StatusCode::UNAUTHORIZED, "log in\n").into_response(),
    }
}
