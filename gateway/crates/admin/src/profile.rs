//! `GET /routes`: each route's profile, as it is in force.

use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};

use super::{Admin, ask};
use tidegate_plan::{ByteSize, Period, Profile};

/// The routes, as holders of profiles.
pub trait Routes: Send + Sync + 'static {
    /// Returns the present profile of each route, in the order of the configuration.
    fn list(&self) -> Vec<RouteProfile>;
}

/// A route and its present profile.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteProfile {
    /// The host that it is limited to.
    pub host: Option<String>,
    /// The prefix of its paths.
    pub path: String,
    /// The origin's name.
    pub origin: String,
    /// The profile's name.
    pub name: String,
    /// Its values.
    pub profile: Profile,
}

/// Answers `GET /routes`.
pub(super) async fn list(State(admin): State<Admin>) -> Response {
    let routes: Vec<Value> = admin.routes.list().iter().map(shown).collect();
    ask::json(&json!({ "routes": routes }))
}

/// Returns a route as JSON, its profile's values as they would stand in the file.
fn shown(route: &RouteProfile) -> Value {
    let profile = &route.profile;
    let time = |time| Period(time).to_string();
    json!({
        "path": route.path,
        "host": route.host,
        "origin": route.origin,
        "profile": route.name,
        "now": {
            "read_ahead": ByteSize(profile.read_ahead).to_string(),
            "streams": profile.streams,
            "disk": profile.disk.name(),
            "ttl": time(profile.ttl),
            "force_ttl": profile.force_ttl,
            "stale_while_revalidate": time(profile.stale_while_revalidate),
            "stale_if_error": time(profile.stale_if_error),
            "negative_ttl": time(profile.negative_ttl),
            "list_pages": profile.list_pages,
            "bulk": profile.bulk,
        },
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::tests::{asked, running};
    use super::*;

    /// A route.
    pub(in super::super) struct OneRoute;

    impl Routes for OneRoute {
        fn list(&self) -> Vec<RouteProfile> {
            vec![RouteProfile {
                host: None,
                path: "/books/".to_owned(),
                origin: "media".to_owned(),
                name: "stream".to_owned(),
                profile: Profile::stream(),
            }]
        }
    }

    #[tokio::test]
    async fn lists_what_each_route_has() {
        let (status, body) = asked(&running(None).admin, "GET /routes", None, "").await;
        assert_eq!(status, 200);
        let body: Value = serde_json::from_str(&body).expect("JSON");
        let route = &body["routes"][0];
        assert_eq!(
            (&route["path"], &route["profile"]),
            (&json!("/books/"), &json!("stream"))
        );
        let now = &route["now"];
        assert_eq!(
            (&now["read_ahead"], &now["streams"], &now["disk"]),
            (&json!("128MiB"), &json!(16), &json!("first"))
        );
    }
}
