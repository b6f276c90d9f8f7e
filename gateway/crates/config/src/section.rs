//! The sections of the file: a struct each, with the defaults beside it and one line of documentation a key.

mod access;
mod admin;
mod cache;
mod events;
mod hook;
mod http;
mod limits;
mod listeners;
mod log;
mod mount;
mod origin;
pub(crate) mod profile;
mod route;
mod spool;
mod state;
mod tls;

pub use access::{Access, AccessToken, AuthRequest, Jwt, SignedLinks};
pub use admin::{Admin, ConsoleAccess};
pub use cache::{Cache, Disk};
pub use events::{Events, EventsKind, Fleet, Heartbeat, NatsLogin};
pub use hook::{Hook, HookEvent, HookGrouping};
pub use http::Http;
pub use limits::{ByteRate, LimitNames, LimitScope, Limits, RequestRate};
pub use listeners::{ListenAddress, Listeners};
pub use log::{Log, LogFormat, Trace};
pub use mount::{AttributesName, CommitName, Mount, Umask};
pub use origin::Origin;
pub use profile::Overlay;
pub use route::{Cors, Route, StoredCoding};
pub use spool::Spool;
pub use state::State;
pub use tls::{Acme, Certificate, ExternalAccount, Tls};
