//! The compared sites.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::pages;
use crate::bucket::Bucket;
use crate::context::Context;
use crate::peers::Origin;
use crate::peers::cloud::Cloud;
use crate::peers::mounts::Mount;
use crate::peers::tidegate;
use crate::tally::{Asked, Tally};
use crate::wordpress::gateway::Gateway;
use crate::wordpress::recipe::{self, Home};
use crate::wordpress::{Browser, Media, Places, Site};

/// Time limit for files to arrive in the bucket, and the interval between checks.
const ARRIVAL: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_millis(50);

/// The place of a site's uploads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The local disk; nginx serves them.
    Local,
    /// Recipe 1.
    Background,
    /// Recipe 3, with `commit = "close"`.
    Close,
    /// An rclone mount; nginx serves them from it.
    Rclone,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::Local, Self::Background, Self::Close, Self::Rclone];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Background => "background",
            Self::Close => "close",
            Self::Rclone => "rclone-writes",
        }
    }
}

/// A site with everything behind it; dropped in this order.
pub(super) struct Stage {
    pub(super) kind: Kind,
    pub(super) editor: Browser,
    pub(super) site: Site,
    tally: Option<Tally>,
    config: String,
    gateway: Option<Gateway>,
    _mount: Option<Mount>,
    _cloud: Option<Cloud>,
    // Last, because the mount lies in it.
    _places: Places,
}

impl Stage {
    pub(super) async fn start(context: &Context, kind: Kind) -> Result<Self> {
        let dir = context.dir().join(kind.name());
        let places = Places::lay_out(&dir.join("site"))?;
        if kind == Kind::Local {
            pages::write(&places.uploads())?;
            return Self::of(kind, Site::local(places)?, Behind::default());
        }
        let tally = Tally::start(context.origin().addr).await?;
        let cloud = Cloud::start(&dir, tally.addr()).await?;
        let name = kind.name();
        let bucket = Bucket::create(context.origin().addr, name).await?;
        let origin = Origin {
            addr: cloud.addr(),
            bucket: name.to_owned(),
        };
        pages::put(&bucket, if kind == Kind::Rclone { "" } else { "uploads/" }).await?;
        let mut behind = Behind {
            tally: Some(tally),
            cloud: Some(cloud),
            ..Behind::default()
        };
        let site = if kind == Kind::Rclone {
            let mount = Mount::other_at(name, &dir, &places.uploads(), &origin)?;
            let mount = mount.context("rclone is not installed")?;
            mount.config().clone_into(&mut behind.config);
            behind.mount = Some(mount);
            Site::local(places)?
        } else {
            let home = Home::make(dir.join("gateway"))?;
            let recipe = match kind {
                Kind::Close => "wordpress-servers.toml",
                _ => "wordpress-mount.toml",
            };
            let mut toml = recipe::gateway(recipe, &home, &places.root, &origin)?;
            if kind == Kind::Close {
                toml = recipe::lasting(&toml)?;
            }
            let program = tidegate::binary()?;
            let mount = Some(places.uploads());
            behind.gateway = Some(Gateway::start(&program, &home, &toml, mount)?);
            behind.config = toml;
            let http = recipe::nginx("wordpress-mount.conf", &home, &places)?;
            Site::start(places, &http)?
        };
        Self::of(kind, site, behind)
    }

    fn of(kind: Kind, site: Site, behind: Behind) -> Result<Self> {
        Ok(Self {
            kind,
            editor: site.log_in()?,
            _places: site.places.clone(),
            site,
            tally: behind.tally,
            config: behind.config,
            gateway: behind.gateway,
            _mount: behind.mount,
            _cloud: behind.cloud,
        })
    }

    pub(super) fn config(&self) -> &str {
        &self.config
    }

    /// Returns the requests to the bucket so far, after they have ceased.
    pub(super) async fn asked(&self) -> Option<Asked> {
        match &self.tally {
            Some(tally) => Some(tally.settled().await),
            None => None,
        }
    }

    /// Uploads a photo, and waits until all its files are in the bucket, so that the next site has the machine to
    /// itself.
    ///
    /// # Errors
    /// If WordPress refuses it, or its files do not arrive.
    pub(super) async fn upload(&self, photo: &Path) -> Result<Media> {
        let before = self.tally.as_ref().map(Tally::asked);
        let media = self.editor.upload(photo)?;
        if let Some((tally, before)) = self.tally.as_ref().zip(before) {
            let arrival = async {
                while tally.asked().since(before).put < media.paths.len() as u64 {
                    tokio::time::sleep(LOOK).await;
                }
            };
            let arrived = tokio::time::timeout(ARRIVAL, arrival).await;
            arrived.with_context(|| format!("{}: files do not arrive", self.kind.name()))?;
        }
        Ok(media)
    }

    /// Returns a line of the gateway's log that reports an error.
    pub(super) fn complaint(&self) -> Option<String> {
        let complaint = self.gateway.as_ref()?.complaint()?;
        Some(format!("{}: {complaint}", self.kind.name()))
    }
}

/// Everything behind a site.
#[derive(Default)]
struct Behind {
    gateway: Option<Gateway>,
    mount: Option<Mount>,
    cloud: Option<Cloud>,
    tally: Option<Tally>,
    config: String,
}
