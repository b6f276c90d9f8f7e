//! A real WordPress on the recipes of `config/`: each test reads the recipe's own file and changes
//! only names, ports and passwords. The tests need root and /dev/fuse; `.ci/run` installs the rest.
#![cfg(all(feature = "real-parts", feature = "fuse", target_os = "linux"))]

#[path = "../support/door.rs"]
#[expect(dead_code, reason = "other suites have the bucket hang")]
mod door;
#[path = "../support/nginx.rs"]
mod nginx;
#[path = "../support/ports.rs"]
mod ports;

mod balanced;
mod beneath;
mod composed;
mod counted;
mod down;
mod films;
mod guarded;
mod mounted;
mod offloaded;
mod paired;
mod plugins;
mod prepared;
mod purged;
mod regenerated;
mod restarted;
mod rights;
mod servers;
mod service;
mod warned;
mod world;
