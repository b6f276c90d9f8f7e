//! Hooks: their URLs, headers and templates.

use super::{MEDIA, tell_behind_media};
use tidegate_config::{Environment, parse};

#[test]
fn a_hook_calls_a_url() {
    tell_behind_media(&[
        (
            "[[hook]]\n",
            &[
                "t.toml:4:1: `hook[0].url`: is missing; for example url = \"http://127.0.0.1:13378/api/libraries/lib_1/scan\"",
            ],
        ),
        (
            "[[hook]]\nurl = \"ftp://r/\"\n[[hook]]\nurl = \"http://{key}/\"\n[[hook]]\nurl = \"http://r{key}\"\n",
            &[
                "t.toml:5:7: `hook[0].url`: must begin with http:// or https://, a host, and then the fields",
                "t.toml:7:7: `hook[1].url`: must begin with http:// or https://, a host, and then the fields",
                "t.toml:9:7: `hook[2].url`: must begin with http:// or https://, a host, and then the fields",
            ],
        ),
        (
            "[[hook]]\nurl = \"http://u:s3cret@r/\"\n[[hook]]\nurl = \"http://r/a b\"\n[[hook]]\nurl = \"http:///\"\n",
            &[
                "t.toml:5:7: `hook[0].url`: has a user or password; put them into `headers` or `bearer`",
                "t.toml:7:7: `hook[1].url`: is no URL",
                "t.toml:9:7: `hook[2].url`: is no URL",
            ],
        ),
        (
            "[[hook]]\nurl = \"http://r/{keys}\"\nbody = '{\"p\":\"{path}\"}'\n",
            &[
                "t.toml:4:1: `hook[0]`: `{path}` needs `path_prefix`",
                "t.toml:5:7: `hook[0].url`: there is no field `{keys}`; there are `{key}`, `{folder}`, `{bucket}`, `{event}`, `{path}`, `{count}`",
            ],
        ),
    ]);
}

#[test]
fn a_hook_is_bounded_and_its_request_one() {
    tell_behind_media(&[
        (
            "[[hook]]\nurl = \"http://r/\"\nname = \"a b\"\non = []\norigin = \"medai\"\nmethod = \"CONNECT\"\n\
             debounce = \"2h\"\nmax_delay = \"1s\"\ntimeout = \"0s\"\nretries = 11\n",
            &[
                "t.toml:6:8: `hook[0].name`: must have 1 to 64 letters, digits, `-`, `_` and `.`",
                "t.toml:7:6: `hook[0].on`: is empty, and so it is never called",
                "t.toml:8:10: `hook[0].origin`: there is no origin `medai`; did you mean `media`?",
                "t.toml:9:10: `hook[0].method`: `CONNECT` is no method for a hook",
                "t.toml:10:12: `hook[0].debounce`: must be at most 1h",
                "t.toml:11:13: `hook[0].max_delay`: is shorter than `debounce`",
                "t.toml:12:11: `hook[0].timeout`: must not be zero",
                "t.toml:13:11: `hook[0].retries`: must be at most 10",
            ],
        ),
        (
            "[[hook]]\nurl = \"http://r/\"\nbearer = \"s3cret\"\nbody = '{\"k\":{key}}'\nstrip_prefix = \"b/\"\n\
             headers = { Host = \"x\", authorization = \"x\", x = \"a\\nb\" }\n[[hook]]\nname = \"hook-1\"\nurl = \"http://r/\"\n",
            &[
                "t.toml:7:8: `hook[0].body`: is no JSON; fields other than `{count}` need quotes around them",
                "t.toml:8:16: `hook[0].strip_prefix`: must be the beginning of `prefix`, or keys without it would have no path",
                "t.toml:9:20: `hook[0].headers.Host`: is no header that a hook can send",
                "t.toml:9:41: `hook[0].headers.authorization`: is there beside `bearer`, which sets it",
                "t.toml:9:50: `hook[0].headers.x`: is no text that a header can carry",
                "t.toml:11:8: `hook[1].name`: is the name of a hook before",
            ],
        ),
    ]);
}

#[test]
fn what_is_odd_is_a_warning_and_shows_no_secret() {
    let text = format!(
        "{MEDIA}[[hook]]\nurl = \"http://r/?X-Plex-Token=s3cret\"\npath_prefix = \"/mnt/\"\n\
         [[hook]]\nurl = \"http://r/{{key}}\"\nheaders = {{ Content-Type = \"application/x-www-form-urlencoded\" }}\n\
         body = \"k={{key}}\"\nbearer = {{ env = \"X\" }}\n"
    );
    let loaded = parse("t.toml", &text, &Environment::default()).expect("it is right");
    let warnings: Vec<_> = loaded.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "t.toml:5:7: `hook[0].url`: seems to have a secret, which receivers write to their logs; `headers` can carry it",
            "t.toml:6:15: `hook[0].path_prefix`: does nothing without `{path}`",
        ]
    );
}
