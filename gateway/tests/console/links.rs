//! Links to objects, from the API and from the page: they open what they name, and the key stays where it is.

use http::Method;
use serde_json::{Value, json};

use super::admission::log_in;
use super::{AUTH, Got, Whole, World, page_at, post, send};

const SECRET: &str = "the secret of k1, which no page shows";

fn configuration(world: &World) -> String {
    let config = world.config("ttl = \"1h\"");
    format!(
        "{config}[[route]]\npath = \"/\"\norigin = \"media\"\n\
         [[route]]\npath = \"/private/\"\norigin = \"media\"\naccess = \"members\"\n\
         [[route]]\npath = \"/lan/\"\norigin = \"media\"\naccess = \"lan\"\n\
         [access.members.signed.keys]\nk1 = \"{SECRET}\"\nk2 = \"the other secret\"\n\
         [access.lan]\nnetworks = [\"192.0.2.0/24\"]\n\
         [http]\npublic_url = \"https://media.example.org\"\n"
    )
}

async fn start(world: &World) -> Whole {
    for key in ["private/a.png", "lan/a.png", "a.png", "a.png.bak"] {
        world.put(key, key.as_bytes()).await;
    }
    world.put("private/private/a.png", b"of the route").await;
    let gateway = Whole::start(&configuration(world)).await;
    gateway.ready().await;
    gateway
}

async fn order(gateway: &Whole, headers: &[(&str, &str)], order: Value) -> Got {
    let json = ("content-type", "application/json");
    let headers: Vec<_> = headers.iter().copied().chain([json]).collect();
    let path = "/api/v1/links";
    send(
        gateway.admin,
        Method::POST,
        path,
        &headers,
        &order.to_string(),
    )
    .await
}

/// Returns the path of a link, which begins as the configuration says.
fn target(url: &str) -> &str {
    let target = url.strip_prefix("https://media.example.org");
    target.unwrap_or_else(|| panic!("{url}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_of_the_api_opens_one_object() {
    let world = World::new().await;
    let gateway = start(&world).await;
    let path = "/private/a.png";
    let closed = gateway.get(path, &[]).await;
    assert_eq!(closed.status, 403);
    let wanted = json!({ "path": path, "key": "k1", "life": 60 });
    let got = order(&gateway, &[AUTH], wanted).await;
    assert_eq!(got.status, 200, "{}", got.text());
    assert!(!got.text().contains(SECRET));
    let link: Value = serde_json::from_slice(&got.body).expect("JSON");
    assert_eq!(link["key"], "k1");
    assert!(link["expires"].as_f64() > Some(1.7e9), "{link}");
    let opened = gateway
        .get(target(link["url"].as_str().expect("a URL")), &[])
        .await;
    assert_eq!(opened.status, 200, "{}", opened.text());
    let url = link["url"].as_str().expect("a URL");
    let other = url.replace("a.png?", "private/a.png?");
    assert_ne!(gateway.get(target(&other), &[]).await.status, 200);
    let open = order(&gateway, &[AUTH], json!({ "path": "/a.png" })).await;
    let open: Value = serde_json::from_slice(&open.body).expect("JSON");
    let plain = "https://media.example.org/a.png";
    assert_eq!(open, json!({ "url": plain, "key": null, "expires": null }));
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_cannot_be_made_says_why() {
    let world = World::new().await;
    let gateway = start(&world).await;
    for (wanted, why) in [
        (json!({ "path": "/lan/a.png" }), "it has no `signed` keys"),
        (
            json!({ "path": "/private/a.png" }),
            "it has several keys (k1, k2)",
        ),
        (
            json!({ "path": "/private/a.png", "key": "k3" }),
            "it has no key `k3`",
        ),
        (
            json!({ "path": "private/a.png" }),
            "path must begin with `/`",
        ),
        (json!({ "path": "/a.png?x" }), "path must not have a query"),
        (json!({ "path": "/a b" }), "the path has characters"),
        (
            json!({ "path": "/private/a.png", "key": "k1", "life": 0 }),
            "life is a number of seconds",
        ),
    ] {
        let got = order(&gateway, &[AUTH], wanted.clone()).await;
        assert_eq!(got.status, 400, "{wanted}");
        assert!(got.text().contains(why), "{wanted}: {}", got.text());
        assert!(!got.text().contains(SECRET));
    }
    let (cookie, csrf) = log_in(&gateway).await;
    let wanted = || json!({ "path": "/private/a.png", "key": "k1" });
    let session = [("cookie", cookie.as_str())];
    assert_eq!(order(&gateway, &session, wanted()).await.status, 403);
    let with_csrf = [("cookie", cookie.as_str()), ("x-csrf-token", csrf.as_str())];
    assert_eq!(order(&gateway, &with_csrf, wanted()).await.status, 200);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_makes_a_link_to_copy() {
    let world = World::new().await;
    let gateway = start(&world).await;
    let (cookie, csrf) = log_in(&gateway).await;
    let show = async |path: &str| {
        let path = format!("/console/objects?path={path}");
        page_at(gateway.admin, &path, &cookie).await
    };
    let page = show("/private/").await;
    assert!(page.contains("value=\"link k1\"") && page.contains("value=\"link k2\""));
    assert!(!page.contains(SECRET));
    assert!(show("/").await.contains("value=\"link\""), "it is open");
    assert!(!show("/lan/").await.contains("value=\"link"), "no link can");
    let fields = format!(
        "csrf={csrf}&path=%2Fprivate%2Fa.png&host=&back=%2Fprivate%2F&order=link+k2&life=3600"
    );
    let got = post(&gateway, "/console/objects", &cookie, &fields).await;
    assert_eq!(got.status, 303, "{}", got.text());
    let page = show("/private/").await;
    assert!(page.contains("The key k2 has signed it."), "{page}");
    let (_, url) = page
        .split_once("id=\"copied\" type=\"text\" readonly value=\"")
        .expect("the link");
    let url = url
        .split('"')
        .next()
        .expect("its end")
        .replace("&amp;", "&");
    assert_eq!(gateway.get(target(&url), &[]).await.status, 200, "{url}");
    assert!(!show("/private/").await.contains("id=\"copied\""), "once");
    gateway.stop().await;
}
