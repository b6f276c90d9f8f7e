//! The section Settings by its forms: a setting is changed and changed back, and the configuration is read again.

use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::admission::log_in_at;
use super::objects::hidden_fields;
use super::serving::Serving;
use super::{AUTH, World, api_at, configuration, page_at, post_to, send};

/// A reader of the pages, who has logged in.
struct Browser {
    serving: Serving,
    cookie: String,
}

impl Browser {
    async fn start(world: &World) -> Self {
        let mut serving = Serving::configured(&configuration(world));
        serving.start().await;
        let (cookie, _) = log_in_at(serving.admin).await;
        Self { serving, cookie }
    }

    async fn show(&self, path: &str) -> String {
        page_at(self.serving.admin, path, &self.cookie).await
    }

    /// Presses a button, and returns the page that follows. `more` has the fields that the operator fills in.
    async fn press(&self, page: &str, action: &str, more: &str) -> String {
        let button = match action {
            "unset" => "name=\"unset\" value=\"".to_owned(),
            action => format!("name=\"action\" value=\"{action}\""),
        };
        let mut forms = page
            .split("<form")
            .filter_map(|form| form.split("</form>").next());
        let form = forms.find(|form| form.contains(&button));
        let form = form.unwrap_or_else(|| panic!("no button {action}: {page}"));
        let (_, rest) = form.split_once(&button).expect("found");
        let pressed = match action {
            "unset" => {
                let written = rest.split('"').next().expect("a value");
                format!("unset={}", utf8_percent_encode(written, NON_ALPHANUMERIC))
            }
            action => format!("action={action}"),
        };
        let fields = format!("{}{pressed}{more}", hidden_fields(form));
        let got = post_to(
            self.serving.admin,
            "/console/settings",
            &self.cookie,
            &fields,
        )
        .await;
        match got.status {
            303 => self.show(got.header("location")).await,
            status => {
                assert_eq!(status, 200, "{}", got.text());
                got.text()
            }
        }
    }

    /// Returns the value of a key, and the place that it is from.
    async fn setting(&self, key: &str) -> (String, String) {
        let settings = api_at(self.serving.admin, "/api/v1/settings").await;
        let settings = settings["settings"].as_array().expect("a list");
        let setting = settings.iter().find(|one| one["key"] == key);
        let setting = setting.expect("it is listed");
        let text = |name: &str| setting[name].as_str().expect("text").to_owned();
        (text("value"), text("source"))
    }

    /// Returns the value of `cache.memory`, and the place that it is from.
    async fn memory(&self) -> (String, String) {
        self.setting("cache.memory").await
    }

    /// Sets an override as `tidegate set` does.
    async fn order(&self, body: &str) {
        let headers = [AUTH, ("content-type", "application/json")];
        let got = send(
            self.serving.admin,
            Method::POST,
            "/overrides",
            &headers,
            body,
        )
        .await;
        assert_eq!(got.status, 200, "{}", got.text());
    }

    /// Changes the configuration file.
    fn write(&self, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.serving.config()).expect("written");
        assert!(text.contains(from), "{text}");
        std::fs::write(self.serving.config(), text.replace(from, to)).expect("written");
    }

    async fn end(mut self) {
        self.serving.end().await;
    }
}

fn pair(value: &str, source: &str) -> (String, String) {
    (value.to_owned(), source.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_is_changed_and_that_is_undone() {
    let world = World::new().await;
    let browser = Browser::start(&world).await;
    let edit = browser.show("/console/settings?edit=cache.memory").await;
    assert!(!edit.contains("name=\"unset\""), "nothing is to be undone");
    let page = browser.press(&edit, "set", "&value=much").await;
    let (_, errors) = page.split_once("id=\"edit-errors\"").expect("errors");
    let errors = errors.split("</ul>").next().expect("their end");
    assert!(
        errors.contains("<code>much</code>") && !errors.contains('`'),
        "{errors}"
    );
    assert_eq!(browser.memory().await, pair("64MiB", "file"));

    let page = browser.press(&page, "set", "&value=80MiB").await;
    assert!(page.contains("In force now: cache.memory."), "{page}");
    assert_eq!(browser.memory().await, pair("80MiB", "override"));

    let edit = browser.show("/console/settings?edit=cache.memory").await;
    let page = browser.press(&edit, "unset", "&value=80MiB").await;
    assert!(page.contains("In force now: cache.memory."), "{page}");
    assert_eq!(browser.memory().await, pair("64MiB", "file"));
    browser.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_configuration_is_read_again_from_the_page() {
    let world = World::new().await;
    let browser = Browser::start(&world).await;
    let page = browser.show("/console/settings").await;
    let page = browser.press(&page, "reload", "").await;
    assert!(page.contains("The configuration is as it was."), "{page}");

    browser.write("memory = \"64MiB\"", "memory = \"96MiB\"");
    let page = browser.press(&page, "reload", "").await;
    assert!(page.contains("In force now: cache.memory."), "{page}");
    assert_eq!(browser.memory().await, pair("96MiB", "file"));

    browser.write("memory = \"96MiB\"", "memory = \"much\"");
    let page = browser.press(&page, "reload", "").await;
    let (_, error) = page.split_once("role=\"alert\"").expect("an error");
    assert!(error.contains("cache.memory"), "{error}");
    assert_eq!(browser.memory().await, pair("96MiB", "file"), "it stays");
    browser.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_override_stays_with_its_entry_and_is_undone_as_it_is_written() {
    let world = World::new().await;
    let browser = Browser::start(&world).await;
    let edit = browser
        .show("/console/settings?edit=origin[0].price_get")
        .await;
    let page = browser.press(&edit, "set", "&value=0.75").await;
    assert!(page.contains("In force now: "), "{page}");
    let (first, second) = ("origin[0].price_get", "origin[1].price_get");
    assert_eq!(browser.setting(first).await, pair("0.75", "override"));

    // The file gets another origin before that one.
    let other = "[[origin]]\nname = \"other\"\nbucket = \"other\"\nendpoint = \"http://127.0.0.1:9\"\n\
                 access_key_id = \"a\"\nsecret_access_key = \"b\"\n\
                 [[route]]\npath = \"/\"\norigin = \"media\"\n[[origin]]\nname = \"media\"";
    browser.write("[[origin]]\nname = \"media\"", other);
    let page = browser.show("/console/settings").await;
    let page = browser.press(&page, "reload", "").await;
    assert!(page.contains("In force now: "), "{page}");
    assert_eq!(browser.setting(second).await, pair("0.75", "override"));
    assert_ne!(browser.setting(first).await.1, "override");

    // An operator may name the entry by its number.
    let edit = browser
        .show("/console/settings?edit=origin[1].price_get")
        .await;
    browser.press(&edit, "unset", "").await;
    assert_eq!(browser.setting(second).await, pair("0.5", "file"));
    let numbered = r#"{"key": "origin[1].price_get", "value": "0.25"}"#;
    browser.order(numbered).await;
    assert_eq!(browser.setting(second).await, pair("0.25", "override"));
    let edit = browser
        .show("/console/settings?edit=origin[1].price_get")
        .await;
    let page = browser.press(&edit, "set", "&value=0.125").await;
    assert_eq!(
        browser.setting(second).await,
        pair("0.125", "override"),
        "{page}"
    );
    let edit = browser
        .show("/console/settings?edit=origin[1].price_get")
        .await;
    browser.press(&edit, "unset", "").await;
    assert_eq!(browser.setting(second).await, pair("0.5", "file"));
    browser.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_not_listed_can_be_set() {
    let world = World::new().await;
    let browser = Browser::start(&world).await;
    let text = browser.show("/console/settings").await;
    let (_, form) = text.split_once("id=\"any-key\"").expect("a form");
    assert!(form.contains("id=\"any-value\""), "{form}");
    let (_, csrf) = text.split_once("name=\"csrf\" value=\"").expect("a form");
    let csrf = csrf.split('"').next().expect("a value");
    let save = async |fields: &str| {
        let fields = format!("csrf={csrf}&action=set&{fields}");
        let got = post_to(
            browser.serving.admin,
            "/console/settings",
            &browser.cookie,
            &fields,
        );
        got.await
    };
    let got = save("key=profile.films.tll&value=5m").await;
    let page = got.text();
    assert_eq!(got.status, 200, "{page}");
    let (_, errors) = page.split_once("id=\"any-errors\"").expect("errors");
    assert!(errors.contains("<code>profile.films.tll</code>"), "{page}");
    assert!(
        page.contains("value=\"profile.films.tll\""),
        "it can be mended: {page}"
    );
    let got = save("key=profile.films.ttl&value=5m").await;
    assert_eq!(got.status, 303, "{}", got.text());
    assert_eq!(
        browser.setting("profile.films.ttl").await,
        pair("5m", "override")
    );
    browser.end().await;
}
