//! The text of `/metrics` after a few requests.

use std::time::Duration;

use futures_util::poll;

use tidegate_plan::Client;

use super::*;
use crate::cause::run_for;
use crate::client::run_for_client;
use crate::fake::{FakeOrigin, Fault};
use crate::metrics::Metrics;
use crate::metrics::tests::shown;
use crate::settings::Settings;
use crate::stack;
use crate::testing::{bounded, content, drain, get, key, sample};
use crate::{Guard, Priority};

#[tokio::test(start_paused = true)]
async fn requests_bytes_and_troubles_are_counted() {
    let fake = FakeOrigin::new().with_frames(100);
    fake.put("k", sample(1000));
    let metrics = Metrics::default();
    let mut settings = Settings::new("media", "bucket");
    settings.breaker.failures = 1;
    settings.breaker.span = Duration::ZERO;
    let origin = stack(Arc::new(fake.clone()), &settings, &metrics);

    fake.fail_next([Fault::Reset(300)]);
    let answer = content(&*origin, get(bounded(0, 899)))
        .await
        .expect("a head");
    assert_eq!(drain(answer.body).await.0.len(), 900);
    assert!(origin.head(&key("none")).await.is_err());
    let running = content(&*origin, get(None)).await.expect("a head");
    fake.fail_next([Fault::Latency(Duration::from_secs(1))]);
    let mut given_up = origin.get(get(None));
    assert!(poll!(&mut given_up).is_pending());
    drop(given_up);
    fake.fail_next([Fault::Refuse(OriginError::Unavailable("down"))]);
    assert!(origin.get(get(None)).await.is_err());

    let text = shown(&metrics);
    for line in [
        r#"tidegate_origin_requests_total{origin="media",kind="get",result="content",cause="demand"} 3"#,
        r#"tidegate_origin_requests_total{origin="media",kind="get",result="abandoned",cause="demand"} 1"#,
        r#"tidegate_origin_requests_total{origin="media",kind="get",result="unavailable",cause="demand"} 1"#,
        r#"tidegate_origin_requests_total{origin="media",kind="head",result="not_found",cause="write"} 1"#,
        r#"tidegate_origin_received_bytes_total{origin="media",cause="demand"} 900"#,
        r#"tidegate_origin_broken_bodies_total{origin="media",reason="unavailable"} 1"#,
        r#"tidegate_origin_retries_total{origin="media"} 2"#,
        r#"tidegate_origin_breaker_open{origin="media"} 1"#,
        r#"tidegate_origin_requests_running{origin="media",priority="demand"} 1"#,
        r#"tidegate_origin_requests_queued{origin="media",priority="ahead"} 0"#,
        r#"tidegate_origin_first_byte_seconds_count{origin="media"} 3"#,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert_eq!(metrics.received("media"), 900);
    drop(running);
    let line = r#"tidegate_origin_requests_running{origin="media",priority="demand"} 0"#;
    assert!(shown(&metrics).contains(line));
}

#[tokio::test(start_paused = true)]
async fn a_request_is_counted_by_its_cause() {
    let fake = FakeOrigin::new();
    fake.put("k", sample(10));
    let metrics = Metrics::default();
    let settings = Settings::new("media", "bucket");
    let origin = stack(Arc::new(fake.clone()), &settings, &metrics);
    let read = async |priority| {
        let get = Get {
            priority,
            ..get(None)
        };
        let answer = content(&*origin, get).await.expect("a head");
        assert_eq!(drain(answer.body).await.0.len(), 10);
    };
    let list = || List {
        prefix: String::new(),
        delimiter: false,
        after: None,
        limit: 1,
    };
    let key = key("k");

    read(Priority::Ahead).await;
    read(Priority::Spare).await;
    run_for(Cause::Hedge, read(Priority::Demand)).await;
    let warm = run_for(Cause::Revalidate, read(Priority::Ahead));
    run_for_client(Client::Warm, warm).await;
    assert!(origin.list(list()).await.is_ok());
    assert!(run_for(Cause::Write, origin.list(list())).await.is_ok());
    assert!(run_for(Cause::Revalidate, origin.head(&key)).await.is_ok());
    assert!(origin.peek(&key).await.is_ok());
    assert!(origin.probe().await.is_ok());
    let delete = origin.writing().delete(&key, Guard::None);
    assert!(delete.await.is_ok());

    let text = shown(&metrics);
    for (kind, result, cause) in [
        ("get", "content", "ahead"),
        ("get", "content", "folder"),
        ("get", "content", "hedge"),
        ("get", "content", "warm"),
        ("list", "content", "names"),
        ("list", "content", "write"),
        ("head", "content", "revalidate"),
        ("head", "content", "names"),
        ("probe", "content", "probe"),
        ("delete", "written", "write"),
    ] {
        let labels = format!(r#"origin="media",kind="{kind}",result="{result}",cause="{cause}""#);
        let line = format!("tidegate_origin_requests_total{{{labels}}} 1");
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
    for cause in ["ahead", "folder", "hedge", "warm"] {
        let labels = format!(r#"origin="media",cause="{cause}""#);
        let line = format!("tidegate_origin_received_bytes_total{{{labels}}} 10");
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
}
