use http_body_util::BodyExt as _;

use super::*;
use crate::tests::settings;
use crate::window_changes::Event;

fn template(text: &str) -> Template {
    Template::parse(text).expect("a template")
}

fn call(key: &str) -> Call {
    Call {
        bucket: "media".to_owned(),
        key: key.to_owned(),
        event: Event::Created,
        count: 1,
    }
}

#[tokio::test]
async fn a_key_cannot_leave_its_place() {
    let key = "a/b \"c\"\n{bucket}&x=y#ü";
    let mut hook = settings("h");
    hook.url = template("http://r:1/x/{key}?folder={folder}&e={event}");
    hook.body = Some(template(r#"{"k":"{key}","n":{count}}"#));
    let request = hook.request(&call(key)).expect("a request");
    let encoded = "a/b%20%22c%22%0A%7Bbucket%7D%26x%3Dy%23%C3%BC";
    let expected = format!("http://r:1/x/{encoded}?folder=a/&e=created");
    assert_eq!(request.uri().to_string(), expected);
    assert_eq!(request.headers()[CONTENT_TYPE], "application/json");
    let body = request.into_body().collect().await.expect("a body");
    assert_eq!(
        body.to_bytes(),
        "{\"k\":\"a/b \\u0022c\\u0022\\u000a{bucket}&x=y#ü\",\"n\":1}"
    );
}

#[test]
fn a_form_is_percent_encoded() {
    for (content_type, escape) in [
        (None, Escape::Json),
        (Some("application/json"), Escape::Json),
        (Some("application/x-www-form-urlencoded"), Escape::Percent),
        (
            Some("Application/X-WWW-Form-Urlencoded; charset=utf-8"),
            Escape::Percent,
        ),
        (Some("application/x"), Escape::Json),
    ] {
        let found = body_escape(content_type.map(str::as_bytes));
        assert_eq!(found, escape, "{content_type:?}");
    }
}

#[test]
fn a_path_is_of_the_receivers_machine() {
    let mut hook = settings("h");
    for (prefix, strip, key, path) in [
        ("/mnt/media/", "", "films/a.mkv", "/mnt/media/films/a.mkv"),
        ("/mnt/films/", "films/", "films/a.mkv", "/mnt/films/a.mkv"),
        ("/mnt/films/", "films/", "films/a/", "/mnt/films/a"),
        ("/mnt/films/", "films/", "", "/mnt/films"),
        ("/", "", "", "/"),
    ] {
        (hook.path_prefix, hook.strip_prefix) = (prefix.into(), strip.into());
        assert_eq!(hook.path(key), path, "{prefix} {strip} {key}");
    }
}

#[test]
fn keys_of_the_gateway_are_no_changes() {
    let hook = settings("h");
    for (key, covered) in [
        ("a", true),
        ("a/.tidegate-x", false),
        (".tidegate-x", false),
        (".tidegate/heartbeat", false),
        (".tidegates", true),
    ] {
        assert_eq!(hook.covers(ChangeKind::Created, key), covered, "{key}");
    }
}

#[test]
fn secrets_are_not_shown() {
    let mut hook = settings("h");
    hook.url = template("http://r/?token=s3cret");
    let value = HeaderValue::from_static("s3cret");
    hook.headers.insert("x-token", value);
    assert!(!format!("{hook:?}").contains("s3cret"));
}
