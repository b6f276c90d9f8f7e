//! A folder while it is renamed, and after a rename that was cut or failed: its names, and their inode numbers.

use super::*;

mod cut;

/// The keys of the folder, without its name.
const KEYS: [&str; 8] = [
    "",
    "a",
    "b",
    "deep/",
    "deep/c",
    "deep/er/",
    "deep/er/d",
    "e",
];

impl World {
    /// Returns a world with a table of numbers beside the spool, over what an earlier one has left.
    fn numbered(bucket: FakeOrigin, folder: tempfile::TempDir) -> Self {
        let numbers = Arc::new(NumberTable::open(folder.path()));
        let change = |settings: &mut Settings| settings.numbers = numbers;
        Self::over((bucket, folder), Profile::web(), change, Self::write_access)
    }

    /// Returns what a process finds after a crash of this one.
    fn crashed(&self) -> (FakeOrigin, tempfile::TempDir) {
        let left = tempfile::tempdir().expect("a folder");
        for entry in std::fs::read_dir(self.folder.path()).expect("readable") {
            let entry = entry.expect("readable");
            let to = left.path().join(entry.file_name());
            std::fs::copy(entry.path(), to).expect("copied");
        }
        (self.bucket.copied(), left)
    }

    fn put_folder(&self) {
        self.bucket.put("p/old/", "");
        for file in FILES {
            self.bucket.put(&format!("p/old/{file}"), file);
        }
    }

    /// Returns the number of each key of a folder, as a listing tells it.
    fn numbers(&self, folder: &str) -> [u64; 8] {
        KEYS.map(|key| {
            let path = format!("p/{folder}/{key}");
            let is_folder = path.ends_with('/');
            self.files.number_of(path.trim_end_matches('/'), is_folder)
        })
    }

    /// Looks every name of a folder up, and returns their numbers.
    async fn walked(&self, folder: &str) -> [u64; 8] {
        let mut numbers = [0; 8];
        for (number, key) in numbers.iter_mut().zip(KEYS) {
            let path = format!("{folder}/{key}");
            *number = self.walk(path.trim_end_matches('/')).await.ino.0;
        }
        numbers
    }
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

/// A scanner that is in a folder finds all names in it, whatever a rename is doing just then.
#[tokio::test(start_paused = true)]
async fn a_folder_that_is_renamed_never_lists_as_empty() {
    const NAMES: [&str; 4] = ["a", "b", "deep", "e"];
    for delays in [[1, 1, 1], [1, 2, 3], [3, 1, 4]] {
        for second in 0..30 {
            let world = World::with_a_folder();
            let old = world.walk("old").await.ino.0;
            let deep = world.walk("old/deep").await.ino.0;
            for n in 0..100 {
                let late = Duration::from_secs(delays[n % 3]);
                world.bucket.fail_next([Fault::Latency(late)]);
            }
            let scan = async {
                tokio::time::sleep(Duration::from_millis(1000 * second + 500)).await;
                assert_eq!(sorted(world.scan(old).await), NAMES, "{second}");
                assert_eq!(sorted(world.scan(deep).await), ["c", "er"], "{second}");
            };
            let (renamed, ()) = tokio::join!(world.rename_top("old", "new"), scan);
            assert_eq!(renamed, Ok(()));
        }
    }
}

/// A page that was listed before the rename continues after it, without a name twice and without a gap.
#[tokio::test]
async fn a_listing_goes_on_in_a_folder_that_was_renamed() {
    let access =
        |path: &_, source: &_, folder: &Path| match World::write_access(path, source, folder) {
            Access::Write(writable) => Access::Write(WriteSettings {
                rename_limit: 10_000,
                ..writable
            }),
            read => read,
        };
    for to in ["new", "past"] {
        let world = World::build(Profile::web(), |_| {}, access);
        let all: Vec<_> = (0..2500).map(|n| format!("{n:04}")).collect();
        for name in &all {
            world.bucket.put(&format!("p/old/{name}"), "x");
        }
        let old = world.walk("old").await.ino.0;
        let handle = world.files.open_folder(old).expect("a folder");
        let mut names = Vec::new();
        loop {
            let offset = if names.is_empty() {
                0
            } else {
                names.len() as u64 + 2
            };
            let page = kernel::names(&world.files, handle, offset).await;
            let page = page.expect("names");
            let some = page.from(names.len() as u64);
            if some.is_empty() {
                break;
            }
            if names.is_empty() {
                assert_eq!(world.rename_top("old", to).await, Ok(()));
            }
            names.extend(some.iter().map(|(name, _)| name.clone()));
        }
        assert_eq!(names, all, "{to}");
    }
}

/// `mv` copies a folder with too many objects itself: nothing of it is sent before that.
#[tokio::test]
async fn a_folder_that_is_too_large_publishes_no_draft() {
    let world = World::writable();
    for n in 0..18 {
        world.bucket.put(&format!("p/old/{n}"), "x");
    }
    let old = world.walk("old").await.ino.0;
    let create = async |file: &str| {
        let created = world.files.create(old, file.into(), 0o101, MAKER).await;
        let (_, handle, _) = created.expect("created");
        world.fill(handle, 0, "draft").await;
        handle
    };
    let mut handles = Vec::new();
    for file in ["u", "v", "w"] {
        handles.push(create(file).await);
    }
    assert_eq!(world.rename_top("old", "new").await, Err(Errno::EXDEV));
    assert!(
        world.bucket.writes().is_empty(),
        "{:?}",
        world.bucket.writes()
    );
    // One that replaces an object is none more.
    let nought = world.walk("old/0").await.ino.0;
    assert_eq!(world.files.unlink(old, "w".into()).await, Ok(()));
    let (writer, _) = world.files.open(nought, WRITE, BY).await.expect("open");
    world.fill(writer, 0, "X").await;
    assert_eq!(world.rename_top("old", "new").await, Ok(()));
    assert_eq!(world.bucket.keys().len(), 20);
    assert_eq!(world.stored_text("p/new/0"), "X");
    for handle in handles.into_iter().chain([writer]) {
        world.files.close(handle).await;
    }
}

/// A player goes on in a file whose old object is gone, though the deletions of others take for ever.
#[tokio::test(start_paused = true)]
async fn a_read_does_not_wait_for_the_deletions() {
    let world = World::writable();
    world.bucket.put("p/old/a", vec![7; 3 << 20]);
    world.bucket.put("p/old/b", "b");
    let (reader, _) = world.open(world.walk("old/a").await.ino.0).await;
    world.files.read(reader, 0, 10).await.expect("read");
    let slow = Fault::Latency(Duration::from_secs(600));
    world.bucket.fail_from("delete", [], [slow]);
    let read = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(world.bucket.object("p/old/a").is_none());
        assert!(world.bucket.object("p/old/b").is_some());
        world.bucket.set_faults([]);
        let begun = tokio::time::Instant::now();
        let read = world.files.read(reader, 2 << 20, 10).await;
        assert_eq!(read.expect("read").as_ref(), [7; 10]);
        assert!(begun.elapsed() < Duration::from_secs(5));
    };
    let (renamed, ()) = tokio::join!(world.rename_top("old", "new"), read);
    assert_eq!(renamed, Ok(()));
}

/// Library servers find a moved book by its number.
#[tokio::test]
async fn a_rename_that_leaves_an_old_object_keeps_every_number() {
    for known in [true, false] {
        let world = World::with_a_folder();
        // So the first deletion is that of `a`.
        world.bucket.delete("p/old/");
        let before = match known {
            true => world.walked("old").await,
            false => world.numbers("old"),
        };
        let mut open = None;
        if known {
            let (reader, _) = world.open(before[1]).await;
            let written = world.walk("old/b").await.ino.0;
            let (writer, _) = world.files.open(written, WRITE, BY).await.expect("open");
            world.fill(writer, 1, "b").await;
            open = Some((reader, writer));
        }
        world.bucket.fail_from("delete", [DOWN], []);
        assert_eq!(world.rename_top("old", "new").await, Err(Errno::EIO));
        let new = FILES.map(|file| world.stored_text(&format!("p/new/{file}")));
        let b = if known { "bb" } else { "b" };
        assert_eq!(new, ["a", b, "deep/c", "deep/er/d", "e"]);
        assert_eq!(world.numbers("new"), before, "{known}");
        assert_eq!(world.walked("new").await, before, "{known}");
        // The object that is left is another file.
        assert_eq!(world.there("old"), ["a"]);
        let left = world.walk("old/a").await.ino.0;
        assert!(!before.contains(&left), "{left}");
        if let Some((reader, writer)) = open {
            assert_eq!(world.text_of(reader).await, "a");
            world.fill(writer, 2, "bb").await;
            assert_eq!(world.files.flush(writer, 0).await, Ok(()));
            assert_eq!(world.stored_text("p/new/b"), "bbbb");
            assert!(world.bucket.object("p/old/b").is_none());
        }
    }
}

/// The bucket is asked for the versions of open files. That gets on, too.
#[tokio::test(start_paused = true)]
async fn a_rename_of_many_open_files_fails_no_program_that_waits_for_it() {
    let world = World::with_a_folder();
    let old = world.walk("old").await.ino.0;
    for file in FILES {
        let file = world.walk(&format!("old/{file}")).await;
        world.open(file.ino.0).await;
    }
    for file in FILES {
        world.purge(&format!("p/old/{file}")).await;
    }
    assert_eq!(world.look(ROOT_INO, "new").await, Err(Errno::ENOENT));
    let late = Fault::Latency(Duration::from_secs(9));
    world.bucket.set_faults([late]);
    let begin = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let made = world.files.mkdir(old, "sub".into(), MAKER).await;
        assert_eq!(made.map(drop), Ok(()));
    };
    let (renamed, ()) = tokio::join!(world.rename_top("old", "new"), begin);
    assert_eq!(renamed, Ok(()));
}
