//! `GET /api/v1/openapi.json`: the description of the API, made from its code.

use axum::Json;
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Document;

use super::{
    access, connections, doctor, links, now, objects, origins, settings, streams, tiers, writes,
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tidegate",
        description = "The operator's API: read-only figures, and a few orders. Times are in seconds, sizes in bytes.",
        version = "1"
    ),
    paths(
        now::now,
        now::history,
        streams::list,
        streams::stop,
        objects::list,
        objects::warms,
        tiers::show,
        origins::list,
        writes::list,
        writes::resolve,
        connections::events,
        connections::hooks,
        connections::fleet,
        links::make,
        doctor::show,
        doctor::order,
        settings::list,
        settings::routes,
        access::list,
        access::end,
    )
)]
struct Api;

/// Returns the document.
#[must_use]
pub fn document() -> Document {
    Api::openapi()
}

/// Answers `GET /api/v1/openapi.json`.
pub(crate) async fn show() -> Json<Document> {
    Json(document())
}
