//! Warnings: accesses and networks that let in more than they seem to, or are of no use.

use super::super::warned;
use super::*;

#[test]
fn an_open_route_to_what_another_one_protects_is_a_warning() {
    let routes = |open: &str, closed: &str| {
        warned(&format!(
            "[[route]]\norigin = \"media\"\n{open}\n[[route]]\norigin = \"media\"\naccess = \"a\"\n{closed}\n\
             [access.a]\nnetworks = [\"192.0.2.0/24\"]\n"
        ))
    };
    let closed = "path = \"/private/\"\nkey_prefix = \"private/\"";
    // All URLs of its objects belong to the closed route.
    assert_eq!(routes("path = \"/\"", closed), [""; 0]);
    assert_eq!(
        routes("path = \"/x/\"\nkey_prefix = \"x/\"", closed),
        [""; 0]
    );
    let warning = |line: &str, path: &str| {
        format!(
            "t.toml:{line}: `route[0].path`: opens what `/private/` protects: its objects lie below {path} as well; \
             give one of them another `key_prefix` or bucket, or this one an `access`"
        )
    };
    assert_eq!(
        routes("path = \"/\"", "path = \"/private/\""),
        [warning("6:8", "/")]
    );
    assert_eq!(
        routes("path = \"/all/\"", closed),
        [warning("6:8", "/all/private/")]
    );
    // Another route has these URLs.
    let open = "path = \"/\"\n[[route]]\norigin = \"other\"\npath = \"/private/\"";
    let other = "[[origin]]\nname = \"other\"\nbucket = \"other\"";
    let closed_there = format!("host = \"a.example\"\n{closed}\n{other}");
    assert_eq!(routes(open, &closed_there), [""; 0]);
    let other_host = "host = \"a.example\"\npath = \"/private/\"\nkey_prefix = \"private/\"";
    assert_eq!(
        routes("path = \"/\"", other_host),
        [warning("6:8", "/private/")]
    );
}

#[test]
fn referers_alone_are_a_warning() {
    let text = format!(
        "{MEDIA}[[route]]\norigin = \"media\"\naccess = \"a\"\n[access.a]\nreferers = [\"example.org\"]\n"
    );
    let loaded = parse("t.toml", &text, &Environment::default()).expect("it is right");
    let warnings: Vec<_> = loaded.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "t.toml:8:12: `access.a.referers`: is the only rule, and keeps out pages alone: a program sends any `Referer`",
        ]
    );
}

#[test]
fn what_would_be_of_no_use_or_of_harm_is_a_warning() {
    let text = format!(
        "{MEDIA}[[route]]\norigin = \"media\"\naccess = \"a\"\ncache_control = \"Public, max-age=1\"\n\
         [http]\nlisten = \"0.0.0.0:80\"\n\
         [access.a]\ntokens = {{ b = {{ env = \"B\" }} }}\njwt = {{ jwks = \"k\" }}\n\
         [access.b]\nnetworks = [\"::1\"]\n"
    );
    let loaded = parse("t.toml", &text, &Environment::default()).expect("it is right");
    let warnings: Vec<_> = loaded.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "t.toml:7:17: `route[0].cache_control`: lets shared caches answer in our place, and they do not know the route's `access`",
            "t.toml:11:10: `access.a.tokens`: the tokens cross the network unencrypted: `http.listen` names 0.0.0.0:80; say `tls = true` there, or listen on loopback behind a proxy with TLS",
            "t.toml:12:7: `access.a.jwt`: the JWTs cross the network unencrypted: `http.listen` names 0.0.0.0:80; say `tls = true` there, or listen on loopback behind a proxy with TLS",
            "t.toml:13:1: `access.b`: no route names it",
            "t.toml:14:13: `access.b.networks[0]`: `::1/128` is the address of every client behind a proxy on this machine, unless `http.trusted_proxies` has it",
        ]
    );
}

#[test]
fn a_server_that_may_judge_another_host_is_a_warning() {
    let found = |host: &str| {
        warned(&format!(
            "[[route]]\norigin = \"media\"\naccess = \"a\"\n{host}\n\
             [access.a]\nauth_request = \"http://127.0.0.1:9091/auth\"\n"
        ))
    };
    assert_eq!(found("host = \"media.example.org\""), [""; 0]);
    assert_eq!(
        found(""),
        [
            "t.toml:6:10: `route[0].access`: answers to any host, and the server of `auth_request` judges the one that the \
             client names: say the route's `host`"
        ]
    );
}

#[test]
fn a_purge_by_any_client_of_a_proxy_on_this_machine_is_a_warning() {
    let found = |purge: &str, trusted: &str| -> Vec<String> {
        let text = format!(
            "{MEDIA}[[route]]\norigin = \"media\"\n\
             [http]\npurge_networks = [{purge}]\ntrusted_proxies = [{trusted}]\n"
        );
        let loaded = parse("t.toml", &text, &Environment::default()).expect("it is right");
        loaded.warnings.iter().map(ToString::to_string).collect()
    };
    let warned = found("\"10.0.0.1\", \"127.0.0.1\"", "");
    assert_eq!(
        warned,
        [
            "t.toml:7:31: `http.purge_networks[1]`: `127.0.0.1/32` is the address of every client behind a proxy on this machine, unless `http.trusted_proxies` has it"
        ]
    );
    assert!(found("\"127.0.0.1\"", "\"127.0.0.1\"").is_empty());
}

/// Returns the warnings about the networks of an access.
fn of_networks(networks: &str, trusted: &str) -> Vec<String> {
    let text = format!(
        "{MEDIA}[[route]]\norigin = \"media\"\naccess = \"a\"\n\
         [http]\ntrusted_proxies = [{trusted}]\n[access.a]\nnetworks = [{networks}]\n"
    );
    let loaded = parse("t.toml", &text, &Environment::default()).expect("it is right");
    let warnings = loaded.warnings.iter();
    warnings.map(|problem| problem.message.clone()).collect()
}

#[test]
fn a_network_that_may_hold_a_proxy_is_a_warning() {
    let behind = |network: &str| {
        format!(
            "`{network}` may hold a proxy, which then lends its address to all clients: \
             name the proxy in `http.trusted_proxies`"
        )
    };
    let loopback = |network: &str| {
        format!(
            "`{network}` is the address of every client behind a proxy on this machine, \
             unless `http.trusted_proxies` has it"
        )
    };
    let silent = |network: &str, proxy: &str| {
        format!(
            "`{network}` holds the trusted proxy `{proxy}`, which lends its address to all clients \
             unless it sends `X-Forwarded-For` for each"
        )
    };
    for (networks, trusted, expected) in [
        ("\"10.0.0.0/8\"", "", vec![behind("10.0.0.0/8")]),
        ("\"0.0.0.0/0\"", "", vec![loopback("0.0.0.0/0")]),
        (
            "\"192.168.1.0/24\", \"203.0.113.0/24\"",
            "",
            vec![behind("192.168.1.0/24")],
        ),
        ("\"172.16.0.0/12\"", "", vec![behind("172.16.0.0/12")]),
        ("\"100.64.0.0/10\"", "", vec![behind("100.64.0.0/10")]),
        ("\"169.254.0.0/16\"", "", vec![behind("169.254.0.0/16")]),
        (
            "\"fd00::/8\", \"fe80::/10\"",
            "",
            vec![behind("fd00::/8"), behind("fe80::/10")],
        ),
        (
            "\"203.0.113.0/24\", \"2001:db8::/32\", \"172.32.0.0/16\"",
            "",
            vec![],
        ),
        // The proxy is known, and the network is that of the clients.
        ("\"10.0.0.0/8\"", "\"127.0.0.1\"", vec![]),
        (
            "\"10.0.0.0/8\"",
            "\"10.0.0.5\"",
            vec![silent("10.0.0.0/8", "10.0.0.5/32")],
        ),
        (
            "\"203.0.113.0/24\"",
            "\"203.0.113.5\"",
            vec![silent("203.0.113.0/24", "203.0.113.5/32")],
        ),
        (
            "\"127.0.0.1\"",
            "\"127.0.0.0/8\"",
            vec![silent("127.0.0.1/32", "127.0.0.0/8")],
        ),
        ("\"::1\"", "\"127.0.0.1\"", vec![loopback("::1/128")]),
    ] {
        let found = of_networks(networks, trusted);
        assert_eq!(found, expected, "{networks} {trusted}");
    }
}

#[test]
fn what_is_for_the_caches_of_others_is_a_warning_on_a_private_route() {
    let text = format!(
        "{MEDIA}[[route]]\norigin = \"media\"\naccess = \"a\"\n\
         headers = {{ \"CDN-Cache-Control\" = \"max-age=60\", \"surrogate-control\" = \"max-age=60\", x-a = \"1\", surrogate-control2 = \"1\", a-cdn-cache-control = \"no-store\" }}\n\
         [[route]]\norigin = \"media\"\npath = \"/open\"\nkey_prefix = \"open/\"\nheaders = {{ cdn-cache-control = \"max-age=60\" }}\n\
         [access.a]\nnetworks = [\"203.0.113.0/24\"]\n"
    );
    let loaded = parse("t.toml", &text, &Environment::default()).expect("it is right");
    let warnings: Vec<_> = loaded.warnings.iter().map(ToString::to_string).collect();
    let message =
        "lets shared caches answer in our place, and they do not know the route's `access`";
    assert_eq!(
        warnings,
        [
            format!("t.toml:7:35: `route[0].headers.CDN-Cache-Control`: {message}"),
            format!("t.toml:7:71: `route[0].headers.surrogate-control`: {message}"),
        ]
    );
}
