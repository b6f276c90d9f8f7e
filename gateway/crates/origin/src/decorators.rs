//! The decorators of an origin, each with one concern.
//!
//! `deadline` bounds every wait. `checked` accepts an answer only after it has compared status, `Content-Range`, length
//! and ETag with the request. `metered` counts. `limit` bounds concurrency, serves clients in turn and prefers requests
//! that a reader waits for. `breaker` answers at once while the origin is known to be down. `proven` remembers the last
//! answer that proves that the bucket takes requests. `resume` retries, and continues a broken body from the byte that it
//! reached.
//!
//! `exchange` holds all of them, made anew with each change of the settings.
//!
//! `resume` is outermost of a stack so that its pauses hold no slot in `limit` and each of its tries counts in `breaker`.
//! `breaker` lies above `limit` because a request that it refuses need not queue.

pub(crate) mod breaker;
mod checked_origin;
mod deadline;
pub(crate) mod exchange;
mod limit;
mod metered_origin;
mod proven_origin;
mod resume;

use std::sync::Arc;

use crate::{Metrics, Origin, Settings};

/// Wraps any origin in every decorator, in this order:
/// `resume(proven(breaker(limit(metered(checked(deadline(origin)))))))`.
#[must_use]
pub fn stack(origin: Arc<dyn Origin>, settings: &Settings, metrics: &Metrics) -> Arc<dyn Origin> {
    let meter = metrics.of(&settings.name);
    let origin = Arc::new(deadline::Deadline::new(origin, settings.deadlines));
    let origin = Arc::new(checked_origin::CheckedOrigin::new(origin));
    let origin = Arc::new(metered_origin::MeteredOrigin::new(origin, meter.clone()));
    let origin = Arc::new(limit::Limit::new(
        origin,
        settings.max_requests,
        settings.max_queue,
        settings.deadlines.queue,
        meter.clone(),
    ));
    let origin = Arc::new(breaker::Breaker::new(
        origin,
        settings.breaker,
        meter.clone(),
    ));
    let origin = Arc::new(proven_origin::ProvenOrigin::new(
        origin,
        settings.missing_is_403,
    ));
    Arc::new(resume::Resume::new(origin, settings.retry, meter))
}
