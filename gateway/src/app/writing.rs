//! Writes through mounts: one spool for the process, if a mount is writable.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

use super::parts::GatewayParts;
use super::process::supervisor;
use tidegate_config::{Config, Environment};
use tidegate_plan::upload::kept_end;
use tidegate_telemetry::progress::told_of;
use tidegate_write::{Progress, Settings, Writers, left_in_spool};

/// Opens the spool, calls `on_open` with its folder, and takes up what an earlier process left in it; `None` if no mount
/// is writable.
pub(super) async fn start(
    config: &Config,
    env: &Environment,
    mounts: &[tidegate_config::Mount],
    parts: &mut GatewayParts,
    on_open: impl FnOnce(&Path) + Send + 'static,
) -> anyhow::Result<Option<Writers>> {
    let writable = mounts.iter().filter(|mount| mount.writable);
    let Some(patience) = writable.clone().map(|mount| mount.deadline).min() else {
        if let Some(spool) = config.spool_path(env) {
            tokio::task::spawn_blocking(move || warn_of_left_drafts(&spool)).await?;
        }
        return Ok(None);
    };
    let sources = writable.filter_map(|mount| {
        let route = config.route_of(mount)?;
        Some(parts.routes.routes[route].source.clone())
    });
    let sources: Vec<_> = sources.collect();
    let spool = config
        .spool_path(env)
        .context("there is no place for the spool; `spool.path` names one")?;
    let size = config.spool.size;
    tracing::info!(path = %spool.display(), %size, "spool");
    let settings = Settings {
        size: size.0,
        kept: kept_end(size.0),
        read_back: config.spool.read_back,
        patience: patience.into(),
        ..Settings::new(spool)
    };
    let path = parts.write_path.clone();
    let reading = settings.reading.clone();
    let opened = tokio::task::spawn_blocking(move || {
        Writers::start_with(&path, settings, &sources, on_open)
    });
    let opened = supervisor::tell_of_start(opened, || {
        let Progress { done, of } = reading.progress();
        format!("reading the spool: {done} of {of} files")
    });
    let writers = opened.await?.context("cannot open the spool")?;
    writers.register(&mut parts.registry);
    Ok(Some(writers))
}

/// Warns of drafts and cut renames that an earlier process left in the spool: no mount is writable now, so nothing goes on
/// with them.
fn warn_of_left_drafts(spool: &Path) {
    let path = spool.display();
    match left_in_spool(spool) {
        Ok(0) => {}
        Ok(count) => tracing::warn!(
            count,
            %path,
            "no mount is writable, and the spool has objects that are not in the bucket, or renames of folders that have not \
             ended; they stay there"
        ),
        Err(error) => tracing::warn!(%path, %error, "cannot list the spool"),
    }
}

/// Waits for closed drafts that are not in the bucket yet; the rest goes on at the next start.
pub(super) async fn settle(writers: Option<&Writers>, deadline: Duration) {
    let Some(writers) = writers else { return };
    let settled = told_of(writers.settled(), || {
        let pending = writers.pending().len();
        tracing::info!(pending, "waiting until what was written is in the bucket");
    });
    if tokio::time::timeout(deadline, settled).await.is_err() {
        let pending = writers.pending().len();
        tracing::warn!(
            pending,
            "not everything that was written is in the bucket; it goes on with the next start"
        );
    }
}
