//! The document of the API: each answer is as it says, also one that is no success.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};

use super::admission::log_in;
use super::{AUTH, Got, Whole, World, api, ask, send, started};

/// Paths that need a parameter, with one.
const WITH_PARAMETERS: [(&str, &str); 1] = [("/api/v1/objects", "/api/v1/objects?path=/o/")];

/// The document in the repository.
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/openapi.json");

const JSON: (&str, &str) = ("content-type", "application/json");

/// Returns the document that is kept in the repository.
pub(super) fn of_the_code() -> Value {
    let text = std::fs::read_to_string(KEPT).expect("it is in the repository");
    serde_json::from_str(&text).expect("JSON")
}

async fn document(gateway: &Whole) -> Value {
    let document = api(gateway, "/api/v1/openapi.json").await;
    assert_eq!(document["openapi"], "3.1.0");
    document
}

/// A name that scripts use does not change by accident. `UPDATE=1` writes the document anew.
#[tokio::test(flavor = "multi_thread")]
async fn the_document_is_the_one_that_is_kept() {
    let world = World::new().await;
    let gateway = started(&world).await;
    let document = document(&gateway).await;
    if std::env::var_os("UPDATE").is_some() {
        let text = serde_json::to_string_pretty(&document).expect("JSON");
        std::fs::write(KEPT, text + "\n").expect("written");
    }
    assert!(document == of_the_code(), "`just docs` writes it anew");
    gateway.stop().await;
}

/// Checks a body by the schema that the document has for an answer.
pub(super) fn check(document: &Value, (method, path, status): (&str, &str, u16), body: &[u8]) {
    let of = format!("{method} {path}, {status}");
    let responses = &document["paths"][path][method]["responses"];
    let response = &responses[status.to_string()];
    assert!(response.is_object(), "{of} is described: {responses}");
    let schema = &response["content"]["application/json"]["schema"];
    if !schema.is_object() {
        assert!(body.is_empty(), "{of} has no body");
        return;
    }
    let mut schema = schema.clone();
    schema["components"] = document["components"].clone();
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let body: Value = serde_json::from_slice(body).expect("JSON");
    let errors = validator.iter_errors(&body);
    let errors: Vec<_> = errors.map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{of}: {errors:?}\n{body}");
    let nothing = validator.is_valid(&json!({}));
    assert!(!nothing, "{of}: its schema demands nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_answer_is_as_its_document_describes_it() {
    let world = World::new().await;
    let gateway = started(&world).await;
    let document = document(&gateway).await;
    let paths = document["paths"].as_object().expect("paths");
    let reads = paths
        .iter()
        .filter(|(_, methods)| methods["get"].is_object());
    let mut checked = 0;
    for (path, _) in reads {
        let with = WITH_PARAMETERS.iter().find(|(bare, _)| bare == path);
        let asked = with.map_or(path.as_str(), |(_, with)| with);
        let got = ask(gateway.admin, Method::GET, asked, &[AUTH]).await;
        check(&document, ("get", path, got.status), &got.body);
        assert_eq!(got.status, 200, "{path}: {}", got.text());
        checked += 1;
    }
    assert!(checked >= 12, "{checked} paths were checked");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_operation_has_a_name_of_its_own_and_asks_for_the_token() {
    let world = World::new().await;
    let gateway = started(&world).await;
    let document = document(&gateway).await;
    let paths = document["paths"].as_object().expect("paths");
    let operations = paths
        .values()
        .flat_map(|methods| methods.as_object().expect("methods"));
    let names: Vec<_> = operations
        .map(|(_, operation)| operation["operationId"].as_str().expect("a name"))
        .collect();
    let unique: BTreeSet<_> = names.iter().collect();
    assert_eq!(unique.len(), names.len(), "{names:?}");
    let schemes = &document["components"]["securitySchemes"];
    for alternative in document["security"].as_array().expect("a list") {
        for (name, _) in alternative.as_object().expect("schemes") {
            assert!(schemes[name].is_object(), "{name}: {schemes}");
        }
    }
    let token = (
        &schemes["admin_token"]["type"],
        &schemes["admin_token"]["scheme"],
    );
    assert_eq!(token, (&json!("http"), &json!("bearer")));
    gateway.stop().await;
}

/// Orders: the method, the path in the document, the one that is asked, the body, and the status.
const ORDERS: [(&str, &str, &str, &str, u16); 13] = [
    ("post", "/api/v1/links", "", r#"{"path": "/o/1.png"}"#, 200),
    ("post", "/api/v1/links", "", r#"{"path": "o"}"#, 400),
    ("post", "/api/v1/links", "", r#"{"path": "/o"#, 400),
    ("post", "/api/v1/links", "", r#"{"road": "/o"}"#, 422),
    ("post", "/api/v1/doctor", "", r#"{"subject": "/o"}"#, 422),
    (
        "post",
        "/api/v1/writes",
        "",
        r#"{"id": "0000000000000001/a", "choice": "ours"}"#,
        404,
    ),
    (
        "post",
        "/api/v1/writes",
        "",
        r#"{"id": "0000000000000001/a", "choice": "both"}"#,
        422,
    ),
    (
        "delete",
        "/api/v1/streams/{id}",
        "/api/v1/streams/1",
        "",
        404,
    ),
    (
        "delete",
        "/api/v1/streams/{id}",
        "/api/v1/streams/one",
        "",
        400,
    ),
    (
        "delete",
        "/api/v1/sessions/{id}",
        "/api/v1/sessions/1",
        "",
        204,
    ),
    (
        "delete",
        "/api/v1/sessions/{id}",
        "/api/v1/sessions/1",
        "",
        404,
    ),
    ("get", "/api/v1/objects", "", "", 400),
    (
        "get",
        "/api/v1/objects",
        "/api/v1/objects?path=/o/&page=0000000000000000",
        "",
        410,
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn each_order_is_answered_as_the_document_describes_it() {
    let world = World::new().await;
    let gateway = started(&world).await;
    let document = document(&gateway).await;
    log_in(&gateway).await;
    for (method, path, asked, body, status) in ORDERS {
        let asked = if asked.is_empty() { path } else { asked };
        let sent = method.to_uppercase().parse().expect("a method");
        let got = send(gateway.admin, sent, asked, &[AUTH, JSON], body).await;
        assert_eq!(got.status, status, "{method} {asked}: {}", got.text());
        check(&document, (method, path, status), &got.body);
    }
    let long = format!("{{\"path\": \"/{}\"}}", "o".repeat(20 << 10));
    for (headers, body, status) in [
        (&[AUTH, JSON][..], long.as_str(), 413),
        (&[AUTH], "{}", 415),
        (&[JSON], "{}", 401),
        (&[AUTH, JSON, ("host", "evil.example")], "{}", 403),
    ] {
        let path = "/api/v1/links";
        let got = send(gateway.admin, Method::POST, path, headers, body).await;
        assert_eq!(got.status, status, "{}", got.text());
        check(&document, ("post", path, status), &got.body);
    }
    gateway.stop().await;
}

/// Checks that an answer has a reason.
fn has_a_reason(of: &str, got: &Got) {
    assert_eq!(got.header("content-type"), "application/json", "{of}");
    let body: Value = serde_json::from_slice(&got.body).expect("JSON");
    let reason = body["error"].as_str();
    assert!(
        reason.is_some_and(|words| !words.is_empty()),
        "{of}: {body}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_of_failure_has_its_reason_as_json() {
    let world = World::new().await;
    let gateway = started(&world).await;
    let wrong = [("authorization", "Bearer of-nothing")];
    let foreign = [AUTH, ("origin", "http://evil.example")];
    for (method, path, headers, status) in [
        ("GET", "/api/v1/none", &[AUTH][..], 404),
        ("GET", "/api/v1/none", &[], 404),
        ("GET", "/api/v1", &[AUTH], 404),
        ("PUT", "/api/v1/now", &[AUTH], 405),
        ("GET", "/api/v1/now", &[], 401),
        ("GET", "/api/v1/now", &wrong, 401),
        ("GET", "/api/v1/now", &foreign, 403),
        ("GET", "/api/v1/objects?path=/o/&limit=many", &[AUTH], 400),
        ("GET", "/api/v1/objects?path=/o/&more=1", &[AUTH], 400),
    ] {
        let of = format!("{method} {path}");
        let method = method.parse().expect("a method");
        let headers = [headers, &[("accept-encoding", "gzip")]].concat();
        let got = ask(gateway.admin, method, path, &headers).await;
        assert_eq!(got.status, status, "{of}: {}", got.text());
        has_a_reason(&of, &got);
        match status {
            401 => assert!(got.header("www-authenticate").starts_with("Bearer")),
            405 => assert!(got.header("allow").contains("GET")),
            _ => {}
        }
    }
    // Scripts read the others as text.
    let got = ask(gateway.admin, Method::POST, "/reload", &[]).await;
    assert_eq!(
        (got.status, got.text().as_str()),
        (401, "this needs the admin token\n")
    );
    gateway.stop().await;
}
