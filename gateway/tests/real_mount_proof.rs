//! Proofs of a writable mount, short by default. `just long-mount` runs each in full, by environment variables that its
//! module names. They need a real MinIO, root and /dev/fuse.
#![cfg(all(feature = "real-parts", feature = "fuse", target_os = "linux"))]

#[path = "support/bucket.rs"]
#[expect(dead_code, reason = "other suites keep versions as well")]
mod bucket;
#[path = "support/desk.rs"]
#[expect(dead_code, reason = "other suites count requests as well")]
mod desk;
#[path = "support/door.rs"]
mod door;
#[path = "../crates/engine/tests/support/draw.rs"]
mod draw;
#[path = "support/gate.rs"]
mod gate;
#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
#[path = "support/minio.rs"]
mod minio;
#[path = "support/mount.rs"]
mod mount;
#[path = "support/ports.rs"]
mod ports;

#[path = "real_mount_proof/ended.rs"]
mod ended;
#[path = "real_mount_proof/examples.rs"]
mod examples;
#[path = "real_mount_proof/fsx.rs"]
mod fsx;
#[path = "real_mount_proof/kill.rs"]
mod kill;
#[path = "real_mount_proof/model.rs"]
mod model;
#[path = "real_mount_proof/others.rs"]
mod others;
#[path = "real_mount_proof/outage.rs"]
mod outage;
#[path = "real_mount_proof/programs.rs"]
mod programs;
#[path = "real_mount_proof/renamed.rs"]
mod renamed;
#[path = "real_mount_proof/terms.rs"]
mod terms;
#[path = "real_mount_proof/times.rs"]
mod times;

/// Returns the value of an environment variable, or `short` without it.
fn count(variable: &str, short: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().expect("a number"),
        Err(_) => short,
    }
}

/// Closes a file and returns the result, which the standard library does not.
fn close(file: std::fs::File) -> std::io::Result<()> {
    Ok(nix::unistd::close(file)?)
}
