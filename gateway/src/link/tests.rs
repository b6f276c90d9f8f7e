use tidegate_config::parse;

use super::*;

/// Returns the beginning of the link to a path.
fn beginning(public_url: &str, host: Option<&str>, path: &str) -> Result<String, String> {
    let text = format!(
        "[http]\npublic_url = \"{public_url}\"\n[[origin]]\nname = \"media\"\nbucket = \"media\"\n\
         [[route]]\norigin = \"media\"\npath = \"/films/\"\nhost = \"films.example.org\"\n\
         [[route]]\norigin = \"media\"\npath = \"/open/\"\n"
    );
    let env = Environment::from_iter([("", ""); 0]);
    let loaded = parse("t.toml", &text, &env).expect("it is right");
    let times = (Timestamp::from_secs(1_800_000_000), Duration::from_secs(60));
    let link = to_path((&loaded.config, &env), (host, path), None, times);
    let link = link.map_err(|error| format!("{error:#}"))?;
    assert_eq!(link.key, None);
    let beginning = link.url.strip_suffix(path).expect("the path");
    Ok(beginning.to_owned())
}

#[test]
fn a_path_is_encoded_once() {
    for (path, expected) in [
        ("/a/b-._~!(),:@", "/a/b-._~!(),:@"),
        ("/b\u{fc} c/\"'", "/b%C3%BC%20c/%22%27"),
        ("/%c3%BC%2F%25", "/%c3%BC%2F%25"),
        ("/%", "/%25"),
        ("/%4", "/%254"),
        ("/%%41%zz\u{fc}", "/%25%41%25zz%C3%BC"),
    ] {
        assert_eq!(encoded(path), expected);
        assert_eq!(encoded(expected), expected, "and never twice");
    }
}

#[test]
fn a_link_has_its_route_s_host_and_the_public_port() {
    let films = Some("films.example.org");
    for (public_url, host, path, expected) in [
        (
            "https://m.example.org",
            None,
            "/open/a",
            "https://m.example.org",
        ),
        (
            "https://m.example.org:8443",
            None,
            "/open/a",
            "https://m.example.org:8443",
        ),
        (
            "https://m.example.org:8443",
            films,
            "/films/a",
            "https://films.example.org:8443",
        ),
        (
            "https://m.example.org",
            films,
            "/films/a",
            "https://films.example.org",
        ),
        (
            "http://[::1]:8080",
            films,
            "/films/a",
            "http://films.example.org:8080",
        ),
        // The scheme's own port says nothing.
        (
            "https://m.example.org:443",
            films,
            "/films/a",
            "https://films.example.org",
        ),
        // An order without a host is for requests to the public URL.
        (
            "https://films.example.org:8443",
            None,
            "/films/a",
            "https://films.example.org:8443",
        ),
    ] {
        let made = beginning(public_url, host, path);
        assert_eq!(
            made.as_deref(),
            Ok(expected),
            "{public_url} {host:?} {path}"
        );
    }
    let missing = beginning("https://m.example.org", None, "/films/a");
    assert_eq!(missing, Err("no route has the path `/films/a`".to_owned()));
}
