//! The console while the configuration is reloaded, and after that.

use std::io::Write as _;
use std::process::Command;

use http::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::authority::{Authority, connect};
use super::live::read_until;
use super::serving::Serving;
use super::{AUTH, World, ask, configuration, post_to};

/// Logs in over TLS; returns the head of the answer.
async fn log_in(authority: &Authority, serving: &Serving) -> std::io::Result<String> {
    let client = authority.client(&["http/1.1"]);
    let mut stream = connect(serving.admin, &client, "a.example").await?;
    let body = "token=t0ken-of-the-tests";
    let request = format!(
        "POST /console/login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_that_encrypts_the_listener_makes_cookies_secure() {
    let world = World::new().await;
    let authority = Authority::new();
    let folder = world.folder.path();
    authority.write(folder, "a", &["a.example"]);
    let certificates = format!(
        "[[tls.certificates]]\ncertificate = \"{0}/a.pem\"\nkey = {{ file = \"{0}/a.key\" }}\n",
        folder.display()
    );
    let mut serving = Serving::configured(&format!("{}{certificates}", configuration(&world)));
    serving.start().await;
    let token = "token=t0ken-of-the-tests";
    let got = post_to(serving.admin, "/console/login", "", token).await;
    assert!(got.header("set-cookie").contains("HttpOnly"));
    assert!(!got.header("set-cookie").contains("Secure"));

    let text = std::fs::read_to_string(serving.config()).expect("written");
    let plain = format!("[admin]\nlisten = \"{}\"\n", serving.admin);
    let own = format!(
        "[admin]\nlisten = {{ address = \"{}\", tls = true }}\n",
        serving.admin
    );
    assert!(text.contains(&plain), "{text}");
    std::fs::write(serving.config(), text.replace(&plain, &own)).expect("written");
    let got = ask(serving.admin, Method::POST, "/reload", &[AUTH]).await;
    assert_eq!(got.status, 200, "{}", got.text());
    // The listener before may take a last connection, which speaks no TLS.
    let begun = tokio::time::Instant::now();
    let answer = loop {
        match log_in(&authority, &serving).await {
            Ok(answer) => break answer,
            Err(error) => assert!(begun.elapsed() < super::LONG, "no TLS: {error}"),
        }
    };
    assert!(answer.starts_with("HTTP/1.1 303 "), "{answer}");
    let set = answer.lines().find(|line| line.starts_with("set-cookie: "));
    assert!(set.is_some_and(|set| set.ends_with("; Secure")), "{answer}");
    serving.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_configuration_is_shown_while_a_reload_waits() {
    let world = World::new().await;
    let mut serving = Serving::configured(&configuration(&world));
    serving.start().await;
    let file = serving.config();
    let text = std::fs::read_to_string(&file).expect("written");
    std::fs::remove_file(&file).expect("removed");
    let made = Command::new("mkfifo").arg(&file).status().expect("it runs");
    assert!(made.success());
    let admin = serving.admin;
    let reload = tokio::spawn(async move { ask(admin, Method::POST, "/reload", &[AUTH]).await });
    // Opened once the reload reads: from here on it waits for the text.
    let open = spawn_blocking(move || std::fs::File::options().write(true).open(file));
    let opened = timeout(super::LONG, open).await.expect("in time");
    let mut pipe = opened.expect("no panic").expect("a pipe");
    for path in [
        "/api/v1/settings",
        "/api/v1/routes",
        "/api/v1/origins",
        "/api/v1/hooks",
        "/console/events",
    ] {
        let got = ask(admin, Method::GET, path, &[AUTH]).await;
        assert_eq!(got.status, 200, "{path}");
    }
    assert!(!reload.is_finished(), "it was to wait");
    pipe.write_all(text.as_bytes()).expect("read");
    drop(pipe);
    let got = timeout(super::LONG, reload).await.expect("in time");
    let got = got.expect("no panic");
    assert_eq!(got.status, 200, "{}", got.text());
    serving.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_part_ends_with_the_token_that_opened_it() {
    let world = World::new().await;
    let mut serving = Serving::configured(&configuration(&world));
    serving.start().await;
    let mut live = TcpStream::connect(serving.admin).await.expect("listening");
    let head = format!(
        "GET /console/live?section=now HTTP/1.1\r\nhost: {}\r\n{}: {}\r\n\r\n",
        serving.admin, AUTH.0, AUTH.1
    );
    live.write_all(head.as_bytes()).await.expect("sent");
    read_until(&mut live, "tiles").await;
    read_until(&mut live, "tiles").await;
    let text = std::fs::read_to_string(serving.config()).expect("written");
    let other = text.replace("t0ken-of-the-tests", "another-t0ken-of-the-tests");
    std::fs::write(serving.config(), other).expect("written");
    let got = ask(serving.admin, Method::POST, "/reload", &[AUTH]).await;
    assert_eq!(got.status, 200, "{}", got.text());
    read_until(&mut live, "\r\n0\r\n\r\n").await;
    serving.end().await;
}
