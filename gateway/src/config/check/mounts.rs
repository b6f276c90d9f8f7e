//! Mounts: where they are, and which route they show.

use super::super::problem::{KeyPath, suggestion};
use super::super::{Config, Mount};
use super::Check;
use crate::plan::ByteSize;

/// More threads than this wait for each other.
const MOST_THREADS: u32 = 64;

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
        for (index, mount) in config.mount.iter().enumerate() {
            let path = KeyPath::nth("mount", index);
            self.place(config, &path, index);
            self.shows(config, &path, mount);
            self.not_zero(&path.key("deadline"), mount.deadline);
            let commit = path.key("commit");
            if self.document.has(&commit) && !mount.writable {
                self.warn(&commit, "without `writable = true` nothing is committed");
            }
            if mount.threads == 0 || mount.threads > MOST_THREADS {
                let message = format!("must be from 1 to {MOST_THREADS}");
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
        if !mount.path.is_absolute() {
            let shown = mount.path.display();
            self.error(&path, format!("`{shown}` is no absolute path"));
        }
        let earlier = &config.mount[..index];
        if let Some(first) = earlier.iter().position(|one| one.path == mount.path) {
            let message = format!("the same folder as `mount[{first}]`");
            self.error(&path, message);
        }
    }

    fn shows(&mut self, config: &Config, path: &KeyPath, mount: &Mount) {
        // Where there is no origin, that is what is told.
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
