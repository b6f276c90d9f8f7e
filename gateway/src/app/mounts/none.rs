//! The stand-in for a build without mounts (the feature `fuse`, on Linux): each request for one is
//! an error.

use std::time::Duration;

use anyhow::bail;

use super::parts::GatewayParts;
use super::writing;
use crate::cli::MountArgs;
use tidegate_config::{Config, Environment};
use tidegate_write::Writers;

const NO_MOUNTS_MESSAGE: &str = "this tidegate was built without mounts";

/// No mounts.
#[derive(Debug)]
pub(super) struct Mounts;

/// Opens no spool, and mounts nothing.
///
/// # Errors
/// If a mount is wanted.
pub(super) async fn start(
    config: &Config,
    env: &Environment,
    mounts: &[tidegate_config::Mount],
    parts: &mut GatewayParts,
) -> anyhow::Result<(Mounts, Option<Writers>)> {
    match mounts {
        // Without mounts there are no writers of a spool.
        [] => Ok((
            Mounts,
            writing::start(config, env, mounts, parts, |_| {}).await?,
        )),
        _ => bail!("`mount`: {NO_MOUNTS_MESSAGE}"),
    }
}

impl Mounts {
    pub(super) fn missing(&self) -> impl Fn() -> Vec<String> + Send + Sync + use<> {
        Vec::new
    }

    pub(super) async fn stop(self, _: Duration) {}
}

pub(super) fn selected(_: &Config, _: &MountArgs) -> anyhow::Result<tidegate_config::Mount> {
    bail!(NO_MOUNTS_MESSAGE)
}

/// No mount.
#[derive(Debug)]
pub(super) struct SingleMount;

impl SingleMount {
    pub(super) async fn start(
        _: &Config,
        _: &Environment,
        _: tidegate_config::Mount,
    ) -> anyhow::Result<Self> {
        bail!(NO_MOUNTS_MESSAGE)
    }

    pub(super) async fn wait_ended(&mut self) {}

    pub(super) async fn stop(self) {}
}
