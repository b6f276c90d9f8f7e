//! Files that are damaged, cut off, swapped or of another chunk size: misses, and never wrong bytes.

use std::os::unix::fs::FileExt;

use super::*;

#[tokio::test]
async fn chunks_of_another_size_are_left_aside() {
    let dir = TempDir::new().expect("a directory");
    let mut settings = settings(0, &[dir.path()]);
    let store = open(&settings).await;
    fill(&store, 100).await;
    store.close().await;
    drop(store);
    let before = log_files(dir.path());
    settings.geometry = Geometry::new(2 * CHUNK as u64).expect("a power of two");
    let store = open(&settings).await;
    assert_eq!(sound(&store, 100).await, 0);
    assert!(before.iter().all(|file| file.exists()));
}

/// Flips a bit at intervals in every file, under the open store.
#[tokio::test]
async fn damaged_files_never_give_wrong_bytes() {
    let dir = TempDir::new().expect("a directory");
    let settings = settings(0, &[dir.path()]);
    let store = open(&settings).await;
    fill(&store, 300).await;
    for (step, expected) in [(37_003, 60..240), (4 << 10, 0..1)] {
        for path in log_files(dir.path()) {
            let file = fs::OpenOptions::new().read(true).write(true).open(path);
            let file = file.expect("a block");
            let len = file.metadata().expect("there").len();
            for offset in (100..len).step_by(step) {
                let mut byte = [0];
                file.read_exact_at(&mut byte, offset).expect("within");
                file.write_all_at(&[byte[0] ^ 0x10], offset)
                    .expect("within");
            }
        }
        let left = sound(&store, 300).await;
        assert!(expected.contains(&left), "every {step}: {left}");
    }
    store.close().await;
    drop(store);

    let store = open(&settings).await;
    assert_eq!(sound(&store, 300).await, 0);
    let k = key(777, 1);
    store.insert(k, content(&k, CHUNK), Admit::Disk);
    eventually("written", || store.queued() == 0).await;
    assert!(store.get(&k, CHUNK).await.is_some(), "it goes on");
}

#[tokio::test]
async fn truncated_and_swapped_files_are_misses() {
    let dir = TempDir::new().expect("a directory");
    let settings = settings(0, &[dir.path()]);
    let store = open(&settings).await;
    fill(&store, 400).await;
    store.close().await;
    drop(store);
    let files = log_files(dir.path());
    let spare = dir.path().join("spare");
    fs::rename(&files[0], &spare).expect("renamed");
    fs::rename(&files[1], &files[0]).expect("renamed");
    fs::rename(&spare, &files[1]).expect("renamed");
    fs::write(&files[2], b"").expect("emptied");
    fs::remove_file(&files[3]).expect("deleted");

    let store = open(&settings).await;
    let left = sound(&store, 400).await;
    assert!((200..400).contains(&left), "{left}");
}
