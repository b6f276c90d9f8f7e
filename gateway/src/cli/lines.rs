//! Lists in files, a line for each entry.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use anyhow::Context as _;

/// The longest line that is read; a longer one is not a path.
const MAX_LINE: u64 = 64 << 10;

/// Opens the file, or standard input for `-`.
pub(super) fn open(file: &Path) -> anyhow::Result<Box<dyn BufRead>> {
    if file == Path::new("-") {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let opened = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    Ok(Box::new(BufReader::new(opened)))
}

/// Calls `each` for every line, as text. A line that is too long is cut; bytes that are no text are replaced,
/// and the text is then owned.
pub(super) fn lines(
    mut from: Box<dyn BufRead>,
    mut each: impl FnMut(Cow<'_, str>),
) -> anyhow::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if from.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.last() != Some(&b'\n') {
            from.skip_until(b'\n')?;
        }
        each(String::from_utf8_lossy(&line));
    }
}
