//! Connections that break, hang or are refused: every wait ends.

use std::time::Duration;

use tidegate_origin::fake::Fault;
use tidegate_origin::s3::S3;
use tidegate_origin::settings::{Credentials, Deadlines};
use tidegate_origin::{Origin, OriginError, Phase, Settings};

use super::{bounded, content, drain, get, whole};
use crate::fake_s3::FakeS3;

#[tokio::test]
async fn bodies_that_break_are_carried_on_over_new_connections() {
    let server = FakeS3::start().await;
    let bytes: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    server.bucket.put("k", bytes.clone());
    let origin = whole(&server.settings()).await;
    // A reset loses the bytes in a socket's buffer, so the place where it cuts is not exact.
    for faults in [
        [Fault::Reset(100_000), Fault::Truncate(150_000)],
        [Fault::Truncate(1), Fault::Reset(0)],
    ] {
        for fault in faults {
            server.bucket.fail_next([fault]);
        }
        let answer = content(&*origin, get("k", bounded(1000, 299_998)))
            .await
            .expect("a head");
        let (read, error) = drain(answer).await;
        assert_eq!(error, None);
        assert!(read == bytes[1000..299_999], "the bytes differ");
    }
    assert_eq!(server.requests().len(), 6);
}

#[tokio::test]
async fn every_wait_ends() {
    let server = FakeS3::start().await;
    server.bucket.put("k", vec![1; 100_000]);
    let mut settings = server.settings();
    settings.retry.retries = 0;
    settings.deadlines.first_byte = Duration::from_millis(300);
    let origin = whole(&settings).await;
    server
        .bucket
        .fail_next([Fault::Latency(Duration::from_secs(3600))]);
    let late = content(&*origin, get("k", None)).await;
    assert_eq!(
        late.expect_err("late"),
        OriginError::Timeout(Phase::FirstByte)
    );

    settings.deadlines = Deadlines {
        stall: Duration::from_millis(300),
        ..Deadlines::default()
    };
    let origin = whole(&settings).await;
    server.bucket.fail_next([Fault::Stall(50_000)]);
    let answer = content(&*origin, get("k", None)).await.expect("a head");
    let (read, error) = drain(answer).await;
    assert!(read.len() <= 50_000);
    assert_eq!(error, Some(OriginError::Timeout(Phase::Stall)));
}

#[tokio::test]
async fn a_handshake_that_hangs_is_a_connection_too_slow() {
    // The kernel takes clients into the listener's queue, and the listener never accepts them.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let mut settings = Settings::new("silent", "media");
    let address = silent.local_addr().expect("bound");
    settings.endpoint = Some(format!("https://{address}"));
    settings.path_style = true;
    settings.credentials = Credentials::Anonymous;
    settings.deadlines.connect = Duration::from_millis(200);
    let origin = S3::new(&settings).await.expect("settings");
    let slow = content(&origin, get("k", None)).await;
    assert_eq!(
        slow.expect_err("no TLS"),
        OriginError::Timeout(Phase::Connect)
    );
}

#[tokio::test]
async fn an_origin_that_is_not_there_is_unavailable_at_once() {
    let server = FakeS3::start().await;
    let settings = server.settings();
    drop(server);
    let origin = S3::new(&settings).await.expect("settings");
    // The listener closes when its task is gone; until then connections are reset.
    let error = content(&origin, get("k", None)).await.expect_err("gone");
    assert_eq!(error, OriginError::Unavailable("not reached"));
    assert_eq!(
        origin.probe().await,
        Err(OriginError::Unavailable("not reached"))
    );
}
