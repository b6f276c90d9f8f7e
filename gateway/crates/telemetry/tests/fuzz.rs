//! A fuzz target of `traceparent`, which any client may send.
//!
//! It holds a property for any input. It runs as a test, [`RUNS`] inputs; `just fuzz` gives it time.

#[path = "../../plan/tests/support/spliced.rs"]
mod spliced;

use bolero::check;
use spliced::spliced;
use tidegate_telemetry::trace::traceparent::Traceparent;

/// The inputs of a target in a plain test run.
const RUNS: usize = 5_000;

const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

const WORDS: &[&str] = &[
    "-",
    "00",
    "ff",
    "FF",
    "01",
    "00000000000000000000000000000000",
    "0000000000000000",
    "00f067aa0ba902b7",
    "+",
    "é",
    " ",
    "",
];

#[test]
fn a_place_in_a_trace_is_the_one_that_was_named() {
    check!()
        .with_iterations(RUNS)
        .with_type::<Vec<(u8, u8, u8)>>()
        .for_each(|changes| {
            let text = spliced(GOOD, WORDS, 40, &changes[..changes.len().min(4)]);
            let Some(parsed) = Traceparent::parse(&text) else {
                assert_ne!(text, GOOD);
                return;
            };
            assert!(parsed.trace != 0 && parsed.span != 0, "{text}");
            let written = parsed.to_string();
            assert_eq!(Traceparent::parse(&written), Some(parsed), "{text}");
            // Trace and span, in the same places; other flags are not passed on.
            assert_eq!(text[3..52], written[3..52]);
        });
}
