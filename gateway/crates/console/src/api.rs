//! `/api/v1/`: the data of the console, as JSON. Times are in seconds, sizes in bytes, and times of day in seconds since
//! 1970.

pub mod access;
pub mod connections;
pub mod doctor;
pub mod links;
pub mod now;
pub mod objects;
pub mod openapi;
pub mod origins;
pub mod settings;
pub mod streams;
pub mod tiers;
pub mod writes;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use tidegate_engine::Error;

/// The body of an answer that is no success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ApiError {
    /// The reason, in words.
    pub error: String,
    #[serde(skip)]
    status: StatusCode,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, why: impl ToString) -> Self {
        Self {
            error: why.to_string(),
            status,
        }
    }

    pub(crate) fn bad(why: impl ToString) -> Self {
        Self::new(StatusCode::BAD_REQUEST, why)
    }

    pub(crate) fn missing(why: impl ToString) -> Self {
        Self::new(StatusCode::NOT_FOUND, why)
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let status = match error {
            Error::Forbidden | Error::BadOrigin(_) => StatusCode::BAD_GATEWAY,
            Error::Timeout => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, error)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(self)).into_response()
    }
}
