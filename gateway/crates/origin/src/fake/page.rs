//! A page of the keys of a bucket in memory.

use std::collections::BTreeMap;
use std::ops::Bound;

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::StoredVersion;
use crate::{List, ListedObject, Listing, PageStart};
use tidegate_plan::ObjectKey;

/// The beginning of the tokens behind empty pages.
const EMPTY: &str = "empty=";

/// Returns the requested page. `remnants`: removed objects count as keys of folders.
pub(super) fn of(
    objects: &BTreeMap<ObjectKey, Vec<StoredVersion>>,
    request: &List,
    remnants: bool,
) -> Listing {
    let has_folder = |key: &ObjectKey| key.as_str()[request.prefix.len()..].contains('/');
    let is_listed = |key: &ObjectKey, stored: &StoredVersion| {
        stored.bytes.is_some() || remnants && request.delimiter && has_folder(key)
    };
    let mut page = Listing::default();
    let mut from = begin(request).max(request.prefix.clone());
    while let Some((key, stored)) = at_or_behind(objects, (&from, &request.prefix), is_listed) {
        if page.objects.len() + page.folders.len() == usize::from(request.limit) {
            page.next = Some(PageStart::Token(token(&from)));
            break;
        }
        let rest = &key.as_str()[request.prefix.len()..];
        match rest.find('/').filter(|_| request.delimiter) {
            Some(at) => {
                let folder = &key.as_str()[..=request.prefix.len() + at];
                page.folders.push(folder.to_owned());
                // After all keys of the folder: `0` follows `/`.
                from = format!("{}0", &folder[..folder.len() - 1]);
            }
            None => {
                page.objects.push(listed(key, stored));
                from = key_after(key.as_str());
            }
        }
    }
    page
}

/// Returns the empty page that this request gets, if its listing begins with so many; else the request behind them.
pub(super) fn empty(request: &List, pages: u64) -> Result<Listing, List> {
    let had = match &request.after {
        None => Some(0),
        Some(PageStart::Token(token)) => token.strip_prefix(EMPTY).and_then(|had| had.parse().ok()),
        Some(PageStart::Key(_)) => None,
    };
    match had {
        Some(had) if had < pages => Ok(Listing {
            next: Some(PageStart::Token(format!("{EMPTY}{}", had + 1))),
            ..Listing::default()
        }),
        Some(_) => Err(List {
            after: None,
            ..request.clone()
        }),
        None => Err(request.clone()),
    }
}

/// Returns the first key from `from` on that has the prefix and is listed.
fn at_or_behind<'a>(
    objects: &'a BTreeMap<ObjectKey, Vec<StoredVersion>>,
    (from, prefix): (&str, &str),
    is_listed: impl Fn(&ObjectKey, &StoredVersion) -> bool,
) -> Option<(&'a ObjectKey, &'a StoredVersion)> {
    objects
        .range::<str, _>((Bound::Included(from), Bound::Unbounded))
        .take_while(|(key, _)| key.as_str().starts_with(prefix))
        .filter_map(|(key, history)| Some((key, history.last()?)))
        .find(|(key, stored)| is_listed(key, stored))
}

fn begin(request: &List) -> String {
    match &request.after {
        None => String::new(),
        Some(PageStart::Key(key)) => key_after(key),
        Some(PageStart::Token(token)) => percent_decode_str(token).decode_utf8_lossy().into_owned(),
    }
}

/// Returns the next possible key, because no key has a NUL.
fn key_after(key: &str) -> String {
    format!("{key}\0")
}

/// Returns the text in a form for URLs and XML.
fn token(from: &str) -> String {
    utf8_percent_encode(from, NON_ALPHANUMERIC).to_string()
}

fn listed(key: &ObjectKey, stored: &StoredVersion) -> ListedObject {
    ListedObject {
        key: key.as_str().to_owned(),
        size: stored.version.size,
        etag: Some(stored.version.etag.clone()),
        last_modified: stored.version.last_modified,
    }
}
