//! Names of a folder, in the kernel's buffers.

use std::sync::Arc;
use std::time::Duration;

use fuser::{Errno, FileType, INodeNo, ReplyDirectory, ReplyDirectoryPlus};

use super::GENERATION;
use crate::errno;
use crate::files::Files;
use crate::folder::{Folder, FolderPage};
use tidegate_engine::names::NameKind;

/// `.` and `..` come before the names.
const DOT_ENTRIES: u64 = 2;

/// Returns the names from an offset on; none as long as only the dots are wanted. Bounds itself: waits for a rename of the
/// folder as long as that gets on.
pub(crate) async fn names(
    files: &Files,
    handle: u64,
    offset: u64,
) -> Result<Arc<FolderPage>, Errno> {
    let folder = files.folder(handle)?;
    let page = loop {
        files.wait_until_shown(&folder.node).await?;
        let listed = async {
            if offset == 0 {
                folder.begin(files.drafts_in(&folder.node.key())).await;
            }
            let names = folder.listed_at(offset.saturating_sub(DOT_ENTRIES)).await;
            names.map_err(|error| errno::logged(&error, &folder.node.key()))
        };
        if let Some(page) = files.bounded(listed).await? {
            break page;
        }
        if !files.is_writable() {
            // Another mount has renamed it.
            return Err(Errno::ESTALE);
        }
    };
    let key = folder.node.key();
    let learn = async {
        if offset == 0 {
            files.read_marker(&folder.node).await;
        }
        let learned = page.types.get_or_init(|| files.learn_types(&key, &page));
        learned.await;
    };
    // A listing that is here is not lost because a bucket does not tell the types of its names.
    let _ = tokio::time::timeout(files.settings.deadline / 2, learn).await;
    Ok(page)
}

/// Fills a listing. Each entry carries the offset of the next one.
pub(crate) fn fill(
    files: &Files,
    handle: u64,
    offset: u64,
    names: &FolderPage,
    mut reply: ReplyDirectory,
) {
    let Ok(folder) = files.folder(handle) else {
        return reply.error(Errno::EBADF);
    };
    let mut at = offset;
    for (ino, dot) in dots_from(files, &folder, offset) {
        at += 1;
        if reply.add(INodeNo(ino), at, FileType::Directory, dot) {
            return reply.ok();
        }
    }
    let key = folder.node.key();
    for (name, entry) in names.from(at - DOT_ENTRIES) {
        let is_folder = *entry == NameKind::Folder;
        let path = format!("{key}{name}");
        let kind = match is_folder {
            true => FileType::Directory,
            false if files.is_link(&path, entry) => FileType::Symlink,
            false => FileType::RegularFile,
        };
        let ino = files.number_of(&path, is_folder);
        at += 1;
        if reply.add(INodeNo(ino), at, kind, name) {
            break;
        }
    }
    reply.ok();
}

/// Does the same with attributes. The kernel is told of every name that fits, except the dots.
pub(crate) fn fill_plus(
    files: &Files,
    handle: u64,
    offset: u64,
    names: &FolderPage,
    mut reply: ReplyDirectoryPlus,
) {
    let Ok(folder) = files.folder(handle) else {
        return reply.error(Errno::EBADF);
    };
    let mut at = offset;
    for (ino, dot) in dots_from(files, &folder, offset) {
        at += 1;
        let attr = files.folder_attr(ino);
        if reply.add(INodeNo(ino), at, dot, &Duration::ZERO, &attr, GENERATION) {
            return reply.ok();
        }
    }
    let key = folder.node.key();
    for (name, entry) in names.from(at - DOT_ENTRIES) {
        let path = format!("{key}{name}");
        at += 1;
        let told = files.tell_listed(folder.node.ino, &path, entry);
        let Some((attr, fresh)) = told else { continue };
        if reply.add(attr.ino, at, name, &fresh, &attr, GENERATION) {
            files.untell(attr.ino.0);
            break;
        }
    }
    reply.ok();
}

fn dots_from(
    files: &Files,
    folder: &Folder,
    offset: u64,
) -> impl Iterator<Item = (u64, &'static str)> {
    let skip = usize::try_from(offset.min(DOT_ENTRIES)).unwrap_or(0);
    files.dots(folder).into_iter().skip(skip)
}
