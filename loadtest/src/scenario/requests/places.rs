//! The compared mounts, each with a bucket of its own behind a counting proxy.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;

use super::causes::Causes;
use super::files::Folder;
use crate::bucket::Bucket;
use crate::child::free_addr;
use crate::context::Context;
use crate::peers::mounts::{Access, Mount};
use crate::peers::{Origin, tidegate, told};
use crate::tally::Tally;
use crate::wordpress::gateway::{Gateway, PublicListener};
use crate::wordpress::recipe::{self, Home};

/// The mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Tidegate by its recipe, which publishes in the background.
    Background,
    /// Tidegate by its recipe, which publishes before a close returns.
    Close,
    /// Another mount, by its name in [`Mount::other`].
    Other(&'static str),
}

impl Kind {
    pub(super) const ALL: [Self; 6] = [
        Self::Background,
        Self::Close,
        Self::Other("rclone-writes"),
        Self::Other("rclone-full"),
        Self::Other("mountpoint-s3"),
        Self::Other("geesefs"),
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Background => "background",
            Self::Close => "close",
            Self::Other(name) => name,
        }
    }

    pub(super) const fn is_ours(self) -> bool {
        !matches!(self, Self::Other(_))
    }
}

/// The shipped recipe of Tidegate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recipe {
    /// `wordpress-mount.toml`, or `wordpress-servers.toml` for `close`; its mount shows the keys below `uploads/`.
    Uploads,
    /// `audiobookshelf-mount.toml`.
    Library,
}

/// A mount with everything behind it; dropped in this order.
pub(super) struct Place {
    /// The folder that the programs use.
    pub(super) folder: Folder,
    pub(super) tally: Tally,
    pub(super) bucket: Bucket,
    pub(super) config: String,
    gateway: Option<Gateway>,
    _mount: Option<Mount>,
    pub(super) admin: Option<SocketAddr>,
}

impl Place {
    /// Mounts a bucket of this name; `None` if the program is not installed.
    pub(super) async fn start(
        context: &Context,
        kind: Kind,
        recipe: Recipe,
        bucket: Bucket,
    ) -> Result<Option<Self>> {
        let dir = context.dir().join(bucket.name());
        std::fs::create_dir_all(&dir)?;
        let tally = Tally::start(context.origin().addr).await?;
        let origin = Origin {
            addr: tally.addr(),
            bucket: bucket.name().to_owned(),
        };
        if let Kind::Other(name) = kind {
            let Some(mount) = Mount::other(name, Access::Writing, &dir, &origin)? else {
                return Ok(None);
            };
            let below = match recipe {
                Recipe::Uploads => "uploads",
                Recipe::Library => "",
            };
            return Ok(Some(Self {
                folder: Folder(mount.file(below)),
                tally,
                bucket,
                config: mount.config().to_owned(),
                gateway: None,
                _mount: Some(mount),
                admin: None,
            }));
        }
        let home = Home::make(dir.join("gateway"))?;
        let root = dir.join("www");
        let path = root.join("wp-content/uploads");
        std::fs::create_dir_all(&path)?;
        let (toml, listens) = match recipe {
            Recipe::Uploads => {
                let toml = |name| recipe::gateway(name, &home, &root, &origin);
                let toml = match kind {
                    Kind::Close => recipe::lasting(&toml("wordpress-servers.toml")?)?,
                    _ => toml("wordpress-mount.toml")?,
                };
                (toml, PublicListener::Unix(home.socket()))
            }
            Recipe::Library => {
                let (toml, listens) = library(&home, &path, &origin)?;
                let toml = match kind {
                    Kind::Close => recipe::closing(&toml)?,
                    _ => toml,
                };
                (toml, listens)
            }
        };
        let program = tidegate::binary()?;
        let gateway = Gateway::start_on(&program, &home, &toml, Some(path.clone()), listens)?;
        Ok(Some(Self {
            folder: Folder(path),
            tally,
            bucket,
            config: toml,
            gateway: Some(gateway),
            _mount: None,
            admin: Some(home.admin),
        }))
    }

    /// Returns Tidegate's own counts of requests to the bucket so far.
    pub(super) async fn causes(&self) -> Result<Option<Causes>> {
        let Some(admin) = self.admin else {
            return Ok(None);
        };
        Ok(Some(Causes::read(&told(admin, "/metrics").await?)))
    }

    /// Returns a line of the gateway's log that reports an error.
    pub(super) fn complaint(&self) -> Option<String> {
        self.gateway.as_ref()?.complaint()
    }
}

/// Returns the recipe with names, ports and passwords replaced.
fn library(home: &Home, path: &Path, origin: &Origin) -> Result<(String, PublicListener)> {
    let public = free_addr();
    let mut names = vec![
        ("127.0.0.1:8080", public.to_string()),
        (
            "[admin]\n",
            format!("[admin]\nlisten = \"{}\"\n", home.admin),
        ),
        ("$CREDENTIALS_DIRECTORY/token", home.path("token")),
        ("$CREDENTIALS_DIRECTORY/s3-secret", home.path("s3-secret")),
        ("/var/cache/tidegate-mount", home.path("cache")),
        ("/var/lib/tidegate-mount", home.path("state")),
        (
            "\"audiobooks\"\nendpoint",
            format!("\"{}\"\nendpoint", origin.bucket),
        ),
        ("/mnt/audiobooks", path.display().to_string()),
    ];
    names.extend(recipe::store(origin));
    let toml = recipe::replaced(&recipe::read("audiobookshelf-mount.toml")?, &names)?;
    Ok((toml, PublicListener::Tcp(public)))
}

/// Returns the name of the bucket of a play and mount.
pub(super) fn bucket_name(title: &str, kind: Kind) -> String {
    let first: String = title.chars().filter(char::is_ascii_alphanumeric).collect();
    let first = &first[..first.len().min(30)];
    format!("{}-{}", first.to_lowercase(), kind.name())
}
