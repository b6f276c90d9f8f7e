//! Two routes with one path, one of which has a host: each is browsed, previewed and ordered by itself.

use http::Method;
use serde_json::Value;

use super::admission::log_in;
use super::objects::Browser;
use super::{AUTH, Whole, World, api, ask, sample};

/// The host of the second route.
const HOST: &str = "films.example";

const SIZE: usize = 50_000;

/// A gateway with two routes at `/`, each with a folder of the bucket of its own.
async fn start(world: &World) -> Whole {
    for (key, seed) in [("plain/own.bmp", 1), ("films/other.bmp", 2)] {
        let bytes = bytes::Bytes::from(sample(SIZE, seed));
        let body = futures_util::stream::iter([std::io::Result::Ok(bytes)]);
        let put = world.origin.put(key, "image/bmp", body).await;
        put.expect("written");
    }
    let config = world.config("ttl = \"1h\"");
    let gateway = Whole::start(&format!(
        "{config}[[route]]\npath = \"/\"\norigin = \"media\"\nkey_prefix = \"plain/\"\n\
         [[route]]\npath = \"/\"\nhost = \"{HOST}\"\norigin = \"media\"\nkey_prefix = \"films/\"\n"
    ))
    .await;
    gateway.ready().await;
    gateway
}

/// Returns the names in the folder of a host.
async fn names(gateway: &Whole, host: &str) -> Vec<Value> {
    let folder = api(gateway, &format!("/api/v1/objects?path=/&host={host}")).await;
    folder["names"].as_array().expect("names").clone()
}

/// Returns the first address in a page that begins so.
fn link(page: &str, begin: &str) -> String {
    let (_, rest) = page.split_once(&format!("=\"{begin}")).expect("a link");
    let rest = rest.split('"').next().expect("its end");
    format!("{begin}{}", rest.replace("&amp;", "&"))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_route_is_browsed_by_its_host() {
    let world = World::new().await;
    let gateway = start(&world).await;
    let browser = Browser::start(&gateway).await;
    for (host, own, other) in [("", "own.bmp", "other.bmp"), (HOST, "other.bmp", "own.bmp")] {
        let names = names(&gateway, host).await;
        assert_eq!(names.len(), 1, "{names:?}");
        assert_eq!(
            (&names[0]["name"], &names[0]["path"]),
            (&own.into(), &format!("/{own}").into())
        );
        let page = browser
            .show(&format!("/console/objects?path=/&host={host}"))
            .await;
        assert!(page.contains(own) && !page.contains(other), "{page}");
    }
    // The first route is shown at first, and a path alone leads to the route without a host.
    for path in ["/console/objects", "/console/objects?path=/"] {
        let page = browser.show(path).await;
        assert!(page.contains("own.bmp"), "{page}");
        let links = page.matches("/console/objects?path=%2F&amp;host=").count();
        assert!(links >= 2, "a link to each route: {page}");
    }
    let path = "/api/v1/objects?path=/";
    let got = ask(gateway.admin, Method::GET, path, &[AUTH]).await;
    assert_eq!(got.status, 400, "all hosts are meant: {}", got.text());
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_route_is_ordered_and_previewed_by_its_host() {
    let world = World::new().await;
    let gateway = start(&world).await;
    let (cookie, _) = log_in(&gateway).await;
    let browser = Browser::start(&gateway).await;
    for (host, name, seed) in [("", "own.bmp", 1), (HOST, "other.bmp", 2)] {
        let folder = format!("/console/objects?path=/&host={host}");
        let page = browser.show(&folder).await;
        let (_, row) = page.split_once("class=\"cards\"").expect("a table");
        let preview = link(row, "/console/preview?");
        let page = browser.show(&preview).await;
        let source = link(&page, "/console/preview/bytes?");
        let got = ask(gateway.admin, Method::GET, &source, &[("cookie", &cookie)]).await;
        assert_eq!(got.status, 200, "{source}");
        assert!(got.body == sample(SIZE, seed), "{source}");
        let said = browser.press(row, "stale", "").await;
        let key = match host {
            "" => format!("plain/{name}"),
            _ => format!("films/{name}"),
        };
        assert!(said.contains(&format!("Stale now: {key}.")), "{said}");
    }
    gateway.stop().await;
}
