//! Mounts: their folders, and the routes that they show.

use std::path::{Path, PathBuf};

use super::super::problem::{KeyPath, suggestion};
use super::super::{Config, Mount};
use super::Check;
use tidegate_plan::ByteSize;

/// The largest `rename_limit`: the gateway holds the names of a renamed folder in memory, and blocks its writers
/// meanwhile.
const MAX_RENAME_LIMIT: u32 = 100_000;

/// The most threads: more would wait for each other.
const MAX_MOUNT_THREADS: u32 = 64;

impl Check<'_, '_> {
    pub(super) fn mounts(&mut self, config: &Config) {
        let least = ByteSize(64 << 20);
        let most = ByteSize(1 << 50);
        self.size_within(
            &KeyPath::of("spool", "size"),
            config.spool.size,
            least,
            most,
        );
        self.spool(config);
        for (index, mount) in config.mount.iter().enumerate() {
            let path = KeyPath::nth("mount", index);
            self.place(config, &path, index);
            self.covers(config, &path, mount);
            self.shows(config, &path, mount);
            self.not_zero(&path.key("deadline"), mount.deadline);
            let commit = path.key("commit");
            if self.document.has(&commit) && !mount.writable {
                self.warn(&commit, "without `writable = true` nothing is committed");
            }
            if mount.rename_limit > MAX_RENAME_LIMIT {
                let message = format!("must be at most {MAX_RENAME_LIMIT}");
                self.error(&path.key("rename_limit"), message);
            }
            if mount.threads == 0 || mount.threads > MAX_MOUNT_THREADS {
                let message = format!("must be from 1 to {MAX_MOUNT_THREADS}");
                self.error(&path.key("threads"), message);
            }
        }
    }

    fn place(&mut self, config: &Config, path: &KeyPath, index: usize) {
        let mount = &config.mount[index];
        let path = path.key("path");
        if !self.document.has(&path) {
            return;
        }
        self.absolute(&path, &mount.path);
        let earlier = &config.mount[..index];
        if let Some(first) = earlier.iter().position(|one| one.path == mount.path) {
            let message = format!("the same folder as `mount[{first}]`");
            self.error(&path, message);
        }
    }

    fn absolute(&mut self, path: &KeyPath, folder: &Path) {
        if !folder.is_absolute() {
            let shown = folder.display();
            self.error(path, format!("`{shown}` is no absolute path"));
        }
    }

    /// Refuses a spool in a disk's folder: each locks its own.
    fn spool(&mut self, config: &Config) {
        let Some(spool) = &config.spool.path else {
            return;
        };
        let mut disks = config.cache.disk.iter();
        if let Some(index) = disks.position(|disk| disk.path == *spool) {
            let message = format!("the same folder as `cache.disk[{index}]`; each locks its own");
            self.error(&KeyPath::of("spool", "path"), message);
        }
    }

    /// Refuses a mount that would cover the gateway's own files.
    fn covers(&mut self, config: &Config, path: &KeyPath, mount: &Mount) {
        let spool = config.spool.path.clone();
        let state = config.state.path.clone();
        let own = [(spool, "spool.path"), (state, "state.path")];
        let own = own
            .into_iter()
            .filter_map(|(place, what)| Some((place?, what)));
        let disks = config.cache.disk.iter();
        let disks = disks.map(|disk| (disk.path.clone(), "a `cache.disk`"));
        let mounted = |(place, _): &(PathBuf, &str)| place.starts_with(&mount.path);
        if !mount.path.as_os_str().is_empty()
            && let Some((place, what)) = own.chain(disks).find(mounted)
        {
            let message = format!("{} ({what}) would lie in the mount", place.display());
            self.error(&path.key("path"), message);
        }
    }

    fn shows(&mut self, config: &Config, path: &KeyPath, mount: &Mount) {
        // If there is no origin, that is reported instead.
        if config.origin.is_empty() || config.route_of(mount).is_some() {
            return;
        }
        let routes = config.routes();
        let hint = suggestion(&mount.route, routes.iter().map(|route| route.path.as_str()));
        let host = mount.host.as_ref();
        let host = host.map_or(String::new(), |host| format!(" for host `{host}`"));
        let message = format!("there is no route `{}`{host}{hint}", mount.route);
        self.error(&path.key("route"), message);
    }
}
