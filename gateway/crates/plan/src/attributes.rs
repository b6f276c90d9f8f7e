//! Attributes of files in the metadata of objects, in the form that s3fs, geesefs and rclone read (ADR 0049).
//!
//! | header | written | read |
//! | --- | --- | --- |
//! | `x-amz-meta-mode` | `st_mode` in octal with a leading zero: `0100644` | that; decimal (s3fs, geesefs); octal without the zero (rclone) |
//! | `x-amz-meta-uid`, `-gid` | decimal | the same |
//! | `x-amz-meta-mtime`, `-atime` | seconds, with nine digits behind the point if they are not all zero | any number of them |
//! | `x-amz-meta---symlink-target` | the percent-encoded target of a link, up to 1,024 bytes | that (geesefs) |

use std::fmt;

use http::{HeaderName, HeaderValue};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The mode of a file.
pub const MODE_HEADER: HeaderName = HeaderName::from_static("x-amz-meta-mode");
/// The number of its owner.
pub const UID_HEADER: HeaderName = HeaderName::from_static("x-amz-meta-uid");
/// The number of its group.
pub const GID_HEADER: HeaderName = HeaderName::from_static("x-amz-meta-gid");
/// The time of its content.
pub const MTIME_HEADER: HeaderName = HeaderName::from_static("x-amz-meta-mtime");
/// The time of its last access, if a program has set it.
pub const ATIME_HEADER: HeaderName = HeaderName::from_static("x-amz-meta-atime");
/// The target of a symbolic link.
pub const LINK_HEADER: HeaderName = HeaderName::from_static("x-amz-meta---symlink-target");

/// The bits of a mode that tell the type of a file.
pub const TYPE_BITS: u32 = 0o170_000;
/// The type of a regular file.
pub const REGULAR: u32 = 0o100_000;
/// The type of a folder.
pub const FOLDER: u32 = 0o040_000;
/// The type of a symbolic link.
pub const LINK: u32 = 0o120_000;
/// The bits of a mode that chmod(2) sets.
pub const PERMISSION_BITS: u32 = 0o7777;

/// The most bytes of a link's target: `PATH_MAX` without its end. A larger object is no link.
pub const MAX_LINK: u64 = 4095;

/// The most bytes of a target in a header. S3 stores 2 KiB of metadata.
const MAX_LINK_HEADER: usize = 1024;

/// The types of files that a mode may tell.
const TYPES: [u32; 7] = [
    0o010_000, 0o020_000, 0o040_000, 0o060_000, 0o100_000, 0o120_000, 0o140_000,
];

const NANOS_PER_SEC: u32 = 1_000_000_000;

/// A time as `struct timespec` has it: whole seconds since 1970, and nanoseconds after those.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixTime {
    secs: i64,
    nanos: u32,
}

impl UnixTime {
    /// Returns a time; more than 999,999,999 nanoseconds are cut to that.
    #[must_use]
    pub const fn new(secs: i64, nanos: u32) -> Self {
        let nanos = if nanos < NANOS_PER_SEC {
            nanos
        } else {
            NANOS_PER_SEC - 1
        };
        Self { secs, nanos }
    }

    /// Returns the whole seconds, rounded down.
    #[must_use]
    pub const fn secs(self) -> i64 {
        self.secs
    }

    /// Returns the nanoseconds after them.
    #[must_use]
    pub const fn nanos(self) -> u32 {
        self.nanos
    }

    /// Reads `1700000000.25` or `-1.5`: seconds, to the nanosecond.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (is_negative, number) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(fraction) {
            return None;
        }
        let secs: i64 = whole.parse().ok()?;
        let nanos: u32 = format!("{fraction:0<9}")[..9].parse().ok()?;
        match (is_negative, nanos) {
            (false, nanos) => Some(Self { secs, nanos }),
            (true, 0) => Some(Self { secs: -secs, nanos }),
            (true, nanos) => Some(Self {
                secs: (-secs).checked_sub(1)?,
                nanos: NANOS_PER_SEC - nanos,
            }),
        }
    }
}

impl From<crate::Timestamp> for UnixTime {
    fn from(time: crate::Timestamp) -> Self {
        let secs = i64::try_from(time.0 / 1000).unwrap_or(i64::MAX);
        Self::new(secs, u32::try_from(time.0 % 1000).unwrap_or(0) * 1_000_000)
    }
}

impl fmt::Display for UnixTime {
    /// Formats a time before 1970 as rclone does: `-1.5` is a second and a half before.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = self.secs < 0;
        let (secs, nanos) = match (before, self.nanos) {
            (true, 1..) => ((self.secs + 1).unsigned_abs(), NANOS_PER_SEC - self.nanos),
            _ => (self.secs.unsigned_abs(), self.nanos),
        };
        if before {
            f.write_str("-")?;
        }
        match nanos {
            0 => write!(f, "{secs}"),
            nanos => write!(f, "{secs}.{nanos:09}"),
        }
    }
}

/// The attributes of a file, as far as they are stored with its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attributes {
    /// The mode, with the type of the file if that is stored.
    pub mode: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The time of the content.
    pub modified: Option<UnixTime>,
    /// The time of the last access, if a program has set it.
    pub accessed: Option<UnixTime>,
}

impl Attributes {
    /// Reads the attributes from an object's headers. A value that cannot be read counts as missing.
    #[must_use]
    pub fn of(headers: &[(HeaderName, HeaderValue)]) -> Self {
        let mut found = Self::default();
        let mut is_link = false;
        for (name, value) in headers {
            let Ok(text) = value.to_str() else { continue };
            match name {
                name if *name == MODE_HEADER => found.mode = parse_mode(text),
                name if *name == UID_HEADER => found.uid = parse_owner(text),
                name if *name == GID_HEADER => found.gid = parse_owner(text),
                name if *name == MTIME_HEADER => found.modified = UnixTime::parse(text),
                name if *name == ATIME_HEADER => found.accessed = UnixTime::parse(text),
                name if *name == LINK_HEADER => is_link = true,
                _ => {}
            }
        }
        if is_link {
            let permissions = found.mode.map_or(0o777, |mode| mode & PERMISSION_BITS);
            found.mode = Some(LINK | permissions);
        }
        found
    }

    /// Returns whether the object is a symbolic link.
    #[must_use]
    pub fn is_link(&self) -> bool {
        self.mode.is_some_and(|mode| mode & TYPE_BITS == LINK)
    }

    /// Returns the bits that chmod(2) sets, if a mode is stored.
    #[must_use]
    pub fn permissions(&self) -> Option<u32> {
        self.mode.map(|mode| mode & PERMISSION_BITS)
    }

    /// Returns these attributes, where missing those of `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            mode: self.mode.or(other.mode),
            uid: self.uid.or(other.uid),
            gid: self.gid.or(other.gid),
            modified: self.modified.or(other.modified),
            accessed: self.accessed.or(other.accessed),
        }
    }

    /// Replaces the attributes among an object's headers, and leaves all other headers.
    pub fn store(&self, headers: &mut Vec<(HeaderName, HeaderValue)>) {
        let stored = [
            (MODE_HEADER, self.mode.map(|mode| format!("0{mode:o}"))),
            (UID_HEADER, self.uid.map(|uid| uid.to_string())),
            (GID_HEADER, self.gid.map(|gid| gid.to_string())),
            (MTIME_HEADER, self.modified.map(|time| time.to_string())),
            (ATIME_HEADER, self.accessed.map(|time| time.to_string())),
        ];
        headers.retain(|(name, _)| !stored.iter().any(|(known, _)| known == name));
        headers.extend(stored.into_iter().filter_map(|(name, text)| {
            let value = HeaderValue::try_from(text?).ok()?;
            Some((name, value))
        }));
    }
}

/// Returns the header that tells geesefs the target of a link, unless it is too long for one.
#[must_use]
pub fn link_header(target: &str) -> Option<(HeaderName, HeaderValue)> {
    let text = utf8_percent_encode(target, NON_ALPHANUMERIC).to_string();
    let is_short = text.len() <= MAX_LINK_HEADER;
    let value = is_short.then(|| HeaderValue::try_from(text).ok())??;
    Some((LINK_HEADER, value))
}

/// Returns the target of a link that is told by a header.
#[must_use]
pub fn link_target(headers: &[(HeaderName, HeaderValue)]) -> Option<String> {
    let (_, value) = headers.iter().find(|(name, _)| *name == LINK_HEADER)?;
    let text = percent_decode_str(value.to_str().ok()?)
        .decode_utf8()
        .ok()?;
    let is_path = !text.is_empty() && text.len() as u64 <= MAX_LINK && !text.contains('\0');
    is_path.then(|| text.into_owned())
}

/// Reads a mode: octal if it begins with a zero, else decimal if that tells a type of files, else octal if that does.
/// A number that tells no type either way is decimal, as s3fs and geesefs read it.
fn parse_mode(text: &str) -> Option<u32> {
    let text = text.trim();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return None;
    }
    let tells_type = |mode: &u32| *mode <= 0o177_777 && TYPES.contains(&(mode & TYPE_BITS));
    let octal = u32::from_str_radix(text, 8).ok();
    let decimal = text.parse().ok();
    let mode = match text.len() > 1 && text.starts_with('0') {
        true => octal,
        false => decimal
            .filter(tells_type)
            .or(octal.filter(tells_type))
            .or(decimal),
    }?;
    (mode <= PERMISSION_BITS || tells_type(&mode)).then_some(mode)
}

/// Reads the number of an owner or a group; -1 stands for none.
fn parse_owner(text: &str) -> Option<u32> {
    let text = text.trim();
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok()?;
    (is_number && number != u32::MAX).then_some(number)
}

#[cfg(test)]
mod tests;
