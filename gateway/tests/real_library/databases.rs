//! Databases and locks that lie on a mount by mistake: they work, or are refused with an error that says so.

use anyhow::Result;

use crate::shelf::{AUDIOBOOKSHELF, Shelf};

/// A database is made, changed, and looked at again, in the journal modes that servers set (Audiobookshelf's
/// `SQLITE_*` variables, `server/Database.js`).
const SQLITE: &str = "
    umask 022
    mkdir config
    for mode in delete truncate persist memory off wal; do
        base=config/$mode.sqlite
        sqlite3 $base \"pragma journal_mode=$mode; create table books (n integer, title text);
            with recursive c(n) as (select 1 union all select n + 1 from c where n < 2000)
            insert into books select n, 'book ' || n from c;\"
        sqlite3 $base \"begin; update books set title = 'read' where n < 10; commit;\"
        sqlite3 $base 'pragma integrity_check; select count(*), min(title) from books;'
    done
    rm -f config/*-journal
    ls config";

/// Three writers of a database at once wait for each other. The order of their rows, and so the file, is by chance.
const THREE_WRITERS: &str = "
    cd config
    for writer in 1 2 3; do
        for n in 1 2 3 4 5; do
            sqlite3 wal.sqlite \".timeout 300000\" \"insert into books values ($writer$n, 'all');\"
        done &
    done
    wait
    sqlite3 wal.sqlite \"pragma wal_checkpoint(truncate); select count(*) from books where title = 'all'; pragma integrity_check;\"
    rm wal.sqlite";

/// Locks hold among the programs of this machine.
const LOCKS: &str = "
    exec 9> lock; flock 9
    flock -n lock true || echo 'locked'
    exec 9>&-
    flock -n lock echo 'free'
    (set -C; : > marker.lock); (set -C; : > marker.lock) 2> /dev/null || echo 'taken'";

#[tokio::test(flavor = "multi_thread")]
async fn databases_and_locks_work_as_on_a_local_disk() -> Result<()> {
    let mut shelf = Shelf::start(AUDIOBOOKSHELF).await?;
    shelf.step("sqlite", SQLITE).await?;
    shelf.step("three writers", THREE_WRITERS).await?;
    shelf.step("locks", LOCKS).await?;
    shelf.finish().await
}
