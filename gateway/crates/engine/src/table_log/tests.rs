use super::*;

/// A file that notes what is done to it, and fails while a call is among `failing`.
#[derive(Default, Clone)]
struct Notes {
    notes: Arc<Mutex<Vec<String>>>,
    failing: Arc<Mutex<Vec<&'static str>>>,
}

impl Notes {
    fn note(&self, call: &'static str, rows: &[u32]) -> io::Result<()> {
        self.notes.lock().recover().push(format!("{call} {rows:?}"));
        match self.failing.lock().recover().contains(&call) {
            true => Err(io::Error::other("the disk failed")),
            false => Ok(()),
        }
    }

    fn fails(&self, calls: &[&'static str]) {
        *self.failing.lock().recover() = calls.to_vec();
    }

    fn taken(&self) -> Vec<String> {
        mem::take(&mut *self.notes.lock().recover())
    }
}

impl TableFile for Notes {
    type Row = u32;

    fn append(&mut self, rows: &[u32], _: &dyn Fn() -> Vec<u32>) -> io::Result<()> {
        self.note("append", rows)
    }

    fn renew(&mut self, all: &[u32]) -> io::Result<()> {
        self.note("renew", all)
    }

    fn forget(&mut self, rows: &[u32], are_all: bool) -> io::Result<()> {
        let call = if are_all { "forget all but" } else { "forget" };
        self.note(call, rows)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.note("sync", &[])
    }
}

#[tokio::test(start_paused = true)]
async fn a_sync_covers_all_rows_and_fails_with_its_disk() {
    let (log, file) = (TableLog::new("nothing outlives"), Notes::default());
    assert!(log.sync(Vec::new).await.is_err(), "there is no file");
    log.attach(Ok(file.clone()));
    log.push(1);
    log.sync(Vec::new).await.expect("synced");
    log.push(2);
    log.write_out(Vec::new).await;
    assert_eq!(file.taken(), ["append [1]", "sync []", "append [2]"]);
    file.fails(&["sync"]);
    assert!(log.sync(Vec::new).await.is_err());
    file.fails(&[]);
    log.sync(|| vec![1, 2]).await.expect("synced");
    assert_eq!(file.taken(), ["sync []", "renew [1, 2]", "sync []"]);
}

/// A disk that was full once takes all rows when it has room again, and none of the old ones is found until then.
#[tokio::test(start_paused = true)]
async fn a_file_that_has_failed_is_written_anew() {
    let (log, file) = (TableLog::new("nothing outlives"), Notes::default());
    log.attach(Ok(file.clone()));
    file.fails(&["append"]);
    log.push(1);
    log.write_out(|| vec![1]).await;
    assert_eq!(file.taken(), ["append [1]", "renew [1]"]);
    assert!(!log.is_behind(), "only its end was torn");
    file.fails(&["append", "renew"]);
    for row in [2, 3] {
        log.push(row);
        log.write_out(move || vec![row]).await;
        log.write_out(move || vec![row]).await;
        assert!(log.is_behind() && !log.is_stale());
    }
    let tried = ["append [2]", "renew [2]", "forget [2]", "forget [3]"];
    assert_eq!(file.taken(), tried, "it is not written anew at once");
    file.fails(&["append", "renew", "forget"]);
    log.push(4);
    log.write_out(|| vec![3, 4]).await;
    assert!(log.is_behind() && log.is_stale());
    file.fails(&["append", "renew"]);
    assert!(log.sync(|| vec![3]).await.is_err());
    assert!(!log.is_stale());
    let tried = ["forget [4]", "renew [3]", "forget all but [3]"];
    assert_eq!(
        file.taken(),
        tried,
        "one that is not forgotten is sought again"
    );
    file.fails(&[]);
    log.sync(|| vec![3]).await.expect("room again");
    assert!(!log.is_behind() && !log.is_stale());
    log.push(5);
    log.write_out(|| vec![3, 5]).await;
    assert_eq!(file.taken(), ["renew [3]", "sync []", "append [5]"]);
}

/// Also if nothing more changes.
#[tokio::test(start_paused = true)]
async fn a_full_disk_is_tried_with_growing_pauses_until_it_has_room() {
    let (log, file) = (TableLog::new("nothing outlives"), Notes::default());
    log.attach(Ok(file.clone()));
    file.fails(&["append", "renew"]);
    let start = Instant::now();
    log.push(1);
    log.write_out(|| vec![1]).await;
    let tried = async || {
        while !file.taken().iter().any(|call| call == "renew [1]") {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        start.elapsed().as_secs()
    };
    let mut times = Vec::new();
    for _ in 0..9 {
        times.push(tried().await);
    }
    assert_eq!(times, [0, 1, 3, 7, 15, 31, 63, 123, 183]);
    file.fails(&[]);
    tried().await;
    while log.is_behind() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(2 * MAX_PAUSE).await;
    assert!(file.taken().is_empty(), "it has all rows");
}

/// Another user of the machine may have put it there.
#[test]
fn no_link_is_followed() {
    let (folder, elsewhere) = (tempfile::tempdir(), tempfile::tempdir());
    let (folder, elsewhere) = (folder.expect("a folder"), elsewhere.expect("a folder"));
    let target = elsewhere.path().join("target");
    fs::write(&target, "not ours").expect("written");
    let link = |name: &str| {
        let link = folder.path().join(name);
        std::os::unix::fs::symlink(&target, link).expect("a link");
    };
    link("table");
    let opened = open(folder.path(), "table").expect_err("a link");
    assert!(
        opened.to_string().contains("is a symbolic link"),
        "{opened}"
    );
    // A new file takes the place of links.
    link("table.new");
    replace(folder.path(), "table", b"rows").expect("replaced");
    let found = fs::symlink_metadata(folder.path().join("table")).expect("there");
    assert!(found.is_file());
    assert_eq!(fs::read(&target).expect("there"), b"not ours");
}
