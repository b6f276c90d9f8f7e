//! A gateway that is started more than once in the same place: what its disks hold outlives it.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::{Settings, binary, config, wait_until_ready};
use crate::child::{Server, free_addr};
use crate::peers::{Origin, Peer};
use crate::slow_disk::Limit;

/// How long an index may take to load, and a queue to be written.
const PATIENCE: Duration = Duration::from_secs(120);
/// The gateway looks at what lies on its disks once a second; after this time it has.
pub const LOOKS: Duration = Duration::from_millis(1200);
/// How often is asked.
const LOOK: Duration = Duration::from_millis(20);

/// One `[[cache.disk]]`.
#[derive(Debug, Clone)]
pub struct Disk {
    /// Its folder.
    pub path: PathBuf,
    /// How much the cache may take there, in MiB.
    pub capacity_mib: u64,
    /// How much stays free, in MiB.
    pub min_free_mib: u64,
}

/// How files are written through a gateway's mount.
#[derive(Debug, Clone, Copy)]
pub struct Writing {
    /// `commit`: `close`, or `background`.
    pub commit: &'static str,
    /// `spool.size`, in MiB.
    pub spool_mib: u64,
}

/// Where a gateway lives, and how it is configured.
#[derive(Debug, Clone)]
pub struct Home {
    /// A directory of its own.
    pub dir: PathBuf,
    /// The bucket.
    pub origin: Origin,
    /// All but disks.
    pub settings: Settings,
    /// The cache disks.
    pub disks: Vec<Disk>,
    /// `cache.chunk`, in KiB.
    pub chunk_kib: u64,
    /// Where the metadata is; else beside the first disk.
    pub state: Option<PathBuf>,
    /// Where the bucket is mounted too.
    pub mount: Option<PathBuf>,
    /// How that mount writes; else it only reads.
    pub writing: Option<Writing>,
    /// The file by which it joins a [`Limit`].
    pub door: Option<PathBuf>,
}

/// What is waited for when it is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// It accepts connections.
    Listening,
    /// The index of every disk is loaded.
    Loaded,
    /// The origin answers too.
    Ready,
}

impl Home {
    /// A gateway without disks.
    #[must_use]
    pub const fn new(dir: PathBuf, origin: Origin, settings: Settings) -> Self {
        Self {
            dir,
            origin,
            settings,
            disks: vec![],
            chunk_kib: 256,
            state: None,
            mount: None,
            writing: None,
            door: None,
        }
    }

    /// The same with one more disk.
    #[must_use]
    pub fn with_disk(mut self, path: PathBuf, capacity_mib: u64, min_free_mib: u64) -> Self {
        self.disks.push(Disk {
            path,
            capacity_mib,
            min_free_mib,
        });
        self
    }

    /// The same with a mount that writes.
    #[must_use]
    pub const fn writing(mut self, how: Writing) -> Self {
        self.writing = Some(how);
        self
    }

    /// The same in a group that disks are held to a rate for.
    #[must_use]
    pub fn within(mut self, limit: &Limit) -> Self {
        self.door = Some(limit.door());
        self
    }

    /// The chunks of an object of so many bytes.
    #[must_use]
    pub const fn chunks(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.chunk_kib << 10)
    }

    /// Starts it. Dropping the peer stops it in order; [`Peer::kill`] does not.
    ///
    /// # Errors
    /// If it does not start, or what is waited for does not come.
    pub async fn start(&self, until: Until) -> Result<Peer> {
        std::fs::create_dir_all(&self.dir)?;
        let (public, admin) = (free_addr()?, free_addr()?);
        let config = config(public, admin, &self.origin, self.settings, &self.cache());
        let file = self.dir.join("tidegate.toml");
        std::fs::write(&file, &config)?;
        let mut command = self.command()?;
        command.arg("serve").arg("--config").arg(&file);
        command.current_dir(&self.dir);
        let server = Server::start(command, &self.dir.join("tidegate.log"), public)?;
        let peer = Peer::new("tidegate", public, config, server).with_admin(admin);
        match until {
            Until::Listening => {}
            Until::Loaded => self.wait_until_loaded(&peer).await?,
            Until::Ready => wait_until_ready(admin).await?,
        }
        Ok(peer)
    }

    /// The binary; in a group it enters that before it becomes itself.
    fn command(&self) -> Result<Command> {
        let program = binary()?;
        let Some(door) = &self.door else {
            return Ok(Command::new(program));
        };
        let mut command = Command::new("sh");
        command
            .args(["-c", r#"echo $$ > "$0" && exec "$@""#])
            .arg(door)
            .arg(program);
        Ok(command)
    }

    fn cache(&self) -> String {
        let mut text = format!("chunk = \"{}KiB\"\n", self.chunk_kib);
        for disk in &self.disks {
            let (path, capacity, free) = (&disk.path, disk.capacity_mib, disk.min_free_mib);
            text += &format!(
                "[[cache.disk]]\npath = {path:?}\ncapacity = \"{capacity}MiB\"\nmin_free = \"{free}MiB\"\n"
            );
        }
        if let Some(state) = &self.state {
            text += &format!("[state]\npath = {state:?}\n");
        }
        if let Some(mount) = &self.mount {
            text += &format!("[[mount]]\npath = {mount:?}\nroute = \"/\"\n");
        }
        if let Some(Writing { commit, spool_mib }) = self.writing {
            let spool = self.dir.join("spool");
            text += &format!("writable = true\ncommit = \"{commit}\"\n");
            text += &format!("[spool]\npath = {spool:?}\nsize = \"{spool_mib}MiB\"\n");
        }
        text
    }

    /// Waits until the index of every disk is loaded.
    ///
    /// # Errors
    /// If that takes too long.
    pub async fn wait_until_loaded(&self, peer: &Peer) -> Result<()> {
        let disks = self.disks.len() as f64;
        wait_for(peer, "tidegate_store_disk_up", |up| up >= disks)
            .await
            .context("the index is not loaded")
    }
}

/// Waits until nothing waits to be written to a disk; tells how many chunks lie there then.
///
/// # Errors
/// If that takes too long.
pub async fn settled(peer: &Peer) -> Result<f64> {
    let since = Instant::now();
    let mut before = f64::NAN;
    while since.elapsed() < PATIENCE {
        tokio::time::sleep(LOOKS).await;
        let queued = peer.metric("tidegate_store_queued_bytes").await?;
        let chunks = chunks_on_disk(peer).await?;
        if queued == Some(0.0) && chunks == before {
            return Ok(chunks);
        }
        before = chunks;
    }
    bail!("the queue of the disk does not run empty within {PATIENCE:?}")
}

/// Chunks in the indices of the disks, as they were a second ago at most.
///
/// # Errors
/// If the gateway does not tell.
pub async fn chunks_on_disk(peer: &Peer) -> Result<f64> {
    let chunks = peer.metric("tidegate_store_disk_chunks").await?;
    chunks.context("only tidegate tells of its chunks")
}

/// Waits until a metric is as wanted.
///
/// # Errors
/// If that takes more than two minutes.
pub async fn wait_for(peer: &Peer, name: &str, wanted: impl Fn(f64) -> bool) -> Result<()> {
    let since = Instant::now();
    loop {
        let found = peer
            .metric(name)
            .await?
            .context("only tidegate tells of itself")?;
        if wanted(found) {
            return Ok(());
        }
        if since.elapsed() > PATIENCE {
            bail!("{name} is {found} after {PATIENCE:?}");
        }
        tokio::time::sleep(LOOK).await;
    }
}
