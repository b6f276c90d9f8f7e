use super::*;
use proptest::prelude::*;

const LIMITS: Limits = Limits {
    window: 8 << 20,
    streams: 4,
};

fn file(n: usize, size: u64) -> SmallFile {
    (format!("f/{n:06}").into(), size)
}

/// A folder of endless files, and a reader that goes through it.
struct FolderReader {
    run: FolderRun,
    size: u64,
    asked: Vec<Arc<str>>,
}

impl FolderReader {
    fn new(size: u64) -> Self {
        let mut reader = Self {
            run: FolderRun::new(file(0, size)),
            size,
            asked: Vec::new(),
        };
        reader.extend();
        reader
    }

    fn extend(&mut self) {
        let (count, after) = self.run.missing_names();
        let after: usize = after[2..].parse().expect("a number");
        let size = self.size;
        self.run
            .extend((after + 1..=after + count).map(|n| file(n, size)));
        let asked = self.run.take_next(LIMITS);
        self.asked.extend(asked.into_iter().map(|(path, _)| path));
    }

    fn take(&mut self, n: usize) -> bool {
        let belongs = self.run.record_read(&file(n, 0).0);
        self.extend();
        belongs
    }
}

#[test]
fn the_window_is_earned_and_each_is_asked_for_once() {
    let mut reader = FolderReader::new(1000);
    for (n, asked) in [(1, 0), (2, 3), (3, 5), (4, 7)] {
        assert!(reader.take(n));
        assert_eq!(reader.asked.len(), asked, "{n}");
    }
    for n in 5..200 {
        assert!(reader.take(n));
    }
    let expected: Vec<_> = (3..200 + 64).map(|n| file(n, 0).0).collect();
    assert_eq!(reader.asked, expected);
}

#[test]
fn the_window_ends_with_the_folder_until_the_run_has_left_one() {
    let file = |n: usize| (Arc::from(format!("f/{}/{n:02}", n / 4)), 1);
    let mut run = FolderRun::new(file(0));
    run.extend((1..40).map(file));
    let mut asked = Vec::new();
    for n in 1..9 {
        assert!(run.record_read(&file(n).0));
        asked.push(run.take_next(LIMITS).len());
    }
    // Of the first folder one is left. The second one is left for the third; from its first file on, all may come.
    assert_eq!(asked, [0, 1, 0, 5, 2, 2, 2, 2]);
}

#[test]
fn scattered_reads_start_nothing() {
    let mut reader = FolderReader::new(1000);
    assert!(!reader.take(100) && !reader.take(50));
    assert!(reader.take(0), "the same once more");
    assert!(reader.take(4), "near enough");
    assert!(reader.asked.is_empty());
}

#[test]
fn what_is_passed_over_narrows_it_until_it_ends() {
    let mut reader = FolderReader::new(1000);
    for n in (0..1000).step_by(4).skip(1) {
        assert!(reader.take(n));
    }
    // 250 were read.
    assert!(reader.asked.len() < 250 / 3, "{}", reader.asked.len());
}

#[test]
fn several_threads_go_through_it_together() {
    let mut reader = FolderReader::new(1000);
    for n in 1..10 {
        assert!(reader.take(n));
    }
    for four in (10..210).step_by(4) {
        for n in [four + 3, four + 1, four, four + 2] {
            assert!(reader.take(n));
        }
    }
    assert_eq!((reader.run.passed.files, reader.run.read.files), (0, 210));
}

#[test]
fn bytes_bound_it_too_and_zero_means_none() {
    let mut reader = FolderReader::new(100 << 10);
    for n in 1..3 {
        reader.take(n);
    }
    // Three were read.
    assert_eq!(reader.asked.len(), 3);
    for n in 3..400 {
        reader.take(n);
    }
    assert_eq!(reader.asked.len(), 397 + 64);
    let none = Limits {
        window: 0,
        ..LIMITS
    };
    reader.run.extend([file(1000, 1)]);
    assert!(reader.run.take_next(none).is_empty());
}

/// Reads files of one byte in order, all of which are looked up and requested as early as they may be.
fn passed_through(files: usize) -> FolderReader {
    let mut reader = FolderReader::new(1);
    for n in 1..files {
        assert!(reader.take(n));
    }
    reader
}

#[test]
fn a_file_that_was_fetched_and_skipped_costs_four_until_it_is_read() {
    // Ten files were read, and the next ten requested.
    let mut reader = passed_through(10);
    assert_eq!((reader.run.window(), reader.run.asked), (10, 10));
    assert!(reader.take(11));
    assert_eq!((reader.run.window(), reader.run.asked), (7, 8));
    assert!(reader.take(10), "late");
    assert_eq!((reader.run.window(), reader.run.asked), (12, 12));
    for n in [10, 11, 0] {
        assert!(reader.take(n), "again");
        assert_eq!(reader.run.window(), 12, "{n}");
    }
}

#[test]
fn a_file_that_was_skipped_before_it_was_fetched_costs_nothing() {
    let mut reader = FolderReader::new(1);
    assert!(!reader.take(5), "too many are skipped");
    assert!(reader.take(4));
    assert_eq!(reader.run.window(), 0);
    assert!(reader.take(5));
    assert_eq!((reader.run.window(), reader.run.asked), (3, 3));
    assert!(reader.take(1), "late");
    assert_eq!(reader.run.window(), 3, "it was not fetched");
}

#[test]
fn a_read_may_be_late_by_fifteen_files() {
    let mut reader = passed_through(21);
    // The newest is the file 20.
    assert!(reader.take(5));
    assert!(!reader.take(4));
}

/// Three files of a byte were read. The next files have these sizes.
#[test]
fn few_bytes_may_be_fetched_ahead_of_a_reader_of_few() {
    let first = FIRST_BYTES;
    for (window, sizes, fetched) in [
        (8 << 20, [first, 1, 1], 1),
        (8 << 20, [first + 1, 1, 1], 0),
        (8 << 20, [first - 2, 1, 1], 3),
        (8 << 20, [first - 2, 1, 2], 2),
        (first - 1, [first - 1, 0, 1], 2),
        (first - 1, [first, 1, 1], 0),
    ] {
        let mut run = FolderRun::new(file(0, 1));
        run.extend((1..3).map(|n| file(n, 1)));
        assert!(run.record_read("f/000001") && run.record_read("f/000002"));
        run.extend((3..).zip(sizes).map(|(n, size)| file(n, size)));
        let limits = Limits { window, ..LIMITS };
        assert_eq!(run.take_next(limits).len(), fetched, "{window}, {sizes:?}");
        assert_eq!(run.take_next(limits), [], "each is returned once");
    }
}

#[test]
fn bytes_that_were_fetched_and_skipped_cost_four_times_as_many_read_ones() {
    // Ten files of 1,000 bytes were read, and the next one has 2,750 or more.
    for (size, fetched) in [(2750, true), (2751, false)] {
        let mut run = FolderRun::new(file(0, 1000));
        run.extend((1..10).map(|n| file(n, 1000)));
        for n in 1..10 {
            assert!(run.record_read(&file(n, 0).0));
        }
        run.extend([file(10, size), file(11, 1000), file(12, 1)]);
        assert_eq!(run.take_next(LIMITS).len(), 3);
        assert!(run.record_read("f/000011"));
        run.extend([file(13, 1)]);
        assert_eq!(run.take_next(LIMITS).len(), usize::from(fetched), "{size}");
        assert!(run.record_read("f/000010"), "late");
        run.extend([file(14, 1)]);
        assert_eq!(
            run.take_next(LIMITS).len(),
            2 - usize::from(fetched),
            "{size}"
        );
    }
}

proptest! {
    /// Checks the module's bounds.
    #[test]
    fn what_is_never_read_stays_below_what_is(
        steps in prop::collection::vec((1usize..8, 0u64..3), 1..300),
    ) {
        let mut at = 0;
        let mut reader = FolderReader::new(1);
        let mut read = std::collections::HashMap::from([(file(0, 1).0, 1u64)]);
        let mut asked = std::collections::HashMap::new();
        for (step, scale) in steps {
            at += step;
            reader.size = [1, 10 << 10, 1 << 20][scale as usize];
            let known = reader.run.next.iter().find(|(path, _)| *path == file(at, 0).0);
            let size = known.map(|(_, size)| *size);
            if !reader.run.record_read(&file(at, 0).0) {
                break;
            }
            read.insert(file(at, 0).0, size.unwrap_or(0));
            let (count, after) = reader.run.missing_names();
            let after: usize = after[2..].parse().expect("a number");
            let size = reader.size;
            reader.run.extend((after + 1..=after + count).map(|n| file(n, size)));
            asked.extend(reader.run.take_next(LIMITS));
            let wasted: Vec<u64> = asked
                .iter()
                .filter(|(path, _)| !read.contains_key(*path))
                .map(|(_, size)| *size)
                .collect();
            prop_assert!(wasted.len() <= read.len());
            let (wasted, read) = (wasted.iter().sum::<u64>(), read.values().sum::<u64>());
            prop_assert!(wasted <= read + FIRST_BYTES, "{wasted} of {read}");
        }
    }
}
