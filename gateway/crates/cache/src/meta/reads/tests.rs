//! Reads of a table that hangs.

use std::sync::atomic::AtomicUsize;

use futures_util::future::join_all;

use super::*;

/// A table whose reads wait at a gate while it is closed.
#[derive(Debug, Default)]
struct Gated {
    closed: Mutex<bool>,
    opened: Condvar,
    asked: AtomicUsize,
}

impl Gated {
    fn set_closed(&self, closed: bool) {
        *self.closed.lock().expect("a lock") = closed;
        self.opened.notify_all();
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl RowSource for Gated {
    fn is_open(&self) -> bool {
        true
    }

    fn row(&self, key: &[u8]) -> Result<Option<Vec<u8>>, DbFailure> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let closed = self.closed.lock().expect("a lock");
        let _open = self.opened.wait_while(closed, |closed| *closed);
        match key {
            b"absent" => Ok(None),
            b"broken" => Err(DbFailure::io("EIO")),
            key => Ok(Some(key.to_vec())),
        }
    }
}

/// A deadline under paused time.
const TIMEOUT: Duration = Duration::from_millis(250);

/// So long that no read of a slow machine is late.
const LONG: Duration = Duration::from_secs(600);

fn reads(gated: &Arc<Gated>, timeout: Duration, pause: Duration) -> RowReads {
    let rows: Arc<dyn RowSource> = Arc::clone(gated) as _;
    RowReads::new(rows, MetaMetrics::default(), (timeout, pause)).expect("threads")
}

async fn read(reads: &RowReads, key: &str) -> StoredRow {
    reads.read(key.into(), |_| {}).await
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < LONG, "{what}");
        thread::yield_now();
    }
}

/// Reads that began before the hang was noticed wait for one deadline together. Later ones wait for
/// nothing, and do not reach the table.
#[tokio::test(start_paused = true)]
async fn a_table_that_hangs_is_waited_for_once() {
    let gated = Arc::new(Gated::default());
    gated.set_closed(true);
    let reads = reads(&gated, TIMEOUT, Duration::from_secs(3600));
    let began = tokio::time::Instant::now();
    let rows = join_all((0..100).map(|_| read(&reads, "key"))).await;
    assert!(rows.iter().all(|row| *row == StoredRow::Unknown));
    assert_eq!(began.elapsed(), TIMEOUT);
    eventually("all permits are taken", || gated.asked() == MAX_READS);
    assert!(reads.note().is_some_and(|note| note.contains("250 ms")));
    assert_eq!(reads.shared.metrics.reads_up.get(), 0);
    let began = tokio::time::Instant::now();
    let rows = join_all((0..1000).map(|_| read(&reads, "key"))).await;
    assert!(rows.iter().all(|row| *row == StoredRow::Unknown));
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(gated.asked(), MAX_READS);
    gated.set_closed(false);
}

#[tokio::test]
async fn a_table_that_is_back_is_read_again_after_a_probe() {
    let gated = Arc::new(Gated::default());
    let reads = reads(&gated, LONG, Duration::ZERO);
    assert_eq!(read(&reads, "key").await, StoredRow::Found(b"key".to_vec()));
    assert_eq!(read(&reads, "absent").await, StoredRow::Absent);
    gated.set_closed(true);
    // The deadline passes at once.
    tokio::time::pause();
    assert_eq!(read(&reads, "key").await, StoredRow::Unknown);
    tokio::time::resume();
    assert_eq!(reads.shared.metrics.hung.get(), 1);
    // One probe at a time: it hangs as well.
    eventually("it is probed", || gated.asked() == 4);
    assert_eq!(read(&reads, "key").await, StoredRow::Unknown);
    assert_eq!(gated.asked(), 4);

    gated.set_closed(false);
    // The gauges follow the note, on another thread.
    let metrics = &reads.shared.metrics;
    eventually("it is read again", || {
        reads.note().is_none() && metrics.hung.get() == 0 && metrics.reads_up.get() == 1
    });
    assert_eq!(read(&reads, "key").await, StoredRow::Found(b"key".to_vec()));
    assert_eq!(reads.shared.metrics.unknown.get(), 2);
}

/// A failure is reported to the owner, and is not "no row".
#[tokio::test]
async fn a_failure_is_told_and_leaves_the_row_unknown() {
    let gated = Arc::new(Gated::default());
    let reads = reads(&gated, LONG, Duration::ZERO);
    let (tell, told) = std::sync::mpsc::channel();
    let row = reads
        .read(b"broken".to_vec(), move |failure| {
            tell.send(failure.to_string()).expect("heard");
        })
        .await;
    assert_eq!(row, StoredRow::Unknown);
    assert_eq!(told.recv().expect("told"), "EIO");
    assert!(reads.note().is_none(), "an error in time is an answer");
}
