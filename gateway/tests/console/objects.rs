//! The section Objects by its forms, as a browser without scripts sends them.

use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::time::timeout;

use super::admission::log_in;
use super::{AUTH, LONG, Whole, World, api, ask, page_at, post, sample};

/// A gateway whose route has an index, as that of the demo; another route governs `/books/`.
async fn start(world: &World) -> Whole {
    for n in 0..3 {
        world.put(&format!("o/{n}.png"), &sample(100_000, n)).await;
    }
    world.put("books/hidden", b"x").await;
    world.put("shelf/novel", b"x").await;
    let config = world.config("ttl = \"1h\"");
    let gateway = Whole::start(&format!(
        "{config}[[route]]\npath = \"/\"\norigin = \"media\"\nindex = \"index.html\"\n\
         [[route]]\npath = \"/books/\"\norigin = \"media\"\nkey_prefix = \"shelf/\"\n"
    ))
    .await;
    gateway.ready().await;
    gateway
}

/// A reader of the pages, who has logged in.
pub(super) struct Browser<'a> {
    gateway: &'a Whole,
    cookie: String,
}

impl<'a> Browser<'a> {
    pub(super) async fn start(gateway: &'a Whole) -> Self {
        let (cookie, _) = log_in(gateway).await;
        Self { gateway, cookie }
    }

    pub(super) async fn show(&self, path: &str) -> String {
        page_at(self.gateway.admin, path, &self.cookie).await
    }

    /// Shows a folder.
    async fn folder(&self, path: &str) -> String {
        self.show(&format!("/console/objects?path={path}")).await
    }

    /// Presses a button of the first form of `part`, and returns the page that follows. `more` has other fields.
    pub(super) async fn press(&self, part: &str, order: &str, more: &str) -> String {
        let button = format!("name=\"order\" value=\"{order}\"");
        assert!(part.contains(&button), "no button {order}: {part}");
        let (_, form) = part.split_once("<form").expect("a form");
        let (form, _) = form.split_once("</form>").expect("its end");
        let fields = format!("{}order={order}{more}", hidden_fields(form));
        let got = post(self.gateway, "/console/objects", &self.cookie, &fields).await;
        match got.status {
            303 => self.show(got.header("location")).await,
            status => {
                assert_eq!(status, 200, "{}", got.text());
                got.text()
            }
        }
    }
}

/// Returns the hidden fields of a form, as they are sent.
pub(super) fn hidden_fields(form: &str) -> String {
    let field = |text: &str| {
        let (name, rest) = text.split_once("\" value=\"")?;
        let value = utf8_percent_encode(rest.split('"').next()?, NON_ALPHANUMERIC);
        Some(format!("{name}={value}&"))
    };
    let fields = form.split("<input type=\"hidden\" name=\"").skip(1);
    fields.filter_map(field).collect()
}

/// Returns the page from its title on: its first form is that of its content.
fn form(page: &str) -> &str {
    let (_, content) = page.split_once("</h1>").expect("a title");
    // The form of the live part has no order.
    content
        .split_once("id=\"live\"")
        .map_or(content, |(_, rest)| rest)
}

/// Returns the row of a name.
fn row<'p>(page: &'p str, name: &str) -> &'p str {
    let named = format!(">{name}<");
    let mut rows = page.split("<tr>").skip(2);
    let found = rows.find(|row| row.contains(&named));
    found.unwrap_or_else(|| panic!("no row {name}: {page}"))
}

/// Returns what is known of an object.
async fn cached(gateway: &Whole, name: &str) -> Value {
    let folder = api(gateway, "/api/v1/objects?path=/o/").await;
    let names = folder["names"].as_array().expect("names");
    let found = names.iter().find(|one| one["name"] == name);
    found.expect("it is listed")["cached"].clone()
}

/// Waits until no order to fetch objects is under way.
async fn warmed(gateway: &Whole) {
    let over = async {
        loop {
            let warms = api(gateway, "/api/v1/warms").await;
            let warms = warms["warms"].as_array().expect("a list");
            if warms.iter().all(|one| one["is_over"] == true) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, over).await.expect("in time");
}

/// Returns the pinned prefixes and their limits.
async fn pins(gateway: &Whole) -> Vec<(String, u64)> {
    let got = ask(gateway.admin, Method::GET, "/pins", &[AUTH]).await;
    let pins: Value = serde_json::from_slice(&got.body).expect("JSON");
    let pin = |pin: &Value| {
        let prefix = pin["prefix"].as_str().expect("text").to_owned();
        (prefix, pin["limit"].as_u64().expect("a number"))
    };
    let pins = pins["pins"].as_array().expect("pins").iter();
    pins.map(pin).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_a_route_with_an_index_is_opened() {
    let world = World::new().await;
    let gateway = start(&world).await;
    let browser = Browser::start(&gateway).await;
    let page = browser.folder("/").await;
    let link = row(&page, "o/").split_once("href=\"");
    let (_, link) = link.expect("it is a link");
    let link = link
        .split('"')
        .next()
        .expect("its end")
        .replace("&amp;", "&");
    let page = browser.show(&link).await;
    assert!(row(&page, "1.png").contains("98 KiB"), "{page}");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_a_route_with_an_index_is_warmed() {
    let world = World::new().await;
    let gateway = start(&world).await;
    let browser = Browser::start(&gateway).await;
    let page = browser.folder("/").await;
    let page = browser.press(row(&page, "o/"), "warm", "").await;
    assert!(page.contains("Fetching 3 objects."), "{page}");
    warmed(&gateway).await;
    for n in 0..3 {
        assert_eq!(cached(&gateway, &format!("{n}.png")).await["absent"], 0);
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_a_route_with_an_index_is_pinned_and_unpinned() {
    let world = World::new().await;
    let gateway = start(&world).await;
    let browser = Browser::start(&gateway).await;
    let page = browser.folder("/").await;
    assert!(!row(&page, "o/").contains("value=\"unpin\""));
    let asked = browser.press(row(&page, "o/"), "pin", "").await;
    assert!(asked.contains("begins with <code>o/</code>"), "{asked}");
    assert!(pins(&gateway).await.is_empty(), "not yet");
    let page = browser.press(form(&asked), "pin", "&limit=1048576").await;
    assert!(
        page.contains("Pinned: at most 1.0 MiB of it stays on disk."),
        "{page}"
    );
    assert_eq!(pins(&gateway).await, [("o/".to_owned(), 1 << 20)]);
    assert!(row(&page, "o/").contains(">pinned<"), "{page}");
    let inside = browser.folder("/o/").await;
    assert!(
        inside.contains("Pinned: 0 B of at most 1.0 MiB on disk."),
        "{inside}"
    );
    let page = browser.press(row(&page, "o/"), "unpin", "").await;
    assert!(page.contains("It is pinned no more."), "{page}");
    assert!(!row(&page, "o/").contains(">pinned<"), "{page}");
    assert!(pins(&gateway).await.is_empty());
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_a_route_with_an_index_is_purged_after_a_question() {
    let world = World::new().await;
    let gateway = start(&world).await;
    let got = gateway.get("/o/1.png", &[]).await;
    assert_eq!(got.status, 200);
    let browser = Browser::start(&gateway).await;
    let page = browser.folder("/").await;
    let asked = browser.press(row(&page, "o/"), "purge", "").await;
    assert!(asked.contains("Purge all that is cached below"), "{asked}");
    assert_eq!(cached(&gateway, "1.png").await["absent"], 0, "not yet");
    let page = browser.press(form(&asked), "purge", "").await;
    assert!(page.contains("Purged: o/."), "{page}");
    assert_eq!(cached(&gateway, "1.png").await, Value::Null);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_another_route_governs_leads_there() {
    let world = World::new().await;
    let gateway = start(&world).await;
    let browser = Browser::start(&gateway).await;
    let page = browser.folder("/").await;
    let books = row(&page, "books/");
    assert!(books.contains("?path=%2Fbooks%2F&amp;"), "{books}");
    assert!(
        books.contains("route /books/") && !books.contains("<form"),
        "{books}"
    );
    let page = browser.folder("/books/").await;
    assert!(row(&page, "novel").contains("<form"), "{page}");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_marked_stale_without_a_question() {
    let world = World::new().await;
    let gateway = start(&world).await;
    gateway.get("/o/1.png", &[]).await;
    assert_eq!(cached(&gateway, "1.png").await["state"], "fresh");
    let browser = Browser::start(&gateway).await;
    let page = browser.folder("/").await;
    let page = browser.press(row(&page, "o/"), "stale", "").await;
    assert!(page.contains("Stale now: o/."), "{page}");
    let known = cached(&gateway, "1.png").await;
    assert_eq!(
        (&known["state"], &known["absent"]),
        (&"stale".into(), &0.into())
    );
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_purged_only_after_a_question() {
    let world = World::new().await;
    let gateway = start(&world).await;
    gateway.get("/o/1.png", &[]).await;
    let browser = Browser::start(&gateway).await;
    let asked = browser
        .press(form(&browser.folder("/").await), "purge", "")
        .await;
    assert!(asked.contains("each route without a host"), "{asked}");
    assert_eq!(cached(&gateway, "1.png").await["absent"], 0, "not yet");
    let page = browser.press(form(&asked), "purge", "").await;
    assert!(page.contains("every object"), "{page}");
    assert_eq!(cached(&gateway, "1.png").await, Value::Null);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_has_its_version_and_how_fresh_that_is() {
    let world = World::new().await;
    let gateway = start(&world).await;
    let got = gateway.get("/o/1.png", &[]).await;
    let etag = got.header("etag").replace('"', "&quot;");
    let browser = Browser::start(&gateway).await;
    let page = browser.folder("/o/").await;
    let known = row(&page, "1.png");
    assert!(known.contains("fresh for another "), "{known}");
    assert!(
        known.contains(&format!("ETag <code>{etag}</code>")),
        "{known}"
    );
    assert!(!row(&page, "2.png").contains("fresh for"), "{page}");

    let page = browser.press(row(&page, "1.png"), "stale", "").await;
    assert!(page.contains("Stale now: o/1.png."), "{page}");
    let stale = row(&page, "1.png");
    assert!(stale.contains(">stale: "), "{stale}");
    assert_eq!(
        cached(&gateway, "1.png").await["absent"],
        0,
        "it keeps its bytes"
    );
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_object_is_pinned_and_unpinned() {
    let world = World::new().await;
    let gateway = start(&world).await;
    let browser = Browser::start(&gateway).await;
    let page = browser.folder("/o/").await;
    let asked = browser.press(row(&page, "1.png"), "pin", "").await;
    let page = browser
        .press(form(&asked), "pin", "&limit=1073741824")
        .await;
    let said = "Pinned with a limit of 1.0 GiB, but no more than half of the disks can be pinned in all, which is 64MiB.";
    assert!(page.contains(said), "{page}");
    assert_eq!(pins(&gateway).await, [("o/1.png".to_owned(), 1 << 30)]);
    assert!(row(&page, "1.png").contains(">pinned<"), "{page}");
    assert!(!row(&page, "2.png").contains(">pinned<"), "{page}");
    let asked = browser.press(row(&page, "1.png"), "pin", "").await;
    let refused = browser.press(form(&asked), "pin", "&limit=0").await;
    assert!(
        refused.contains("A pin keeps more than nothing."),
        "{refused}"
    );
    browser.press(form(&asked), "pin", "&limit=5242880").await;
    assert_eq!(pins(&gateway).await, [("o/1.png".to_owned(), 5 << 20)]);
    let asked = browser.press(row(&page, "1.png"), "pin", "").await;
    let own = "<option value=\"5242880\" selected>5.0 MiB</option>";
    assert!(asked.contains(own), "{asked}");
    let page = browser.press(row(&page, "1.png"), "unpin", "").await;
    assert!(!row(&page, "1.png").contains("value=\"unpin\""), "{page}");
    assert!(pins(&gateway).await.is_empty());
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_is_offered_for_what_is_not_cached() {
    let world = World::new().await;
    let gateway = start(&world).await;
    world.put("o/page.html", b"x").await;
    let browser = Browser::start(&gateway).await;
    let page = browser.folder("/o/").await;
    let offered = |name: &str| row(&page, name).contains(">Preview<");
    assert!(offered("1.png") && !offered("page.html"), "{page}");
    // Its type is known now, and is no image's.
    gateway.get("/o/1.png", &[]).await;
    let page = browser.folder("/o/").await;
    assert!(!row(&page, "1.png").contains(">Preview<"), "{page}");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_no_longer_known_leads_back_to_its_folder() {
    let world = World::new().await;
    let gateway = start(&world).await;
    let (cookie, _) = log_in(&gateway).await;
    for (query, status, way) in [
        (
            "path=/o/&page=0000000000000000",
            410,
            "?path=%2Fo%2F&amp;host=\">Begin",
        ),
        ("path=/o", 400, "?path=%2F&amp;host="),
    ] {
        let path = format!("/console/objects?{query}");
        let got = ask(gateway.admin, Method::GET, &path, &[("cookie", &cookie)]).await;
        assert_eq!(got.status, status, "{query}");
        assert!(got.text().contains(way), "{}", got.text());
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_page_is_small() {
    let world = World::new().await;
    let gateway = start(&world).await;
    for n in 0..51 {
        let name = format!("a-name-of-thirty-characters-{n:02}");
        world.put(&format!("full/{name}"), b"x").await;
        gateway.get(&format!("/full/{name}"), &[]).await;
    }
    let browser = Browser::start(&gateway).await;
    let page = browser.folder("/full/").await;
    assert_eq!(page.matches("value=\"warm\"").count(), 1 + 50);
    assert!(page.contains("Next page"));
    // Style and script have 14 kB.
    assert!(page.len() < 86_000, "{} bytes", page.len());
    gateway.stop().await;
}
