//! Records as stored in the database: sealed with a format version and a checksum over the row and
//! its key. A read returns the record stored under this key, or nothing.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use xxhash_rust::xxh3::Xxh3;

use crate::{Record, WriteSpan};
use tidegate_plan::{ETag, ObjectId, Timestamp, Version, VersionId};

/// The first byte of every sealed row; changes with the layout of any of them.
const ROW_FORMAT: u8 = 1;

const SEAL_SIZE: usize = 1 + 8;

/// Seals the payload to be stored under `key`.
pub(super) fn seal(key: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut row = Vec::with_capacity(SEAL_SIZE + payload.len());
    row.push(ROW_FORMAT);
    row.extend_from_slice(&checksum(key, payload).to_le_bytes());
    row.extend_from_slice(payload);
    row
}

/// Returns the payload that was sealed under `key`, if nothing of it has changed since.
pub(super) fn unseal<'a>(key: &[u8], row: &'a [u8]) -> Option<&'a [u8]> {
    let (&format, rest) = row.split_first()?;
    let (sum, payload) = rest.split_first_chunk()?;
    let sound = format == ROW_FORMAT && u64::from_le_bytes(*sum) == checksum(key, payload);
    sound.then_some(payload)
}

fn checksum(key: &[u8], payload: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(&[ROW_FORMAT]);
    hash.update(&key.len().to_le_bytes());
    hash.update(key);
    hash.update(payload);
    hash.digest()
}

/// Returns the key of an object's row.
pub(super) fn row_key(id: &ObjectId) -> Vec<u8> {
    [&id.origin.0.to_le_bytes()[..], id.key.as_str().as_bytes()].concat()
}

/// Encodes a record's fields one after the other, with the run of the process that wrote it.
pub(super) fn encode(record: &Record, run: u64) -> Vec<u8> {
    let version = &*record.version;
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(&run.to_le_bytes());
    out.extend_from_slice(&record.id.0.to_le_bytes());
    out.extend_from_slice(&record.confirmed.0.to_le_bytes());
    out.push(u8::from(record.must_confirm));
    out.extend_from_slice(&version.size.to_le_bytes());
    put_bytes(&mut out, version.etag.as_str().as_bytes());
    put_option(&mut out, version.last_modified, |out, time| {
        out.extend_from_slice(&time.0.to_le_bytes());
    });
    put_option(&mut out, version.version_id.as_deref(), |out, id| {
        put_bytes(out, id.as_bytes());
    });
    out.extend_from_slice(&len32(version.headers.len()));
    for (name, value) in &version.headers {
        put_bytes(&mut out, name.as_str().as_bytes());
        put_bytes(&mut out, value.as_bytes());
    }
    // The rows of earlier releases end here.
    if let Some(WriteSpan { answered, took }) = record.written {
        let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        out.extend_from_slice(&answered.0.to_le_bytes());
        out.extend_from_slice(&took.to_le_bytes());
    }
    out
}

/// Decodes a record and the run that wrote it; `None` if the fields are invalid.
pub(super) fn decode(payload: &[u8]) -> Option<(Record, u64)> {
    let mut from = FieldReader(payload);
    let run = from.u64()?;
    let id = VersionId(u128::from_le_bytes(from.array()?));
    let confirmed = Timestamp(from.u64()?);
    let must_confirm = from.bool()?;
    let size = from.u64()?;
    let etag = ETag::parse(from.text()?)?;
    let last_modified = if from.bool()? {
        Some(Timestamp(from.u64()?))
    } else {
        None
    };
    let version_id = if from.bool()? {
        Some(from.text()?.to_owned())
    } else {
        None
    };
    let count = from.u32()?;
    let mut headers = Vec::new();
    for _ in 0..count {
        let name = HeaderName::from_bytes(from.bytes()?).ok()?;
        headers.push((name, HeaderValue::from_bytes(from.bytes()?).ok()?));
    }
    let written = match from.0.is_empty() {
        true => None,
        false => Some(WriteSpan {
            answered: Timestamp(from.u64()?),
            took: Duration::from_millis(from.u64()?),
        }),
    };
    let version = Version {
        etag,
        size,
        last_modified,
        version_id,
        headers,
    };
    let record = Record {
        version: Arc::new(version),
        id,
        confirmed,
        must_confirm,
        written,
    };
    from.0.is_empty().then_some((record, run))
}

fn len32(len: usize) -> [u8; 4] {
    u32::try_from(len)
        .expect("headers are far below 4 GiB")
        .to_le_bytes()
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&len32(bytes.len()));
    out.extend_from_slice(bytes);
}

fn put_option<T>(out: &mut Vec<u8>, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

struct FieldReader<'a>(&'a [u8]);

impl<'a> FieldReader<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn bool(&mut self) -> Option<bool> {
        match self.array()? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.u32()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }
}

#[cfg(test)]
mod tests;
