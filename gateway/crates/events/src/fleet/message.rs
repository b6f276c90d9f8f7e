//! The messages of a fleet: JSON with a version, of a bounded size.

use serde::{Deserialize, Serialize};
use tidegate_plan::tags::Tag;
use tidegate_plan::{ChangeKind, ObjectKey};

/// The largest message that is read, in bytes: the longest key, escaped, with room to spare.
pub const MAX_MESSAGE: usize = 16 << 10;

/// The longest prefix of a purge or a pin, and the longest name of a bucket, in bytes.
const MAX_NAME: usize = 1024;

/// The longest name of a gateway that is shown, in bytes: that of a host.
const MAX_HOST: usize = 255;

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
    /// A purge.
    Purged {
        /// The bucket.
        bucket: String,
        /// The objects that it covers.
        extent: Extent,
        /// Whether they become stale, in place of being removed.
        soft: bool,
    },
    /// A key of the bucket has changed, or may have.
    Changed {
        /// The bucket.
        bucket: String,
        /// The key.
        key: ObjectKey,
        /// The kind of the change.
        kind: ChangeKind,
    },
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
pub struct Unreadable(String);

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
        soft: bool,
    },
    Created {
        bucket: String,
        key: String,
    },
    Removed {
        bucket: String,
        key: String,
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

impl Content {
    /// Returns the word for the kind in metrics.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Heartbeat(_) => "heartbeat",
            Self::Bye => "bye",
            Self::Missed => "missed",
            Self::Change(FleetChange::Purged { .. }) => "purge",
            Self::Change(FleetChange::Changed { .. }) => "change",
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
    pub(crate) fn read(text: &[u8]) -> Result<Self, Unreadable> {
        if text.len() > MAX_MESSAGE {
            return Err(Unreadable("it is too large".to_owned()));
        }
        let wire: Wire =
            serde_json::from_slice(text).map_err(|error| Unreadable(error.to_string()))?;
        if wire.v != VERSION {
            return Err(Unreadable(format!("it is of version {}", wire.v)));
        }
        Ok(Self {
            from: wire.from,
            sequence: wire.seq,
            at: wire.at,
            content: content(wire.body)?,
        })
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
            extent,
            soft,
        } => {
            let (mut key, mut prefix, mut tag) = (None, None, None);
            match extent {
                Extent::Key(one) => key = Some(one.as_str().to_owned()),
                Extent::Prefix(one) => prefix = Some(one),
                Extent::Tag(one) => tag = Some(one.to_string()),
            }
            Body::Purge {
                bucket,
                key,
                prefix,
                tag,
                soft,
            }
        }
        FleetChange::Changed { bucket, key, kind } => {
            let key = key.as_str().to_owned();
            match kind {
                ChangeKind::Created => Body::Created { bucket, key },
                ChangeKind::Removed => Body::Removed { bucket, key },
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

fn content(body: Body) -> Result<Content, Unreadable> {
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
            soft,
        } => FleetChange::Purged {
            bucket: named(bucket)?,
            extent: extent(key, prefix, tag)?,
            soft,
        },
        Body::Created { bucket, key: name } => changed(bucket, &name, ChangeKind::Created)?,
        Body::Removed { bucket, key: name } => changed(bucket, &name, ChangeKind::Removed)?,
        Body::Pin { limit: 0, .. } => return Err(Unreadable("a pin of nothing".to_owned())),
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

fn changed(bucket: String, name: &str, kind: ChangeKind) -> Result<FleetChange, Unreadable> {
    Ok(FleetChange::Changed {
        bucket: named(bucket)?,
        key: key(name)?,
        kind,
    })
}

fn extent(
    name: Option<String>,
    prefix: Option<String>,
    tag: Option<String>,
) -> Result<Extent, Unreadable> {
    match (name, prefix, tag) {
        (Some(name), None, None) => Ok(Extent::Key(key(&name)?)),
        (None, Some(prefix), None) => Ok(Extent::Prefix(named(prefix)?)),
        (None, None, Some(tag)) => {
            let tag = Tag::new(&tag).map_err(|error| Unreadable(error.to_string()))?;
            Ok(Extent::Tag(tag))
        }
        _ => Err(Unreadable(
            "a purge has a key, a prefix or a tag".to_owned(),
        )),
    }
}

fn key(text: &str) -> Result<ObjectKey, Unreadable> {
    ObjectKey::new(text).map_err(|error| Unreadable(error.to_string()))
}

fn named(text: String) -> Result<String, Unreadable> {
    match text.len() <= MAX_NAME {
        true => Ok(text),
        false => Err(Unreadable("a name is too long".to_owned())),
    }
}

#[cfg(test)]
mod tests;
