//! Who may change something: whoever knows the token.

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Admin;

/// Lets a request pass that shows the token. 403 while there is none to show, 401 (RFC 9110,
/// 15.5.2) where it is missing or wrong; the body of a refused request is not read.
pub(super) async fn require_token(
    State(admin): State<Admin>,
    request: Request,
    next: Next,
) -> Response {
    let Some(token) = &admin.token else {
        let body = "no admin token is configured: nothing can be changed here\n";
        return (StatusCode::FORBIDDEN, body).into_response();
    };
    if token.is_shown_by(request.headers()) {
        return next.run(request).await;
    }
    tracing::warn!(
        path = request.uri().path(),
        "admin request without the right token"
    );
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer realm=\"tidegate\"")];
    let body = "this needs the admin token\n";
    (StatusCode::UNAUTHORIZED, challenge, body).into_response()
}
