//! The login leads to the page that was asked for, and a refusal is a page that leads on.

use http::Method;

use super::admission::log_in;
use super::objects::hidden_fields;
use super::{AUTH, World, ask, post, send, started};

#[tokio::test(flavor = "multi_thread")]
async fn a_login_leads_back_to_the_page_that_was_asked_for() {
    let world = World::new().await;
    let gateway = started(&world).await;
    let wanted = "/console/objects?path=%2Fo%2F&host=";
    let got = ask(gateway.admin, Method::GET, wanted, &[]).await;
    assert_eq!(got.status, 303);
    let login = got.header("location").to_owned();
    let page = ask(gateway.admin, Method::GET, &login, &[]).await;
    let fields = hidden_fields(&page.text().replace("&amp;", "&"));
    assert!(fields.starts_with("to="), "{}", page.text());
    let wrong = post(
        &gateway,
        "/console/login",
        "",
        &format!("{fields}token=wrong"),
    )
    .await;
    assert_eq!(wrong.status, 401);
    let again = hidden_fields(&wrong.text().replace("&amp;", "&"));
    assert_eq!(again, fields, "a wrong token does not forget it");
    let right = "token=t0ken-of-the-tests";
    let got = post(&gateway, "/console/login", "", &format!("{fields}{right}")).await;
    assert_eq!((got.status, got.header("location")), (303, wanted));
    for to in [
        "https%3A%2F%2Fevil.example%2F",
        "%2F%2Fevil.example%2F",
        "%2Fmetrics",
    ] {
        let got = post(&gateway, "/console/login", "", &format!("to={to}&{right}")).await;
        assert_eq!((got.status, got.header("location")), (303, "/"), "{to}");
        let path = format!("/console/login?to={to}");
        let page = ask(gateway.admin, Method::GET, &path, &[]).await;
        assert!(!page.text().contains("evil.example"), "{}", page.text());
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_a_page_that_leads_on() {
    let world = World::new().await;
    let gateway = started(&world).await;
    let (cookie, csrf) = log_in(&gateway).await;
    let right = format!("csrf={csrf}");
    for (path, cookie, fields, status, reason) in [
        (
            "/console/streams",
            &*cookie,
            "stop=1&csrf=0",
            403,
            "not of your session",
        ),
        (
            "/console/streams",
            &cookie,
            "stop=x&csrf=0",
            422,
            "Failed to deserialize",
        ),
        ("/console/streams", "", "stop=1&csrf=0", 401, "log in"),
        ("/console/settings", &cookie, "", 422, "csrf"),
        ("/console/login", "", "", 422, "token"),
        ("/console/tiers", &cookie, &right, 405, "Method Not Allowed"),
    ] {
        let got = post(&gateway, path, cookie, fields).await;
        let text = got.text();
        assert_eq!(got.status, status, "{path}: {text}");
        assert_eq!(
            got.header("content-type"),
            "text/html; charset=utf-8",
            "{path}"
        );
        assert!(
            got.header("content-security-policy")
                .starts_with("default-src 'none'")
        );
        assert!(
            text.contains(reason) && text.contains(">Back</a>"),
            "{path}: {text}"
        );
        assert_eq!(
            text.contains("Log out"),
            !cookie.is_empty() && path != "/console/login"
        );
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_cannot_be_read_has_a_page_for_a_browser_alone() {
    let world = World::new().await;
    let gateway = started(&world).await;
    let (cookie, _) = log_in(&gateway).await;
    let bad = ask(
        gateway.admin,
        Method::GET,
        "/console/preview",
        &[("cookie", &cookie)],
    )
    .await;
    assert_eq!(bad.status, 400);
    assert!(
        bad.text().contains("path") && bad.text().contains(">Back</a>"),
        "{}",
        bad.text()
    );
    // A script that shows the token, and a part of a page, get words.
    let script = [AUTH, ("content-type", "application/x-www-form-urlencoded")];
    let got = send(
        gateway.admin,
        Method::POST,
        "/console/streams",
        &script,
        "stop=1",
    )
    .await;
    assert_eq!((got.status, got.text().contains("<html")), (403, false));
    let path = "/console/live?section=none";
    let got = ask(gateway.admin, Method::GET, path, &[("cookie", &cookie)]).await;
    assert_eq!((got.status, got.text().contains("<html")), (400, false));
    gateway.stop().await;
}
