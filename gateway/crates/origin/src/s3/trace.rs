//! The header `traceparent` (W3C Trace Context, 3.2): the store, or a proxy before it, can go on with a reader's trace.

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::BeforeTransmitInterceptorContextMut;
use aws_smithy_runtime_api::client::interceptors::{Intercept, dyn_dispatch_hint};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::ConfigBag;

use tidegate_telemetry::trace;

/// Adds the header to a request that is traced. It is not signed, and so no part of what the store checks.
#[derive(Debug)]
pub(super) struct TraceInterceptor;

#[dyn_dispatch_hint]
impl Intercept for TraceInterceptor {
    fn name(&self) -> &'static str {
        "hand on the trace"
    }

    fn modify_before_transmit(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(place) = trace::current() {
            let headers = context.request_mut().headers_mut();
            headers.insert("traceparent", place.traceparent());
        }
        Ok(())
    }
}
