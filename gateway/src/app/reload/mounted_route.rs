//! A mount whose route may lead elsewhere after a reload, which the mount does not follow.

use std::path::Path;

use tidegate_config::Config;
use tidegate_plan::{Bucket, OriginId};

/// A mount, and where its route led when it was made: it stays there.
#[derive(Debug)]
pub(super) struct MountedRoute {
    mount: tidegate_config::Mount,
    place: Option<(OriginId, String)>,
}

impl MountedRoute {
    pub(super) fn new(config: &Config, mount: &tidegate_config::Mount) -> Self {
        Self {
            mount: mount.clone(),
            place: Self::place(config, mount),
        }
    }

    /// Returns the origin's identity and the prefix to which the mount's route leads.
    fn place(config: &Config, mount: &tidegate_config::Mount) -> Option<(OriginId, String)> {
        let route = config.route_of(mount)?;
        let route = config.routes().into_iter().nth(route)?;
        let origin = config.origin.iter().find(|one| one.name == route.origin)?;
        let bucket = Bucket::new(origin.endpoint.as_deref(), &origin.bucket);
        let id = bucket.identity_for(origin.identity.as_deref());
        Some((id, route.key_prefix))
    }

    /// Returns the folder of the mount.
    pub(super) fn path(&self) -> &Path {
        &self.mount.path
    }

    /// Returns whether its route leads elsewhere now.
    pub(super) fn has_moved(&self, config: &Config) -> bool {
        Self::place(config, &self.mount) != self.place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_config::{Environment, parse};

    #[test]
    fn a_mount_whose_route_has_moved_is_told_until_it_is_back() {
        let config = |prefix: &str| {
            let text = format!(
                "[[origin]]\nname = \"o\"\nbucket = \"b\"\n[[route]]\npath = \"/\"\norigin = \"o\"\n\
                 key_prefix = \"{prefix}\"\n[[mount]]\npath = \"/mnt/a\"\nroute = \"/\"\n"
            );
            let loaded = parse("t.toml", &text, &Environment::default());
            loaded.expect("it is right").config
        };
        let start = config("a/");
        let mounted = MountedRoute::new(&start, &start.mount[0]);
        let moved = ["a/", "b/", "b/", "a/"].map(|prefix| mounted.has_moved(&config(prefix)));
        assert_eq!(moved, [false, true, true, false]);
    }
}
