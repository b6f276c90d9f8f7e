//! Accesses, and the routes that name them.

use super::{MEDIA, tell_behind_media};
use tidegate_config::{AccessToken, Environment, Secret, parse};
use tidegate_plan::{Period, Timestamp};

mod warnings;

#[test]
fn an_access_admits_something_and_not_all() {
    tell_behind_media(&[
        (
            "[access.a]\n",
            &[
                "t.toml:4:1: `access.a`: is empty, and admits nothing: it needs networks, tokens, clients, signed, jwt, auth_request or referers",
            ],
        ),
        (
            "[access.a]\nnetworks = []\ntokens = {}\n",
            &[
                "t.toml:5:12: `access.a.networks`: is empty; leave it out to admit no client by its address",
                "t.toml:6:10: `access.a.tokens`: is empty; leave it out for no tokens",
            ],
        ),
        (
            "[access.a]\ntokens = {}\nreferers = [\"example.org\"]\n",
            &["t.toml:5:10: `access.a.tokens`: is empty; leave it out for no tokens"],
        ),
        (
            "[access.a]\nnetworks = []\nreferers = [\"example.org\"]\n[access.b]\nnetworks = [\"::1\"]\n\
             [access.b.tokens]\n",
            &[
                "t.toml:5:12: `access.a.networks`: is empty; leave it out to admit no client by its address",
                "t.toml:9:1: `access.b.tokens`: is empty; leave it out for no tokens",
            ],
        ),
        (
            "[access.a]\nnetworks = [\"10.0.0.1/8\"]\nreferers = []\nhiden = true\n",
            &[
                "t.toml:5:13: `access.a.networks[0]`: `10.0.0.1/8` has bits behind its prefix; write 10.0.0.0/8",
                "t.toml:6:12: `access.a.referers`: is empty; leave it out to allow all",
                "t.toml:7:1: `access.a.hiden`: there is no such key; did you mean `hide`?",
            ],
        ),
        (
            "[access.a]\nreferers = [\"none\", \"https://example.org\"]\n",
            &[
                "t.toml:5:21: `access.a.referers[1]`: `https://example.org` is no host such as example.org, *.example.org, .example.org or example.*, with or without a path such as /galleries/, nor `none`, `blocked` or `server_names`",
            ],
        ),
        (
            "[access.a]\nreferers = [\"none\", \"server_names\"]\n[[route]]\norigin = \"media\"\naccess = \"a\"\n\
             [[route]]\norigin = \"media\"\npath = \"/b/\"\nhost = \"example.org\"\n",
            &[
                "t.toml:5:21: `access.a.referers[1]`: `server_names` names none: no route with this access has a `host`",
            ],
        ),
    ]);
}

#[test]
fn a_name_of_no_access_names_the_nearest() {
    tell_behind_media(&[(
        "[[route]]\norigin = \"media\"\naccess = \"membres\"\n[access.members]\nnetworks = [\"::1\"]\n",
        &["t.toml:6:10: `route[0].access`: there is no access `membres`; did you mean `members`?"],
    )]);
}

#[test]
fn tokens_are_long_and_their_times_are_read() {
    let form = "expected text, or a table of one of secret, env and file, and perhaps expires";
    let wrong = |key: &str, at: usize| format!("t.toml:5:{at}: `access.a.tokens.{key}`: {form}");
    for (text, key, at) in [
        ("tokens = { b = 1234567890123456 }", "b", 16),
        ("tokens = { b = {} }", "b", 16),
        ("tokens = { b = { env = \"A\", file = \"B\" } }", "b", 16),
        ("tokens = { b = { path = \"A\" } }", "b", 16),
    ] {
        tell_behind_media(&[(&format!("[access.a]\n{text}\n"), &[&wrong(key, at)])]);
    }
    tell_behind_media(&[
        (
            "[access.a]\ntokens = { b = \"short\", c = { secret = \"short\" } }\n",
            &[
                "t.toml:5:16: `access.a.tokens.b`: is shorter than 16 characters; `openssl rand -hex 24` makes one that cannot be guessed",
                "t.toml:5:29: `access.a.tokens.c`: is shorter than 16 characters; `openssl rand -hex 24` makes one that cannot be guessed",
            ],
        ),
        (
            "[access.a]\ntokens = { b = { env = \"B\", expires = \"soon\" } }\n",
            &[
                "t.toml:5:39: `access.a.tokens.b.expires`: `soon` is no day such as 2027-01-31, and no time such as 2027-01-31T12:00:00Z",
            ],
        ),
    ]);
    let text = format!(
        "{MEDIA}[access.a]\ntokens = {{ b = \"0123456789abcdef\", \
         c = {{ file = \"/c\", expires = \"2027-01-31T23:59:59Z\" }} }}\n"
    );
    let loaded = parse("t.toml", &text, &Environment::default()).expect("it is right");
    let tokens = &loaded.config.access["a"].tokens;
    let token = |secret, expires| AccessToken { secret, expires };
    let literal = Secret::Literal("0123456789abcdef".into());
    assert_eq!(tokens["b"], token(literal, None));
    let end = Timestamp::from_secs(1_801_439_999);
    assert_eq!(tokens["c"], token(Secret::File("/c".into()), Some(end)));
    assert!(!format!("{tokens:?}").contains("0123456789"));
}

#[test]
fn keys_have_ids_and_long_secrets() {
    tell_behind_media(&[
        (
            "[access.a]\nsigned = { keys = { k1 = \"short\", \"a/b\" = { env = \"K\" } } }\n",
            &[
                "t.toml:5:26: `access.a.signed.keys.k1`: is shorter than 16 characters; `openssl rand -hex 32` makes one that cannot be guessed",
                "t.toml:5:43: `access.a.signed.keys.a/b`: is no id of a key: up to 128 letters, digits, `-`, `_` and `.`",
            ],
        ),
        (
            "[access.a]\nsigned = { keys = {}, skew = \"2h\" }\n",
            &[
                "t.toml:5:19: `access.a.signed.keys`: is empty; leave `signed` out for no links",
                "t.toml:5:30: `access.a.signed.skew`: must be at most 1h",
            ],
        ),
        (
            "[access.a]\nsigned = {}\n",
            &[
                "t.toml:5:10: `access.a.signed.keys`: is missing; for example keys = {\"k1\":{\"env\":\"SIGN_K1\"}}",
            ],
        ),
    ]);
}

#[test]
fn a_jwt_has_keys_and_names_that_can_be_sent() {
    let long = "0123456789".repeat(4);
    tell_behind_media(&[
        (
            "[access.a]\njwt = {}\n",
            &["t.toml:5:7: `access.a.jwt`: needs keys: `jwks`, or `secret`"],
        ),
        (
            "[access.a]\njwt = { secret = \"short\", cookie = \"a b\", query = \"a=b\", issuer = \"\", skew = \"2h\", refresh = \"1s\" }\n",
            &[
                "t.toml:5:18: `access.a.jwt.secret`: is shorter than 32 characters; `openssl rand -hex 32` makes one that cannot be guessed",
                "t.toml:5:36: `access.a.jwt.cookie`: has other characters than letters, digits, `-`, `_` and `.`",
                "t.toml:5:51: `access.a.jwt.query`: has other characters than letters, digits, `-`, `_` and `.`",
                "t.toml:5:67: `access.a.jwt.issuer`: is empty",
                "t.toml:5:78: `access.a.jwt.skew`: must be at most 1h",
                "t.toml:5:94: `access.a.jwt.refresh`: must be between 10s and 1d",
            ],
        ),
        (
            "[access.a]\njwt = { jwks = \"ftp://a/b\" }\n[access.b]\njwt = { jwks = \"http://u:p@a/b\" }\n",
            &[
                "t.toml:5:16: `access.a.jwt.jwks`: is neither http:// nor https://",
                "t.toml:7:16: `access.b.jwt.jwks`: has credentials in it",
            ],
        ),
    ]);
    let text = format!("{MEDIA}[access.a]\njwt = {{ secret = \"{long}\" }}\n");
    let loaded = parse("t.toml", &text, &Environment::default()).expect("it is right");
    let jwt = loaded.config.access["a"].jwt.clone().expect("written");
    assert_eq!((jwt.query.as_str(), jwt.is_fetched()), ("token", false));
    assert!(!format!("{jwt:?}").contains(&long));
}

#[test]
fn a_server_has_a_url_and_bounds() {
    let form = "expected a URL, or a table of url, timeout and entries";
    tell_behind_media(&[
        (
            "[access.a]\nauth_request = \"/auth\"\n",
            &["t.toml:5:16: `access.a.auth_request`: is no URL such as http://127.0.0.1:9090/auth"],
        ),
        (
            "[access.a]\nauth_request = 17\n",
            &[&format!("t.toml:5:16: `access.a.auth_request`: {form}")],
        ),
        (
            "[access.a]\nauth_request = { url = \"http://127.0.0.1/\", timeout = \"2h\", entries = 9999999 }\n",
            &[
                "t.toml:5:16: `access.a.auth_request`: `entries` must be at most 1048576",
                "t.toml:5:16: `access.a.auth_request`: `timeout` must be between 1ms and 1m",
            ],
        ),
    ]);
    let text = format!(
        "{MEDIA}[[route]]\norigin = \"media\"\naccess = \"a\"\nhost = \"h.example\"\n\
         [access.a]\nauth_request = {{ url = \"http://auth.example/\", timeout = \"1s\" }}\n\
         jwt = {{ jwks = \"http://id.example/jwks\", issuer = \"i\" }}\n"
    );
    let loaded = parse("t.toml", &text, &Environment::default()).expect("it is right");
    let server = loaded.config.access["a"]
        .auth_request
        .clone()
        .expect("written");
    assert_eq!((server.timeout, server.entries), (Period::secs(1), 4096));
    let warnings: Vec<_> = loaded.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "t.toml:9:16: `access.a.auth_request`: is not encrypted, and not on this machine: it is sent the credentials of clients; use https://",
            "t.toml:10:7: `access.a.jwt`: has no `issuer` or no `audience`: tokens that these keys have signed for others are admitted",
            "t.toml:10:16: `access.a.jwt.jwks`: is not encrypted, and not on this machine: other keys could be put in their place; use https://",
        ]
    );
}
