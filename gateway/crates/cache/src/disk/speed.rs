//! The measurements of a disk, kept for the next process. Without them, the first reader after a
//! restart would have to find out again how slow the disk is.
//!
//! They are only a hint: written at an orderly end, without a sync, and accepted only if they are
//! complete and plausible. The reads that follow correct them.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use crate::private_files;
use tidegate_plan::meter::DiskMeter;

/// The file's name, beside the lock.
const FILE_NAME: &str = "speed";

/// Reads the measurements of the last process.
pub(super) fn read_meter(dir: &Path) -> Option<DiskMeter> {
    DiskMeter::parse_line(&fs::read_to_string(dir.join(FILE_NAME)).ok()?)
}

/// Writes the measurements for the next process. Blocks.
pub(super) fn write_meter(dir: &Path, meter: &DiskMeter) {
    if let Some(line) = meter.to_line()
        && let Err(error) = write_line(&dir.join(FILE_NAME), &line)
    {
        tracing::debug!(%error, "the measurements of a cache disk are not kept");
    }
}

fn write_line(path: &Path, line: &str) -> io::Result<()> {
    let mut options = private_files::file_options();
    let mut file = options.write(true).create(true).truncate(true).open(path)?;
    private_files::close_to_others(&file, path);
    file.write_all(line.as_bytes())
}
