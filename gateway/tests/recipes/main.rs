//! The files of `config/` and `docker/` as they are shipped: each belongs to a test that reads it, and what one of them
//! names is what the others have.

#[path = "../support/door.rs"]
#[expect(dead_code, reason = "other suites have the bucket hang")]
mod door;
#[path = "../support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
mod image;
mod listed;
mod served;
mod units;
#[path = "../support/world.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod world;

use std::path::{Path, PathBuf};

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Reads a file of the repository.
pub(crate) fn read(path: &str) -> String {
    let whole = root().join(path);
    std::fs::read_to_string(&whole).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the values of a key, in a file with a `KEY=VALUE` a line.
pub(crate) fn values<'a>(text: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines()
        .filter_map(move |line| line.strip_prefix(key)?.strip_prefix('='))
}
