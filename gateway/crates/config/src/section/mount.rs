//! `[[mount]]`: a route as a folder, through FUSE.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Config, Route};
use tidegate_plan::{ByteSize, Period};

/// A route's objects as files in a folder (Linux, FUSE), on the same cache.
///
/// Needs root, or `fusermount3`. `tidegate mount` mounts one without serving HTTP.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["path"]))]
pub struct Mount {
    /// The folder to mount on: it must exist, and the path be absolute.
    #[schemars(extend("examples" = ["/mnt/media"]))]
    pub path: PathBuf,
    /// The path of the route whose objects it shows, by that route's profile.
    pub route: String,
    /// That route's host, if it has one.
    #[schemars(extend("examples" = ["media.example.org"]))]
    pub host: Option<String>,
    /// Whether files can be written; written bytes lie in the spool until they are in the bucket.
    pub writable: bool,
    /// When a `close` returns: once the object is in the bucket, or safe in the spool.
    ///
    /// With `background` it is sent afterwards, and again after a restart or when the origin is back. A new file with a temporary
    /// name, such as `.a.AbC123` or `a.tmp`, waits for its rename with both.
    pub commit: CommitName,
    /// Before a file is opened for writing, the bucket is asked, unless it has answered within this time.
    ///
    /// For programs that ignore the result of a close, such as PHP, with `commit = "close"`. Where the next size of a photo
    /// is looked up, it is asked ahead of the open. Left out: it is not asked.
    #[schemars(extend("examples" = ["1s"]))]
    pub probe: Option<Period>,
    /// The most objects of a folder that can be renamed; a larger one is EXDEV, and `mv` copies it. 0: none can.
    ///
    /// Each is copied on the server and then deleted.
    pub rename_limit: u32,
    /// The owner of the files; left out: the user that tidegate runs as.
    #[schemars(extend("examples" = [1000]))]
    pub uid: Option<u32>,
    /// Their group; left out: that user's.
    #[schemars(extend("examples" = [1000]))]
    pub gid: Option<u32>,
    /// Permissions to take away, in octal.
    pub umask: Umask,
    /// Let other users in; for users other than root it needs `user_allow_other` in /etc/fuse.conf.
    pub allow_other: bool,
    /// Whether modes, owners, set times and links are kept, in the objects' metadata.
    ///
    /// Left out: `kept` if it is writable, else `none`. `none` is for mounts that only stream: files have the owner and
    /// umask of the mount, and changes of those are accepted and forgotten.
    #[schemars(extend("examples" = ["none"]))]
    pub attributes: Option<AttributesName>,
    /// The size that `df` shows, in place of the spool's; what waits in the spool is not free.
    ///
    /// For programs that look for room before they copy a file larger than the spool. It limits nothing.
    #[schemars(extend("examples" = ["2TB"]))]
    pub size: Option<ByteSize>,
    /// Threads that take the kernel's requests.
    pub threads: u32,
    /// The deadline of every request of a program; then it fails with an input/output error.
    ///
    /// For a request that writes, the time without any progress.
    pub deadline: Period,
}

impl Default for Mount {
    /// The path has to be given: empty stands for missing.
    fn default() -> Self {
        Self {
            path: PathBuf::new(),
            route: "/".into(),
            host: None,
            writable: false,
            commit: CommitName::default(),
            probe: None,
            rename_limit: 1000,
            uid: None,
            gid: None,
            umask: Umask(0o022),
            allow_other: false,
            attributes: None,
            size: None,
            threads: 4,
            deadline: Period::secs(30),
        }
    }
}

/// The moment when a close returns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CommitName {
    /// When the object is in the bucket.
    #[default]
    Close,
    /// When it is safe in the spool.
    Background,
}

/// The use of attributes in objects' metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AttributesName {
    /// They are shown and kept.
    Kept,
    /// They are neither.
    None,
}

impl Mount {
    /// Returns whether modes, owners, set times and symbolic links are kept.
    #[must_use]
    pub fn keeps_attributes(&self) -> bool {
        match self.attributes {
            Some(attributes) => attributes == AttributesName::Kept,
            None => self.writable,
        }
    }
}

/// Permissions that are taken away: `022` as text, because a number would not be read as octal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Umask(pub u16);

impl FromStr for Umask {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let octal = text.len() <= 4 && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
        let bits = u16::from_str_radix(text, 8).ok();
        let bits = bits.filter(|bits| octal && *bits <= 0o777);
        bits.map(Self).ok_or_else(|| {
            format!(
                "`{}` is no umask; write octal digits, such as \"022\"",
                text.escape_debug()
            )
        })
    }
}

impl fmt::Display for Umask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:03o}", self.0)
    }
}

tidegate_plan::text_form!(Umask, "Umask", read: "octal digits as text, such as \"022\"", {
    "type": "string",
    "pattern": "^[0-7]{1,4}$",
    "x-kind": "octal",
});

impl Config {
    /// Returns the index in [`Config::routes`] of the route that a mount shows. Paths are compared without the slash at
    /// their end, hosts without regard to case.
    #[must_use]
    pub fn route_of(&self, mount: &Mount) -> Option<usize> {
        let bare = |path: &str| path.trim_end_matches('/').to_owned();
        let host = |host: &Option<String>| host.as_ref().map(|host| host.to_ascii_lowercase());
        let meant = |route: &Route| {
            bare(&route.path) == bare(&mount.route) && host(&route.host) == host(&mount.host)
        };
        self.routes().iter().position(meant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_umask_is_octal() {
        for (text, bits) in [("022", 0o022), ("0", 0), ("0077", 0o077), ("777", 0o777)] {
            assert_eq!(text.parse(), Ok(Umask(bits)), "{text}");
        }
        for bad in ["", "8", "1000", "-22", "+22", "00022", "u=rw"] {
            assert!(bad.parse::<Umask>().is_err(), "{bad}");
        }
        assert_eq!(Umask(0o22).to_string(), "022");
    }
}
