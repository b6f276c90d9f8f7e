//! The names in a folder, derived from a bucket's ordered keys.
//!
//! A key is a path only by custom: `a` and `a/b` can both be objects, and `a//b` or `a/..` too. In a folder each name
//! stands for one thing, so
//!
//! - if a file and a folder have one name, the folder wins;
//! - a segment that is empty, `.`, `..`, longer than [`MAX_NAME`] or holds a NUL is no name, and neither is that of an
//!   object of our own ([`is_staging_name`]). Keys there or below are hidden.
//!
//! In a listing `a` comes long before `a/` if there are keys like `a-1` between. So a file is held back until the
//! listing is past the folder that could take its name.

/// The longest name, in bytes (`NAME_MAX`, limits.h).
pub const MAX_NAME: usize = 255;

/// The longest name, in bytes, that every store takes. Whether a store takes a longer one is known once it is asked.
const MAX_SURE_NAME: usize = 200;

/// Returns whether every store takes the last name of a key, which may be a folder's.
#[must_use]
pub fn has_sure_name(key: &str) -> bool {
    let name = key.trim_end_matches('/').rsplit('/').next();
    name.is_some_and(|name| name.len() <= MAX_SURE_NAME)
}

/// Returns whether a segment of a key can be a name.
#[must_use]
pub fn is_name(segment: &str) -> bool {
    !matches!(segment, "" | "." | "..")
        && segment.len() <= MAX_NAME
        && !segment.contains(['/', '\0'])
        && !is_staging_name(segment)
}

/// The beginning of the name of a staging object; 32 hexadecimal digits follow.
pub const STAGING_PREFIX: &str = ".tidegate-";

/// Returns whether a name is that of a staging object: one under which a draft is uploaded whose bytes must be read back.
#[must_use]
pub fn is_staging_name(name: &str) -> bool {
    let digits = name.strip_prefix(STAGING_PREFIX).unwrap_or_default();
    digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the folders that a key proves, outermost first, each with its final `/`.
pub fn folders_of(key: &str) -> impl Iterator<Item = &str> {
    key.match_indices('/').map(|(at, _)| &key[..=at])
}

/// Returns the folder of a key: up to its last slash, which is part of it.
#[must_use]
pub fn folder_of(key: &str) -> &str {
    &key[..key.rfind('/').map_or(0, |slash| slash + 1)]
}

/// Returns the innermost folder that holds both a folder and a key.
#[must_use]
pub fn common_folder<'f>(folder: &'f str, key: &str) -> &'f str {
    let pairs = folder.bytes().zip(key.bytes());
    let common = pairs.take_while(|(one, other)| one == other).count();
    // A slash is never part of another character.
    let slash = folder.as_bytes()[..common].iter().rposition(|b| *b == b'/');
    &folder[..slash.map_or(0, |slash| slash + 1)]
}

/// Returns whether a listing that has reached `reached`, its last key or folder, has no more entries for `name`:
/// neither an object nor a folder. Both are relative to the listed folder.
#[must_use]
pub fn is_listed(reached: &str, name: &str) -> bool {
    let (reached, name) = (reached.as_bytes(), name.as_bytes());
    match reached.strip_prefix(name) {
        // A folder of the name would come at `/`.
        Some(rest) => rest.first().is_some_and(|next| *next >= b'/'),
        None => name < reached,
    }
}

/// Returns the first name for which a listing that has reached `reached` may have more entries. All names before it are
/// finished, whatever they are.
#[must_use]
pub fn first_unlisted(reached: &str) -> &str {
    let inner = reached.bytes().enumerate().skip(1);
    let end = inner.take_while(|(_, byte)| *byte >= b'/').count() + 1;
    reached.get(..end).unwrap_or(reached)
}

/// The thing that a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FolderEntry<T> {
    /// An object and its known properties.
    File(T),
    /// A common beginning of keys.
    Folder,
}

/// The names of one folder, taken from its listing page by page.
#[derive(Debug, Clone)]
pub struct FolderNames<T> {
    /// Files whose name a later folder may take. Each name is a prefix of the next, so there are few.
    held: Vec<(String, T)>,
}

impl<T> Default for FolderNames<T> {
    fn default() -> Self {
        Self { held: Vec::new() }
    }
}

impl<T> FolderNames<T> {
    /// Takes a page and returns the names that are now certain. `objects` and `folders` are the entries of the listing
    /// below `prefix`, each in order. `last` means that no page follows.
    pub fn page(
        &mut self,
        prefix: &str,
        objects: impl IntoIterator<Item = (String, T)>,
        folders: impl IntoIterator<Item = String>,
        last: bool,
    ) -> Vec<(String, FolderEntry<T>)> {
        let mut names = Vec::new();
        let below = |key: &String| key.get(prefix.len()..).unwrap_or_default().to_owned();
        let mut objects = objects.into_iter().peekable();
        let mut folders = folders.into_iter().peekable();
        loop {
            let folder_first = match (objects.peek(), folders.peek()) {
                (None, None) => break,
                (Some((object, _)), Some(folder)) => folder < object,
                (object, _) => object.is_none(),
            };
            if folder_first && let Some(folder) = folders.next() {
                let below = below(&folder);
                self.held.retain(|(name, _)| below != format!("{name}/"));
                self.release(&below, &mut names);
                let name = below.trim_end_matches('/');
                if below.len() == name.len() + 1 && is_name(name) {
                    names.push((name.to_owned(), FolderEntry::Folder));
                }
            } else if let Some((key, what)) = objects.next() {
                let name = below(&key);
                self.release(&name, &mut names);
                if is_name(&name) {
                    self.held.push((name, what));
                }
            }
        }
        if last {
            let rest = self.held.drain(..);
            names.extend(rest.map(|(name, what)| (name, FolderEntry::File(what))));
        }
        names
    }

    /// Moves the files whose folder would have come before `reached` to `names`.
    fn release(&mut self, reached: &str, names: &mut Vec<(String, FolderEntry<T>)>) {
        let past = |name: &str| *reached > *format!("{name}/");
        let released = self.held.extract_if(.., |(name, _)| past(name));
        names.extend(released.map(|(name, what)| (name, FolderEntry::File(what))));
    }
}

#[cfg(test)]
mod tests;
