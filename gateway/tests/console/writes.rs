//! The section Writes by its forms: each choice on a refused draft of a real mount. The tests need root and /dev/fuse.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};

use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::admission::log_in;
use super::mount::{Folder, blocking};
use super::{AUTH, Got, LONG, Whole, World, api, ask, page_at, post, sample, send};

/// So small that the store has the whole request before it refuses it.
const SIZE: usize = 3000;

/// The place of the bytes that are written here.
const AT: usize = 1000;

/// A gateway with a draft that was refused: of an object that had `sample(SIZE, 3)`, and has "theirs" now.
struct Refused {
    gateway: Whole,
    _folder: Folder,
    cookie: String,
    csrf: String,
}

impl Refused {
    async fn start(world: &World) -> Self {
        world.put("a/film.bin", &sample(SIZE, 3)).await;
        let folder = Folder::new();
        let toml = format!(
            "{}[spool]\npath = \"{}\"\n[[mount]]\npath = \"{}\"\nwritable = true\ncommit = \"background\"\n",
            world
                .config("ttl = \"1h\"")
                .replace("name = \"media\"", "name = \"my media\""),
            world.folder.path().join("spool").display(),
            folder.path().display(),
        );
        let gateway = Whole::start(&toml).await;
        gateway.ready().await;
        let path = folder.path().join("a/film.bin");
        let change = blocking(move || {
            let mut how = std::fs::File::options();
            let mut file = how.read(true).write(true).open(path).expect("opened");
            let mut before = Vec::new();
            file.read_to_end(&mut before).expect("read");
            file.seek(SeekFrom::Start(AT as u64)).expect("there");
            file.write_all(b"mine").expect("written");
            file
        });
        let file = change.await;
        world.put("a/film.bin", b"theirs").await;
        blocking(move || drop(file)).await;
        let (cookie, csrf) = log_in(&gateway).await;
        let refused = Self {
            gateway,
            _folder: folder,
            cookie,
            csrf,
        };
        refused.wait().await;
        refused
    }

    /// Waits until the draft is refused: at first, and after each try.
    async fn wait(&self) {
        let mut draft = Value::Null;
        let is_refused = async {
            while draft["stage"] != "refused" {
                draft = self.draft().await;
            }
        };
        let waited = timeout(LONG, is_refused).await;
        assert!(waited.is_ok(), "it is not refused: {draft}");
    }

    /// Returns the only draft; `null`: there is none.
    async fn draft(&self) -> Value {
        api(&self.gateway, "/api/v1/writes").await["drafts"][0].clone()
    }

    async fn show(&self, path: &str) -> String {
        page_at(self.gateway.admin, path, &self.cookie).await
    }

    /// Presses the button of a choice on the page, and returns the page that follows.
    async fn press(&self, choice: &str) -> String {
        let page = self.show("/console/writes").await;
        let id = self.draft().await["id"].as_str().expect("text").to_owned();
        let id = utf8_percent_encode(&id, NON_ALPHANUMERIC).to_string();
        let button = format!("form=\"act\" name=\"decide\" value=\"{choice} {id}\"");
        assert!(page.contains(&button), "no button {choice}: {page}");
        assert!(page.contains(&format!("id=\"draft-{id}\"")), "{page}");
        let value = utf8_percent_encode(&id, NON_ALPHANUMERIC);
        let mut fields = format!("csrf={}&decide={choice}+{value}", self.csrf);
        if choice == "theirs" {
            // What would be lost is asked for first.
            let got = post(&self.gateway, "/console/writes", &self.cookie, &fields).await;
            assert_eq!(got.status, 200, "{}", got.text());
            assert!(got.text().contains("Discard ours"), "{}", got.text());
            assert_eq!(self.draft().await["stage"], "refused");
            fields.push_str("&sure=yes");
        }
        let got = post(&self.gateway, "/console/writes", &self.cookie, &fields).await;
        assert_eq!(got.status, 303, "{}", got.text());
        self.show(got.header("location")).await
    }

    /// Decides by the API. After a decision that failed the draft is tried once more; until that is refused too, there is
    /// none to decide on.
    async fn decide(&self, choice: &str) -> Got {
        let headers = [AUTH, ("content-type", "application/json")];
        let wanted = json!({ "id": self.draft().await["id"], "choice": choice }).to_string();
        let (admin, path) = (self.gateway.admin, "/api/v1/writes");
        let decided = async {
            loop {
                let got = send(admin, Method::POST, path, &headers, &wanted).await;
                if got.status != 404 {
                    return got;
                }
            }
        };
        timeout(LONG, decided).await.expect("in time")
    }

    /// Returns the bytes of an object as readers get them.
    async fn read(&self, path: &str) -> Vec<u8> {
        let got = self.gateway.get(path, &[]).await;
        assert_eq!(got.status, 200, "{path}");
        got.body.to_vec()
    }

    async fn end(self) {
        assert_eq!(self.draft().await, Value::Null, "nothing is left");
        self.gateway.stop().await;
    }
}

fn ours() -> Vec<u8> {
    let mut bytes = sample(SIZE, 3);
    bytes[AT..AT + 4].copy_from_slice(b"mine");
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_is_saved_aside_from_the_page() {
    let world = World::new().await;
    let refused = Refused::start(&world).await;
    let choices = refused.draft().await["choices"].clone();
    assert_eq!(choices, json!(["ours", "theirs", "aside"]));
    let page = refused.press("aside").await;
    let (_, key) = page
        .split_once("It is in the bucket as ")
        .expect("a message");
    let (key, _) = key.split_once(".bin.").expect("its end");
    assert!(key.starts_with("a/film (saved "), "{key}");
    let path = format!("/{}.bin", key.replace(' ', "%20"));
    assert!(
        refused.read(&path).await == ours(),
        "each byte of the draft"
    );
    assert!(refused.read("/a/film.bin").await == b"theirs", "it stays");
    refused.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_is_discarded_from_the_page() {
    let world = World::new().await;
    let refused = Refused::start(&world).await;
    let page = refused.press("theirs").await;
    assert!(page.contains("The draft is discarded."), "{page}");
    assert!(refused.read("/a/film.bin").await == b"theirs", "it stays");
    let folder = api(&refused.gateway, "/api/v1/objects?path=/a/").await;
    assert_eq!(
        folder["names"].as_array().map(Vec::len),
        Some(1),
        "{folder}"
    );
    refused.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_replaces_the_object_from_the_page() {
    let world = World::new().await;
    let refused = Refused::start(&world).await;
    let page = refused.press("ours").await;
    assert!(
        page.contains("It is in the bucket as a/film.bin."),
        "{page}"
    );
    assert!(refused.read("/a/film.bin").await == ours(), "each byte");
    refused.end().await;
}

/// Most of the draft is in the version that it began with: once that is in no cache, only the other version is left.
#[tokio::test(flavor = "multi_thread")]
async fn a_draft_whose_base_is_gone_can_only_be_discarded() {
    let world = World::new().await;
    let refused = Refused::start(&world).await;
    let admin = refused.gateway.admin;
    // The page has told of three choices: what is known of a draft is asked for anew after a decision.
    assert_eq!(
        refused.draft().await["choices"].as_array().map(Vec::len),
        Some(3)
    );
    let purged = ask(admin, Method::POST, "/purge?path=/a/film.bin", &[AUTH]).await;
    assert_eq!(purged.status, 200, "{}", purged.text());
    for choice in ["aside", "ours"] {
        let got = refused.decide(choice).await;
        assert_eq!(got.status, 409, "{choice}: {}", got.text());
        assert!(
            got.text().contains("the draft stays as it is"),
            "{}",
            got.text()
        );
    }
    // A decision that fails has the draft tried once more; meanwhile nothing is known of it.
    let (mut draft, left) = (Value::Null, json!(["theirs"]));
    let is_told = async {
        while (&draft["stage"], &draft["choices"]) != (&json!("refused"), &left) {
            draft = refused.draft().await;
        }
    };
    let waited = timeout(LONG, is_told).await;
    assert!(waited.is_ok(), "the other choices are offered: {draft}");
    let page = refused.show("/console/writes").await;
    assert!(page.contains("It can only be discarded."), "{page}");
    assert_eq!(page.matches("name=\"decide\"").count(), 1, "{page}");
    let page = refused.press("theirs").await;
    assert!(page.contains("The draft is discarded."), "{page}");
    refused.end().await;
}

/// The draft of an object on the second page is on the first one, and no more on the second.
#[tokio::test(flavor = "multi_thread")]
async fn a_draft_of_an_object_on_a_later_page_is_listed_once() {
    let world = World::new().await;
    for n in 0..99 {
        // The name of the draft's object is the sixtieth.
        let side = if n < 59 { "b" } else { "z" };
        world.put(&format!("a/{side}{n:02}"), b"x").await;
    }
    let refused = Refused::start(&world).await;
    let mut names = Vec::new();
    let mut path = "/api/v1/objects?path=/a/&limit=50".to_owned();
    loop {
        let page = api(&refused.gateway, &path).await;
        names.extend(page["names"].as_array().expect("names").clone());
        let Some(token) = page["next"].as_str() else {
            break;
        };
        path = format!("/api/v1/objects?path=/a/&limit=50&page={token}");
    }
    assert_eq!(names.len(), 100, "each once");
    let mut drafts = names.iter().enumerate();
    let draft = drafts.find(|(_, one)| one["name"] == "film.bin");
    let (at, draft) = draft.expect("it is listed");
    assert_eq!((at, &draft["draft"]), (50, &json!("refused")));
    let page = refused.press("theirs").await;
    assert!(page.contains("The draft is discarded."), "{page}");
    refused.end().await;
}
