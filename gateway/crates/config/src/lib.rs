//! The configuration: one TOML file, overrides and environment variables over it, defaults under it.
//!
//! Each section is a struct in a file of its own, with the defaults beside it and one line of
//! documentation a key; the reference, the example file and the JSON schema are drawn from these.
//! Reading goes in three steps, and each reports all its findings, with file, line and key:
//!
//! 1. `document` reads TOML's syntax, and lays the overrides and `TIDEGATE_SECTION__KEY` over it;
//! 2. `shape` checks the tree against the schema, and `serde` reads each value by its own type;
//! 3. `check` looks for contradictions.
//!
//! The environment is an argument, and secrets are looked up when they are used.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use tidegate_plan::Profile;

mod check;
mod document;
mod environment;
mod overlay;
mod overrides;
mod problem;
mod read;
pub mod reference;
mod schema;
mod secret;
mod section;
mod settings;
mod shape;
mod tree;
mod written;

pub use environment::Environment;
pub use overrides::Overrides;
pub use problem::{KeyPath, Problem, Problems, ValueLocation};
pub use schema::json_schema;
pub use secret::all::{NamedSecret, SecretUse};
pub use secret::{Secret, SecretError};
pub use section::{
    Access, AccessToken, Acme, Admin, AttributesName, AuthRequest, ByteRate, Cache, Certificate,
    CommitName, ConsoleAccess, Cors, Disk, Events, EventsKind, ExternalAccount, Fleet, Heartbeat,
    Hook, HookEvent, HookGrouping, Http, Jwt, LimitNames, LimitScope, Limits, ListenAddress,
    Listeners, Log, LogFormat, Mount, NatsLogin, Origin, Overlay, RequestRate, Route, SignedLinks,
    Spool, State, StoredCoding, Tls, Trace, Umask,
};

pub use settings::Setting;
pub use written::WrittenKeys;
pub use written::live::{LiveKeys, is_live};

/// The file that is read if none is named.
pub const DEFAULT_FILE: &str = "tidegate.toml";

/// The whole configuration.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "tidegate.toml")]
pub struct Config {
    /// The public listener: its addresses, and the limits of a client.
    pub http: Http,
    /// The private listener: health, metrics, purge, console. Keep it out of reach of the public.
    pub admin: Admin,
    /// The certificates of the listeners that say `tls = true`: `listen = { address = "0.0.0.0:443", tls = true }`.
    ///
    /// TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1. Files are looked at every 5 s, and read again when they have changed.
    pub tls: Tls,
    /// The log. It goes to standard error.
    pub log: Log,
    /// Traces of single requests, for a collector; off without an `endpoint`.
    pub trace: Trace,
    /// The cache: its sizes and disks. The process takes `memory` plus `budget` plus up to 64 MiB.
    ///
    /// For each disk it takes 36 MiB more, and 112 bytes a chunk: 448 MiB for 1 TiB of 256 KiB.
    pub cache: Cache,
    /// Metadata that outlives a restart: the version of each key, and the purges.
    pub state: State,
    /// Writes through mounts, until they are in the bucket. Without a writable mount there is no spool.
    pub spool: Spool,
    /// A bucket behind the gateway.
    pub origin: Vec<Origin>,
    /// The map from URLs to objects, and the settings of answers.
    ///
    /// The longest matching path wins; a route with a host goes before one without. If there is no route, a single
    /// origin is served below `/`.
    pub route: Vec<Route>,
    /// The requests that a route admits; routes name it as their `access`.
    ///
    /// It governs GET and HEAD. One of `networks`, `tokens`, `clients`, `signed`, `jwt` and `auth_request` is enough;
    /// `referers` must hold as well.
    #[schemars(extend("x-name" = "members"))]
    pub access: BTreeMap<String, Access>,
    /// The share of a client in GET and HEAD; routes name it as their `limits`.
    ///
    /// Routes that name the same limits count together.
    #[schemars(extend("x-name" = "public"))]
    pub limits: BTreeMap<String, Limits>,
    /// The changes that a bucket reports, so that the cache need not ask for them.
    ///
    /// A webhook is sent to `POST /events/NAME` on the admin listener.
    pub events: Vec<Events>,
    /// Gateways in front of the same buckets: a purge, a pin and a write through one reach all.
    ///
    /// A bucket is known by its name, so that gateways may reach it at different endpoints.
    pub fleet: Fleet,
    /// A route's objects as files in a folder (Linux, FUSE), on the same cache.
    ///
    /// Needs root, or `fusermount3`. `tidegate mount` mounts one without serving HTTP.
    pub mount: Vec<Mount>,
    /// A URL that is called when keys of a bucket have changed, by events or through this gateway.
    ///
    /// Changes are collected until none has come for `debounce`. A failed call is repeated; no reader waits for it. In `url`
    /// and `body`, `{key}`, `{folder}`, `{bucket}`, `{event}` (created, removed or changed), `{path}` and `{count}` stand
    /// for what changed, escaped for their place.
    pub hook: Vec<Hook>,
    /// The treatment of a route's objects; keys that are left out come from the profile it extends.
    pub profile: BTreeMap<String, Overlay>,
}

impl Config {
    /// Returns the routes; if none is written, a single origin's whole bucket below `/`.
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

    /// Returns the hosts of the routes that have this access.
    pub fn hosts_of(&self, access: &str) -> impl Iterator<Item = &str> {
        let routes = self.route.iter();
        let of_access = routes.filter(move |route| route.access.as_deref() == Some(access));
        of_access.filter_map(|route| route.host.as_deref())
    }

    /// Returns the profile of this name, its read-ahead cut to the budget. `None` if there is none; in a loaded
    /// configuration no route names such a profile.
    #[must_use]
    pub fn profile(&self, name: &str) -> Option<Profile> {
        let profile = section::profile::resolve(&self.profile, name).ok()?;
        Some(Profile {
            name: section::profile::kept_name(name),
            ..self.cut_read_ahead(profile)
        })
    }

    /// Returns the names of profiles that earlier configurations of this process have had, and this one has not.
    #[must_use]
    pub fn gone_profiles(&self) -> Vec<&'static str> {
        let names = section::profile::kept_names().into_iter();
        let is_gone =
            |name: &&str| !self.profile.contains_key(*name) && !Profile::BUILT_IN.contains(name);
        names.filter(is_gone).collect()
    }

    /// Returns the profile with its read-ahead cut to the budget.
    fn cut_read_ahead(&self, profile: Profile) -> Profile {
        Profile {
            read_ahead: profile.read_ahead.min(self.cache.budget.0),
            ..profile
        }
    }

    /// Returns the path of the metadata: `state.path`, else beside the first disk, else in memory only.
    #[must_use]
    pub fn state_path(&self) -> Option<PathBuf> {
        let beside = || Some(self.cache.disk.first()?.path.join("state"));
        self.state.path.clone().or_else(beside)
    }

    /// Returns the folder of the keys and certificates that an authority issues: `tls.acme.path`, else in the state folder.
    #[must_use]
    pub fn acme_path(&self) -> Option<PathBuf> {
        let own = self.tls.acme.as_ref()?.path.clone();
        own.or_else(|| Some(self.state_path()?.join("acme")))
    }

    /// Returns the folder of files that are being written: `spool.path`, else beside the metadata, else in the state
    /// folder of this user's programs. `None`: there is no such folder.
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
            // A configured state folder is for Tidegate alone; its parent may belong to other programs.
            Some(state) => Some(state.join("spool")),
            None => beside(),
        })
        .or_else(of_user)
    }

    /// Checks that there is an origin.
    ///
    /// # Errors
    /// If there is none; the message says how to name one.
    pub fn require_origin(&self) -> Result<(), Problems> {
        if !self.origin.is_empty() {
            return Ok(());
        }
        Err(Problems(vec![Problem {
            location: ValueLocation::Nowhere,
            path: KeyPath::default().key("origin"),
            message: "there is no origin, so there is nothing to serve; \
                      an [[origin]] needs a name and a bucket"
                .to_owned(),
        }]))
    }
}

/// A configuration that was read and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedConfig {
    /// The configuration.
    pub config: Config,
    /// The file it comes from, if there was one.
    pub file: Option<PathBuf>,
    /// Values that were corrected, and oddities.
    pub warnings: Vec<Problem>,
    /// The keys that it writes.
    pub written: WrittenKeys,
    /// Every key, with its value and the place that wrote it.
    pub settings: Vec<Setting>,
    /// The keys that were set while the gateway ran.
    pub overrides: Overrides,
}

impl LoadedConfig {
    /// Returns a problem of a key, with the place that wrote the key, or else the nearest table around it.
    #[must_use]
    pub fn problem(&self, path: KeyPath, message: String) -> Problem {
        let source = |path: &KeyPath| {
            let key = path.to_string();
            let setting = self.settings.iter().find(|one| one.key == key);
            setting.and_then(|one| one.source.clone())
        };
        let location = path.with_parents().find_map(|path| source(&path));
        Problem {
            location: location.unwrap_or(ValueLocation::Nowhere),
            path,
            message,
        }
    }
}

/// The reason why there is no configuration. The process ends with exit code 78 (`EX_CONFIG`, sysexits.h).
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        error: std::io::Error,
    },
    /// The file of the overrides cannot be read.
    #[error("cannot read the overrides {path}: {error}; {}", remedy(.error))]
    Overrides {
        /// The file.
        path: PathBuf,
        /// The error.
        error: std::io::Error,
    },
    /// Its content is wrong.
    #[error(transparent)]
    Wrong(#[from] Problems),
}

/// Returns the remedy of overrides that cannot be read.
fn remedy(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::NotADirectory => "`state.path` is no folder",
        std::io::ErrorKind::PermissionDenied => "only the user of the gateway may read them",
        _ => "mend or delete that file",
    }
}

/// Reads the configuration for a command that only asks a running gateway. If the overrides cannot be read or are wrong,
/// they are left out, and the reason is returned too.
///
/// # Errors
/// As [`load`], but for the overrides.
pub fn load_to_ask(
    asked: Option<&Path>,
    env: &Environment,
) -> Result<(LoadedConfig, Option<String>), LoadError> {
    let error = match load(asked, env) {
        Ok(loaded) => return Ok((loaded, None)),
        Err(error) => error,
    };
    let Ok(bare) = load_with(asked, Some(&Overrides::default()), env) else {
        return Err(error);
    };
    let warning = match (&error, bare.config.state_path()) {
        (LoadError::Wrong(_), Some(state)) => {
            let file = Overrides::file(&state);
            format!("the overrides {} are left out: {error}", file.display())
        }
        _ => error.to_string(),
    };
    Ok((bare, Some(warning)))
}

/// Reads the configuration: the `asked` file, else `$TIDEGATE_CONFIG`, else `./tidegate.toml` if there is one, else the
/// defaults; the overrides of its state folder and environment variables over it.
///
/// # Errors
/// If a named file or the overrides cannot be read, or for everything that is wrong.
pub fn load(asked: Option<&Path>, env: &Environment) -> Result<LoadedConfig, LoadError> {
    load_with(asked, None, env)
}

/// Reads the configuration with these overrides in place of those in its state folder, if there are any.
///
/// # Errors
/// As [`load`].
pub fn load_with(
    asked: Option<&Path>,
    overrides: Option<&Overrides>,
    env: &Environment,
) -> Result<LoadedConfig, LoadError> {
    let variable = env.get("TIDEGATE_CONFIG").filter(|name| !name.is_empty());
    let named = asked.or(variable.map(Path::new));
    let path = named.unwrap_or(Path::new(DEFAULT_FILE));
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
            return lay_over("", "", overrides, env);
        }
        Err(error) => {
            let path = path.to_owned();
            return Err(LoadError::Unreadable { path, error });
        }
    };
    let loaded = lay_over(&path.to_string_lossy(), &text, overrides, env)?;
    Ok(LoadedConfig {
        file: Some(path.to_owned()),
        ..loaded
    })
}

/// Reads a configuration from text, with these overrides or else those of its state folder, which the text and the
/// environment name.
fn lay_over(
    name: &str,
    text: &str,
    overrides: Option<&Overrides>,
    env: &Environment,
) -> Result<LoadedConfig, LoadError> {
    let bare = match overrides {
        Some(overrides) => return Ok(parse_with(name, text, overrides, env)?),
        None => parse(name, text, env)?,
    };
    let Some(state) = bare.config.state_path() else {
        return Ok(bare);
    };
    let found = Overrides::read(&state)?;
    if found == Overrides::default() {
        return Ok(bare);
    }
    Ok(parse_with(name, text, &found, env)?)
}

/// Reads a configuration from text; `name` is the file's name in problems, empty if there is no file.
///
/// # Errors
/// For everything that is wrong with it.
pub fn parse(name: &str, text: &str, env: &Environment) -> Result<LoadedConfig, Problems> {
    parse_with(name, text, &Overrides::default(), env)
}

fn parse_with(
    name: &str,
    text: &str,
    overrides: &Overrides,
    env: &Environment,
) -> Result<LoadedConfig, Problems> {
    let (document, config, mut problems) =
        read::read(name, text, overrides, env).map_err(sorted)?;
    let found = check::check(&document, &config);
    problems.extend(found.errors);
    if !problems.is_empty() {
        return Err(sorted(problems));
    }
    Ok(LoadedConfig {
        settings: settings::settings(&document, schema::shared(), &config),
        config,
        file: None,
        warnings: sorted(found.warnings).0,
        written: WrittenKeys::of(&document),
        overrides: overrides.clone(),
    })
}

fn sorted(mut problems: Vec<Problem>) -> Problems {
    problems.sort();
    problems.dedup();
    Problems(problems)
}
