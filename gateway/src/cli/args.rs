//! The arguments of each command.

use std::path::PathBuf;

use clap::Args;

use tidegate_plan::{ByteSize, Period};

/// The arguments of `mount`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct MountArgs {
    /// The folder to mount on
    #[arg(value_name = "FOLDER")]
    pub path: PathBuf,

    /// The path of the route to show [default: that of the `[[mount]]`, else /]
    #[arg(long, value_name = "PATH")]
    pub route: Option<String>,

    /// That route's host, if it has one
    #[arg(long)]
    pub host: Option<String>,

    /// Let files be written, also if the `[[mount]]` does not say so
    #[arg(long)]
    pub writable: bool,
}

/// The arguments of `demo`.
#[cfg(feature = "demo")]
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct DemoArgs {
    /// The port to serve on; another one if it is taken
    #[arg(long, default_value_t = 8080)]
    pub port: u16,

    /// The same for the admin listener
    #[arg(long, default_value_t = 8081)]
    pub admin_port: u16,

    /// The folder for bucket and cache, empty or of an earlier demo [default: a temporary one, removed at the end]
    #[arg(long, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,

    /// Size of the largest sample
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    pub large: ByteSize,
}

/// The arguments of `doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct DoctorArgs {
    /// The path of a large object, as it stands in the URL; its route gives the origin. Of several objects of one
    /// origin, the first of 64 MiB or more is taken, else the largest
    #[arg(long, value_name = "PATH")]
    pub object: Vec<String>,

    /// The host that these paths belong to, if routes name hosts
    #[arg(long)]
    pub host: Option<String>,

    /// A folder to measure as if it were a cache disk, besides the configured ones
    #[arg(long, value_name = "FOLDER")]
    pub disk: Vec<PathBuf>,

    /// The time that each measurement may take
    #[arg(long, value_name = "TIME", default_value = "3s")]
    pub time: Period,

    /// The bytes that may be written to a disk, in a file without a name; a disk that this would nearly fill is not
    /// measured
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub scratch: ByteSize,
}

/// The arguments of `purge`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct PurgeArgs {
    /// The path as it stands in the URL, percent-encoded, from the first `/`
    #[arg(value_name = "PATH")]
    #[arg(required_unless_present_any = ["from_list", "tag", "key"])]
    pub path: Option<String>,

    /// A file with a path a line, as it stands in the URL, or with `--tags` a tag, with `--keys` a key; `-`: standard input
    #[arg(long, value_name = "FILE", conflicts_with = "path")]
    pub from_list: Option<PathBuf>,

    /// Everything that begins with PATH, or with a path of the list
    #[arg(long)]
    pub prefix: bool,

    /// Every object with this tag; may be given several times
    #[arg(long, value_name = "TAG", conflicts_with_all = ["path", "from_list"])]
    pub tag: Vec<String>,

    /// The lines of the list are tags
    #[arg(long, requires = "from_list", conflicts_with = "prefix")]
    pub tags: bool,

    /// The object of this key, as the bucket names it; may be given several times
    #[arg(long, value_name = "KEY")]
    #[arg(conflicts_with_all = ["path", "from_list", "tag", "prefix", "host"])]
    pub key: Vec<String>,

    /// The lines of the list are keys
    #[arg(long, requires = "from_list", conflicts_with_all = ["prefix", "tags", "host"])]
    pub keys: bool,

    /// Only in the bucket of this origin; for keys. Left out: in each bucket that routes lead to
    #[arg(long, value_name = "NAME", conflicts_with_all = ["path", "tag", "tags", "prefix", "host"])]
    pub origin: Option<String>,

    /// Make stale in place of removing: served while it is confirmed, and while the origin fails
    #[arg(long)]
    pub soft: bool,

    /// Only in routes of this host
    #[arg(long)]
    pub host: Option<String>,
}

/// The arguments of `stat`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct StatArgs {
    /// Its path as it stands in the URL, percent-encoded, from the first `/`; or the whole URL, whose
    /// host then decides the route
    #[arg(value_name = "URL-OR-PATH")]
    pub object: String,

    /// As a request to this host; left out: for every host for which the path leads to another object
    #[arg(long)]
    pub host: Option<String>,

    /// As JSON, with all ranges
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `top`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct TopArgs {
    /// Print one look as text
    #[arg(long)]
    pub once: bool,

    /// Print one look as JSON: the answers of `/api/v1/now`, `streams`, `tiers`, `origins`, `writes`, `events`, `hooks`, `fleet`, `history`, `doctor`, `routes` and `settings`
    #[arg(long)]
    pub json: bool,

    /// Begin "Objects" in this folder, a path as it stands in the URL; one look lists up to 500 of its names, by `/api/v1/objects`
    #[arg(long, value_name = "PATH")]
    pub folder: Option<String>,

    /// The host of the folder's route, if that names one
    #[arg(long, requires = "folder")]
    pub host: Option<String>,

    /// The time between two looks
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub interval: Period,
}

/// The arguments of `pin`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct PinArgs {
    /// The path as it stands in the URL, percent-encoded, from the first `/`: all that begins with it
    #[arg(value_name = "PATH", required_unless_present_any = ["list", "remove"])]
    pub path: Option<String>,

    /// The most bytes of it to keep on disk
    #[arg(long, value_name = "SIZE", required_unless_present_any = ["list", "remove"])]
    pub limit: Option<ByteSize>,

    /// Show the pins
    #[arg(long, conflicts_with_all = ["path", "limit", "remove"])]
    pub list: bool,

    /// Remove the pin of PATH
    #[arg(long, value_name = "PATH", conflicts_with_all = ["path", "limit"])]
    pub remove: Option<String>,

    /// The host whose route is meant, if several have the path
    #[arg(long)]
    pub host: Option<String>,
}

/// The arguments of `warm`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct WarmArgs {
    /// The path as it stands in the URL, percent-encoded, from the first `/`: all that begins with it
    #[arg(value_name = "ROUTE/PREFIX")]
    #[arg(required_unless_present = "from_list")]
    pub path: Option<String>,

    /// A file with a path a line, as it stands in the URL; `-`: standard input
    #[arg(long, value_name = "FILE", conflicts_with = "path")]
    pub from_list: Option<PathBuf>,

    /// The host whose route is meant, if several have the path
    #[arg(long)]
    pub host: Option<String>,

    /// The most bytes to fetch in a second, such as 50MB [default: as fast as it goes]
    #[arg(long, value_name = "SIZE")]
    pub rate: Option<ByteSize>,

    /// The number of objects at a time, from 1 to 64
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=64))]
    pub concurrency: u8,
}

/// The arguments of `sign`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct SignArgs {
    /// The path as it stands in the URL, from the first `/`; what is no escape (%20) and no plain character is percent-encoded
    #[arg(value_name = "PATH")]
    pub path: String,

    /// The time until the link ends, such as 1h
    #[arg(long, value_name = "TIME")]
    pub expires: Period,

    /// Open all below PATH, which ends in `/`
    #[arg(long, conflicts_with = "presigned")]
    pub prefix: bool,

    /// Make a presigned URL, which every client of S3 can make as well
    #[arg(long, requires = "url")]
    pub presigned: bool,

    /// A presigned URL for HEAD in place of GET
    #[arg(long, requires = "presigned")]
    pub head: bool,

    /// Scheme and host of the link, such as `https://media.example.org`; left out: `http.public_url`, or none
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,

    /// The id of the key, if the access has several
    #[arg(long, value_name = "ID")]
    pub key: Option<String>,
}
