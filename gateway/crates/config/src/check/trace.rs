//! Traces: the collector's URL, the share, and the headers.

use http::{HeaderName, HeaderValue};

use super::super::problem::KeyPath;
use super::super::{Secret, Trace};
use super::Check;

/// The longest name of a service.
const MAX_SERVICE: usize = 128;

impl Check<'_, '_> {
    pub(super) fn trace(&mut self, trace: &Trace) {
        if let Some(endpoint) = &trace.endpoint {
            let harm = "it is sent paths, addresses of clients and `trace.headers`";
            let path = KeyPath::of("trace", "endpoint");
            self.url(&path, endpoint, "http://127.0.0.1:4318", harm);
        }
        if !(0.0..=1.0).contains(&trace.sample) {
            self.error(&KeyPath::of("trace", "sample"), "must be from 0 to 1");
        }
        if trace.service.is_empty() || trace.service.len() > MAX_SERVICE {
            let message = format!("must have 1 to {MAX_SERVICE} bytes");
            self.error(&KeyPath::of("trace", "service"), message);
        }
        for (name, value) in &trace.headers {
            let path = KeyPath::of("trace", "headers").key(name);
            if HeaderName::from_bytes(name.as_bytes()).is_err() {
                self.error(&path, "is no name of a header");
            }
            if let Secret::Literal(text) = value
                && HeaderValue::from_str(text.trim()).is_err()
            {
                self.error(&path, "is no text that a header can carry");
            }
        }
    }
}
