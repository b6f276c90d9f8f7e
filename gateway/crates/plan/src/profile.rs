//! The treatment of a route's objects: read-ahead, freshness, admission.

use std::time::Duration;

/// All settings of a profile. Built-in ones: `web`, `stream`, `documents`, `backup`.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Its name, for metrics.
    pub name: &'static str,
    /// Ceiling of the read-ahead window in bytes; 0 turns read-ahead off.
    pub read_ahead: u64,
    /// Ceiling of parallel requests for one reader.
    pub streams: u32,
    /// The time after a confirmation during which a version is fresh; the object's own `Cache-Control` may shorten it.
    pub ttl: Duration,
    /// Whether `ttl` overrules the object's own `Cache-Control`.
    pub force_ttl: bool,
    /// The time after freshness ends during which a stale answer is given while it is being confirmed (RFC 5861, 3).
    pub stale_while_revalidate: Duration,
    /// The time after freshness ends during which a stale answer is given while the origin fails (RFC 5861, 4).
    pub stale_if_error: Duration,
    /// The time for which a missing object is remembered as missing.
    pub negative_ttl: Duration,
    /// The most pages of 1,000 names that are listed of a folder when a client requests names in it; 0 turns this off.
    pub list_pages: u32,
    /// The use at which a chunk is offered to the disk tier.
    pub disk: DiskUse,
    /// Whether the data is bulk, which must not displace the contents of the memory tier.
    pub bulk: bool,
}

/// The use at which a chunk is offered to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)
)]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum DiskUse {
    // The docs are descriptions in the JSON schema of a configuration.
    /// Never.
    Off,
    /// When it is fetched.
    First,
    /// When it is asked for again.
    Second,
}

impl DiskUse {
    /// Returns its name in a configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::First => "first",
            Self::Second => "second",
        }
    }
}

const MIB: u64 = 1 << 20;

/// Allows ten requests and 2 MiB of names.
const LIST_PAGES: u32 = 10;
const MINUTE: u64 = 60;
const DAY: u64 = 24 * 60 * MINUTE;

impl Profile {
    /// The names of the built-in profiles.
    pub const BUILT_IN: [&'static str; 4] = ["web", "stream", "documents", "backup"];

    /// Returns the built-in profile of this name.
    #[must_use]
    pub fn built_in(name: &str) -> Option<Self> {
        match name {
            "web" => Some(Self::web()),
            "stream" => Some(Self::stream()),
            "documents" => Some(Self::documents()),
            "backup" => Some(Self::backup()),
            _ => None,
        }
    }

    /// Returns the profile for images, scripts and downloads of a site: many small objects, each read whole by many
    /// readers.
    ///
    /// Read-ahead is small, because most objects end within one part. An answer is fresh for a minute and may be stale
    /// for ten more while it is confirmed, because a visitor should never wait for a confirmation. While the origin is
    /// down, stale answers last a day.
    #[must_use]
    pub fn web() -> Self {
        Self {
            name: "web",
            read_ahead: 8 * MIB,
            streams: 4,
            ttl: Duration::from_secs(MINUTE),
            force_ttl: false,
            stale_while_revalidate: Duration::from_secs(10 * MINUTE),
            stale_if_error: Duration::from_secs(DAY),
            negative_ttl: Duration::from_secs(5),
            list_pages: LIST_PAGES,
            disk: DiskUse::First,
            bulk: false,
        }
    }

    /// Returns the profile for audio and video: large objects, read in order by players that must not run dry.
    ///
    /// As `web`, but with a window that a fast reader cannot outrun, and with enough parallel requests to keep it
    /// filled over a slow connection to the bucket.
    #[must_use]
    pub fn stream() -> Self {
        Self {
            name: "stream",
            read_ahead: 128 * MIB,
            streams: 16,
            ..Self::web()
        }
    }

    /// Returns the profile for documents that people edit: read in random order, and expected to be current.
    ///
    /// No read-ahead, because a reader of a PDF jumps. Ten seconds of freshness and ten more of staleness, because
    /// users look at a document after they save it. A missing document is requested again after two seconds.
    #[must_use]
    pub fn documents() -> Self {
        Self {
            name: "documents",
            read_ahead: 0,
            streams: 8,
            ttl: Duration::from_secs(10),
            stale_while_revalidate: Duration::from_secs(10),
            negative_ttl: Duration::from_secs(2),
            ..Self::web()
        }
    }

    /// Returns the profile for backup images: very large, read once, and wrong if they are old.
    ///
    /// The window of `stream` and never a stale answer. Bulk data stays off the disks, where it would displace other
    /// data without being read again.
    #[must_use]
    pub fn backup() -> Self {
        Self {
            name: "backup",
            ttl: Duration::from_secs(10),
            stale_while_revalidate: Duration::ZERO,
            stale_if_error: Duration::ZERO,
            negative_ttl: Duration::from_secs(2),
            disk: DiskUse::Off,
            bulk: true,
            ..Self::stream()
        }
    }
}

impl Default for Profile {
    /// Returns `web`.
    fn default() -> Self {
        Self::web()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_name_has_its_profile() {
        let row = |name: &str| {
            let p = Profile::built_in(name).expect(name);
            assert_eq!(p.name, name);
            let secs = [
                p.ttl,
                p.stale_while_revalidate,
                p.stale_if_error,
                p.negative_ttl,
            ];
            (
                p.read_ahead / MIB,
                p.streams,
                secs.map(|d| d.as_secs()),
                p.disk,
                p.bulk,
            )
        };
        let table = [
            (8, 4, [60, 600, 86_400, 5], DiskUse::First, false),
            (128, 16, [60, 600, 86_400, 5], DiskUse::First, false),
            (0, 8, [10, 10, 86_400, 2], DiskUse::First, false),
            (128, 16, [10, 0, 0, 2], DiskUse::Off, true),
        ];
        assert_eq!(Profile::BUILT_IN.map(row), table);
        assert_eq!(Profile::built_in("audiobooks"), None);
        assert_eq!(Some(Profile::default()), Profile::built_in("web"));
    }
}
