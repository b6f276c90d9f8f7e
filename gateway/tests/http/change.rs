//! Objects that change, and origins that break, under their readers.

use std::time::Duration;

use crate::gateway::Gateway;
use tidegate_origin::OriginError;
use tidegate_origin::fake::Fault;

#[tokio::test]
async fn an_answer_not_begun_begins_again_on_the_new_version() {
    let gateway = Gateway::start().await;
    gateway.origin.put("k", vec![1; 20_000_000]);
    // The version is cached, and the last bytes are not.
    let got = gateway.get("/k", &[("range", "bytes=0-9")]).await;
    assert_eq!(got.status, 206);
    gateway.origin.put("k", vec![2; 20_000_000]);
    let got = gateway
        .get("/k", &[("range", "bytes=19990000-19999999")])
        .await;
    assert_eq!(got.status, 206);
    assert_eq!(got.bytes()[..], vec![2; 10_000]);
    gateway.end().await;
}

#[tokio::test]
async fn an_answer_begun_is_cut_off_and_never_mixed() {
    let gateway = Gateway::start().await;
    gateway.origin.put("k", vec![1; 20_000_000]);
    gateway.get("/k", &[("range", "bytes=0-99999")]).await;
    gateway.origin.put("k", vec![2; 20_000_000]);
    // The answer begins with cached bytes of the old version, and cannot end with them.
    let got = gateway.get("/k", &[]).await;
    assert_eq!(got.header("content-length"), "20000000");
    assert!(got.body.is_err(), "the client sees that it is broken");
    let again = gateway.get("/k", &[]).await;
    assert!(again.bytes().iter().all(|byte| *byte == 2));
    gateway.end().await;
}

#[tokio::test]
async fn a_body_that_fails_for_good_is_seen_to_be_broken() {
    let gateway = Gateway::start().await;
    gateway.origin.put("k", vec![1; 1_000_000]);
    gateway.origin.fail_next([Fault::Reset(200_000)]);
    gateway
        .origin
        .set_faults([Fault::Refuse(OriginError::Unavailable("down"))]);
    let got = gateway.get("/k", &[]).await;
    assert_eq!(got.status, 200);
    assert!(got.body.is_err(), "short of what its head promised");
    gateway.origin.set_faults([]);
    gateway.later(Duration::from_secs(1));
    let again = gateway.get("/k", &[]).await;
    assert_eq!(
        again.bytes().len(),
        1_000_000,
        "the failure is not remembered as data"
    );
    gateway.end().await;
}
