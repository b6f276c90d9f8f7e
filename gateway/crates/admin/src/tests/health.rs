//! Health, readiness and metrics.

use super::*;

#[tokio::test]
async fn health_readiness_and_metrics() {
    let t = start(None).await;
    assert_eq!(t.status("GET /healthz", "", "").await, 200);
    assert_eq!(t.status("HEAD /healthz", "", "").await, 200);
    assert_eq!(t.status("GET /readyz", "", "").await, 200);

    let note = "cache disk /x: nothing is written to it".to_owned();
    *t.told.notes.lock().expect("not poisoned") = vec![note];
    let answer = t.ask("GET /readyz", "", "").await;
    assert_eq!(status(&answer), 200);
    assert!(answer.ends_with("\r\n\r\nready\nnote: cache disk /x: nothing is written to it\n"));
    t.told.notes.lock().expect("not poisoned").clear();

    let lines = ["origin media: refused", "disk 0: loading"].map(String::from);
    *t.told.missing.lock().expect("not poisoned") = lines.to_vec();
    let answer = t.ask("GET /readyz", "", "").await;
    assert_eq!(status(&answer), 503);
    assert!(answer.ends_with("\r\n\r\norigin media: refused\ndisk 0: loading\n"));
    let work = ["disk 0: loading", "sending the spool: 3 of 40"].map(String::from);
    *t.told.work.lock().expect("not poisoned") = work.to_vec();
    let answer = t.ask("GET /readyz", "", "").await;
    let lines = "origin media: refused\ndisk 0: loading\nsending the spool: 3 of 40\n";
    assert!(answer.ends_with(&format!("\r\n\r\n{lines}")), "{answer}");
    assert_eq!(t.status("GET /healthz", "", "").await, 200);

    let answer = t.ask("GET /metrics", "", "").await;
    assert!(answer.contains("\r\ncontent-type: application/openmetrics-text; version=1.0.0;"));
    assert!(answer.ends_with("\r\n\r\ntidegate_up 1\n# eof\n"));
}

#[tokio::test]
async fn a_draining_gateway_is_not_ready() {
    let t = start(None).await;
    t.draining.cancel();
    let answer = t.ask("GET /readyz", "", "").await;
    assert_eq!(status(&answer), 503);
    assert!(answer.contains("draining"));
}

#[tokio::test(start_paused = true)]
async fn readiness_answers_even_if_the_check_hangs() {
    let told = Arc::new(Told::default());
    *told.missing.lock().expect("not poisoned") = vec!["hang".to_owned()];
    let admin = Admin {
        control: told,
        ..running(None).admin
    };
    let answer = readyz(State(admin)).await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
}
