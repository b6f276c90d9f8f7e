//! Temporary names: a program writes a file under one, and renames it once it is whole.

/// The length of the random suffix of mkstemp(3).
const RANDOM_LENGTH: usize = 6;

/// Returns whether a key has a temporary name: that of rsync (`.name.AbC123`), git (`name.lock` in a repository,
/// `tmp_obj_AbC123`), restic (`name-tmp-12345`), GLib (`.goutputstream-AbC123`) or `sed -i` (`sedAbC123`), or `name.tmp`.
/// Another program's `name.lock` is a lock, which other machines are to see.
pub(crate) fn is_temporary(key: &str) -> bool {
    let (folders, name) = key.rsplit_once('/').unwrap_or(("", key));
    let is_random = |text: &str| {
        text.len() == RANDOM_LENGTH && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let after = |mark: &str| {
        name.rsplit_once(mark)
            .filter(|(before, _)| !before.is_empty())
    };
    let is_in_repository = || folders.split('/').any(|folder| folder.ends_with(".git"));
    let is_marked = after(".").is_some_and(|(_, suffix)| match suffix {
        "tmp" => true,
        "lock" => is_in_repository(),
        suffix => name.starts_with('.') && is_random(suffix),
    });
    let is_of_restic = after("-tmp-").is_some_and(|(_, suffix)| is_number(suffix));
    let starts = [
        "tmp_obj_",
        "tmp_pack_",
        "tmp_idx_",
        "sed",
        ".goutputstream-",
    ];
    let mut drawn = starts.iter().filter_map(|start| name.strip_prefix(start));
    is_marked || is_of_restic || drawn.any(is_random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_programs_are_known_and_others_are_not() {
        for name in [
            "a/.book.m4b.Ab3dE9",
            "repo/.git/config.lock",
            "bare.git/refs/heads/main.lock",
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
            "mail/box.lock",
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
