//! Tests of `trace`: parents, bounds, the queue, and the bytes that a collector reads.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as ProtoValue;
use opentelemetry_proto::tonic::trace::v1::Span as ProtoSpan;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use prost::Message as _;
use tokio::sync::Notify;

use super::export::Collector;
use super::otlp::Resource;
use super::*;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A collector that keeps what it is sent; it takes nothing while it is told so.
#[derive(Clone, Default)]
struct Kept(Arc<KeptBatches>);

#[derive(Default)]
struct KeptBatches {
    batches: Mutex<Vec<ExportTraceServiceRequest>>,
    refuses: std::sync::atomic::AtomicBool,
    slow: Option<Duration>,
    arrived: Notify,
}

impl Collector for Kept {
    async fn deliver(&self, batch: Vec<u8>) -> bool {
        if let Some(time) = self.0.slow {
            tokio::time::sleep(time).await;
        }
        let batch = ExportTraceServiceRequest::decode(&*batch).expect("a request");
        self.0.batches.lock().expect("not poisoned").push(batch);
        self.0.arrived.notify_one();
        !self.0.refuses.load(Ordering::Relaxed)
    }
}

impl Kept {
    fn spans(&self) -> Vec<ProtoSpan> {
        let batches = self.0.batches.lock().expect("not poisoned");
        let scopes = batches
            .iter()
            .flat_map(|batch| &batch.resource_spans)
            .flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }
}

fn resource() -> Resource {
    Resource {
        service: "media".to_owned(),
        version: "1.2.3",
        instance: "gate-1".to_owned(),
    }
}

fn counts(exporter: &Exporter) -> Registry {
    let mut registry = Registry::default();
    exporter.register(&mut registry);
    registry
}

fn count(registry: &Registry, result: &str) -> u64 {
    let mut text = String::new();
    encode(&mut text, registry).expect("text");
    let line = format!("trace_spans_total{{result=\"{result}\"}} ");
    let found = text.lines().find_map(|it| it.strip_prefix(&*line));
    found.expect("a line").parse().expect("a number")
}

/// Runs the exporter until everything that is queued has been delivered.
async fn drained(exporter: Exporter, kept: &Kept) {
    exporter.run(resource(), kept.clone(), async {}).await;
}

/// Runs a request with four steps, one of them in a task of its own.
async fn request_with_steps(tracer: &Arc<Tracer>) {
    let mut root = tracer.begin("GET", Some(PARENT)).expect("traced");
    root.set("http.response.status_code", 206_u64);
    root.set("url.path", "/a".to_owned());
    root.set("complete", true);
    within(Some(&root), async {
        let open = span("look-up", Kind::Internal).expect("traced");
        within(Some(&open), async {
            let mut asked = span("origin get", Kind::Client).expect("traced");
            asked.fail();
            assert!(
                current()
                    .expect("here")
                    .traceparent()
                    .starts_with("00-4bf92f35")
            );
        })
        .await;
        // A task of its own knows its place if it is told.
        let fetch = carry(async { span("flight", Kind::Internal).is_some() });
        assert!(tokio::spawn(fetch).await.expect("no panic"));
        let stranger = tokio::spawn(async { current().is_none() });
        assert!(stranger.await.expect("no panic"));
    })
    .await;
    call_within(&root, || drop(span("wait", Kind::Internal)));
}

#[tokio::test(start_paused = true)]
async fn steps_are_below_the_step_that_they_run_in() {
    let (tracer, exporter) = Tracer::new(1.0, false);
    request_with_steps(&tracer).await;
    let kept = Kept::default();
    drained(exporter, &kept).await;

    let spans = kept.spans();
    let named = |name: &str| {
        let found = spans.iter().find(|span| span.name == name);
        found.unwrap_or_else(|| panic!("no {name} in {spans:#?}"))
    };
    let root = named("GET");
    assert_eq!(root.parent_span_id, 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes());
    let trace = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736_u128.to_be_bytes();
    assert!(spans.iter().all(|span| span.trace_id == trace));
    for (name, parent) in [
        ("look-up", "GET"),
        ("origin get", "look-up"),
        ("flight", "GET"),
        ("wait", "GET"),
    ] {
        assert_eq!(named(name).parent_span_id, named(parent).span_id, "{name}");
    }
    let kinds = ["GET", "look-up", "origin get"].map(|name| named(name).kind);
    assert_eq!(kinds, [2, 1, 3], "server, internal, client");
    assert_eq!(
        named("origin get")
            .status
            .as_ref()
            .map(|status| status.code),
        Some(2)
    );
    assert_eq!(root.status, None);
    assert!(root.start_time_unix_nano > 1_700_000_000_000_000_000);
    assert!(root.end_time_unix_nano >= root.start_time_unix_nano);
    let value = |name: &str| {
        let found = root.attributes.iter().find(|it| it.key == name);
        found.and_then(|it| it.value.clone()?.value)
    };
    assert_eq!(
        value("http.response.status_code"),
        Some(ProtoValue::IntValue(206))
    );
    assert_eq!(
        value("url.path"),
        Some(ProtoValue::StringValue("/a".to_owned()))
    );
    assert_eq!(value("complete"), Some(ProtoValue::BoolValue(true)));
    let batches = kept.0.batches.lock().expect("not poisoned");
    let told = batches[0].resource_spans[0]
        .resource
        .clone()
        .expect("a resource");
    let names: Vec<_> = told.attributes.iter().map(|it| &*it.key).collect();
    assert_eq!(
        names,
        ["service.name", "service.version", "service.instance.id"]
    );
}

#[test]
fn the_share_decides_and_the_flag_only_if_it_is_followed() {
    let traced = |sample, follow, parent: Option<&str>| {
        let (tracer, _exporter) = Tracer::new(sample, follow);
        (0..200)
            .filter(|_| tracer.begin("GET", parent).is_some())
            .count()
    };
    let off = PARENT.replace("-01", "-00");
    assert_eq!(
        traced(0.0, false, Some(PARENT)),
        0,
        "an outsider cannot ask for it"
    );
    assert_eq!(traced(1.0, false, Some(&off)), 200);
    assert_eq!(traced(0.0, true, Some(PARENT)), 200);
    assert_eq!(traced(1.0, true, Some(&off)), 0);
    assert_eq!(traced(0.0, true, None), 0);
    // 100 are expected; fewer than 40 or more than 160 have a chance below one in 10^16.
    assert!((40..160).contains(&traced(0.5, true, Some("not one"))));
}

#[tokio::test(start_paused = true)]
async fn without_a_trace_there_is_no_step() {
    assert!(span("flight", Kind::Internal).is_none());
    let inner = within(None, async { current().is_none() });
    assert!(inner.await);
    assert!(carry(async { current().is_none() }).await);
}

#[tokio::test(start_paused = true)]
async fn a_trace_has_a_bounded_number_of_steps() {
    let (tracer, exporter) = Tracer::new(1.0, false);
    let root = tracer.begin("GET", None).expect("traced");
    let made = within(Some(&root), async {
        (0..1000)
            .filter(|_| span("flight", Kind::Internal).is_some())
            .count()
    });
    assert_eq!(made.await, MAX_SPANS as usize);
    drop(root);
    let registry = counts(&exporter);
    drained(exporter, &Kept::default()).await;
    assert_eq!(count(&registry, "sent"), u64::from(MAX_SPANS) + 1);
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_hangs_costs_spans_and_nothing_else() {
    let (tracer, exporter) = Tracer::new(1.0, false);
    let registry = counts(&exporter);
    let kept = Kept(Arc::new(KeptBatches {
        slow: Some(Duration::from_secs(1_000_000)),
        ..KeptBatches::default()
    }));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = exporter.run(resource(), kept.clone(), async {
        let _ = stopped.await;
    });
    let running = tokio::spawn(running);
    let most = MAX_QUEUE + 1000;
    for _ in 0..most {
        // A drop returns at once, whatever the exporter does.
        drop(tracer.begin("GET", None));
    }
    assert_eq!(count(&registry, "dropped"), 1000);
    assert_eq!(count(&registry, "sent"), 0);
    running.abort();
    assert!(running.await.expect_err("ended").is_cancelled());
    assert_eq!(count(&registry, "dropped"), most as u64);
    drop(stop);
}

#[tokio::test(start_paused = true)]
async fn at_a_stop_one_batch_is_delivered_and_the_rest_is_counted() {
    let (tracer, exporter) = Tracer::new(1.0, false);
    let registry = counts(&exporter);
    for _ in 0..600 {
        drop(tracer.begin("GET", None));
    }
    drained(exporter, &Kept::default()).await;
    drop(tracer.begin("GET", None));
    let counted = ["sent", "dropped"].map(|result| count(&registry, result));
    assert_eq!(counted, [512, 89]);
}

#[tokio::test(start_paused = true)]
async fn without_any_tracer_the_exporter_ends_at_once() {
    let (tracer, exporter) = Tracer::new(1.0, false);
    let registry = counts(&exporter);
    drop(tracer.begin("GET", None));
    drop(tracer);
    let begun = tokio::time::Instant::now();
    let never = std::future::pending();
    exporter.run(resource(), Kept::default(), never).await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(count(&registry, "sent"), 1);
}

#[tokio::test(start_paused = true)]
async fn batches_are_bounded_come_soon_and_are_lost_if_they_are_refused() {
    let (tracer, exporter) = Tracer::new(1.0, false);
    let registry = counts(&exporter);
    let kept = Kept::default();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = exporter.run(resource(), kept.clone(), async {
        let _ = stopped.await;
    });
    let running = tokio::spawn(running);
    for _ in 0..1100 {
        drop(tracer.begin("GET", None));
    }
    let begun = tokio::time::Instant::now();
    while kept.spans().len() < 1100 {
        kept.0.arrived.notified().await;
    }
    assert!(
        begun.elapsed() <= Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    let sizes: Vec<_> = {
        let batches = kept.0.batches.lock().expect("not poisoned");
        let size =
            |batch: &ExportTraceServiceRequest| batch.resource_spans[0].scope_spans[0].spans.len();
        batches.iter().map(size).collect()
    };
    assert_eq!(sizes, [512, 512, 76]);

    kept.0.refuses.store(true, Ordering::Relaxed);
    drop(tracer.begin("GET", None));
    kept.0.arrived.notified().await;
    drop(stop);
    running.await.expect("it ends");
    assert_eq!(count(&registry, "sent"), 1100);
    assert_eq!(count(&registry, "failed"), 1);
}
