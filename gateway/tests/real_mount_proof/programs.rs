//! Programs that write in unusual ways.

use std::path::Path;

use crate::desk::{Desk, MIB, sample};
use crate::mount::run_in;

async fn must(folder: &Path, line: &[&str]) -> String {
    let output = run_in(folder, line).await;
    assert!(output.status.success(), "{line:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[tokio::test(flavor = "multi_thread")]
async fn qemu_img_converts_onto_the_mount() {
    let desk = Desk::start("").await;
    let local = tempfile::tempdir().expect("a folder");
    // A disk with data, holes and zeros.
    let mut disk = sample(1, 40 * MIB);
    disk[7 * MIB..11 * MIB].fill(0);
    std::fs::write(local.path().join("raw"), &disk).expect("written");
    must(local.path(), &["truncate", "-s", "100M", "raw"]).await;
    let image = desk.path("image.qcow2");
    let image = image.to_str().expect("text");
    let convert = ["qemu-img", "convert", "-O", "qcow2", "raw", image];
    must(local.path(), &convert).await;
    must(local.path(), &["qemu-img", "check", "-q", image]).await;
    let compare = ["qemu-img", "compare", "raw"];
    must(local.path(), &[&compare[..], &[image]].concat()).await;
    // The object in the bucket is that image.
    let stored = desk.stored("image.qcow2").await.expect("in the bucket");
    std::fs::write(local.path().join("stored.qcow2"), &stored).expect("written");
    must(local.path(), &["qemu-img", "check", "-q", "stored.qcow2"]).await;
    must(local.path(), &[&compare[..], &["stored.qcow2"]].concat()).await;
    desk.is("image.qcow2", &stored).await;
    // And back again, from the mount and on it.
    let back = ["qemu-img", "convert", "-O", "raw", image, "back"];
    must(local.path(), &back).await;
    must(local.path(), &["cmp", "raw", "back"]).await;
    let anew = [
        "qemu-img",
        "convert",
        "-c",
        "-O",
        "qcow2",
        "image.qcow2",
        "small.qcow2",
    ];
    desk.mounted.says(&anew).await;
    desk.mounted
        .says(&["qemu-img", "check", "-q", "small.qcow2"])
        .await;
    let compare = ["qemu-img", "compare", "image.qcow2", "small.qcow2"];
    desk.mounted.says(&compare).await;
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fio_verifies_what_it_wrote() {
    let desk = Desk::start("").await;
    let job = |name: &str, more: &[&str]| {
        let mut line = vec!["fio".to_owned(), format!("--name={name}")];
        let fixed = ["--size=24M", "--verify=crc32c", "--verify_fatal=1"];
        let words = fixed.iter().chain(more);
        line.extend(words.map(|&word| word.to_owned()));
        line.push(format!("--filename={name}"));
        line
    };
    for (name, more) in [
        (
            "order",
            &["--rw=write", "--bs=256k", "--ioengine=psync"][..],
        ),
        ("random", &["--rw=randwrite", "--bs=4k", "--ioengine=psync"]),
        ("mapped", &["--rw=randwrite", "--bs=4k", "--ioengine=mmap"]),
        ("mixed", &["--rw=randrw", "--bs=16k", "--ioengine=psync"]),
        (
            "direct",
            &[
                "--rw=randwrite",
                "--bs=64k",
                "--ioengine=psync",
                "--direct=1",
            ],
        ),
    ] {
        let line = job(name, more);
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        desk.mounted.says(&line).await;
        // Checks the object's bytes once more, without writing.
        let stored = desk.stored(name).await.expect("in the bucket");
        desk.is(name, &stored).await;
    }
    desk.stop().await;
}

/// `real_mount` tests these programs on read-only mounts; here they read files written through the
/// mount.
#[tokio::test(flavor = "multi_thread")]
async fn programs_read_a_tree_that_was_written_here() {
    let desk = Desk::start("").await;
    let local = tempfile::tempdir().expect("a folder");
    let sql = "create table t (n integer, s text); \
               with recursive c(n) as (select 1 union all select n + 1 from c where n < 5000) \
               insert into t select n, 'row ' || n from c; create index i on t (s);";
    must(local.path(), &["sqlite3", "base.sqlite", sql]).await;
    let sound = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i"];
    let sound = [&sound[..], &["sine=duration=2:sample_rate=8000", "a.wav"]].concat();
    must(local.path(), &sound).await;
    std::fs::create_dir_all(local.path().join("deep/er")).expect("made");
    for n in 0..30 {
        let text = format!("{n} {}\n", if n == 17 { "needle" } else { "hay" });
        std::fs::write(local.path().join(format!("deep/er/{n}")), text).expect("written");
    }
    let from = format!("{}/.", local.path().display());
    desk.mounted.says(&["cp", "-r", &from, "."]).await;
    let query = "select count(*), max(n) from t where s like 'row 4%'";
    let query = ["sqlite3", "-readonly", "base.sqlite", query];
    assert_eq!(desk.mounted.says(&query).await, "1111|4999\n");
    let count = |text: String| text.lines().count();
    let find = ["find", ".", "-type", "f", "-size", "+0"];
    assert_eq!(count(desk.mounted.says(&find).await), 32);
    let found = desk.mounted.says(&["grep", "-rl", "needle", "."]).await;
    assert_eq!(found, "./deep/er/17\n");
    let du = ["du", "-s", "-b", "deep/er/17"];
    assert_eq!(desk.mounted.says(&du).await, "10\tdeep/er/17\n");
    let whole = desk.mounted.says(&["du", "-s", "-k", "."]).await;
    let blocks = whole.split('\t').next().expect("a number");
    assert!(blocks.parse::<u64>().expect("a number") > 100, "{whole}");
    let probe = ["ffprobe", "-v", "error", "-of", "csv=p=0", "-show_entries"];
    let probe = [&probe[..], &["stream=codec_name,duration", "a.wav"]].concat();
    assert_eq!(desk.mounted.says(&probe).await, "pcm_s16le,2.000000\n");
    desk.stop().await;
}
