//! The messages of a fleet: JSON with a version, of a bounded size.

use serde::{Deserialize, Serialize};
use tidegate_plan::tags::Tag;
use tidegate_plan::{ChangeKind, ETag, KeyChange, ObjectKey, Sequencer, Timestamp};

/// The largest message that is read, in bytes: the longest key, escaped, with room to spare.
pub const MAX_MESSAGE: usize = 16 << 10;

/// The longest prefix of a purge or a pin, and the longest name of a bucket, in bytes.
const MAX_NAME: usize = 1024;

/// The longest name of a gateway that is shown, in bytes: that of a host.
const MAX_HOST: usize = 255;

/// The longest ETag that travels, in bytes. A longer one is left out, and the receivers ask the bucket.
const MAX_ETAG: usize = 128;

/// The most bytes of bucket names that a heartbeat carries.
const MAX_BUCKETS: usize = 8 << 10;

/// The version of the messages. Gateways read those of their own version only.
const VERSION: u32 = 1;

/// The objects that a purge covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Extent {
    /// One key.
    Key(ObjectKey),
    /// Every key that begins so.
    Prefix(String),
    /// Every version with a tag.
    Tag(Tag),
}

/// A change that reaches all gateways. Buckets go by their name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FleetChange {
    /// Purges that follow each other.
    Purged {
        /// The bucket.
        bucket: String,
        /// The objects that they cover; at least one.
        extents: Vec<Extent>,
        /// Whether they become stale, in place of being removed.
        soft: bool,
    },
    /// A key of the bucket has changed, or may have. The bucket's own event says more of it than a write of a gateway.
    Changed(KeyChange),
    /// A pin was set, or removed.
    Pinned {
        /// The bucket.
        bucket: String,
        /// The prefix of the keys.
        prefix: String,
        /// The bytes that it may keep; `None`: the pin was removed.
        limit: Option<u64>,
    },
}

/// A gateway's description of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Presence {
    /// Its name, for the operator. It need not be unique; `None`: it says none.
    pub(crate) name: Option<String>,
    /// The names of its buckets; `None`: it does not say, and may have any.
    pub(crate) buckets: Option<Vec<String>>,
}

impl Presence {
    /// Creates one with these buckets. If their names do not fit into a message, it says none.
    pub(crate) fn new(name: Option<String>, buckets: Vec<String>) -> Self {
        let bytes: usize = buckets.iter().map(String::len).sum();
        let buckets = (bytes <= MAX_BUCKETS).then_some(buckets);
        Self { name, buckets }
    }
}

/// The content of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// The sender is there.
    Heartbeat(Presence),
    /// The sender ends in order.
    Bye,
    /// The sender has missed messages: pins are sent again.
    Missed,
    /// A change.
    Change(FleetChange),
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FleetMessage {
    /// The sender: a random number for each process.
    pub(crate) from: u64,
    /// The number of the sender's last change, this one included.
    pub(crate) sequence: u64,
    /// The time of the change, in milliseconds since 1970, by the clock of the gateway that made it.
    pub(crate) at: u64,
    pub(crate) content: Content,
}

/// The reason why a message cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no message of a fleet of this version: {0}")]
pub struct MessageError(String);

/// A message as it travels.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    v: u32,
    from: u64,
    seq: u64,
    at: u64,
    body: Body,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
enum Body {
    Heartbeat {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        buckets: Option<Vec<String>>,
    },
    Bye,
    Missed,
    Purge {
        bucket: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prefix: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tag: Option<String>,
        /// Several purges, in place of the fields before.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        all: Vec<WireExtent>,
        soft: bool,
    },
    Created {
        bucket: String,
        key: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        event: Option<EventDetail>,
    },
    Removed {
        bucket: String,
        key: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        event: Option<EventDetail>,
    },
    Pin {
        bucket: String,
        prefix: String,
        limit: u64,
    },
    Unpin {
        bucket: String,
        prefix: String,
    },
}

/// The objects that one of several purges covers.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WireExtent {
    Key(String),
    Prefix(String),
    Tag(String),
}

/// The details of a change in the bucket's event.
#[derive(Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct EventDetail {
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequencer: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    late: bool,
}

impl EventDetail {
    /// Returns what is known of a change beside its kind, if anything is.
    fn of(change: &KeyChange) -> Option<Self> {
        let etag = change.etag.as_ref().map(|etag| etag.as_str().to_owned());
        let detail = Self {
            etag: etag.filter(|etag| etag.len() <= MAX_ETAG),
            size: change.size,
            time: change.time.map(|time| time.0),
            sequencer: change.sequencer.as_ref().map(|one| one.as_str().to_owned()),
            late: change.is_overtaken,
        };
        (detail != Self::default()).then_some(detail)
    }
}

impl Content {
    /// Returns the word for the kind in metrics.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Heartbeat(_) => "heartbeat",
            Self::Bye => "bye",
            Self::Missed => "missed",
            Self::Change(FleetChange::Purged { .. }) => "purge",
            Self::Change(FleetChange::Changed(_)) => "change",
            Self::Change(FleetChange::Pinned { .. }) => "pin",
        }
    }
}

impl FleetMessage {
    pub(crate) fn write(&self) -> Vec<u8> {
        let wire = Wire {
            v: VERSION,
            from: self.from,
            seq: self.sequence,
            at: self.at,
            body: body(&self.content),
        };
        serde_json::to_vec(&wire).unwrap_or_default()
    }

    /// Reads a message of at most [`MAX_MESSAGE`] bytes.
    pub(crate) fn read(text: &[u8]) -> Result<Self, MessageError> {
        if text.len() > MAX_MESSAGE {
            return Err(MessageError("it is too large".to_owned()));
        }
        let wire: Wire =
            serde_json::from_slice(text).map_err(|error| MessageError(error.to_string()))?;
        if wire.v != VERSION {
            return Err(MessageError(format!("it is of version {}", wire.v)));
        }
        Ok(Self {
            from: wire.from,
            sequence: wire.seq,
            at: wire.at,
            content: content(wire.body)?,
        })
    }
}

/// Returns purges as they travel. A single one does as it always has.
fn purge(bucket: String, extents: Vec<Extent>, soft: bool) -> Body {
    let text = |extent| match extent {
        Extent::Key(key) => WireExtent::Key(key.as_str().to_owned()),
        Extent::Prefix(prefix) => WireExtent::Prefix(prefix),
        Extent::Tag(tag) => WireExtent::Tag(tag.to_string()),
    };
    let mut all: Vec<_> = extents.into_iter().map(text).collect();
    let (mut key, mut prefix, mut tag) = (None, None, None);
    if all.len() == 1 {
        match all.pop() {
            Some(WireExtent::Key(one)) => key = Some(one),
            Some(WireExtent::Prefix(one)) => prefix = Some(one),
            Some(WireExtent::Tag(one)) => tag = Some(one),
            None => {}
        }
    }
    Body::Purge {
        bucket,
        key,
        prefix,
        tag,
        all,
        soft,
    }
}

fn body(content: &Content) -> Body {
    let change = match content {
        Content::Heartbeat(Presence { name, buckets }) => {
            return Body::Heartbeat {
                name: name.clone(),
                buckets: buckets.clone(),
            };
        }
        Content::Bye => return Body::Bye,
        Content::Missed => return Body::Missed,
        Content::Change(change) => change.clone(),
    };
    match change {
        FleetChange::Purged {
            bucket,
            extents,
            soft,
        } => purge(bucket, extents, soft),
        FleetChange::Changed(change) => {
            let event = EventDetail::of(&change);
            let (bucket, key) = (change.bucket, change.key.as_str().to_owned());
            match change.kind {
                ChangeKind::Created => Body::Created { bucket, key, event },
                ChangeKind::Removed => Body::Removed { bucket, key, event },
            }
        }
        FleetChange::Pinned {
            bucket,
            prefix,
            limit: Some(limit),
        } => Body::Pin {
            bucket,
            prefix,
            limit,
        },
        FleetChange::Pinned { bucket, prefix, .. } => Body::Unpin { bucket, prefix },
    }
}

/// Returns whether a name may be shown: that of a machine has letters, digits, `-`, `.` and `_` (hostname(7)).
fn is_host_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (1..=MAX_HOST).contains(&name.len()) && name.bytes().all(is_plain)
}

fn content(body: Body) -> Result<Content, MessageError> {
    let change = match body {
        Body::Heartbeat { name, buckets } => {
            let name = name.filter(|name| is_host_name(name));
            return Ok(Content::Heartbeat(Presence { name, buckets }));
        }
        Body::Bye => return Ok(Content::Bye),
        Body::Missed => return Ok(Content::Missed),
        Body::Purge {
            bucket,
            key,
            prefix,
            tag,
            all,
            soft,
        } => FleetChange::Purged {
            bucket: named(bucket)?,
            extents: extents((key, prefix, tag), all)?,
            soft,
        },
        Body::Created { bucket, key, event } => {
            changed(bucket, &key, (ChangeKind::Created, event))?
        }
        Body::Removed { bucket, key, event } => {
            changed(bucket, &key, (ChangeKind::Removed, event))?
        }
        Body::Pin { limit: 0, .. } => return Err(MessageError("a pin of nothing".to_owned())),
        Body::Pin {
            bucket,
            prefix,
            limit,
        } => FleetChange::Pinned {
            bucket: named(bucket)?,
            prefix: named(prefix)?,
            limit: Some(limit),
        },
        Body::Unpin { bucket, prefix } => FleetChange::Pinned {
            bucket: named(bucket)?,
            prefix: named(prefix)?,
            limit: None,
        },
    };
    Ok(Content::Change(change))
}

fn changed(
    bucket: String,
    name: &str,
    (kind, event): (ChangeKind, Option<EventDetail>),
) -> Result<FleetChange, MessageError> {
    let event = event.unwrap_or_default();
    let etag = event.etag.as_deref().and_then(ETag::parse);
    Ok(FleetChange::Changed(KeyChange {
        bucket: named(bucket)?,
        key: key(name)?,
        kind,
        etag: etag.filter(|etag| etag.as_str().len() <= MAX_ETAG),
        size: event.size,
        time: event.time.map(Timestamp),
        sequencer: event.sequencer.as_deref().and_then(Sequencer::parse),
        is_overtaken: event.late,
    }))
}

fn extents(
    one: (Option<String>, Option<String>, Option<String>),
    all: Vec<WireExtent>,
) -> Result<Vec<Extent>, MessageError> {
    let all = match (one, all) {
        ((None, None, None), all) if !all.is_empty() => all,
        ((Some(key), None, None), all) if all.is_empty() => vec![WireExtent::Key(key)],
        ((None, Some(prefix), None), all) if all.is_empty() => vec![WireExtent::Prefix(prefix)],
        ((None, None, Some(tag)), all) if all.is_empty() => vec![WireExtent::Tag(tag)],
        _ => {
            let needed = "a purge has a key, a prefix, a tag, or several of them";
            return Err(MessageError(needed.to_owned()));
        }
    };
    let read = |one| match one {
        WireExtent::Key(name) => Ok(Extent::Key(key(&name)?)),
        WireExtent::Prefix(prefix) => Ok(Extent::Prefix(named(prefix)?)),
        WireExtent::Tag(tag) => {
            let tag = Tag::new(&tag).map_err(|error| MessageError(error.to_string()))?;
            Ok(Extent::Tag(tag))
        }
    };
    all.into_iter().map(read).collect()
}

fn key(text: &str) -> Result<ObjectKey, MessageError> {
    ObjectKey::new(text).map_err(|error| MessageError(error.to_string()))
}

fn named(text: String) -> Result<String, MessageError> {
    match text.len() <= MAX_NAME {
        true => Ok(text),
        false => Err(MessageError("a name is too long".to_owned())),
    }
}

#[cfg(test)]
mod tests;
