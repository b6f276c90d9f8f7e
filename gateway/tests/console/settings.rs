//! The section Settings by its forms: a setting is changed and changed back, and the configuration is read again.

use super::admission::log_in_at;
use super::objects::hidden_fields;
use super::serving::Serving;
use super::{World, api_at, configuration, page_at, post_to};

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
        let button = format!("name=\"action\" value=\"{action}\"");
        let mut forms = page
            .split("<form")
            .filter_map(|form| form.split("</form>").next());
        let form = forms.find(|form| form.contains(&button));
        let form = form.unwrap_or_else(|| panic!("no button {action}: {page}"));
        let fields = format!("{}action={action}{more}", hidden_fields(form));
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

    /// Returns the value of `cache.memory`, and the place that it is from.
    async fn memory(&self) -> (String, String) {
        let settings = api_at(self.serving.admin, "/api/v1/settings").await;
        let settings = settings["settings"].as_array().expect("a list");
        let memory = settings.iter().find(|one| one["key"] == "cache.memory");
        let memory = memory.expect("it is listed");
        let text = |name: &str| memory[name].as_str().expect("text").to_owned();
        (text("value"), text("source"))
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
    assert!(!edit.contains("value=\"unset\""), "nothing is to be undone");
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
