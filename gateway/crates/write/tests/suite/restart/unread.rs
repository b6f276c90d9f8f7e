//! Journals that one start cannot read, and the next one can.

use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;

use crate::support::engine::{clock, secs};
use crate::support::spool::{Desk, Terms, copy_of, down};

const KEY: &str = "folder/object";

/// A start cannot read the journal of a draft. What is written to the object from then on counts when the journal can be
/// read again.
#[tokio::test(start_paused = true)]
async fn what_a_start_could_not_read_is_older_than_what_is_written_after_it() {
    let terms = Terms::background();
    let desk = Desk::new(Terms::background());
    desk.bucket().set_faults([down()]);
    for number in 0..5 {
        desk.write(&format!("other/{number}"), &"other".into())
            .await;
    }
    desk.write(KEY, &"first".into()).await;
    let (found, aside) = (copy_of(&desk.spool), copy_of(&desk.spool));
    for path in journals(&found) {
        std::fs::remove_file(path).expect("removed");
    }
    let (mut world, clock) = (desk.world.clone(), clock());
    world.engine.close(secs(5)).await;
    world.restart(Arc::new(move || clock().plus(secs(3600))));
    let desk = Desk::over(world, found, &terms);
    desk.write(KEY, &"second".into()).await;
    let found = copy_of(&desk.spool);
    for (number, path) in journals(&aside).into_iter().enumerate() {
        let name = format!("{number:016x}.journal");
        std::fs::copy(path, found.path().join(name)).expect("copied");
    }
    let again = desk.started_again(found, [], &terms).await;
    again.bucket().set_faults([]);
    again.writers.settled().await;
    assert_eq!(again.object(KEY), Some("second".into()));
    assert_eq!(again.writers.left_alone(), 0);
}

/// Returns the paths of the journals in a spool.
fn journals(spool: &TempDir) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(spool).expect("readable");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_journal = |path: &PathBuf| path.extension().is_some_and(|it| it == "journal");
    paths.filter(is_journal).collect()
}
