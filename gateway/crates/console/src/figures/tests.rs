use super::*;

fn snapshot(at: f64, text: &str) -> Snapshot {
    Snapshot {
        samples: Samples::parse(text),
        stalls: at as u64,
        at,
    }
}

/// Counters of several causes have one name here, and a reload takes some away.
#[test]
fn a_counter_is_compared_with_itself() {
    let counts = |ahead: u32, demand: u32, other: &str| {
        snapshot(
            0.0,
            &format!(
                "tidegate_origin_requests_total{{origin=\"o\",kind=\"get\",result=\"timeout\",cause=\"ahead\"}} {ahead}\n\
                 tidegate_origin_requests_total{{origin=\"o\",kind=\"get\",result=\"timeout\",cause=\"demand\"}} {demand}\n\
                 tidegate_origin_received_bytes_total{{origin=\"o\",cause=\"demand\"}} {demand}\n{other}"
            ),
        )
    };
    let other = "tidegate_origin_received_bytes_total{origin=\"p\",cause=\"demand\"} 100000\n\
                 tidegate_origin_requests_total{origin=\"p\",kind=\"get\",result=\"timeout\",cause=\"ahead\"} 7\n";
    let before = counts(5, 100, other);
    assert_eq!(errors(&before, &before), []);
    let after = counts(6, 102, "");
    let told: Vec<_> = errors(&before, &after)
        .into_iter()
        .map(|one| (one.cause, one.count))
        .collect();
    assert_eq!(told, [("bucket o, get: timeout".to_owned(), 3)]);
    let flow = Flow::between(&before.samples, &after.samples);
    assert_eq!(
        flow.origin, 2.0,
        "the origin that is gone takes nothing away"
    );
    // The counter of an origin that is there again.
    let again = counts(6, 102, other);
    let flow = Flow::between(&after.samples, &again.samples);
    assert_eq!(flow.origin, 100_000.0);
}

#[test]
fn shares_are_of_what_readers_took() {
    let flow = |delivered: f64, disk: f64, origin: f64| Flow {
        delivered,
        disk,
        origin,
    };
    let share = |now: Flow| {
        let share = now.share(flow(100.0, 10.0, 10.0));
        share.map(|share| (share.memory, share.disk, share.origin))
    };
    assert_eq!(share(flow(100.0, 10.0, 60.0)), None);
    assert_eq!(share(flow(200.0, 10.0, 10.0)), Some((1.0, 0.0, 0.0)));
    // One fetch served four readers.
    assert_eq!(share(flow(500.0, 10.0, 110.0)), Some((0.75, 0.0, 0.25)));
    // More was fetched ahead than was read.
    assert_eq!(share(flow(200.0, 110.0, 510.0)), Some((0.0, 0.0, 1.0)));
    assert_eq!(share(flow(200.0, 85.0, 60.0)), Some((0.0, 0.5, 0.5)));
}

#[test]
fn failures_of_mounts_hooks_events_and_the_fleet_are_causes() {
    let after = snapshot(
        20.0,
        "tidegate_fuse_operations_total{operation=\"read\",result=\"failed\"} 9\n\
         tidegate_fuse_operations_total{operation=\"read\",result=\"error\"} 90\n\
         tidegate_hook_dropped_calls_total{hook=\"scan\",reason=\"failed\"} 8\n\
         tidegate_hook_dropped_calls_total{hook=\"scan\",reason=\"silent\"} 7\n\
         tidegate_hook_dropped_calls_total{hook=\"scan\",reason=\"stopped\"} 90\n\
         tidegate_bucket_events_gaps_total{subscription=\"s\",reason=\"unreadable\"} 6\n\
         tidegate_bucket_events_gaps_total{subscription=\"s\",reason=\"failed\"} 5\n\
         tidegate_bucket_events_gaps_total{subscription=\"s\",reason=\"connection\"} 90\n\
         tidegate_fleet_received_total{kind=\"purge\",result=\"failed\"} 4\n\
         tidegate_fleet_received_total{kind=\"unknown\",result=\"invalid\"} 3\n\
         tidegate_fleet_received_total{kind=\"purge\",result=\"applied\"} 90\n\
         tidegate_fleet_dropped_total 2\n",
    );
    let found: Vec<_> = errors(&snapshot(10.0, ""), &after)
        .into_iter()
        .map(|one| (one.cause, one.count))
        .collect();
    let words = [
        "mount: read",
        "hook scan: given up",
        "hook scan: no answer",
        "events s: unreadable",
        "events s: not applied",
        "fleet, purge: not applied",
        "fleet, unknown: unreadable",
        "fleet: message dropped",
    ];
    let words = words.map(str::to_owned).into_iter();
    assert_eq!(found, Vec::from_iter(words.zip((2..=9).rev())));
}

#[test]
fn an_answer_that_its_client_ends_is_no_failure() {
    let before = snapshot(10.0, "");
    let after = snapshot(
        20.0,
        "tidegate_http_broken_answers_total{reason=\"client\"} 7\n\
         tidegate_http_broken_answers_total{reason=\"stopped\"} 4\n\
         tidegate_http_requests_total{method=\"GET\",status=\"gone\"} 2\n",
    );
    let figures = Figures::between(&before, &after, None);
    assert_eq!((figures.errors, figures.ended_by_client), (0, 9));
    let broken = "tidegate_http_broken_answers_total{reason=\"error\"} 3\n";
    let figures = Figures::between(&before, &snapshot(20.0, broken), None);
    assert_eq!((figures.errors, figures.ended_by_client), (3, 0));
}

#[test]
fn a_period_is_the_difference_of_its_ends() {
    let before = snapshot(
        10.0,
        "tidegate_http_requests_total{method=\"GET\",status=\"2xx\"} 100\ntidegate_delivered_bytes_total 1000\n",
    );
    let after = snapshot(
        20.0,
        "tidegate_http_requests_total{method=\"GET\",status=\"2xx\"} 150\n\
         tidegate_http_requests_total{method=\"GET\",status=\"5xx\"} 2\n\
         tidegate_delivered_bytes_total 5000\ntidegate_fetched_bytes_total 1000\n\
         tidegate_origin_received_bytes_total{origin=\"o\",cause=\"ahead\"} 600\n\
         tidegate_origin_received_bytes_total{origin=\"o\",cause=\"demand\"} 400\n\
         tidegate_origin_received_bytes_total{origin=\"o\",cause=\"warm\"} 9000\n\
         tidegate_store_hit_bytes_total{tier=\"memory\",disk=\"\"} 9000\n\
         tidegate_store_hit_bytes_total{tier=\"disk\",disk=\"/a\"} 1000\n\
         tidegate_origin_requests_total{origin=\"o\",kind=\"get\",result=\"timeout\"} 3\n\
         tidegate_origin_requests_total{origin=\"o\",kind=\"get\",result=\"not_found\"} 9\n",
    );
    let figures = Figures::between(&before, &after, None);
    assert!((figures.requests_per_second - 5.2).abs() < 1e-9);
    assert!((figures.bytes_per_second - 400.0).abs() < 1e-9);
    assert_eq!(figures.amplification, Some(0.25));
    let share = Flow::between(&before.samples, &after.samples).share(Flow::default());
    let share = share.expect("readers took bytes");
    assert_eq!((share.memory, share.disk, share.origin), (0.5, 0.25, 0.25));
    assert_eq!((figures.stalls, figures.errors), (10, 5));
    assert_eq!(figures.first_byte, None);
    let causes: Vec<_> = errors(&before, &after)
        .into_iter()
        .map(|one| (one.cause, one.count))
        .collect();
    assert_eq!(
        causes,
        [
            ("bucket o, get: timeout".to_owned(), 3),
            ("HTTP answers of class 5xx".to_owned(), 2)
        ]
    );
}
