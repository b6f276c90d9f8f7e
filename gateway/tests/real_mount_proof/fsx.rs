//! The file system exerciser: random writes, cuts, mappings, closes and reads of one file, each read compared with the
//! written bytes. It is `$TIDEGATE_FSX`, or `fsx` in the path (`cargo install fsx`).
//!
//! `TIDEGATE_FSX_OPS` sets the number of operations, `TIDEGATE_FSX_SEED` the choice.

use crate::count;
use crate::desk::Desk;
use crate::mount::run_in;

/// All operations.
const WEIGHTS: &str = "
[weights]
close_open = 1
invalidate = 1
mapread = 10
mapwrite = 10
read = 10
write = 10
truncate = 10
fsync = 0.2
fdatasync = 0.2
posix_fallocate = 1
punch_hole = 1
sendfile = 1
posix_fadvise = 1
copy_file_range = 1
";

/// Runs fsx, and compares the file at the end with the object in the bucket.
async fn exercise(head: &str, operations: u64) {
    let program = std::env::var("TIDEGATE_FSX").unwrap_or_else(|_| "fsx".to_owned());
    let desk = Desk::start("").await;
    let local = tempfile::tempdir().expect("a folder");
    std::fs::write(local.path().join("fsx.toml"), format!("{head}{WEIGHTS}")).expect("written");
    let (file, operations) = (desk.path("file"), operations.to_string());
    let seed = count("TIDEGATE_FSX_SEED", 5).to_string();
    let line = [
        &*program,
        "-f",
        "fsx.toml",
        "-P",
        ".",
        "-N",
        &operations,
        "-S",
        &seed,
        file.to_str().expect("text"),
    ];
    let ended = run_in(local.path(), &line).await;
    let said = String::from_utf8_lossy(&ended.stdout);
    let erred = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "seed {seed}: {said}{erred}");
    assert!(said.contains("All operations completed"), "{said}{erred}");
    let read = std::fs::read(&file).expect("read");
    desk.is("file", &read).await;
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fsx_finds_nothing_in_a_small_file() {
    exercise("", count("TIDEGATE_FSX_OPS", 2000)).await;
}

/// Up to three parts, each operation up to 1 MiB, and mapped pages written back whenever the kernel chooses.
#[tokio::test(flavor = "multi_thread")]
async fn fsx_finds_nothing_in_a_file_of_several_parts() {
    let head = "flen = 41943040\nnomsyncafterwrite = true\n[opsize]\nmax = 1048576\n";
    exercise(head, count("TIDEGATE_FSX_OPS", 2000) / 10).await;
}
