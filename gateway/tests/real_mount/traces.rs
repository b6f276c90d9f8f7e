//! Requests of the kernel at a collector of traces: each is a trace, with what it waited for.

use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;

use crate::MIB;
use crate::collector::{Receiver, named, text};
use crate::fake_s3::FakeS3;
use crate::mount::{Mounted, blocking};
use crate::reading::sample;

/// Returns the spans that begin a trace and have this name.
fn roots<'s>(spans: &'s [Span], name: &str) -> Vec<&'s Span> {
    let all = named(spans, name).into_iter();
    all.filter(|span| span.parent_span_id.is_empty()).collect()
}

/// Returns whether one of the traces has a span of this name.
fn has(spans: &[Span], traces: &[&Span], name: &str) -> bool {
    named(spans, name)
        .iter()
        .any(|span| traces.iter().any(|root| root.trace_id == span.trace_id))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_of_a_mount_is_traced_step_by_step() {
    let store = FakeS3::start().await;
    store.bucket.put("film", sample(1, 4 * MIB));
    let collector = Receiver::start(true).await;
    let trace = format!(
        "[trace]\nendpoint = \"http://{}\"\nsample = 1.0\n",
        collector.address
    );
    let mounted = Mounted::start(&store.settings(), &trace).await;
    let (film, none) = (mounted.path("film"), mounted.path("none"));
    let (read, missing) = blocking(move || (std::fs::read(film), std::fs::metadata(none))).await;
    assert!(read.expect("read") == sample(1, 4 * MIB));
    assert!(missing.is_err());
    // A span ends after its answer: of both names that were looked up, too.
    collector.traces("read", 1).await;
    collector.traces("look_up", 2).await;
    mounted.gateway.stop().await;
    let all = collector.spans();
    let (looked_up, reads) = (roots(&all, "look_up"), roots(&all, "read"));
    assert!(has(&all, &looked_up, "origin request"), "{all:#?}");
    assert!(has(&all, &reads, "flight") && has(&all, &reads, "origin request"));
    // Each says where its bytes were: nothing was cached before.
    let in_reads = |span: &&&Span| reads.iter().any(|root| root.trace_id == span.trace_id);
    let bytes = named(&all, "bytes");
    let mut bytes: Vec<_> = bytes.iter().filter(in_reads).collect();
    bytes.sort_by_key(|span| span.start_time_unix_nano);
    let tiers: Vec<_> = bytes
        .iter()
        .map(|span| text(span, "tidegate.tier"))
        .collect();
    assert_eq!(tiers.first().map(String::as_str), Some("origin"));
    let known = ["memory", "disk", "origin"];
    assert!(
        tiers.iter().all(|tier| known.contains(&tier.as_str())),
        "{tiers:?}"
    );
    assert!(
        reads
            .iter()
            .all(|span| text(span, "tidegate.frontend") == "mount")
    );
    let error = Some(StatusCode::Error as i32);
    let failed = |span: &Span| span.status.as_ref().map(|it| it.code) == error;
    assert!(
        !looked_up.iter().any(|span| failed(span)),
        "a missing file is an answer"
    );
    let errno = looked_up
        .iter()
        .find(|span| span.attributes.iter().any(|it| it.key == "tidegate.errno"));
    assert_eq!(
        text(errno.expect("of the missing file"), "tidegate.errno"),
        "2"
    );
}
