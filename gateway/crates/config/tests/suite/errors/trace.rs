//! The URL of a collector of traces.

use super::{tell_behind_media, warned};

fn endpoint(url: &str) -> String {
    format!("[trace]\nendpoint = \"{url}\"\n")
}

#[test]
fn a_collector_has_a_url_without_a_password() {
    let password = endpoint("https://u:p4ss@c.example/");
    tell_behind_media(&[
        (
            &endpoint("/v1/traces"),
            &["t.toml:5:12: `trace.endpoint`: is no URL such as http://127.0.0.1:4318"],
        ),
        (
            &endpoint("grpc://c.example"),
            &["t.toml:5:12: `trace.endpoint`: is neither http:// nor https://"],
        ),
        (
            &password,
            &["t.toml:5:12: `trace.endpoint`: has credentials in it"],
        ),
    ]);
}

#[test]
fn a_collector_that_is_reached_in_the_clear_is_warned_of() {
    assert_eq!(
        warned(&endpoint("http://c.example:4318")),
        [
            "t.toml:5:12: `trace.endpoint`: is not encrypted, and not on this machine: it is sent paths, addresses of clients and `trace.headers`; use https://"
        ]
    );
    for quiet in ["http://127.0.0.1:4318", "https://c.example/v1/traces"] {
        assert_eq!(warned(&endpoint(quiet)), [""; 0], "{quiet}");
    }
}
