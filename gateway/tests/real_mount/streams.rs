//! Open files as streams of the console's API: an order to stop one ends its reads, and those of no other reader.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::Value;
use tidegate_origin::fake::Fault;
use tokio::time::{sleep, timeout};

use crate::fake_s3::FakeS3;
use crate::mount::{Mounted, blocking};
use crate::reading::sample;
use crate::{LONG, MIB};

const SIZE: usize = 48 * MIB;

/// The error of a read of a stopped file.
const EIO: i32 = 5;

/// Returns the first stream that `is_it`, once there is one.
async fn stream(mounted: &Mounted, is_it: impl Fn(&Value) -> bool) -> Value {
    let found = async {
        loop {
            let got = mounted.order(Method::GET, "/api/v1/streams").await;
            let list: Value = serde_json::from_slice(&got.body).expect("JSON");
            let streams = list["streams"].as_array().expect("a list");
            if let Some(found) = streams.iter().find(|one| is_it(one)) {
                return found.clone();
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, found).await.expect("it is seen")
}

async fn stop(mounted: &Mounted, stream: &Value) {
    let path = format!("/api/v1/streams/{}", stream["id"]);
    let got = mounted.order(Method::DELETE, &path).await;
    assert_eq!(got.status, 204, "{}", got.text());
}

/// Reads bytes of an open file off the threads that answer the kernel.
async fn read(file: &Arc<File>, at: usize, length: usize) -> std::io::Result<Vec<u8>> {
    let file = file.clone();
    blocking(move || {
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, at as u64).map(|()| bytes)
    })
    .await
}

async fn open(mounted: &Mounted, key: &str) -> Arc<File> {
    let path = mounted.path(key);
    Arc::new(blocking(move || File::open(path)).await.expect("it opens"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_file_fails_and_no_other_reader_notices() {
    let store = FakeS3::start().await;
    let truth = sample(1, SIZE);
    store.bucket.put("film", truth.clone());
    let mounted = Mounted::start(&store.settings(), "").await;
    let (stopped, other) = (open(&mounted, "film").await, open(&mounted, "film").await);
    let first = read(&stopped, 0, MIB).await.expect("read");
    assert!(first == truth[..MIB]);
    let far = 32 * MIB;
    let begun = read(&other, far, MIB).await.expect("read");
    assert!(begun == truth[far..far + MIB]);
    let is_far = |one: &Value| one["position"].as_u64() >= Some(far as u64);
    let seen = stream(&mounted, is_far).await;
    assert_eq!(
        (&seen["kind"], &seen["key"]),
        (&"mount".into(), &"film".into())
    );
    let near = stream(&mounted, |one| one["kind"] == "mount" && !is_far(one)).await;
    stop(&mounted, &near).await;
    // Far from what the kernel has kept of either reader.
    let error = read(&stopped, 16 * MIB, MIB).await.expect_err("stopped");
    assert_eq!(error.raw_os_error(), Some(EIO));
    let rest = read(&other, far, SIZE - far).await.expect("read");
    assert!(rest == truth[far..], "the other reader goes on");
    let again = open(&mounted, "film").await;
    let whole = read(&again, 0, SIZE).await.expect("read");
    assert!(whole == truth, "the file can be opened again");
    drop((stopped, other, again));
    mounted.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_waits_ends_when_its_file_is_stopped() {
    let store = FakeS3::start().await;
    store.bucket.put("film", sample(2, SIZE));
    // Not the deadline ends it.
    let mounted = Mounted::start(&store.settings(), "deadline = \"1h\"\n").await;
    let file = open(&mounted, "film").await;
    store.bucket.set_faults([Fault::Stall(1000)]);
    let begun = file.clone();
    let reader = tokio::spawn(async move { read(&begun, 0, MIB).await });
    let seen = stream(&mounted, |one| one["waiting"] == true).await;
    assert_eq!(seen["key"], "film");
    stop(&mounted, &seen).await;
    let ended = timeout(LONG, reader).await.expect("it ends");
    let error = ended.expect("no panic").expect_err("stopped");
    assert_eq!(error.raw_os_error(), Some(EIO));
    drop(file);
    store.bucket.set_faults([]);
    mounted.gateway.stop().await;
}
