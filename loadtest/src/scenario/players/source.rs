//! The ways from a player to the media.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;

use super::{DIRECT, MOUNT, OURS, RCLONE, SETTINGS};
use crate::bucket::Bucket;
use crate::client::Connection;
use crate::context::Context;
use crate::peers::Peer;
use crate::peers::cloud::Cloud;
use crate::peers::mounts::Mount;
use crate::peers::tidegate::{Home, StartState};
use crate::players::media::Medium;
use crate::report::Report;
use crate::tally::{RequestCounts, Tally};
use crate::wordpress::open_to_others;

/// The time without a request after which a playback's requests are counted.
const QUIET: Duration = Duration::from_millis(300);

/// A way to the media, with a count of what it asks the bucket.
pub(super) struct Source {
    name: &'static str,
    way: Way,
    tally: Tally,
}

enum Way {
    /// Signed URLs of the bucket.
    Direct(Bucket, Peer),
    Gateway(Peer),
    Mount(Mount),
    Local(PathBuf),
}

impl Source {
    /// Starts what the way needs, with nothing cached; `None` if its program is not installed.
    pub(super) async fn start(
        context: &Context,
        name: &'static str,
        cloud: &Cloud,
        local: &Path,
        report: &mut Report,
    ) -> Result<Option<Self>> {
        let tally = Tally::start(cloud.addr()).await?;
        let origin = context.origin_behind(tally.addr());
        let dir = context.new_dir("players-")?;
        open_to_others(&dir)?;
        let home = Home::new(dir.clone(), origin.clone(), SETTINGS);
        let way = match name {
            OURS => Way::Gateway(home.start(StartState::Ready).await?),
            MOUNT => Way::Mount(Mount::tidegate(&home.shared()).await?),
            RCLONE => match Mount::other_shared(RCLONE, &dir, &origin)? {
                Some(mount) => Way::Mount(mount),
                None => {
                    report.left_out(name);
                    return Ok(None);
                }
            },
            DIRECT => Way::Direct(context.bucket.behind(tally.addr()), Peer::direct(&origin)),
            _ => Way::Local(local.to_owned()),
        };
        match &way {
            Way::Gateway(peer) => report.peer(name, peer.config()),
            Way::Mount(mount) => report.peer(name, mount.config()),
            Way::Direct(..) | Way::Local(_) => {}
        }
        Ok(Some(Self { name, way, tally }))
    }

    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the URL or the path of a medium. A playlist names its segments without a signature: the bucket lets
    /// all read.
    pub(super) async fn url(&self, medium: &Medium) -> Result<String> {
        let of_peer = |peer: &Peer| format!("http://{}{}", peer.addr(), peer.path(medium.name));
        Ok(match &self.way {
            Way::Direct(_, peer) if medium.is_playlist() => of_peer(peer),
            Way::Direct(bucket, _) => bucket.signed_url(medium.name).await?,
            Way::Gateway(peer) => of_peer(peer),
            Way::Mount(mount) => mount.file(medium.name).display().to_string(),
            Way::Local(folder) => folder.join(medium.name).display().to_string(),
        })
    }

    /// Returns what the bucket was asked so far.
    pub(super) fn asked(&self) -> RequestCounts {
        self.tally.asked()
    }

    /// Returns what the bucket was asked, once nothing more is.
    pub(super) async fn settled(&self) -> RequestCounts {
        match self.way {
            Way::Local(_) => RequestCounts::default(),
            _ => self.tally.quiet_for(QUIET).await,
        }
    }

    /// Reads every file whole, from where it was played, and returns the number of those that are not as they were put.
    pub(super) async fn wrong_bytes(&self, files: &BTreeMap<String, Bytes>) -> Result<u64> {
        let mut wrong = 0;
        for (name, content) in files {
            let found = match &self.way {
                Way::Gateway(peer) => {
                    let mut connection = Connection::open(peer.addr()).await?;
                    let (answer, _) = connection.get(&peer.path(name), &[]).await?;
                    answer.body
                }
                Way::Mount(mount) => {
                    let path = mount.file(name);
                    let read = tokio::task::spawn_blocking(move || std::fs::read(path));
                    let read = read.await?.with_context(|| name.clone())?;
                    Bytes::from(read)
                }
                Way::Direct(..) | Way::Local(_) => return Ok(0),
            };
            wrong += u64::from(found != *content);
        }
        Ok(wrong)
    }
}
