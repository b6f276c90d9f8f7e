//! `tidegate demo`: a gateway with sample media, and nothing to install.
//!
//! It sets a [`Stage`]: a folder, an embedded S3 origin in it, sample media that it makes itself, and two listeners.
//! The caller of [`run`] starts the gateway on that, for only the composition root names every part. Then it prints a
//! [`Guide`] with commands to try, and on Ctrl-C removes everything.

mod document;
mod guide;
mod melody;
mod offsets;
mod picture;
mod samples;

use std::fmt;
use std::future::Future;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tempfile::TempDir;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::print;
use crate::embedded::{Credentials, EmbeddedOrigin, random_hex};

pub use guide::Guide;
pub use samples::{ALL, Sample};

/// The options of the demo.
#[derive(Debug, Clone)]
pub struct DemoOptions {
    /// The folder of all its files: empty, or used by the demo before. If it is named, it is kept and used again; else
    /// a temporary folder is used, and removed when the demo ends.
    pub dir: Option<PathBuf>,
    /// The port to listen on; another free one if it is taken, and 0 is any.
    pub port: u16,
    /// The same for the admin listener.
    pub admin_port: u16,
    /// Size of the large sample, in bytes.
    pub large: u64,
}

impl Default for DemoOptions {
    fn default() -> Self {
        Self {
            dir: None,
            port: 8080,
            admin_port: 8081,
            large: 256 << 20,
        }
    }
}

/// The parameters of a gateway for the demo.
pub struct Launch {
    /// The origin's endpoint; its bucket is addressed by path.
    pub endpoint: String,
    /// The bucket.
    pub bucket: &'static str,
    /// The credentials that requests to the origin are signed with.
    pub credentials: Credentials,
    /// An existing folder for the gateway's own files (cache, state).
    pub folder: PathBuf,
    /// The file with the admin token.
    pub token_file: PathBuf,
    /// The public listener, non-blocking.
    pub http: TcpListener,
    /// The admin listener, non-blocking.
    pub admin: TcpListener,
}

impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch").finish_non_exhaustive()
    }
}

/// A gateway that was started.
pub trait RunningGateway {
    /// Drains and stops it.
    fn stop(self) -> impl Future<Output = anyhow::Result<()>>;
}

/// Runs the demo until it is told to stop (SIGINT, SIGTERM, SIGHUP).
///
/// # Errors
/// If the folder, the origin or a port cannot be had, or the gateway does not start or stop.
pub async fn run<F, R>(options: DemoOptions, start: impl FnOnce(Launch) -> F) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<R>>,
    R: RunningGateway,
{
    let mut stop = Stop::listen()?;
    print("Making sample media …\n")?;
    let stage = tokio::select! {
        stage = Stage::set(&options) => stage?,
        () = stop.told() => return Ok(()),
    };
    let gateway = start(stage.launch()?).await?;
    print(&format!("{}\n", stage.guide()))?;
    stop.told().await;
    print("Stopping …\n")?;
    gateway.stop().await
}

/// The parts of the demo except the gateway. Dropping it stops the origin, then removes a temporary folder.
#[derive(Debug)]
pub struct Stage {
    origin: EmbeddedOrigin,
    http: TcpListener,
    admin: TcpListener,
    folder: Folder,
}

#[derive(Debug)]
enum Folder {
    Named(PathBuf),
    Temporary(TempDir),
}

impl Folder {
    fn path(&self) -> &Path {
        match self {
            Self::Named(path) => path,
            Self::Temporary(folder) => folder.path(),
        }
    }
}

impl Stage {
    /// Makes or reuses the folder, starts the origin, makes missing samples, and listens.
    ///
    /// # Errors
    /// As for [`run`].
    pub async fn set(options: &DemoOptions) -> anyhow::Result<Self> {
        let folder = match &options.dir {
            Some(path) => Folder::Named(claimed(std::path::absolute(path)?)?),
            None => Folder::Temporary(
                tempfile::Builder::new()
                    .prefix("tidegate-demo-")
                    .tempdir()
                    .context("cannot make a temporary folder")?,
            ),
        };
        let path = folder.path();
        std::fs::create_dir_all(path.join("gateway"))
            .with_context(|| format!("cannot make {}", path.display()))?;
        write_token(&path.join("token")).context("cannot write the admin token")?;
        let origin = EmbeddedOrigin::start(&path.join("origin")).await?;
        samples::fill(&origin, options.large).await?;
        Ok(Self {
            origin,
            http: listen(options.port).context("cannot listen")?,
            admin: listen(options.admin_port).context("cannot listen")?,
            folder,
        })
    }

    /// Returns the parameters to start the gateway with.
    ///
    /// # Errors
    /// If the system has no more descriptors.
    pub fn launch(&self) -> io::Result<Launch> {
        let path = self.folder.path();
        Ok(Launch {
            endpoint: self.origin.endpoint(),
            bucket: self.origin.bucket(),
            credentials: self.origin.credentials().clone(),
            folder: path.join("gateway"),
            token_file: path.join("token"),
            http: self.http.try_clone()?,
            admin: self.admin.try_clone()?,
        })
    }

    /// Returns the commands to try, once the gateway is up.
    #[must_use]
    pub fn guide(&self) -> Guide {
        let address = |listener: &TcpListener| {
            let address = listener.local_addr();
            address.unwrap_or_else(|_| SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        };
        Guide::new(
            address(&self.http),
            address(&self.admin),
            self.folder.path(),
        )
    }
}

/// The file that marks a folder as the demo's.
const MARKER_FILE: &str = ".tidegate-demo";

/// Makes or takes a folder as the demo's. The demo replaces and removes files there, so a folder that is not empty must
/// have its marker.
fn claimed(path: PathBuf) -> anyhow::Result<PathBuf> {
    let made = || format!("cannot make {}", path.display());
    std::fs::create_dir_all(&path).with_context(made)?;
    let marker = path.join(MARKER_FILE);
    if !marker.try_exists()? {
        let is_empty = std::fs::read_dir(&path)?.next().is_none();
        anyhow::ensure!(
            is_empty,
            "{} is not empty, and not a folder of the demo: name another",
            path.display()
        );
        std::fs::write(&marker, "").with_context(made)?;
    }
    Ok(path)
}

/// Writes a new token at each start, readable by the owner only.
fn write_token(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    write_private(path, &random_hex::<16>()?)
}

/// Writes a new file, readable by its owner only.
pub(crate) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())
}

/// Listens on loopback: on the given port, or else on any that is free.
fn listen(port: u16) -> io::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .or_else(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The signals that end the demo; caught from the start, so that no temporary file is left behind.
struct Stop([Signal; 3]);

impl Stop {
    fn listen() -> io::Result<Self> {
        Ok(Self([
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ]))
    }

    async fn told(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
