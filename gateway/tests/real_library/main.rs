//! The calls of library servers and of programs that back up, on writable mounts by the recipes of `config/`.
//!
//! The servers themselves come from no package registry. Each step here makes the calls that the named source file of a
//! server makes, first in a local folder, then in the mount, and compares: content, type, output, exit code, mode, owner and set
//! times. The tests need a real MinIO, root and /dev/fuse; each prints the
//! requests that its steps cost.
#![cfg(all(feature = "real-parts", feature = "fuse", target_os = "linux"))]

mod audiobookshelf;
mod backups;
mod compare;
mod databases;
mod jellyfin;
mod media;
mod navidrome;
mod numbers;
mod paperless;
mod shelf;
mod watchers;
