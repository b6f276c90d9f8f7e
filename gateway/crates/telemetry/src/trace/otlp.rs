//! The request of a collector (OTLP, `opentelemetry/proto/collector/trace/v1`), in the binary form of protocol buffers.
//!
//! The messages are few and their fields are fixed, so they are written by hand. A test reads them with the types that are
//! generated from the published definitions.

use super::span::{FinishedSpan, Kind, Value};

/// The resource that all spans belong to: this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// The name of the service.
    pub service: String,
    /// The version of the program.
    pub version: &'static str,
    /// The name of this process among those of the service.
    pub instance: String,
}

/// Writes an `ExportTraceServiceRequest`.
#[must_use]
pub fn encode(resource: &Resource, spans: &[FinishedSpan]) -> Vec<u8> {
    let mut attributes = Vec::new();
    for (name, text) in [
        ("service.name", resource.service.as_str()),
        ("service.version", resource.version),
        ("service.instance.id", resource.instance.as_str()),
    ] {
        nested(&mut attributes, 1, |out| {
            key_value(out, name, &Value::from(text.to_owned()))
        });
    }
    let mut request = Vec::new();
    nested(&mut request, 1, |resource_spans| {
        bytes(resource_spans, 1, &attributes);
        nested(resource_spans, 2, |scope_spans| {
            nested(scope_spans, 1, |scope| {
                bytes(scope, 1, b"tidegate");
                bytes(scope, 2, resource.version.as_bytes());
            });
            for span in spans {
                nested(scope_spans, 2, |out| write_span(out, span));
            }
        });
    });
    request
}

fn write_span(out: &mut Vec<u8>, span: &FinishedSpan) {
    bytes(out, 1, &span.trace.to_be_bytes());
    bytes(out, 2, &span.id.to_be_bytes());
    if let Some(parent) = span.parent {
        bytes(out, 4, &parent.to_be_bytes());
    }
    bytes(out, 5, span.name.as_bytes());
    number(
        out,
        6,
        match span.kind {
            Kind::Internal => 1,
            Kind::Server => 2,
            Kind::Client => 3,
        },
    );
    let nanos = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    fixed(out, 7, nanos(span.began));
    fixed(out, 8, nanos(span.began.saturating_add(span.took)));
    for (name, value) in &span.attributes {
        nested(out, 9, |out| key_value(out, name, value));
    }
    if span.failed {
        // STATUS_CODE_ERROR.
        nested(out, 15, |status| number(status, 3, 2));
    }
}

fn key_value(out: &mut Vec<u8>, name: &str, value: &Value) {
    bytes(out, 1, name.as_bytes());
    nested(out, 2, |out| match value {
        Value::Text(text) => bytes(out, 1, text.as_bytes()),
        Value::Flag(flag) => number(out, 2, u64::from(*flag)),
        Value::Number(value) => number(out, 3, value.cast_unsigned()),
    });
}

/// The ways in which the length of a field is known.
const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LENGTH: u64 = 2;

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3 | VARINT);
    varint(out, value);
}

fn fixed(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3 | FIXED_64);
    out.extend_from_slice(&value.to_le_bytes());
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, field << 3 | LENGTH);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn nested(out: &mut Vec<u8>, field: u64, write: impl FnOnce(&mut Vec<u8>)) {
    let mut message = Vec::new();
    write(&mut message);
    bytes(out, field, &message);
}
