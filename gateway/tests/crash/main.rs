//! The real program is killed, or loses its power. Its cached objects are found again, even while the bucket is down.
//! No object is served as it was before a change through the program.

#[cfg(all(feature = "real-parts", feature = "fuse", target_os = "linux"))]
#[path = "../../crates/engine/tests/support/draw.rs"]
mod draw;
#[cfg(all(feature = "real-parts", feature = "fuse", target_os = "linux"))]
#[path = "../support/sick_fs.rs"]
#[expect(dead_code, reason = "other suites hang it")]
mod sick_fs;
#[cfg(all(feature = "real-parts", feature = "fuse", target_os = "linux"))]
#[path = "../support/volatile.rs"]
mod volatile;

#[path = "../support/door.rs"]
mod door;
#[path = "../support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
#[path = "../support/mount.rs"]
#[expect(dead_code, reason = "other suites mount the bucket")]
mod mount;
#[path = "../support/ports.rs"]
mod ports;
#[path = "../support/serving.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod serving;

mod house;
mod kill;
#[cfg(all(feature = "real-parts", feature = "fuse", target_os = "linux"))]
mod power;
