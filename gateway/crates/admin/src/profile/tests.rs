//! The endpoints, against routes that record their calls.

use std::sync::{Arc, Mutex};

use super::super::Admin;
use super::super::tests::{asked, running};
use super::*;

/// One route, whose changes fail if the test says so.
#[derive(Default)]
pub(in super::super) struct OneRoute {
    fails: Mutex<Option<ProfileChangeError>>,
    asked: Mutex<Vec<ProfileChange>>,
}

fn books() -> RouteProfile {
    RouteProfile {
        host: None,
        path: "/books/".to_owned(),
        origin: "media".to_owned(),
        name: Some("stream".to_owned()),
        profile: Profile::stream(),
    }
}

impl Routes for OneRoute {
    fn list(&self) -> Vec<RouteProfile> {
        vec![books()]
    }

    fn change(&self, change: &ProfileChange) -> Result<RouteProfile, ProfileChangeError> {
        self.asked
            .lock()
            .expect("not poisoned")
            .push(change.clone());
        match self.fails.lock().expect("not poisoned").clone() {
            Some(error) => Err(error),
            None => Ok(books()),
        }
    }
}

impl OneRoute {
    fn asked(&self) -> Vec<ProfileChange> {
        std::mem::take(&mut *self.asked.lock().expect("not poisoned"))
    }
}

const TOKEN: Option<&str> = Some("s3cret");

/// Sends one request; returns status and body.
async fn ask(
    routes: &Arc<OneRoute>,
    line: &str,
    token: Option<&str>,
    body: &str,
) -> (StatusCode, String) {
    let admin = Admin {
        routes: routes.clone(),
        ..running(Some("s3cret")).admin
    };
    let (status, body) = asked(&admin, line, token, body).await;
    (StatusCode::from_u16(status).expect("a status"), body)
}

#[tokio::test]
async fn lists_what_each_route_has() {
    let routes = Arc::new(OneRoute::default());
    let (status, body) = ask(&routes, "GET /routes", None, "").await;
    assert_eq!(status, 200);
    let body: Value = serde_json::from_str(&body).expect("JSON");
    let route = &body["routes"][0];
    assert_eq!(
        (&route["path"], &route["profile"]),
        (&json!("/books/"), &json!("stream"))
    );
    assert_eq!(route["now"]["read_ahead"], "128MiB");
    assert_eq!(route["now"]["stale_if_error"], "1d");
}

#[tokio::test]
async fn changes_by_name_by_keys_and_over_what_is_there() {
    let routes = Arc::new(OneRoute::default());
    for (line, body, to) in [
        (
            "PUT",
            r#"{"profile": "web"}"#,
            NewProfile::Named("web".to_owned()),
        ),
        (
            "PUT",
            r#"{"extends": "web"}"#,
            NewProfile::Keys(json!({ "extends": "web" })),
        ),
        (
            "PATCH",
            r#"{"streams": 4}"#,
            NewProfile::Over(json!({ "streams": 4 })),
        ),
    ] {
        let line = format!("{line} /routes/profile?path=/books/&host=a.example");
        let (status, said) = ask(&routes, &line, TOKEN, body).await;
        assert_eq!(status, 200, "{said}");
        assert!(said.contains(r#""read_ahead":"128MiB""#), "{said}");
        let change = ProfileChange {
            path: "/books/".to_owned(),
            host: Some("a.example".to_owned()),
            to,
        };
        assert_eq!(routes.asked(), [change]);
    }
}

#[tokio::test]
async fn refuses_what_it_does_not_understand_and_whom_it_does_not_know() {
    let routes = Arc::new(OneRoute::default());
    let put = "PUT /routes/profile?path=/";
    for (line, body) in [
        ("PUT /routes/profile", r#"{"profile": "web"}"#),
        (
            "PUT /routes/profile?path=/&path=/a",
            r#"{"profile": "web"}"#,
        ),
        (
            "PUT /routes/profile?path=/&prefix=true",
            r#"{"profile": "web"}"#,
        ),
        (put, ""),
        (put, "profile=web"),
        (put, r#"{"profile": 1}"#),
        (put, r#"{"profile": "web", "streams": 3}"#),
        ("PATCH /routes/profile?path=/", r#"{"profile": "web"}"#),
    ] {
        let (status, said) = ask(&routes, line, TOKEN, body).await;
        assert_eq!(status, 400, "{line} {body}: {said}");
    }
    for token in [None, Some("s3cre")] {
        let (status, _) = ask(&routes, put, token, r#"{"profile": "web"}"#).await;
        assert_eq!(status, 401);
    }
    assert_eq!(
        ask(&routes, "POST /routes/profile?path=/", TOKEN, "{}")
            .await
            .0,
        405
    );
    assert_eq!(routes.asked(), []);
}

#[tokio::test]
async fn says_why_nothing_was_changed() {
    let routes = Arc::new(OneRoute::default());
    for (error, expected) in [
        (ProfileChangeError::NoRoute, 404),
        (ProfileChangeError::Several, 400),
        (
            ProfileChangeError::Wrong("`streams`: must be at least 1".to_owned()),
            400,
        ),
    ] {
        let words = format!("{error}\n");
        *routes.fails.lock().expect("not poisoned") = Some(error);
        let line = "PUT /routes/profile?path=/";
        let (status, said) = ask(&routes, line, TOKEN, r#"{"streams": 0}"#).await;
        assert_eq!((status.as_u16(), said), (expected, words));
    }
}
