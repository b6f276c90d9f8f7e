//! Names that programs give to files which they rename once they are whole.

/// Lengths of the random suffixes of mkstemp(3).
const RANDOM: usize = 6;

/// Returns whether the last part of a key is a name under which programs write a file before they rename it: those of
/// rsync (`.name.AbC123`), git (`name.lock`, `tmp_obj_AbC123`), restic (`name-tmp-12345`), GLib (`.goutputstream-AbC123`),
/// `sed -i` (`sedAbC123`), and `name.tmp`.
pub(crate) fn is_temporary(key: &str) -> bool {
    let name = key.rsplit('/').next().unwrap_or_default();
    let is_random =
        |text: &str| text.len() == RANDOM && text.bytes().all(|b| b.is_ascii_alphanumeric());
    let after = |mark: &str| {
        name.rsplit_once(mark)
            .filter(|(before, _)| !before.is_empty())
    };
    let is_of_rsync =
        name.starts_with('.') && after(".").is_some_and(|(_, suffix)| is_random(suffix));
    let is_of_restic = after("-tmp-").is_some_and(|(_, suffix)| {
        !suffix.is_empty() && suffix.bytes().all(|b| b.is_ascii_digit())
    });
    let is_of_git = ["tmp_obj_", "tmp_pack_", "tmp_idx_"]
        .iter()
        .any(|start| name.strip_prefix(start).is_some_and(is_random));
    let is_of_others = ["sed", ".goutputstream-"]
        .iter()
        .any(|start| name.strip_prefix(start).is_some_and(is_random));
    let is_marked = after(".").is_some_and(|(_, suffix)| matches!(suffix, "lock" | "tmp"));
    is_of_rsync || is_of_restic || is_of_git || is_of_others || is_marked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_programs_are_known_and_others_are_not() {
        for name in [
            "a/.book.m4b.Ab3dE9",
            "repo/.git/config.lock",
            "repo/.git/objects/ab/tmp_obj_x7Yz01",
            "data/00/00ff-tmp-1234567",
            ".goutputstream-ABC123",
            "sedQ1w2E3",
            "index.1.tmp",
        ] {
            assert!(is_temporary(name), "{name}");
        }
        for name in [
            "a/book.m4b.Ab3dE9",
            ".htaccess",
            ".lock",
            ".tmp",
            "a.tmp/b",
            "2026.picture",
            "sediment",
            "sed1234567",
            "x-tmp-",
            "x-tmp-y",
            "tmp_obj_",
            "block",
            "",
        ] {
            assert!(!is_temporary(name), "{name}");
        }
    }
}
