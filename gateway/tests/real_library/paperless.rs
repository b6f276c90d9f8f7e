//! Paperless-ngx (paperless-ngx/paperless-ngx, 37dc791), its media folder.

use anyhow::Result;
use loadtest::wordpress::photos;

use crate::media;
use crate::shelf::{PAPERLESS, Shelf};

/// `src/documents/consumer.py`, `run` and `_write`: under the lock `media.lock` (`src/paperless/settings`), original,
/// archive and thumbnail are copied into folders that are made if they are missing. The lock is `flock`'s.
const CONSUME: &str = "
    umask 027
    mkdir -p documents/originals documents/archive documents/thumbnails
    for n in 0000001 0000002; do
        exec 9> media.lock; flock 9
        cp \"$given/document.pdf\" documents/originals/$n.pdf
        cp \"$given/document.pdf\" documents/archive/$n.pdf
        cp \"$given/cover.jpg\" documents/thumbnails/$n.webp
        exec 9>&-
    done
    find documents -type f | sort";

/// Two workers want the lock: the second waits until the first has gone, and one that will not wait is refused.
const LOCKED: &str = "
    exec 9> media.lock; flock 9
    flock -n media.lock true || echo 'locked'
    flock -w 30 media.lock echo second 9>&- & second=$!
    echo first; exec 9>&-
    wait $second";

/// `src/documents/signals/handlers.py`, `update_filename_and_move_files`: a document gets another name, in folders that
/// are made; `src/documents/file_handling.py`, `delete_empty_directories`: empty ones go.
const MOVE: &str = "
    umask 027
    mkdir -p 'documents/originals/2024/Bank' 'documents/archive/2024/Bank'
    mv documents/originals/0000001.pdf 'documents/originals/2024/Bank/Account.pdf'
    mv documents/archive/0000001.pdf 'documents/archive/2024/Bank/Account.pdf'
    mkdir -p 'documents/originals/2025/Bank'
    mv 'documents/originals/2024/Bank/Account.pdf' 'documents/originals/2025/Bank/Account.pdf'
    rmdir documents/originals/2024/Bank documents/originals/2024
    rmdir documents/originals/2025 2> /dev/null || echo 'not empty'
    find documents | sort";

/// `src/documents/sanity_checker.py`: every file is read, and its checksum compared.
const CHECK: &str = "find documents -type f -exec cksum {} + | sort";

/// `src/documents/management/commands/document_exporter.py`: files with their times, and a manifest that replaces the
/// earlier one by a rename.
const EXPORT: &str = "
    umask 027
    mkdir -p export
    for round in 1 2; do
        cp documents/originals/2025/Bank/Account.pdf export/Account.pdf
        printf '[{\"round\": %s}]' $round > export/manifest.json.tmp
        mv export/manifest.json.tmp export/manifest.json
    done
    cat export/manifest.json; ls export";

/// `src/documents/signals/handlers.py`, `cleanup_document_deletion`.
const DELETE: &str = "
    rm documents/originals/0000002.pdf documents/archive/0000002.pdf documents/thumbnails/0000002.webp
    find documents | sort";

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_consumed_moved_and_deleted() -> Result<()> {
    let mut shelf = Shelf::start(PAPERLESS).await?;
    photos::document(&shelf.given.join("document.pdf"))?;
    media::covers(&shelf.given)?;
    for (name, script) in [
        ("consume", CONSUME),
        ("lock", LOCKED),
        ("move", MOVE),
        ("check", CHECK),
        ("export", EXPORT),
        ("delete", DELETE),
    ] {
        shelf.step(name, script).await?;
    }
    shelf.finish().await
}
