//! Events in the forms that stores send them: S3 event records (MinIO, AWS, Ceph) and Amazon EventBridge.
//!
//! A message is untrusted text. The reader bounds its records and its depth; it skips unknown keys, counts unknown events,
//! and counts records that it cannot read.

use std::borrow::Cow;
use std::fmt;

use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;
use tidegate_plan::{ChangeKind, ETag, KeyChange, ObjectKey, Sequencer, Timestamp};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The most records of one message. The stores send 1 to 1,000.
pub const MAX_RECORDS: usize = 10_000;

/// The event source that Ceph names; it sends keys as they are in some versions, and encoded in others.
const CEPH: &str = "ceph:s3";

/// The events of one message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Events {
    /// The changes, in the message's order.
    pub changes: Vec<KeyChange>,
    /// Events that change no bytes of an object that can be served: tags, permissions, reads, tests, and keys that no
    /// request can name.
    pub ignored: u64,
    /// Events whose name is not known.
    pub unknown: u64,
    /// Records that cannot be read; each may have been a change.
    pub invalid: u64,
}

/// The reason why a message has no events at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// It is no JSON, is nested too deep, or has a wrong type where a list or an object stands.
    #[error("the message cannot be read: line {line}, column {column}")]
    Unreadable {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// It is JSON of no form that is known.
    #[error("the message has neither `Records` nor `detail`")]
    Foreign,
    /// It has more than [`MAX_RECORDS`] records.
    #[error("the message has more than {MAX_RECORDS} records")]
    TooMany,
}

/// The kind of an event, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventClass {
    Change(ChangeKind),
    Ignored,
    Unknown,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, rename = "Records", default)]
    records: Option<Records<'a>>,
    #[serde(borrow, rename = "Event", default)]
    event: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "detail-type", default)]
    detail_type: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    source: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    time: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    detail: Option<&'a RawValue>,
}

/// The records of a message, unread.
#[derive(Default)]
struct Records<'a> {
    list: Vec<&'a RawValue>,
    is_cut: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawRecord {
    event_name: String,
    #[serde(default)]
    event_time: Option<String>,
    #[serde(default)]
    event_source: Option<String>,
    /// Events about a bucket have none.
    #[serde(default)]
    s3: Option<RawS3>,
}

#[derive(Deserialize)]
struct RawS3 {
    bucket: RawBucket,
    object: RawObject,
}

#[derive(Clone, Deserialize)]
struct RawBucket {
    name: String,
}

/// An object, as records (`eTag`) and EventBridge (`etag`) write it.
#[derive(Deserialize)]
struct RawObject {
    key: String,
    #[serde(default)]
    size: Option<u64>,
    #[serde(default, alias = "eTag")]
    etag: Option<String>,
    #[serde(default)]
    sequencer: Option<String>,
}

/// The part of EventBridge's `detail` that is read.
#[derive(Deserialize)]
struct RawDetail {
    bucket: RawBucket,
    object: RawObject,
}

impl<'de: 'a, 'a> Deserialize<'de> for Records<'a> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct RecordsVisitor;

        impl<'de> Visitor<'de> for RecordsVisitor {
            type Value = Records<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of records")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut records = Records::default();
                while records.list.len() < MAX_RECORDS {
                    match list.next_element()? {
                        Some(record) => records.list.push(record),
                        None => return Ok(records),
                    }
                }
                while list.next_element::<IgnoredAny>()?.is_some() {
                    records.is_cut = true;
                }
                Ok(records)
            }
        }

        input.deserialize_seq(RecordsVisitor)
    }
}

/// Reads a message. Its length must have been bounded before.
///
/// # Errors
/// The message is no JSON of a known form, or has too many records.
pub fn read(message: &[u8]) -> Result<Events, RecordError> {
    // A list would be read as the fields of an object.
    if !message.trim_ascii_start().starts_with(b"{") {
        return Err(RecordError::Foreign);
    }
    let message: Message<'_> =
        serde_json::from_slice(message).map_err(|error| RecordError::Unreadable {
            line: error.line(),
            column: error.column(),
        })?;
    if let Some(records) = &message.records {
        return read_records(records);
    }
    if message.source.as_deref() == Some("aws.s3") {
        return Ok(read_detail(&message));
    }
    match message.event.as_deref() {
        Some("s3:TestEvent") => Ok(Events {
            ignored: 1,
            ..Events::default()
        }),
        _ => Err(RecordError::Foreign),
    }
}

fn read_records(records: &Records<'_>) -> Result<Events, RecordError> {
    if records.is_cut {
        return Err(RecordError::TooMany);
    }
    let mut events = Events::default();
    for record in &records.list {
        match serde_json::from_str(record.get()) {
            Ok(record) => events.add_record(&record),
            Err(_) => events.invalid += 1,
        }
    }
    Ok(events)
}

fn read_detail(message: &Message<'_>) -> Events {
    let mut events = Events::default();
    let name = message.detail_type.as_deref().unwrap_or_default();
    let kind = match detail_class(name) {
        EventClass::Change(kind) => kind,
        other => {
            events.count(other);
            return events;
        }
    };
    let detail = message.detail.map(|detail| detail.get());
    let Some(Ok(detail)) = detail.map(serde_json::from_str::<RawDetail>) else {
        events.invalid += 1;
        return events;
    };
    // EventBridge sends keys as they are.
    match ObjectKey::new(&detail.object.key) {
        Ok(key) => {
            let time = message.time.as_deref();
            let change = change(key, kind, detail.bucket, &detail.object, time);
            events.changes.push(change);
        }
        Err(_) => events.ignored += 1,
    }
    events
}

impl Events {
    fn count(&mut self, class: EventClass) {
        match class {
            EventClass::Unknown => self.unknown += 1,
            EventClass::Ignored | EventClass::Change(_) => self.ignored += 1,
        }
    }

    fn add_record(&mut self, record: &RawRecord) {
        let kind = match record_class(&record.event_name) {
            EventClass::Change(kind) => kind,
            other => return self.count(other),
        };
        let Some(RawS3 { bucket, object }) = &record.s3 else {
            self.invalid += 1;
            return;
        };
        let mut names: Vec<_> = form_decoded(&object.key).into_iter().collect();
        if record.event_source.as_deref() == Some(CEPH) && !names.contains(&object.key) {
            // It may be either key; a change too many costs one request.
            names.push(object.key.clone());
        }
        let keys = names.iter().filter_map(|name| ObjectKey::new(name).ok());
        let keys: Vec<_> = keys.collect();
        match (names.is_empty(), keys.is_empty()) {
            (true, _) => self.invalid += 1,
            // A client that may write objects could end, by such a key, all that events prove.
            (false, true) => self.ignored += 1,
            (false, false) => {}
        }
        let changes = keys.into_iter().map(|key| {
            change(
                key,
                kind,
                bucket.clone(),
                object,
                record.event_time.as_deref(),
            )
        });
        self.changes.extend(changes);
    }
}

fn change(
    key: ObjectKey,
    kind: ChangeKind,
    bucket: RawBucket,
    object: &RawObject,
    time: Option<&str>,
) -> KeyChange {
    let is_there = kind == ChangeKind::Created;
    let etag = object.etag.as_deref().and_then(ETag::parse);
    KeyChange {
        bucket: bucket.name,
        key,
        kind,
        etag: etag.filter(|_| is_there),
        size: object.size.filter(|_| is_there),
        time: time.and_then(timestamp),
        sequencer: object.sequencer.as_deref().and_then(Sequencer::parse),
        is_overtaken: false,
    }
}

/// Decodes a key that is encoded like a value of an HTML form: `+` is a space (S3 user guide, "Event message structure").
fn form_decoded(text: &str) -> Option<String> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

/// Reads a time in the form of RFC 3339.
fn timestamp(text: &str) -> Option<Timestamp> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    let millis = time.unix_timestamp_nanos() / 1_000_000;
    u64::try_from(millis).ok().map(Timestamp)
}

/// Returns the class of a record's `eventName`; some stores put `s3:` before it. MinIO reports changes of tags and locks
/// in the family of created objects.
fn record_class(name: &str) -> EventClass {
    let name = name.strip_prefix("s3:").unwrap_or(name);
    let (family, detail) = name.split_once(':').unwrap_or((name, ""));
    match (family, detail) {
        ("ObjectCreated", "PutTagging" | "DeleteTagging" | "PutRetention" | "PutLegalHold") => {
            EventClass::Ignored
        }
        ("ObjectCreated" | "ObjectRestore", _) | ("ObjectSynced", "Create") => {
            EventClass::Change(ChangeKind::Created)
        }
        ("ObjectRemoved" | "LifecycleExpiration" | "ReducedRedundancyLostObject", _)
        | ("ObjectSynced", "Delete" | "DeletionMarkerCreated") => {
            EventClass::Change(ChangeKind::Removed)
        }
        ("ObjectLifecycle", detail) if detail.starts_with("Expiration") => {
            EventClass::Change(ChangeKind::Removed)
        }
        (
            "ObjectAccessed"
            | "ObjectTagging"
            | "ObjectAcl"
            | "ObjectTransition"
            | "ObjectLifecycle"
            | "LifecycleTransition"
            | "IntelligentTiering"
            | "Replication"
            | "Scanner"
            | "BucketCreated"
            | "BucketRemoved"
            | "TestEvent",
            _,
        ) => EventClass::Ignored,
        _ => EventClass::Unknown,
    }
}

/// Returns the class of EventBridge's `detail-type`.
fn detail_class(name: &str) -> EventClass {
    match name {
        "Object Created" | "Object Restore Completed" | "Object Restore Expired" => {
            EventClass::Change(ChangeKind::Created)
        }
        "Object Deleted" => EventClass::Change(ChangeKind::Removed),
        "Object Restore Initiated"
        | "Object Storage Class Changed"
        | "Object Access Tier Changed"
        | "Object ACL Updated"
        | "Object Tags Added"
        | "Object Tags Deleted" => EventClass::Ignored,
        _ => EventClass::Unknown,
    }
}

#[cfg(test)]
mod tests;
