//! `config/private-library.toml` as it is shipped, but for paths, names and secrets: over TLS, by a link, by a password,
//! and with neither.

use super::*;

const RECIPE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../config/private-library.toml"
);

/// Returns the recipe for the files in this folder, and the world's bucket.
fn recipe(secured: &Secured) -> String {
    let folder = secured.folder();
    let key = secured.world.origin.credentials();
    let secrets = [
        ("token", TOKEN),
        ("s3-secret", &key.secret_access_key),
        ("alice", "pass-phrase-of-alice"),
        ("sign-k1", "secret-of-the-first-key"),
    ];
    for (name, secret) in secrets {
        let path = folder.join(name);
        std::fs::write(&path, secret).expect("written");
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(path, private).expect("ours");
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
        ("$CREDENTIALS_DIRECTORY", to("")),
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
async fn over_tls(secured: &Secured, whole: &Whole, path: &str, lines: &str) -> String {
    let client = secured.authority.client(&["http/1.1"]);
    let mut stream = connect(whole.http, &client, "b.example")
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

#[tokio::test(flavor = "multi_thread")]
async fn a_private_library_is_open_to_a_link_and_a_password_alone() {
    let secured = Secured::new().await;
    for key in ["public/cover", "books/the-book/1", "books/other/1"] {
        secured.world.put(key, key.as_bytes()).await;
    }
    let toml = recipe(&secured);
    let file = secured.folder().join("library.toml");
    std::fs::write(&file, &toml).expect("written");
    let line = ["sign", "/books/the-book/", "--expires", "12h", "--prefix"];
    let site = "https://media.example.org";
    let signed = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(line)
        .args(["--url", site, "--config"])
        .arg(&file)
        .output()
        .expect("it runs");
    let said = String::from_utf8(signed.stdout).expect("text");
    let link = said.lines().next().and_then(|link| link.strip_prefix(site));
    let link = link.unwrap_or_else(|| panic!("no link: {said}"));
    let whole = Whole::start(&toml).await;
    whole.ready().await;
    // alice:pass-phrase-of-alice, and alice:wrong
    let right = "authorization: Basic YWxpY2U6cGFzcy1waHJhc2Utb2YtYWxpY2U=\r\n";
    let wrong = "authorization: Basic YWxpY2U6d3Jvbmc=\r\n";
    let other = link.replace("the-book", "other");
    for (path, lines, status) in [
        ("/public/cover", "", 200),
        ("/books/the-book/1", "", 401),
        ("/books/the-book/1", wrong, 401),
        ("/books/the-book/1", right, 200),
        (&*format!("{link}1"), "", 200),
        (&*format!("{other}1"), "", 401),
    ] {
        let answer = over_tls(&secured, &whole, path, lines).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{path}: {answer}"
        );
        let asks = answer.to_lowercase().contains("www-authenticate: basic");
        assert_eq!(asks, status == 401, "{path}: {answer}");
    }
    whole.stop().await;
}
