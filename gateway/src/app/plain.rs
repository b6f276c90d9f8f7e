//! Plain files that the kernel reads by itself, for mounts that are not writable (`[passthrough]`).

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use prometheus_client::registry::Registry;

use crate::config::{self, Config, Disk};
use crate::engine::Engine;
use crate::engine::backing::{Ask, Backings, LEAST, Settings, Under};
use crate::store::Tiering;

/// What mounts lend to the kernel; `None` where none is wanted, or no mount can.
pub(super) async fn start(
    config: &Config,
    mounts: &[config::Mount],
    engine: &Engine,
    tiering: &Arc<dyn Tiering>,
    registry: &mut Registry,
) -> anyhow::Result<Option<Backings>> {
    let Some(folder) = config.passthrough_path() else {
        return Ok(None);
    };
    if mounts.iter().all(|mount| mount.writable) {
        return Ok(None);
    }
    let size = config.passthrough.size;
    tracing::info!(path = %folder.display(), %size, "passthrough");
    let settings = Settings {
        folder: folder.clone(),
        size: size.0,
        min_free: min_free(config, &folder),
    };
    let (engine, under) = (engine.clone(), under(&folder, tiering));
    let started = tokio::task::spawn_blocking(move || Backings::start(&engine, settings, under));
    let backings = started
        .await?
        .context("cannot lay files out in `passthrough.path`")?;
    backings.register(registry);
    tell_of_room(config, &folder);
    Ok(Some(backings))
}

/// The cache disks that the folder lies on.
fn beside<'a>(config: &'a Config, folder: &'a Path) -> impl Iterator<Item = &'a Disk> {
    let disks = config.cache.disk.iter();
    disks.filter(|disk| folder.starts_with(&disk.path))
}

/// What stays free; on a cache disk so much more than the cache leaves that plain files give way to it.
fn min_free(config: &Config, folder: &Path) -> u64 {
    let of_cache = beside(config, folder).map(|disk| disk.min_free.0);
    let before = of_cache.max().unwrap_or(0).saturating_mul(3) / 2;
    config.passthrough.min_free.0.max(before)
}

/// How the cache disk is that the folder lies on; a folder elsewhere is nobody's to judge.
fn under(folder: &Path, tiering: &Arc<dyn Tiering>) -> Ask {
    let (folder, tiering) = (folder.to_owned(), tiering.clone());
    Box::new(move || {
        let disks = tiering.report().disks;
        let disk = disks.iter().find(|disk| folder.starts_with(&disk.path));
        match disk.map_or("up", |disk| disk.state) {
            "off" | "closed" => Under::Off,
            "slow" | "demoted" => Under::Failing,
            _ => Under::Sound,
        }
    })
}

/// Says where the file system can never have what it is to hold.
fn tell_of_room(config: &Config, folder: &Path) {
    let Ok(stat) = rustix::fs::statvfs(folder) else {
        return;
    };
    let total = stat.f_blocks.saturating_mul(stat.f_frsize);
    let (size, min_free) = (config.passthrough.size.0, min_free(config, folder));
    let capacity: u64 = beside(config, folder).map(|disk| disk.capacity.0).sum();
    let path = folder.display();
    if min_free.saturating_add(LEAST) > total {
        tracing::warn!(%path, total, "`passthrough.min_free` is all there is: nothing is laid out");
    } else if capacity.saturating_add(size).saturating_add(min_free) > total {
        tracing::warn!(
            %path,
            total,
            "`capacity` of the cache disk, `passthrough.size` and `min_free` are more than there is: \
             plain files give way to the cache"
        );
    }
}
