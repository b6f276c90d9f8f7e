//! Plain files that the kernel reads by itself, for mounts that are not writable (`[passthrough]`).

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use prometheus_client::registry::Registry;

use crate::config::{self, Config, Disk};
use crate::engine::Engine;
use crate::engine::backing::{Ask, Backings, Settings, Under};
use crate::plan::admission::LEAST_PLAIN;
use crate::store::space::Space;
use crate::store::{Tiering, private};

/// Starts the plain files of mounts; `None` if none are configured, or no mount can use them.
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
    let (disks, tiering) = (config.cache.disk.clone(), tiering.clone());
    let (own, engine) = (config.passthrough.clone(), engine.clone());
    let started = tokio::task::spawn_blocking(move || {
        private::make_dir(&folder)?;
        let beside = beside(disks, &folder);
        let settings = Settings {
            min_free: min_free(&own, &beside),
            size: size.0,
            folder,
        };
        tell_of_room(&settings, &beside);
        let paths = beside.into_iter().map(|disk| disk.path).collect();
        Backings::start(&engine, settings, under(paths, tiering))
    });
    let backings = started
        .await?
        .context("cannot lay files out in `passthrough.path`")?;
    backings.register(registry);
    Ok(Some(backings))
}

/// Returns the cache disks that lie on the same file system as the folder, or that contain it.
fn beside(mut disks: Vec<Disk>, folder: &Path) -> Vec<Disk> {
    let device = |path: &Path| path.metadata().ok().map(|found| found.dev());
    let own = device(folder);
    disks.retain(|disk| {
        folder.starts_with(&disk.path) || own.is_some() && device(&disk.path) == own
    });
    disks
}

/// Returns the space that stays free; beside a cache so much that plain files give way to it.
fn min_free(own: &config::Passthrough, beside: &[Disk]) -> u64 {
    let of_cache = beside.iter().map(|disk| disk.min_free.0).max();
    own.min_free
        .0
        .max(of_cache.unwrap_or(0).saturating_mul(3) / 2)
}

/// Returns the state of the cache disks that lie there; without any, the folder counts as sound.
fn under(paths: Vec<PathBuf>, tiering: Arc<dyn Tiering>) -> Ask {
    Box::new(move || {
        let disks = tiering.report().disks;
        let there = disks.iter().filter(|disk| paths.contains(&disk.path));
        let states: Vec<_> = there.map(|disk| disk.state).collect();
        let any = |of: &[&str]| states.iter().any(|state| of.contains(state));
        if any(&["off", "closed"]) {
            Under::Off
        } else if any(&["slow", "demoted"]) {
            Under::Failing
        } else {
            Under::Sound
        }
    })
}

/// Warns if the file system can never hold the configured sizes.
fn tell_of_room(settings: &Settings, beside: &[Disk]) {
    let Ok(Space { total, .. }) = Space::of(&settings.folder) else {
        return;
    };
    let capacity: u64 = beside.iter().map(|disk| disk.capacity.0).sum();
    let (size, min_free) = (settings.size, settings.min_free);
    let path = settings.folder.display();
    if min_free.saturating_add(LEAST_PLAIN) > total {
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
