use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

/// The bound of a wait that ends by itself.
const LONG: Duration = Duration::from_secs(300);

/// A writer that hands on each write, and then does what the test says.
struct Script {
    written: Sender<String>,
    /// The bytes that each write takes at most.
    results: Receiver<io::Result<usize>>,
}

impl Write for Script {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(bytes).into_owned();
        let _ = self.written.send(line);
        // Without a word of the test it stands still.
        let result = self.results.recv().expect("a test that goes on");
        result.map(|most| most.min(bytes.len()))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A queue, the lines that come to its reader, and the way to say the result of each write.
struct Log {
    queue: LineQueue,
    written: Receiver<String>,
    results: Sender<io::Result<usize>>,
}

impl Log {
    fn new() -> Self {
        let queue = LineQueue::default();
        let ((to_test, written), (results, from_test)) = (channel(), channel());
        let out = Script {
            written: to_test,
            results: from_test,
        };
        let teller = queue.clone();
        let tell = move |lines| teller.put(format!("dropped {lines}\n").as_bytes());
        queue.start(out, tell).expect("a thread");
        Self {
            queue,
            written,
            results,
        }
    }

    fn put(&self, line: &str) {
        self.queue.put(line.as_bytes());
    }

    /// Returns the line that is being written now.
    fn next(&self) -> String {
        self.written.recv_timeout(LONG).expect("a line")
    }

    fn takes(&self) {
        self.takes_at_most(usize::MAX);
    }

    fn takes_at_most(&self, bytes: usize) {
        self.results.send(Ok(bytes)).expect("it waits");
    }

    fn fails(&self) {
        let full = io::ErrorKind::StorageFull.into();
        self.results.send(Err(full)).expect("it waits");
    }
}

#[test]
fn lines_are_written_in_their_order_before_a_flush_ends() {
    let log = Log::new();
    for line in ["a\n", "b\n", "c\n"] {
        log.put(line);
        log.takes();
    }
    log.queue.flush(LONG);
    let lines: Vec<String> = log.written.try_iter().collect();
    assert_eq!(lines, ["a\n", "b\n", "c\n"]);
    assert_eq!(log.queue.dropped(), 0);
}

#[test]
fn lines_that_cannot_be_written_are_counted_and_told_of_once_others_are() {
    let log = Log::new();
    for line in ["a\n", "b\n"] {
        log.put(line);
        assert_eq!(log.next(), line);
        log.fails();
        log.queue.flush(LONG);
    }
    assert_eq!(log.queue.dropped(), 2);
    log.put("c\n");
    assert_eq!(log.next(), "c\n");
    log.takes();
    assert_eq!(log.next(), "dropped 2\n");
    log.takes();
    log.put("d\n");
    assert_eq!(log.next(), "d\n");
}

#[test]
fn a_line_after_a_torn_one_begins_anew() {
    let log = Log::new();
    log.put("abcd\n");
    assert_eq!(log.next(), "abcd\n");
    log.takes_at_most(2);
    assert_eq!(log.next(), "cd\n");
    log.fails();
    log.queue.flush(LONG);
    for line in ["lost\n", "e\n"] {
        log.put(line);
        assert_eq!(log.next(), "\n", "the torn line ends");
        match line {
            "lost\n" => log.fails(),
            _ => log.takes(),
        }
    }
    assert_eq!(log.next(), "e\n");
    log.takes();
    assert_eq!(log.next(), "dropped 2\n");
    log.takes();
}

#[test]
fn a_reader_that_stands_still_costs_lines_and_no_wait() {
    const LINES: u64 = 3 * (MAX_WAITING as u64) / 100;
    let log = Log::new();
    log.put("first\n");
    assert_eq!(log.next(), "first\n");
    let line = format!("{}\n", "x".repeat(99));
    for _ in 0..LINES {
        log.put(&line);
    }
    let kept = MAX_WAITING as u64 / 100;
    assert_eq!(log.queue.dropped(), LINES - kept);
    // The flush of a log that hangs ends as well.
    log.queue.flush(Duration::from_millis(1));
    log.takes();
    for _ in 0..kept {
        assert_eq!(log.next(), line);
        log.takes();
    }
    assert_eq!(log.next(), format!("dropped {}\n", LINES - kept));
}

#[test]
fn a_line_longer_than_the_queue_is_dropped() {
    let log = Log::new();
    log.put(&"x".repeat(MAX_WAITING + 1));
    assert_eq!(log.queue.dropped(), 1);
    assert_eq!(log.next(), "dropped 1\n");
}
