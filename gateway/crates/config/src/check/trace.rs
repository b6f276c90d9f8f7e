//! Traces: the collector's URL, the share, and the headers.

use http::{HeaderName, HeaderValue, Uri};

use super::super::problem::KeyPath;
use super::super::{Secret, Trace};
use super::Check;

/// The longest name of a service.
const MAX_SERVICE: usize = 128;

impl Check<'_, '_> {
    pub(super) fn trace(&mut self, trace: &Trace) {
        if let Some(endpoint) = &trace.endpoint {
            let uri = endpoint.parse::<Uri>().ok();
            let is_url = uri.is_some_and(|uri| {
                matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some()
            });
            if !is_url {
                let message = "must be an http:// or https:// URL";
                self.error(&KeyPath::of("trace", "endpoint"), message);
            }
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
