//! Limits, and the routes that name them.

use super::{MEDIA, tell_behind_media};
use tidegate_config::{Environment, parse};

#[test]
fn limits_limit_something() {
    tell_behind_media(&[
        (
            "[limits.a]\nper = \"route\"\n",
            &[
                "t.toml:4:1: `limits.a`: is empty, and limits nothing: it needs requests, bytes or connections",
            ],
        ),
        (
            "[limits.a]\nrequests = \"50\"\nburst = 0\nbytes = \"0/s\"\nconnections = 0\nper = \"adress\"\n",
            &[
                "t.toml:5:12: `limits.a.requests`: `50` is no rate; write a whole number of requests and a time, such as 50/s",
                "t.toml:6:9: `limits.a.burst`: must be at least 1",
                "t.toml:7:9: `limits.a.bytes`: `0/s` is no rate; write a size a second, such as 20MB/s",
                "t.toml:8:15: `limits.a.connections`: must be at least 1",
                "t.toml:9:7: `limits.a.per`: `adress` is none of `address`, `key`, `route`; did you mean `address`?",
            ],
        ),
        (
            "[limits.a]\nrequests = \"1/h\"\nburst = 8761\n[limits.b]\nrequests = \"1/h\"\nburst = 8760\n\
             [limits.c]\nrequests = \"100/m\"\nburst = 4294967295\n",
            &[
                "t.toml:6:9: `limits.a.burst`: takes more than a year to come again at 1/h; must be at most 8760",
                "t.toml:12:9: `limits.c.burst`: takes more than a year to come again at 100/m; must be at most 52560000",
            ],
        ),
        (
            "[[route]]\norigin = \"media\"\nlimits = \"publik\"\n[limits.public]\nrequests = \"1/s\"\n",
            &[
                "t.toml:6:10: `route[0].limits`: there are no limits `publik`; did you mean `public`?",
            ],
        ),
        (
            "[[route]]\norigin = \"media\"\nlimits = [\"a\", \"b\", \"a\"]\n[limits.a]\nrequests = \"1/s\"\n",
            &[
                "t.toml:6:10: `route[0].limits`: names `a` twice",
                "t.toml:6:10: `route[0].limits`: there are no limits `b`",
            ],
        ),
        (
            "[[route]]\norigin = \"media\"\nlimits = 5\n",
            &[
                "t.toml:6:10: `route[0].limits`: invalid type: integer `5`, expected a name or a list of names",
            ],
        ),
    ]);
}

#[test]
fn what_would_be_of_no_use_is_a_warning() {
    let text = format!(
        "{MEDIA}[[route]]\norigin = \"media\"\nlimits = \"a\"\n\
         [limits.a]\nconnections = 1\nper = \"key\"\n[limits.b]\nbytes = \"1MB/s\"\nburst = 2\n"
    );
    let loaded = parse("t.toml", &text, &Environment::default()).expect("it is right");
    let warnings: Vec<_> = loaded.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "t.toml:6:10: `route[0].limits`: `a` counts by key, and the route has no `access`: each address counts for itself",
            "t.toml:10:1: `limits.b`: no route names it",
            "t.toml:12:9: `limits.b.burst`: does nothing without `requests`",
        ]
    );
}
