//! The configuration: one TOML file, environment variables over it, defaults under it.
//!
//! Each section is a struct in a file of its own, with the defaults beside it and one line of
//! documentation a key; the reference, the example file and the JSON schema are drawn from these.
//! Reading goes in three steps, and each tells everything it finds, with file, line and key:
//!
//! 1. `document` reads TOML's syntax, and lays `TIDEGATE_SECTION__KEY` over it;
//! 2. `shape` holds the tree against the schema, and `serde` reads each value by its own type;
//! 3. `check` looks for what contradicts itself.
//!
//! The environment is an argument, and secrets are looked up when they are used.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use tidegate_plan::Profile;

mod address;
mod admin;
mod cache;
mod check;
mod document;
mod environment;
mod http;
mod live;
mod log;
mod mount;
mod origin;
mod overlay;
mod problem;
mod profile;
mod read;
pub mod reference;
mod route;
mod schema;
mod secret;
mod shape;
mod spool;
mod state;

pub use address::Listeners;
pub use admin::Admin;
pub use cache::{Cache, Disk};
pub use environment::Environment;
pub use http::Http;
pub use log::{Log, LogFormat};
pub use mount::{CommitName, Mount, Mtime, Umask};
pub use origin::Origin;
pub use problem::{KeyPath, Place, Problem, Problems};
pub use profile::{DiskUseName, Overlay};
pub use route::{Cors, GuessTypes, Precompressed, Route};
pub use schema::json_schema;
pub use secret::{Secret, SecretError};
pub use spool::Spool;
pub use state::State;

/// The file that is read where none is named.
pub const DEFAULT_FILE: &str = "tidegate.toml";

/// Everything that can be set.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "tidegate.toml")]
pub struct Config {
    /// The public listener: where it listens, and what a client may cost.
    pub http: Http,
    /// The private listener: health, metrics, purge. Keep it out of reach of the public.
    pub admin: Admin,
    /// What is logged, and how. Logs go to standard error.
    pub log: Log,
    /// How much is kept. The process takes `memory` plus `budget` plus up to 64 MiB.
    ///
    /// For each disk it takes 36 MiB more, and 112 bytes a chunk: 448 MiB for 1 TiB of 256 KiB.
    pub cache: Cache,
    /// Metadata that outlives a restart: which version each key has, and what was purged.
    pub state: State,
    /// What is written through mounts, until it is in the bucket. There is none without a mount that
    /// is writable.
    pub spool: Spool,
    /// A bucket behind the gateway.
    pub origin: Vec<Origin>,
    /// Which URLs are which objects, and how they are answered.
    ///
    /// The longest matching path wins; a route with a host goes before one without. Where there is
    /// no route, a single origin is served below `/`.
    pub route: Vec<Route>,
    /// A route's objects as files in a folder (Linux, FUSE), on the same cache.
    ///
    /// As root, or where `fusermount3` is installed. `tidegate mount` mounts one without serving
    /// HTTP.
    pub mount: Vec<Mount>,
    /// How the objects of a route are treated; what is left out comes from the profile it extends.
    pub profile: BTreeMap<String, Overlay>,
}

impl Config {
    /// The routes; where none is written, a single origin's whole bucket below `/`.
    #[must_use]
    pub fn routes(&self) -> Vec<Route> {
        match (&self.route[..], &self.origin[..]) {
            ([], [only]) => vec![Route {
                origin: only.name.clone(),
                ..Route::default()
            }],
            (routes, _) => routes.to_vec(),
        }
    }

    /// The profile of this name, its read-ahead cut to the budget. `None` where there is none,
    /// which a configuration that was loaded has no route to.
    #[must_use]
    pub fn profile(&self, name: &str) -> Option<Profile> {
        let profile = profile::resolve(&self.profile, name).ok()?;
        Some(self.cut(profile))
    }

    /// The profile with its read-ahead cut to the budget.
    fn cut(&self, profile: Profile) -> Profile {
        Profile {
            read_ahead: profile.read_ahead.min(self.cache.budget.0),
            ..profile
        }
    }

    /// Where metadata is kept: `state.path`, else beside the first disk, else in memory only.
    #[must_use]
    pub fn state_path(&self) -> Option<PathBuf> {
        let beside = || Some(self.cache.disk.first()?.path.join("state"));
        self.state.path.clone().or_else(beside)
    }

    /// Where files lie that are being written: `spool.path`, else beside the metadata, else where
    /// this user's programs keep their state. `None`: there is no such place.
    #[must_use]
    pub fn spool_path(&self, env: &Environment) -> Option<PathBuf> {
        let beside = || Some(self.state_path()?.parent()?.join("spool"));
        let folder = |name: &str| env.get(name).filter(|text| !text.is_empty());
        let of_user = || {
            let state = folder("XDG_STATE_HOME").map(PathBuf::from);
            let home = || Some(PathBuf::from(folder("HOME")?).join(".local/state"));
            Some(state.or_else(home)?.join("tidegate/spool"))
        };
        let path = self.spool.path.clone();
        path.or_else(|| match &self.state.path {
            // A state folder is given to us whole; its parent may be anybody's.
            Some(state) => Some(state.join("spool")),
            None => beside(),
        })
        .or_else(of_user)
    }

    /// Whether there is something to serve.
    ///
    /// # Errors
    /// Says that there is no origin, and how to name one.
    pub fn require_origin(&self) -> Result<(), Problems> {
        if !self.origin.is_empty() {
            return Ok(());
        }
        Err(Problems(vec![Problem {
            place: Place::Nowhere,
            path: KeyPath::default().key("origin"),
            message: "there is no origin, so there is nothing to serve; \
                      an [[origin]] needs a name and a bucket"
                .to_owned(),
        }]))
    }
}

/// A configuration that was read and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// What it says.
    pub config: Config,
    /// The file it comes from, if there was one.
    pub file: Option<PathBuf>,
    /// What was set right on the way.
    pub warnings: Vec<Problem>,
}

/// Why there is no configuration. The process ends with exit code 78 (`EX_CONFIG`, sysexits.h).
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        error: std::io::Error,
    },
    /// What it says is wrong.
    #[error(transparent)]
    Wrong(#[from] Problems),
}

/// Reads the configuration: the file that was asked for, else `$TIDEGATE_CONFIG`, else
/// `./tidegate.toml` if there is one, else the defaults; environment variables over it.
///
/// # Errors
/// A file that was asked for and cannot be read, and everything that is wrong.
pub fn load(asked: Option<&Path>, env: &Environment) -> Result<Loaded, LoadError> {
    let variable = env.get("TIDEGATE_CONFIG").filter(|name| !name.is_empty());
    let named = asked.or(variable.map(Path::new));
    let path = named.unwrap_or(Path::new(DEFAULT_FILE));
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(parse("", "", env)?);
        }
        Err(error) => {
            let path = path.to_owned();
            return Err(LoadError::Unreadable { path, error });
        }
    };
    let loaded = parse(&path.to_string_lossy(), &text, env)?;
    Ok(Loaded {
        file: Some(path.to_owned()),
        ..loaded
    })
}

/// Reads a configuration from text; `name` is what problems call it, empty where there is no file.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse(name: &str, text: &str, env: &Environment) -> Result<Loaded, Problems> {
    let (document, config, mut problems) = read::read(name, text, env).map_err(sorted)?;
    let found = check::check(&document, &config);
    problems.extend(found.errors);
    if !problems.is_empty() {
        return Err(sorted(problems));
    }
    Ok(Loaded {
        config,
        file: None,
        warnings: sorted(found.warnings).0,
    })
}

fn sorted(mut problems: Vec<Problem>) -> Problems {
    problems.sort();
    problems.dedup();
    Problems(problems)
}
