//! The admission of requests to the console: by the admin token, or by a session that it has opened.

use axum::extract::{Request, State};
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::Console;
use crate::section::LIVE_PATH;
use crate::sessions::OwnSession;
use tidegate_plan::key::has_dot_segment;

/// The header in which a script shows the CSRF token of its session.
pub(crate) const CSRF_HEADER: &str = "x-csrf-token";

/// The path of the login.
pub(crate) const LOGIN_PATH: &str = "/console/login";

/// The way in which a request was admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AdmissionKind {
    /// By the token.
    Token,
    /// By a session.
    Session(OwnSession),
    /// Because everyone may read.
    Reader,
}

impl AdmissionKind {
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

/// Returns the address of the login that leads back to a page.
pub(crate) fn login_address(to: &str) -> String {
    match to {
        "/" => LOGIN_PATH.to_owned(),
        to => format!(
            "{LOGIN_PATH}?to={}",
            utf8_percent_encode(to, NON_ALPHANUMERIC)
        ),
    }
}

/// Returns the address that a login leads to, if that is one of the console's own pages.
pub(crate) fn own_page(to: &str) -> Option<&str> {
    let path = to.parse::<PathAndQuery>().ok()?;
    let is_plain = to
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let is_own = path.path() == "/" || path.path().starts_with("/console/");
    // A browser leaves dot segments out, also encoded ones, and would come to another page.
    let decoded = percent_decode_str(path.path()).decode_utf8_lossy();
    let stays = !has_dot_segment(&decoded);
    (is_plain && is_own && stays).then_some(to)
}

impl Console {
    /// Returns the way in which a request is admitted, by its headers. A request for a live part does not count as a use of
    /// its session, because an open page sends it without its reader.
    fn admit(&self, path: &str, headers: &HeaderMap) -> Option<AdmissionKind> {
        let token = self.admin.token.in_force();
        if token.is_some_and(|token| token.is_shown_by(headers)) {
            return Some(AdmissionKind::Token);
        }
        if headers.contains_key(header::AUTHORIZATION) {
            return None;
        }
        let own = match path == LIVE_PATH {
            true => self.sessions.look_up(headers),
            false => self.sessions.find(headers),
        };
        match own {
            Some(own) => Some(AdmissionKind::Session(own)),
            None => self.open_to_read.then_some(AdmissionKind::Reader),
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
            request.extensions_mut().insert(admitted.clone());
            let mut answer = next.run(request).await;
            // A refusal is shown as a page of this reader.
            answer.extensions_mut().insert(admitted);
            answer
        }
        Some(_) => {
            let body = "a change of a page needs a session: log in\n";
            (StatusCode::FORBIDDEN, body).into_response()
        }
        None if request.headers().contains_key(header::AUTHORIZATION) => {
            let (path, headers) = (request.uri().path(), request.headers());
            console.refuse(path, headers).await
        }
        None if reads => {
            let asked = request.uri().path_and_query();
            let asked = asked.map_or("/", PathAndQuery::as_str);
            Redirect::to(&login_address(asked)).into_response()
        }
        None => (StatusCode::UNAUTHORIZED, "log in\n").into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_to_pages_of_the_console_alone() {
        for to in [
            "/",
            "/console/objects?path=%2Fa%20b%2F&host=",
            "/console/settings?edit=cache.memory",
        ] {
            assert_eq!(own_page(to), Some(to));
        }
        for to in [
            "",
            "//evil.example/console/",
            "https://evil.example/console/",
            "/\\evil.example",
            "/console/\\evil.example",
            "/console/a\r\nset-cookie: a=b",
            "/console/ü",
            "/consolex",
            "/console/../metrics",
            "/console/%2e%2E/metrics",
            "/console/.%2e/metrics",
            "/console/./streams",
            "console/streams",
            "*",
            "/metrics",
        ] {
            assert_eq!(own_page(to), None, "{to}");
        }
        assert_eq!(login_address("/"), "/console/login");
        let address = "/console/login?to=%2Fconsole%2Fobjects%3Fpath%3D%252F%26host%3D";
        assert_eq!(login_address("/console/objects?path=%2F&host="), address);
    }
}
