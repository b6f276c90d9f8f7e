//! The names of staging keys: under such a key a draft is uploaded whose bytes are to be read back.

use tidegate_plan::ObjectKey;
use tidegate_plan::folder::{STAGING_PREFIX, is_staging_name};

/// Returns whether a key is one that [`staging_key`] makes.
pub(crate) fn is_staging_key(key: &str) -> bool {
    key.rsplit('/').next().is_some_and(is_staging_name)
}

/// Returns a random key beside the object's own, whose name shows that Tidegate owns it.
pub(crate) fn staging_key(key: &ObjectKey) -> ObjectKey {
    let folder = key
        .as_str()
        .rfind('/')
        .map_or("", |at| &key.as_str()[..=at]);
    let name = format!(
        "{STAGING_PREFIX}{:016x}{:016x}",
        crate::random(),
        crate::random()
    );
    let full = ObjectKey::new(&format!("{folder}{name}"));
    // The folder is too long for the name below it. The top has room.
    full.unwrap_or_else(|_| ObjectKey::new(&name).expect("a short name is a key"))
}
