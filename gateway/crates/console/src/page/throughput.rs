//! Bytes with which a browser measures how fast it takes them: the client's stage of the doctor's picture.
//!
//! The browser measures, because only it knows when bytes arrive: the server's sockets take some megabytes ahead.

use std::sync::Mutex;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use futures_util::future::ready;
use futures_util::stream::{self, StreamExt as _};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::time::Instant;

use crate::Console;
use crate::access::AdmissionKind;
use crate::api::ApiError;
use tidegate_telemetry::locks::Recover as _;

/// The path of the bytes.
pub(crate) const PATH: &str = "/console/doctor/bytes";

/// The bytes of an answer end after this time.
const TIME: Duration = Duration::from_secs(2);

/// The bytes of an answer end after so many.
const MAX_BYTES: usize = 256 << 20;

/// The bytes that are sent again and again.
const BLOCK_SIZE: usize = 256 << 10;

/// The end of the measurement under way: there is one at a time.
#[derive(Debug, Default)]
pub(crate) struct Throughput(Mutex<Option<Instant>>);

impl Throughput {
    /// Begins a measurement, and returns its end; `None`: one is under way.
    fn begin(&self) -> Option<Instant> {
        let mut under_way = self.0.lock().recover();
        let now = Instant::now();
        if under_way.is_some_and(|end| now < end) {
            return None;
        }
        *under_way = Some(now + TIME);
        *under_way
    }
}

/// Answers `GET /console/doctor/bytes`, to a session or the token.
pub(crate) async fn bytes(
    State(console): State<Console>,
    Extension(admitted): Extension<AdmissionKind>,
) -> Response {
    if admitted == AdmissionKind::Reader {
        let words = "a measurement needs the admin token, or a session";
        return ApiError::new(StatusCode::FORBIDDEN, words).into_response();
    }
    let Some(end) = console.throughput.begin() else {
        let refusal = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "a measurement is under way");
        return ([(RETRY_AFTER, HeaderValue::from(TIME.as_secs()))], refusal).into_response();
    };
    // Random, so that no proxy on the way makes them fewer.
    let mut block = vec![0; BLOCK_SIZE];
    if SystemRandom::new().fill(&mut block).is_err() {
        return ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "no random bytes").into_response();
    }
    let headers = [
        (CONTENT_TYPE, "application/octet-stream"),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    let body = blocks(block.into(), end).map(Ok::<_, std::convert::Infallible>);
    (headers, Body::from_stream(body)).into_response()
}

/// Returns the block again and again, until `end` or [`MAX_BYTES`].
fn blocks(block: Bytes, end: Instant) -> impl Stream<Item = Bytes> + Send + 'static {
    let most = MAX_BYTES / BLOCK_SIZE;
    stream::iter(std::iter::repeat_n(block, most)).take_while(move |_| ready(Instant::now() < end))
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::pin::pin;

    #[tokio::test(start_paused = true)]
    async fn the_bytes_end_with_the_time_or_at_their_bound() {
        let block = Bytes::from_static(&[1; 8]);
        let end = Instant::now() + TIME;
        assert_eq!(
            blocks(block.clone(), end).count().await,
            MAX_BYTES / BLOCK_SIZE
        );
        let mut slow = pin!(blocks(block, end));
        assert!(slow.next().await.is_some());
        tokio::time::advance(TIME).await;
        assert!(slow.next().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn one_measurement_at_a_time_also_if_its_client_never_reads() {
        let throughput = Throughput::default();
        assert!(throughput.begin().is_some());
        assert!(throughput.begin().is_none());
        tokio::time::advance(TIME).await;
        assert!(throughput.begin().is_some());
    }
}
