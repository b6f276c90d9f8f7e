//! The drafts of a folder: objects that are not in the bucket yet, or have another version there.

use super::Name;
use crate::Console;
use tidegate_admin::place::LocatedPrefix;
use tidegate_engine::names::{Facts, NameKind};
use tidegate_write::PendingWrite;

/// Returns the drafts of the objects in a folder, each with its name there.
pub(super) fn of_folder(console: &Console, below: &LocatedPrefix) -> Vec<(String, PendingWrite)> {
    let writers = console.admin.writers.iter();
    let pending = writers.flat_map(|writers| writers.pending());
    let id = below.source.origin.id();
    let of_this = pending.filter(|draft| draft.id.origin == id);
    let named = of_this.filter_map(|draft| {
        let name = draft.id.key.as_str().strip_prefix(&*below.prefix)?;
        let name = name.to_owned();
        (!name.is_empty() && !name.contains('/')).then_some((name, draft))
    });
    named.collect()
}

/// Returns the facts of a draft, as those of an object that was listed.
fn facts(draft: &PendingWrite) -> NameKind {
    NameKind::File(Facts {
        size: draft.size,
        modified: Some(draft.modified),
        changed: None,
        attributes: None,
        etag: None,
        version: None,
    })
}

/// Adds the drafts that the first page does not have, and returns their names. The bucket may have one on a later page,
/// which leaves it out.
pub(super) fn add(
    page: &mut Vec<(String, NameKind)>,
    drafts: &[(String, PendingWrite)],
) -> Vec<String> {
    let is_on_page = |name: &str| {
        let mut listed = page.iter();
        listed.any(|(other, kind)| other == name && is_object(kind))
    };
    let missing = drafts.iter().filter(|(name, _)| !is_on_page(name));
    let missing: Vec<_> = missing
        .map(|(name, draft)| (name.clone(), facts(draft)))
        .collect();
    let names = missing.iter().map(|(name, _)| name.clone()).collect();
    page.extend(missing);
    names
}

/// Leaves out the objects that the first page has added.
pub(super) fn leave_out(page: &mut Vec<(String, NameKind)>, added: &[String]) {
    page.retain(|(name, kind)| !(is_object(kind) && added.contains(name)));
}

fn is_object(kind: &NameKind) -> bool {
    matches!(kind, NameKind::File(_))
}

/// Marks the names that have a draft.
pub(super) fn mark(names: &mut [Name], drafts: &[(String, PendingWrite)]) {
    for (name, draft) in drafts {
        let mut objects = names.iter_mut().filter(|one| !one.folder);
        if let Some(known) = objects.find(|one| one.name == *name) {
            known.draft = Some(draft.stage.as_str().to_owned());
        }
    }
}
