//! An orderly end while a program writes. Programs such as PHP ignore a failed close: the end must not make one fail.

use std::fs::File;
use std::io::Write as _;

use tokio::time::timeout;

use crate::close;
use crate::desk::{LONG, is_mounted, stored, until};
use crate::gate::behind_a_gate;
use crate::mount::{Mounted, blocking};

#[tokio::test(flavor = "multi_thread")]
async fn an_orderly_end_waits_for_a_close_under_way() {
    let (_minio, bucket, gate, settings) = behind_a_gate().await;
    let spool = tempfile::tempdir().expect("a folder");
    let lines = format!(
        "writable = true\ndeadline = \"1h\"\n[http]\ndrain = \"1h\"\n[spool]\npath = \"{}\"\n",
        spool.path().display()
    );
    let mounted = Mounted::start(&settings, &lines).await;
    let path = mounted.path("file");
    let file = blocking(move || {
        let mut file = File::create(path).expect("created");
        file.write_all(b"whole").expect("written");
        file
    })
    .await;
    gate.hold_uploads();
    let closed = tokio::spawn(blocking(move || close(file)));
    gate.holds().await;
    let Mounted { gateway, folder } = mounted;
    let stopped = tokio::spawn(gateway.stop());
    let path = folder.path();
    until("it is unmounted", async || !is_mounted(&path)).await;
    assert!(!closed.is_finished(), "the end fails it");
    gate.open();
    let closed = timeout(LONG, closed).await.expect("in time");
    closed.expect("no panic").expect("closed");
    let stopped = timeout(LONG, stopped).await.expect("in time");
    stopped.expect("no panic");
    assert_eq!(
        stored(&bucket, "file").await.as_deref(),
        Some(&b"whole"[..])
    );
}
