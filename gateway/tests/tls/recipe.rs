//! `config/private-library.toml` as it is shipped, but for paths, names and secrets: over TLS, by a link, by a password,
//! and with neither.

use std::net::SocketAddr;

use super::*;

/// `alice:pass-phrase-of-alice`, `alice:another-phrase-of-alice` and `alice:wrong`.
const PASSWORD: &str = "authorization: Basic YWxpY2U6cGFzcy1waHJhc2Utb2YtYWxpY2U=\r\n";
const NEW_PASSWORD: &str = "authorization: Basic YWxpY2U6YW5vdGhlci1waHJhc2Utb2YtYWxpY2U=\r\n";
const WRONG_PASSWORD: &str = "authorization: Basic YWxpY2U6d3Jvbmc=\r\n";

const RECIPE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../config/private-library.toml"
);

/// Writes a secret that the gateway alone may read.
fn write_secret(folder: &Path, name: &str, secret: &str) {
    let path = folder.join(name);
    std::fs::write(&path, secret).expect("written");
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(path, private).expect("ours");
}

/// Returns the recipe for the files in this folder, and the world's bucket.
fn recipe(secured: &Secured) -> String {
    let folder = secured.folder();
    let key = secured.world.origin.credentials();
    // The files of systemd are copies from the start.
    let copies = folder.join("copies");
    std::fs::create_dir(&copies).expect("a folder");
    for (name, secret) in [
        ("token", TOKEN),
        ("s3-secret", &key.secret_access_key),
        ("alice", "pass-phrase-of-alice"),
        ("sign-k1", "secret-of-the-first-key"),
    ] {
        write_secret(&copies, name, secret);
        write_secret(folder, name, secret);
    }
    let mut toml = std::fs::read_to_string(RECIPE).expect("it is shipped");
    let to = |name: &str| folder.join(name).display().to_string();
    for (shipped, here) in [
        (
            "/etc/letsencrypt/live/media.example.org/fullchain.pem",
            to("b.pem"),
        ),
        (
            "/etc/letsencrypt/live/media.example.org/privkey.pem",
            to("b.key"),
        ),
        ("$CREDENTIALS_DIRECTORY", to("copies")),
        ("\"/etc/tidegate/", format!("\"{}", to(""))),
        ("/var/cache/tidegate", to("cache")),
        ("/var/lib/tidegate", to("state")),
        (
            "http://127.0.0.1:9000",
            secured.world.origin.endpoint().to_owned(),
        ),
        (
            "bucket = \"library\"",
            format!("bucket = \"{}\"", secured.world.origin.bucket()),
        ),
        (
            "access_key_id = \"tidegate\"",
            format!("access_key_id = \"{}\"", key.access_key_id),
        ),
        ("min_free = \"10GiB\"", "min_free = \"1MiB\"".to_owned()),
    ] {
        assert!(toml.contains(shipped), "{shipped}");
        toml = toml.replace(shipped, &here);
    }
    toml
}

/// Sends a GET over TLS with these header lines; returns the answer.
async fn over_tls(secured: &Secured, http: SocketAddr, path: &str, lines: &str) -> String {
    let client = secured.authority.client(&["http/1.1"]);
    let mut stream = connect(http, &client, "b.example")
        .await
        .expect("a handshake");
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: media.example.org\r\n{lines}connection: close\r\n\r\n"
    );
    let answered = async {
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.expect("an answer");
        String::from_utf8_lossy(&answer).into_owned()
    };
    timeout(LONG, answered).await.expect("in time")
}

/// Returns the path of a link that opens a book, as the operator makes it with this configuration and the key of this id.
fn signed_link(file: &Path, key: &str) -> String {
    let line = ["sign", "/books/the-book/", "--expires", "12h", "--prefix"];
    let site = "https://media.example.org";
    let signed = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(line)
        .args(["--key", key, "--url", site, "--config"])
        .arg(file)
        .output()
        .expect("it runs");
    let said = String::from_utf8(signed.stdout).expect("text");
    let link = said.lines().next().and_then(|link| link.strip_prefix(site));
    let link = link.unwrap_or_else(|| panic!("no link: {said}"));
    link.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_library_is_open_to_a_link_and_a_password_alone() {
    let secured = Secured::new().await;
    for key in ["public/cover", "books/the-book/1", "books/other/1"] {
        secured.world.put(key, key.as_bytes()).await;
    }
    let toml = recipe(&secured);
    let file = secured.folder().join("library.toml");
    std::fs::write(&file, &toml).expect("written");
    let link = &signed_link(&file, "k1");
    let whole = Whole::start(&toml).await;
    whole.ready().await;
    let other = link.replace("the-book", "other");
    for (path, lines, status) in [
        ("/public/cover", "", 200),
        ("/books/the-book/1", "", 401),
        ("/books/the-book/1", WRONG_PASSWORD, 401),
        ("/books/the-book/1", PASSWORD, 200),
        (&*format!("{link}1"), "", 200),
        (&*format!("{other}1"), "", 401),
    ] {
        let answer = over_tls(&secured, whole.http, path, lines).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{path}: {answer}"
        );
        let asks = answer.to_lowercase().contains("www-authenticate: basic");
        assert_eq!(asks, status == 401, "{path}: {answer}");
    }
    whole.stop().await;
}

/// The recipe under its unit: another password in its file, and another key beside the first, need a reload and no restart.
#[tokio::test(flavor = "multi_thread")]
async fn members_come_and_go_by_a_reload() {
    let secured = Secured::new().await;
    let book = "/books/the-book/1";
    secured.world.put(&book[1..], b"a chapter").await;
    let toml = recipe(&secured);
    // `Serving` brings its own addresses.
    let (before, rest) = toml.split_once("[http]\n").expect("a section");
    let (_, after) = rest
        .split_once("\n[[tls.certificates]]\n")
        .expect("the next");
    let toml = format!("{before}[[tls.certificates]]\n{after}");
    let mut serving = Serving::configured(&toml);
    encrypt(&serving);
    serving.start().await;
    let statuses = async |links: &[String]| {
        let mut statuses = Vec::new();
        let links = links.iter().map(|link| (format!("{link}1"), ""));
        let passwords = [PASSWORD, NEW_PASSWORD].map(|lines| (book.to_owned(), lines));
        for (path, lines) in passwords.into_iter().chain(links) {
            let answer = over_tls(&secured, serving.http, &path, lines).await;
            let status = answer.split(' ').nth(1).expect("a status");
            statuses.push(status.to_owned());
        }
        statuses
    };
    let first = signed_link(&serving.config(), "k1");
    assert_eq!(
        statuses(std::slice::from_ref(&first)).await,
        ["200", "401", "200"]
    );

    write_secret(secured.folder(), "alice", "another-phrase-of-alice");
    write_secret(secured.folder(), "sign-k2", "secret-of-the-second-key");
    let text = std::fs::read_to_string(serving.config()).expect("written");
    let (_, key) = text.split_once("keys = { ").expect("the first key");
    let (key, _) = key.split_once(" } }").expect("its end");
    let second = secured.folder().join("sign-k2");
    let both = format!("{key} }}, k2 = {{ file = \"{}\"", second.display());
    std::fs::write(serving.config(), text.replace(key, &both)).expect("written");
    let links = [first, signed_link(&serving.config(), "k2")];
    assert!(links[1].contains("&key=k2&"), "{}", links[1]);
    let answer = serving.post("/reload").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(statuses(&links).await, ["401", "200", "200", "200"]);
    serving.end().await;
}
