//! fio: the rate of a disk for a reader with four blocks in flight.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::child::find_program;
use crate::slow_disk::Limit;

/// Returns the path of fio.
///
/// # Errors
/// If it is not installed.
pub(super) fn find() -> Result<PathBuf> {
    find_program("TIDEGATE_FIO", &["fio"]).context("fio is missing; `loadtest setup` installs it")
}

/// Returns fio's command line.
pub(super) fn command(file: &Path, len: u64) -> Vec<String> {
    let mut words: Vec<String> = ["fio", "--name=read", "--rw=read", "--bs=1M", "--iodepth=4"]
        .map(str::to_owned)
        .to_vec();
    words.extend(["--direct=1", "--ioengine=libaio", "--output-format=json"].map(str::to_owned));
    // A direct read takes whole blocks.
    words.push(format!("--size={}", len / 4096 * 4096));
    words.push(format!("--filename={}", file.display()));
    words
}

/// Reads the file in sequence, within the limit; returns MB (10⁶ bytes) per second.
pub(super) fn read(limit: &Limit, file: &Path, len: u64) -> Result<f64> {
    let out = Command::new("sh")
        .args(["-c", r#"echo $$ > "$0" && exec "$@""#])
        .arg(limit.door())
        .arg(find()?)
        .args(&command(file, len)[1..])
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "fio failed: {}", said.trim());
    let text = String::from_utf8_lossy(&out.stdout);
    // Notes may precede the JSON.
    let json = &text[text.find('{').context("fio printed no JSON")?..];
    let found: serde_json::Value = serde_json::from_str(json)?;
    let bytes = found["jobs"][0]["read"]["bw_bytes"].as_f64();
    Ok(bytes.context("fio told no rate")? / 1e6)
}
