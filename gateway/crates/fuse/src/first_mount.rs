//! The time of the first mount, which folders without a marker show: a time that each start changed would make every
//! library look changed.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_engine::table_log;

/// The file's name. Its number is the version of the format: milliseconds since 1970, in decimal digits.
const FILE_NAME: &str = "first-mount-1";

/// Returns the time that an earlier process has noted in `directory`. If there is none, notes `now` and returns that; a
/// failure to note it is logged. Blocks.
#[must_use]
pub fn first_mount(directory: &Path, now: SystemTime) -> SystemTime {
    let noted = std::fs::read_to_string(directory.join(FILE_NAME));
    if let Some(time) = noted.ok().and_then(|text| parse(&text)) {
        return time;
    }
    let millis = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let time = UNIX_EPOCH + Duration::from_millis(u64::try_from(millis.as_millis()).unwrap_or(0));
    if let Err(error) = note(directory, time) {
        tracing::warn!(%error, "the times of folders without a marker do not outlive this process");
    }
    time
}

fn parse(text: &str) -> Option<SystemTime> {
    let millis = Duration::from_millis(text.trim_end().parse().ok()?);
    UNIX_EPOCH.checked_add(millis)
}

fn note(directory: &Path, time: SystemTime) -> io::Result<()> {
    let millis = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let text = format!("{}\n", millis.as_millis());
    table_log::replace(directory, FILE_NAME, text.as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_time_is_the_time_of_all_later_mounts() {
        let folder = tempfile::tempdir().expect("a folder");
        let begun = UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789);
        let first = first_mount(folder.path(), begun);
        assert_eq!(first, UNIX_EPOCH + Duration::from_millis(1_700_000_000_123));
        let later = begun + Duration::from_secs(1000);
        assert_eq!(first_mount(folder.path(), later), first);
        // One that is not whole is replaced.
        for wrong in ["", "yesterday", "99999999999999999999999"] {
            std::fs::write(folder.path().join(FILE_NAME), wrong).expect("written");
            let again = first_mount(folder.path(), later);
            assert_eq!(again, first + Duration::from_secs(1000), "{wrong:?}");
            assert_eq!(first_mount(folder.path(), begun), again, "{wrong:?}");
        }
        // Without a place for it there is a time all the same.
        let nowhere = folder.path().join("none");
        assert_eq!(first_mount(&nowhere, begun), first);
        assert_eq!(
            first_mount(&nowhere, later),
            first + Duration::from_secs(1000)
        );
    }
}
