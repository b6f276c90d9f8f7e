//! Records the names of pages that have arrived.

use super::answer::{
    ArrivedPage, ListedFile, ListedName, ListedPage, ListingCursor, Meaning, NameRequest,
};
use super::{Facts, NameKind};
use crate::{Core, records};
use tidegate_origin::{ListedObject, Listing};
use tidegate_plan::folder::{self, FolderEntry, is_name};
use tidegate_plan::tree::whole_folders;
use tidegate_plan::{ObjectId, ObjectKey, OriginId, Timestamp};

/// Records the names of a page.
pub(super) fn record_page(
    core: &Core,
    asked: &NameRequest,
    prefix: &str,
    from: Option<ListingCursor>,
    page: Listing,
) -> ArrivedPage {
    let (epoch, number, before, mut held) = match from {
        Some(from) => (from.epoch, from.number, from.reached, from.held),
        None => (
            asked.epoch,
            0,
            String::new(),
            folder::FolderNames::default(),
        ),
    };
    let below = |key: &str| key.get(prefix.len()..).unwrap_or_default().to_owned();
    let object = page.objects.last().map(|it| below(&it.key));
    let folder = page.folders.last().map(|it| below(it));
    let reached = object.max(folder).unwrap_or(before);
    let odd = is_odd(prefix, &page);
    let has_key = !page.objects.is_empty();
    let something = has_key || !page.folders.is_empty();
    if let Some(marker) = page.objects.iter().find(|it| it.key == prefix) {
        let stored = marker.last_modified.unwrap_or(asked.at);
        core.note_marker((asked.origin, prefix), marker.etag.as_ref(), stored);
    }
    let objects = page.objects.into_iter().map(|mut listed| {
        let key = std::mem::take(&mut listed.key);
        let file = listed_file(core, asked, &key, listed);
        (key, file)
    });
    let found = held.page(prefix, objects, page.folders, page.next.is_none());
    let next = page.next.map(|after| ListingCursor {
        epoch,
        number: number + 1,
        after,
        reached: reached.clone(),
        held,
    });
    let path = prefix.trim_end_matches('/');
    if something {
        record_folders(core, asked, prefix, has_key);
    } else if number == 0 && next.is_none() && !path.is_empty() {
        // It may be one that a listing of its parent shows all the same.
        core.names.doubt_folder(asked.origin, path);
    }
    let landing = ListedPage {
        folder: path,
        epoch,
        number,
        names: found.iter().map(|it| listed_name(it, asked)).collect(),
        odd,
        next: next.clone(),
    };
    for (origin, path) in core.names.record_page(asked, landing) {
        doubt_passed(core, origin, &path, asked.at);
    }
    drop_missing(core, prefix, &found);
    let names = found.into_iter().map(|(name, child)| match child {
        FolderEntry::File(told) => (name, NameKind::File(told.facts)),
        FolderEntry::Folder => (name, NameKind::Folder),
    });
    ArrivedPage {
        names: names.collect(),
        reached,
        next,
    }
}

/// Returns a name for the table. One that was held back is as old as the page that had it.
fn listed_name(
    (name, child): &(String, FolderEntry<ListedFile>),
    asked: &NameRequest,
) -> ListedName {
    let (meaning, stored, asked) = match child {
        FolderEntry::File(told) => {
            let meaning = Meaning::File(told.facts.clone());
            (meaning, told.stored, told.asked)
        }
        FolderEntry::Folder => (Meaning::Folder, None, *asked),
    };
    ListedName {
        name: name.clone(),
        meaning,
        stored,
        asked,
    }
}

/// Drops the negative entries that the files of a page contradict. The page is in the table by then, so a resolve that
/// began before its listing installs none either.
fn drop_missing(core: &Core, prefix: &str, found: &[(String, FolderEntry<ListedFile>)]) {
    for (name, child) in found {
        if let FolderEntry::File(told) = child
            && let Ok(key) = ObjectKey::new(&format!("{prefix}{name}"))
        {
            let origin = told.asked.origin;
            records::drop_missing(core, &ObjectId { origin, key }, told.asked.at);
        }
    }
}

/// Records the folders on the way to what was listed. `has_key`: a key is among it.
fn record_folders(core: &Core, asked: &NameRequest, prefix: &str, has_key: bool) {
    for folder in folder::folders_of(prefix) {
        let folder = folder.trim_end_matches('/');
        if has_key {
            core.names.believe_folder(asked.origin, folder);
        }
        core.names.put(asked, folder, Meaning::Folder);
    }
}

/// Returns whether a page has keys that are no valid names, or a marker with bytes, which is another program's object.
fn is_odd(prefix: &str, page: &Listing) -> bool {
    let below = |key: &str| key.get(prefix.len()..).unwrap_or_default().to_owned();
    let object = |it: &ListedObject| below(&it.key);
    let folder = |it: &String| below(it).trim_end_matches('/').to_owned();
    let mut objects = page
        .objects
        .iter()
        .map(object)
        .filter(|name| !name.is_empty());
    let mut folders = page.folders.iter().map(folder);
    let has_bytes = |it: &ListedObject| it.key == prefix && it.size > 0;
    let is_object = page.objects.iter().any(has_bytes);
    is_object || objects.any(|name| !is_name(&name)) || folders.any(|name| !is_name(&name))
}

/// Converts a listed object to its facts.
fn listed_file(core: &Core, asked: &NameRequest, key: &str, listed: ListedObject) -> ListedFile {
    let (etag, stored) = (listed.etag, listed.last_modified);
    let shown = core
        .times
        .times_of((asked.origin, key), etag.as_ref(), stored);
    ListedFile {
        facts: Facts {
            size: listed.size,
            modified: shown.modified,
            changed: shown.changed,
            attributes: shown.attributes.get(),
            etag,
            version: None,
        },
        stored,
        asked: *asked,
    }
}

/// Doubts a known version that a younger listing contradicts.
pub(super) fn doubt(core: &Core, listed: &ListedObject, asked: &NameRequest) {
    let (Some(etag), Ok(key)) = (&listed.etag, ObjectKey::new(&listed.key)) else {
        return;
    };
    let id = ObjectId {
        origin: asked.origin,
        key,
    };
    records::doubt(core, &id, |record| {
        record.confirmed < asked.at && !record.version.etag.weak_eq(etag)
    });
}

/// Doubts a known version of before `at` that is missing according to its folder.
pub(super) fn doubt_passed(core: &Core, origin: OriginId, path: &str, at: Timestamp) {
    let Ok(key) = ObjectKey::new(path) else {
        return;
    };
    let id = ObjectId { origin, key };
    records::doubt(core, &id, |record| record.confirmed < at);
}

/// Records the folders that are whole on a page of a tree, which begins with the folder of this prefix.
pub(super) fn record_tree(core: &Core, asked: &NameRequest, first: &str, page: Listing) {
    let last = page.next.is_none();
    let keys = page
        .objects
        .into_iter()
        .map(|listed| (listed.key.clone(), listed));
    for (prefix, whole) in whole_folders(first, keys.collect(), last).unwrap_or_default() {
        let objects = whole.objects.into_iter().map(|(_, listed)| listed);
        let page = Listing {
            objects: objects.collect(),
            folders: whole.folders,
            next: None,
        };
        core.names
            .note_folder(asked.origin, prefix.trim_end_matches('/'));
        record_page(core, asked, &prefix, None, page);
    }
}
