//! `GET /api/v1/openapi.json`: the description of the API, made from its code.

use axum::routing::MethodRouter;
use axum::{Json, Router};
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi as Document, Ref, Response, ResponseBuilder};
use utoipa::{Modify, OpenApi};

use super::{
    access, connections, doctor, links, now, objects, origins, settings, streams, tiers, writes,
};
use crate::Console;
use crate::sessions::COOKIE_NAME;

/// Makes the router and the document of one list: for each path below `/api/v1` its methods, each with its handler.
macro_rules! operations {
    ($($path:literal => $($method:ident $module:ident::$handler:ident),+;)+) => {
        #[derive(OpenApi)]
        #[openapi(
            info(
                title = "Tidegate",
                description = "The operator's API: read-only figures, and a few orders. Times are in seconds, sizes in bytes.",
                version = "1"
            ),
            paths($($($module::$handler,)+)+),
            components(schemas(super::ApiError)),
            modifiers(&CommonParts),
            security(("admin_token" = []), ("session" = []))
        )]
        struct Api;

        /// Returns the router of all operations, and of their document.
        pub(crate) fn router() -> Router<Console> {
            Router::new()
                $(.route($path, MethodRouter::new()$(.$method($module::$handler))+))+
                .route("/openapi.json", MethodRouter::new().get(show))
        }

        /// The path and the method of each operation.
        #[cfg(test)]
        const ROUTED: &[(&str, &str)] = &[$($(($path, stringify!($method)),)+)+];
    };
}

operations! {
    "/now" => get now::now;
    "/history" => get now::history;
    "/streams" => get streams::list;
    "/streams/{id}" => delete streams::stop;
    "/objects" => get objects::list;
    "/warms" => get objects::warms;
    "/tiers" => get tiers::show;
    "/origins" => get origins::list;
    "/writes" => get writes::list, post writes::resolve;
    "/events" => get connections::events;
    "/hooks" => get connections::hooks;
    "/fleet" => get connections::fleet;
    "/links" => post links::make;
    "/doctor" => get doctor::show, post doctor::order;
    "/settings" => get settings::list;
    "/routes" => get settings::routes;
    "/sessions" => get access::list;
    "/sessions/{id}" => delete access::end;
}

/// The failures of every request.
const FAILURES: [(&str, &str); 4] = [
    ("401", "It shows neither the admin token nor a session"),
    (
        "403",
        "Its host or origin is foreign, or it changes something without the token or the session's CSRF token",
    ),
    ("429", "Too many wrong tokens were shown"),
    ("default", "Any other failure"),
];

/// The failure of a request that has parameters or a body.
const BAD_REQUEST: (&str, &str) = ("400", "Its parameters or its body are wrong");

/// The failures of a request that has a body.
const BAD_BODY: [(&str, &str); 3] = [
    ("413", "Its body is too long"),
    ("415", "Its body is no `application/json`"),
    ("422", "Its body is JSON that does not follow the schema"),
];

/// Adds the parts of the document that are the same for every operation: security, and the answers that are no success.
struct CommonParts;

impl Modify for CommonParts {
    fn modify(&self, document: &mut Document) {
        let components = document.components.get_or_insert_default();
        let token = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some(
                "The admin token. Reads need none with `admin.console = \"read\"`.",
            ))
            .build();
        components.add_security_scheme("admin_token", SecurityScheme::Http(token));
        let words =
            "A session of the console. A change also shows its CSRF token in `x-csrf-token`.";
        let cookie = ApiKeyValue::with_description(COOKIE_NAME, words);
        let cookie = SecurityScheme::ApiKey(ApiKey::Cookie(cookie));
        components.add_security_scheme("session", cookie);
        for item in document.paths.paths.values_mut() {
            let methods = [&mut item.get, &mut item.post, &mut item.delete];
            methods.into_iter().flatten().for_each(add_failures);
        }
    }
}

fn add_failures(operation: &mut Operation) {
    let has_body = operation.request_body.is_some();
    let bad = (has_body || operation.parameters.is_some()).then_some(BAD_REQUEST);
    let bad_body = BAD_BODY.into_iter().filter(|_| has_body);
    for (status, words) in FAILURES.into_iter().chain(bad).chain(bad_body) {
        let known = operation.responses.responses.entry(status.to_owned());
        known.or_insert_with(|| failure(words).into());
    }
}

fn failure(words: &str) -> Response {
    let schema = Ref::from_schema_name("ApiError");
    let content = ContentBuilder::new().schema(Some(schema)).build();
    let response = ResponseBuilder::new().description(words);
    response.content("application/json", content).build()
}

/// Returns the document.
#[must_use]
pub fn document() -> Document {
    Api::openapi()
}

/// Answers `GET /api/v1/openapi.json`.
pub(crate) async fn show() -> Json<Document> {
    Json(document())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::api::errors::API_PATH;

    #[test]
    fn each_operation_is_described_at_the_path_where_it_is() {
        let document = document();
        let mut described = BTreeSet::new();
        for (path, item) in &document.paths.paths {
            let path = path.strip_prefix(API_PATH).expect("a path of the API");
            let item = serde_json::to_value(item).expect("JSON");
            let methods = item.as_object().expect("methods").keys();
            described.extend(methods.map(|method| (path.to_owned(), method.clone())));
        }
        let routed = ROUTED.iter();
        let routed: BTreeSet<_> = routed
            .map(|(path, method)| ((*path).to_owned(), (*method).to_owned()))
            .collect();
        assert_eq!(described, routed);
        assert_eq!(routed.len(), ROUTED.len(), "one is listed twice");
    }
}
