//! Records of renames that the disk does not let go of.

use std::path::PathBuf;

use super::*;

/// A spool that is taken away for a time: no file in it can be made, replaced or removed.
struct AwaySpool {
    spool: PathBuf,
    elsewhere: TempDir,
}

impl AwaySpool {
    fn of(desk: &Desk) -> Self {
        let away = Self {
            spool: desk.spool.path().to_owned(),
            elsewhere: tempfile::tempdir().expect("a folder"),
        };
        std::fs::rename(&away.spool, away.inside()).expect("moved");
        away
    }

    fn inside(&self) -> PathBuf {
        self.elsewhere.path().join("spool")
    }

    fn comes_back(self) {
        std::fs::rename(self.inside(), &self.spool).expect("moved");
    }
}

/// Returns a desk whose rename takes 9 s for its copies. The last of `faults` is for the first copy.
async fn renames_slowly(fault: Option<Fault>) -> Desk {
    let desk = with_a_folder().await;
    desk.bucket()
        .fail_from("copy", Vec::from_iter(fault), [Fault::Latency(secs(9))]);
    desk
}

impl Desk {
    async fn has_free_names(&self) -> bool {
        let used = self.writers.use_paths(source(self), &["old/a", "new/b"]);
        tokio::time::timeout(secs(1), used).await.is_ok()
    }
}

/// A rename that failed is not carried out later, though its record cannot be removed at once.
#[tokio::test(start_paused = true)]
async fn a_rename_that_failed_stays_so_if_its_record_cannot_be_removed() {
    for has_begun in [true, false] {
        let desk = renames_slowly(Some(Fault::Refuse(OriginError::Forbidden))).await;
        let spool = std::cell::Cell::new(None);
        let breaks = async {
            if has_begun {
                pass(secs(5)).await;
            }
            spool.set(Some(AwaySpool::of(&desk)));
        };
        let ((), renamed) = tokio::join!(biased; breaks, rename(&desk));
        desk.bucket().set_faults([]);
        assert!(renamed.is_err(), "{has_begun}");
        assert_eq!(desk.halves(), (FILES.to_vec(), vec![]), "{has_begun}");
        assert!(!desk.has_free_names().await, "they wait: {has_begun}");
        spool.take().expect("away").comes_back();
        assert_eq!(desk.records(), usize::from(has_begun));
        desk.has_ended().await;
        assert_eq!(desk.records(), 0, "{has_begun}");
        assert!(desk.has_free_names().await);
        let next = Cut::of(&desk).start();
        next.has_ended().await;
        assert_eq!(next.halves(), (FILES.to_vec(), vec![]), "{has_begun}");
    }
}

/// No copy goes as long as the record may say that all are there. The next process would delete old objects then.
#[tokio::test(start_paused = true)]
async fn copies_stay_while_the_record_may_say_that_all_are_there() {
    let desk = renames_slowly(None).await;
    let spool = std::cell::Cell::new(None);
    let breaks = async {
        pass(secs(5)).await;
        spool.set(Some(AwaySpool::of(&desk)));
    };
    let ((), renamed) = tokio::join!(biased; breaks, rename(&desk));
    assert!(matches!(renamed, Err(WriteError::Spool(_))), "{renamed:?}");
    desk.bucket().set_faults([]);
    assert_eq!(desk.halves(), (FILES.to_vec(), FILES.to_vec()));
    assert_eq!(desk.shown().await, (true, false), "they are hidden");
    assert!(!desk.has_free_names().await);
    spool.take().expect("away").comes_back();
    desk.has_ended().await;
    assert_eq!(desk.halves(), (FILES.to_vec(), vec![]));
    assert_eq!(desk.records(), 0);
}

/// Names wait for the record of a rename that was carried out, too: the next process would take a new folder for the old.
#[tokio::test(start_paused = true)]
async fn names_wait_until_the_record_of_a_renamed_folder_is_removed() {
    let desk = with_a_folder().await;
    let late = [Fault::Latency(secs(9))];
    desk.bucket().fail_from("delete", [], late);
    let spool = std::cell::Cell::new(None);
    let breaks = async {
        until(|| desk.halves().0.len() < 5).await;
        spool.set(Some(AwaySpool::of(&desk)));
    };
    let (renamed, ()) = tokio::join!(rename(&desk), breaks);
    assert!(matches!(renamed, Ok(FolderRename::Copied(_))));
    desk.bucket().set_faults([]);
    assert!(!desk.has_free_names().await);
    spool.take().expect("away").comes_back();
    desk.has_ended().await;
    assert_eq!(desk.halves(), (vec![], FILES.to_vec()));
    assert_eq!(desk.records(), 0);
    assert!(desk.has_free_names().await);
}
