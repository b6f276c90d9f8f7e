//! A gateway that can be started again in the same place, with its cache disks kept.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::{Settings, binary, config, wait_until_ready};
use crate::child::{Server, free_addr};
use crate::measure::callgrind;
use crate::peers::{Origin, Peer};
use crate::slow_disk::Limit;

/// Time limit for loading an index, and for writing a queue.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Longer than the second between two looks of the gateway at its disks.
pub const LOOKS: Duration = Duration::from_millis(1200);
/// The interval between two polls.
const LOOK: Duration = Duration::from_millis(20);

/// One `[[cache.disk]]` section.
#[derive(Debug, Clone)]
pub struct Disk {
    /// Its folder.
    pub path: PathBuf,
    /// The cache's capacity there, in MiB.
    pub capacity_mib: u64,
    /// The space that stays free, in MiB.
    pub min_free_mib: u64,
}

/// The write settings of a gateway's mount.
#[derive(Debug, Clone, Copy)]
pub struct MountWriteSettings {
    /// `commit`: `close`, or `background`.
    pub commit: &'static str,
    /// `spool.size`, in MiB.
    pub spool_mib: u64,
}

/// A gateway's directory and configuration.
#[derive(Debug, Clone)]
pub struct Home {
    /// The gateway's own directory.
    pub dir: PathBuf,
    /// The bucket.
    pub origin: Origin,
    /// All settings but the disks.
    pub settings: Settings,
    /// The cache disks.
    pub disks: Vec<Disk>,
    /// `cache.chunk`, in KiB.
    pub chunk_kib: u64,
    /// The directory of the metadata; if `None`, beside the first disk.
    pub state: Option<PathBuf>,
    /// Whether it waits for the disk of its metadata however long that takes.
    pub patient: bool,
    /// The mount point of the bucket, if it is mounted too.
    pub mount: Option<PathBuf>,
    /// Whether users other than root may enter the mount.
    pub shared: bool,
    /// The mount's write settings; if `None`, it is read-only.
    pub writing: Option<MountWriteSettings>,
    /// The file through which it joins a [`Limit`].
    pub door: Option<PathBuf>,
    /// Whether its instructions are counted.
    pub callgrind: bool,
    /// Sections of the configuration that only this run can tell, after those of the settings.
    pub sections: String,
}

/// The state to wait for at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartState {
    /// The gateway accepts connections.
    Listening,
    /// The index of every disk is loaded.
    Loaded,
    /// The origin answers too.
    Ready,
}

impl Home {
    /// Returns a gateway without disks.
    #[must_use]
    pub const fn new(dir: PathBuf, origin: Origin, settings: Settings) -> Self {
        Self {
            dir,
            origin,
            settings,
            disks: vec![],
            chunk_kib: 256,
            state: None,
            patient: false,
            mount: None,
            shared: false,
            writing: None,
            door: None,
            callgrind: false,
            sections: String::new(),
        }
    }

    /// Adds a disk.
    #[must_use]
    pub fn with_disk(mut self, path: PathBuf, capacity_mib: u64, min_free_mib: u64) -> Self {
        self.disks.push(Disk {
            path,
            capacity_mib,
            min_free_mib,
        });
        self
    }

    /// Makes it take no slow disk of its metadata for one that hangs: for runs that judge what it finds there.
    #[must_use]
    pub const fn patient(mut self) -> Self {
        self.patient = true;
        self
    }

    /// Makes the mount writable.
    #[must_use]
    pub const fn writing(mut self, how: MountWriteSettings) -> Self {
        self.writing = Some(how);
        self
    }

    /// Lets users other than root enter the mount.
    #[must_use]
    pub const fn shared(mut self) -> Self {
        self.shared = true;
        self
    }

    /// Puts the gateway into a group with a limited disk rate.
    #[must_use]
    pub fn within(mut self, limit: &Limit) -> Self {
        self.door = Some(limit.door());
        self
    }

    /// Counts its instructions ([`callgrind::instructions`]).
    #[must_use]
    pub const fn under_callgrind(mut self) -> Self {
        self.callgrind = true;
        self
    }

    /// Returns the number of chunks of an object of `bytes` bytes.
    #[must_use]
    pub const fn chunks(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.chunk_kib << 10)
    }

    /// Starts the gateway. Dropping the peer stops it in order; [`Peer::kill`] does not.
    ///
    /// # Errors
    /// If it does not start, or does not reach the state `until` in time.
    pub async fn start(&self, until: StartState) -> Result<Peer> {
        std::fs::create_dir_all(&self.dir)?;
        let (public, admin) = (free_addr(), free_addr());
        let socket = self.dir.join("http.sock");
        let listens = (public, socket.as_path());
        let config = config(listens, admin, &self.origin, self.settings, &self.cache());
        let config = format!("{config}{}", self.sections);
        let file = self.dir.join("tidegate.toml");
        std::fs::write(&file, &config)?;
        let mut command = self.command()?;
        command.arg("serve").arg("--config").arg(&file);
        command.current_dir(&self.dir);
        let server = Server::start(command, &self.dir.join("tidegate.log"), public)?;
        let peer = Peer::new("tidegate", public, config, server)
            .with_admin(admin)
            .with_socket(socket);
        match until {
            StartState::Listening => {}
            StartState::Loaded => self.wait_until_loaded(&peer).await?,
            StartState::Ready => wait_until_ready(admin).await?,
        }
        Ok(peer)
    }

    /// Returns the command; with a limit, a shell enters the group before it runs the binary.
    fn command(&self) -> Result<Command> {
        let program = binary()?;
        if self.callgrind {
            return callgrind::command(&program, &self.dir);
        }
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
        if self.state.is_some() || self.patient {
            text += "[state]\n";
        }
        if let Some(state) = &self.state {
            text += &format!("path = {state:?}\n");
        }
        if self.patient {
            text += "read_timeout = \"10m\"\nwrite_timeout = \"10m\"\n";
        }
        if let Some(mount) = &self.mount {
            text += &format!("[[mount]]\npath = {mount:?}\nroute = \"/\"\n");
            if self.shared {
                text += "allow_other = true\n";
            }
        }
        if let Some(MountWriteSettings { commit, spool_mib }) = self.writing {
            let spool = self.dir.join("spool");
            text += &format!("writable = true\ncommit = \"{commit}\"\n");
            text += &format!("[spool]\npath = {spool:?}\nsize = \"{spool_mib}MiB\"\n");
        }
        text
    }

    /// Waits until the index of every disk is loaded.
    ///
    /// # Errors
    /// If that takes more than five minutes.
    pub async fn wait_until_loaded(&self, peer: &Peer) -> Result<()> {
        let disks = self.disks.len() as f64;
        wait_for(peer, "tidegate_store_disk_up", |up| up >= disks)
            .await
            .context("the index is not loaded")
    }
}

/// Waits until no bytes are queued for a disk; returns the number of chunks on disk then.
///
/// # Errors
/// If that takes more than five minutes.
pub async fn settled(peer: &Peer) -> Result<f64> {
    let since = Instant::now();
    let mut before = f64::NAN;
    while since.elapsed() < TIMEOUT {
        tokio::time::sleep(LOOKS).await;
        let queued = peer.metric("tidegate_store_queued_bytes").await?;
        let chunks = chunks_on_disk(peer).await?;
        if queued == Some(0.0) && chunks == before {
            return Ok(chunks);
        }
        before = chunks;
    }
    bail!("the queue of the disk does not run empty within {TIMEOUT:?}")
}

/// Returns the number of chunks in the disks' indices, at most a second old.
///
/// # Errors
/// If the gateway does not report it.
pub async fn chunks_on_disk(peer: &Peer) -> Result<f64> {
    let chunks = peer.metric("tidegate_store_disk_chunks").await?;
    chunks.context("only tidegate tells of its chunks")
}

/// Waits until `wanted` accepts the value of a metric.
///
/// # Errors
/// If that takes more than five minutes.
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
        if since.elapsed() > TIMEOUT {
            bail!("{name} is {found} after {TIMEOUT:?}");
        }
        tokio::time::sleep(LOOK).await;
    }
}
