//! The compared sites.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::pages::Images;
use crate::bucket::Bucket;
use crate::context::Context;
use crate::late::sends_all;
use crate::peers::Origin;
use crate::peers::cloud::Cloud;
use crate::peers::mounts::Mount;
use crate::peers::tidegate;
use crate::tally::{RequestCounts, Tally};
use crate::wordpress::gateway::Gateway;
use crate::wordpress::recipe::{self, Home};
use crate::wordpress::{Browser, Media, Places, Site};

/// Time limit for another file to arrive in the bucket, and the interval between checks.
const ARRIVAL: Duration = Duration::from_secs(300);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

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
    /// The gateway's admin listener.
    pub(super) admin: Option<SocketAddr>,
    /// A complaint of the gateway before it was restarted.
    complained: Option<String>,
    rclone: Option<Rclone>,
    _cloud: Option<Cloud>,
    // Last, because the mount lies in it.
    _places: Places,
}

impl Stage {
    pub(super) async fn start(context: &Context, kind: Kind) -> Result<Self> {
        let dir = context.dir().join(kind.name());
        let places = Places::lay_out(&dir.join("site"))?;
        if kind == Kind::Local {
            return Self::of(kind, Site::local(places)?, SiteServices::default());
        }
        let tally = Tally::start(context.origin().addr).await?;
        let cloud = Cloud::start(&dir, tally.addr()).await?;
        let name = kind.name();
        Bucket::create(context.origin().addr, name).await?;
        let origin = Origin {
            addr: cloud.addr(),
            bucket: name.to_owned(),
        };
        let mut behind = SiteServices {
            tally: Some(tally),
            cloud: Some(cloud),
            ..SiteServices::default()
        };
        let site = if kind == Kind::Rclone {
            let rclone = Rclone::start(dir, places.uploads(), origin)?;
            if let Some(mount) = &rclone.mount {
                mount.config().clone_into(&mut behind.config);
            }
            behind.rclone = Some(rclone);
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
            behind.admin = Some(home.admin);
            let http = recipe::nginx("wordpress-mount.conf", &home, &places)?;
            Site::start(places, &http)?
        };
        Self::of(kind, site, behind)
    }

    fn of(kind: Kind, site: Site, behind: SiteServices) -> Result<Self> {
        Ok(Self {
            kind,
            editor: site.log_in()?,
            _places: site.places.clone(),
            site,
            tally: behind.tally,
            config: behind.config,
            gateway: behind.gateway,
            admin: behind.admin,
            complained: None,
            rclone: behind.rclone,
            _cloud: behind.cloud,
        })
    }

    pub(super) fn config(&self) -> &str {
        &self.config
    }

    /// Returns the requests to the bucket so far, after they have ceased.
    ///
    /// # Errors
    /// If something is not sent.
    pub(super) async fn asked(&self) -> Result<Option<RequestCounts>> {
        let Some(tally) = &self.tally else {
            return Ok(None);
        };
        sends_all(self.admin).await.context(self.kind.name())?;
        Ok(Some(tally.settled().await))
    }

    /// Uploads a photo, and waits until all its files are in the bucket, so that the next site has the machine to
    /// itself.
    ///
    /// # Errors
    /// If WordPress refuses it, or its files do not arrive.
    pub(super) async fn upload(&self, photo: &Path) -> Result<Media> {
        let before = self.tally.as_ref().map(Tally::asked);
        let media = self.editor.upload(photo)?;
        if let Some(before) = before {
            self.arrive(before, media.paths.len() as u64).await?;
        }
        Ok(media)
    }

    /// Publishes a post with these images, and then again with copies of them, `count` posts in all; waits until all files
    /// are in the bucket. Returns the numbers of the posts.
    ///
    /// # Errors
    /// If WordPress refuses one, or files do not arrive.
    pub(super) async fn publish(&self, images: &Images, count: u64) -> Result<Vec<u64>> {
        let before = self.tally.as_ref().map(Tally::asked);
        let first = self.editor.publish("A page", &images.files)?;
        let again = self.site.publish_again(first.posts[0], count - 1)?;
        if let Some(before) = before {
            self.arrive(before, first.files + again.files).await?;
        }
        Ok([first.posts, again.posts].concat())
    }

    /// Waits until so many files are in the bucket that were not there before, as long as they come.
    async fn arrive(&self, before: RequestCounts, files: u64) -> Result<()> {
        let Some(tally) = &self.tally else {
            return Ok(());
        };
        let (mut last, mut since) = (before, Instant::now());
        loop {
            // A file that PHP has copied may be copied by the store.
            let asked = tally.asked();
            let arrived = asked.since(before);
            if arrived.put + arrived.copy >= files {
                return Ok(());
            }
            if asked != last {
                (last, since) = (asked, Instant::now());
            }
            let name = self.kind.name();
            ensure!(since.elapsed() < ARRIVAL, "{name}: files do not arrive");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Empties the caches of a site whose files are all in the bucket, by a restart.
    ///
    /// # Errors
    /// If it does not start again.
    pub(super) fn empty(&mut self) -> Result<()> {
        self.complained = self.complaint();
        if let Some(gateway) = &mut self.gateway {
            gateway.restart_empty()?;
        }
        self.rclone.as_mut().map_or(Ok(()), Rclone::restart_empty)
    }

    /// Returns a line of the gateway's log that reports an error.
    pub(super) fn complaint(&self) -> Option<String> {
        let now = self.gateway.as_ref()?.complaint();
        let now = now.map(|complaint| format!("{}: {complaint}", self.kind.name()));
        self.complained.clone().or(now)
    }
}

/// An rclone mount on the folder of uploads.
struct Rclone {
    dir: PathBuf,
    uploads: PathBuf,
    origin: Origin,
    /// `None` only while it is restarted.
    mount: Option<Mount>,
}

impl Rclone {
    fn start(dir: PathBuf, uploads: PathBuf, origin: Origin) -> Result<Self> {
        let mut rclone = Self {
            dir,
            uploads,
            origin,
            mount: None,
        };
        rclone.mount()?;
        Ok(rclone)
    }

    fn mount(&mut self) -> Result<()> {
        let name = Kind::Rclone.name();
        let mount = Mount::other_at(name, &self.dir, &self.uploads, &self.origin)?;
        self.mount = Some(mount.context("rclone is not installed")?);
        Ok(())
    }

    fn restart_empty(&mut self) -> Result<()> {
        self.mount = None;
        std::fs::remove_dir_all(self.dir.join("cache"))?;
        self.mount()
    }
}

/// Everything behind a site.
#[derive(Default)]
struct SiteServices {
    gateway: Option<Gateway>,
    admin: Option<SocketAddr>,
    rclone: Option<Rclone>,
    cloud: Option<Cloud>,
    tally: Option<Tally>,
    config: String,
}
