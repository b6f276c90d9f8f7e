//! Tidegate itself: the shipped binary, started as its users start it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::minio::{ACCESS_KEY, SECRET_KEY};
use super::{Origin, Peer};
use crate::client::Connection;

pub mod home;

pub use home::{Home, MountWriteSettings, StartState};

/// Settings of a scenario; all others keep their built-in values.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// `cache.memory`, in MiB.
    pub memory_mib: u64,
    /// `cache.budget`, in MiB.
    pub budget_mib: u64,
    /// The capacity of a disk tier, in MiB; 0 means no disk tier.
    pub disk_mib: u64,
    /// The built-in profile to extend.
    pub base: &'static str,
    /// Lines of the profile that override the built-in one.
    pub profile: &'static str,
    /// More sections of the configuration.
    pub sections: &'static str,
}

impl Settings {
    /// Memory and budget as built in, no disk, the profile `web`.
    pub const WEB: Self = Self {
        memory_mib: 512,
        budget_mib: 256,
        disk_mib: 0,
        base: "web",
        profile: "",
        sections: "",
    };

    /// The same as [`Settings::WEB`], with the profile `stream`.
    pub const STREAM: Self = Self {
        base: "stream",
        ..Self::WEB
    };
}

impl Default for Settings {
    fn default() -> Self {
        Self::WEB
    }
}

/// Returns the path of the binary: `TIDEGATE_BIN`, else the shipped build (profile `dist`) of this workspace.
///
/// # Errors
/// If there is none.
pub fn binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("TIDEGATE_BIN") {
        return Ok(path.into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
        PathBuf::from,
    );
    let path = target.join("dist/tidegate");
    if !path.is_file() {
        bail!(
            "{} is missing: `just dist`, or set TIDEGATE_BIN",
            path.display()
        );
    }
    Ok(path)
}

/// Starts a gateway in front of `origin` with nothing cached, and waits until it is ready.
///
/// # Errors
/// If it is missing, does not start, or does not become ready.
pub async fn start(dir: &Path, origin: &Origin, settings: Settings) -> Result<Peer> {
    let mut home = Home::new(dir.join("tidegate"), origin.clone(), settings);
    if settings.disk_mib > 0 {
        home = home.with_disk("disk".into(), settings.disk_mib, 1024);
    }
    home.start(StartState::Ready).await
}

/// The token of each gateway's admin listener, by which it is purged.
pub const ADMIN_TOKEN: &str = "the token of the load test's operator";

/// Returns the configuration file. `cache` holds the lines of `[cache]` after the first two, and
/// the sections that follow it.
fn config(
    (public, socket): (SocketAddr, &Path),
    admin: SocketAddr,
    origin: &Origin,
    settings: Settings,
    cache: &str,
) -> String {
    let Settings {
        memory_mib,
        budget_mib,
        disk_mib: _,
        base,
        profile,
        sections,
    } = settings;
    let Origin { addr, bucket } = origin;
    let socket = socket.display();
    format!(
        r#"[http]
listen = ["{public}", "unix:{socket}"]
max_connections = 16384
idle_timeout = "10m"

[admin]
listen = "{admin}"
token = "{ADMIN_TOKEN}"

[log]
level = "warn"
access = false

[cache]
memory = "{memory_mib}MiB"
budget = "{budget_mib}MiB"
{cache}
[[origin]]
name = "media"
bucket = "{bucket}"
endpoint = "http://{addr}"
region = "us-east-1"
path_style = true
access_key_id = "{ACCESS_KEY}"
secret_access_key = "{SECRET_KEY}"

[[route]]
path = "/"
origin = "media"
profile = "loadtest"

[profile.loadtest]
extends = "{base}"
{profile}
{sections}"#
    )
}

async fn wait_until_ready(admin: SocketAddr) -> Result<()> {
    let since = Instant::now();
    loop {
        let said = match Connection::open(admin).await {
            Ok(mut connection) => match connection.get("/readyz", &[]).await {
                Ok((answer, _)) if answer.head.status.is_success() => return Ok(()),
                Ok((answer, _)) => String::from_utf8_lossy(&answer.body).into_owned(),
                Err(error) => error.to_string(),
            },
            Err(error) => error.to_string(),
        };
        if since.elapsed() > Duration::from_secs(300) {
            bail!("tidegate is not ready: {said}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
