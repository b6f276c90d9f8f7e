//! Settings that are odd but no errors.

use super::*;

fn warned(text: &str) -> Vec<String> {
    let warnings = parsed(text, &[]).warnings;
    warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn a_module_that_events_had_before_the_crates_is_called_by_its_new_name() {
    let cases = [
        ("store::disk", "tidegate_cache"),
        ("engine::upload::send", "tidegate_write"),
        ("http", "tidegate_http"),
    ];
    for (module, now) in cases {
        let text = format!("[log]\nlevel = \"info,tidegate::{module}=debug\"\n");
        assert_eq!(
            warned(&text),
            [format!(
                "t.toml:2:9: `log.level`: `tidegate::{module}` stands in `{now}` now"
            )]
        );
    }
    let kept = "[log]\nlevel = \"info,tidegate::access=warn,tidegate_engine=debug\"\n";
    assert_eq!(warned(kept), Vec::<String>::new());
}

#[test]
fn a_window_is_cut_where_only_one_of_both_is_written() {
    let origin = "[[origin]]\nname = \"a\"\nbucket = \"a\"\n";
    let written = format!("{origin}[profile.web]\nread_ahead = \"1GiB\"\n");
    assert_eq!(
        warned(&written),
        [
            "t.toml:5:14: `profile.web.read_ahead`: `1GiB` is cut to `cache.budget` (256MiB); \
          raise that to use more"
        ]
    );
    let window = parsed(&written, &[])
        .config
        .profile("web")
        .map(|p| p.read_ahead);
    assert_eq!(window, Some(256 << 20));
    let budget = format!("[cache]\nbudget = \"64MiB\"\n{origin}");
    assert_eq!(warned(&budget), Vec::<String>::new());
    let stream = format!("{budget}[[route]]\norigin = \"a\"\nprofile = \"stream\"\n");
    assert_eq!(
        warned(&stream),
        [
            "t.toml:6:1: `route[0]`: the read-ahead of profile `stream` (128MiB) is cut to \
          `cache.budget` (64MiB)"
        ]
    );
}

#[test]
fn more_free_than_taken_is_odd() {
    let disk = "[[cache.disk]]\npath = \"/d\"\ncapacity = \"1GiB\"\nmin_free = \"2GiB\"\n";
    assert_eq!(
        warned(disk),
        [
            "t.toml:4:12: `cache.disk[0].min_free`: more stays free (2GiB) than the cache may take \
          (1GiB); are they the wrong way round?"
        ]
    );
}

#[test]
fn a_name_that_opens_a_bucket_to_all_is_odd() {
    let origin =
        |name: &str, more: &str| format!("[[origin]]\nname = \"{name}\"\nbucket = \"b\"\n{more}\n");
    let route = "[[route]]\norigin = \"a\"\n";
    let own = "identity = \"all\"";
    let open = "anonymous = true\nidentity = \"all\"";
    let text = |one: &str, other: &str| origin("a", one) + &origin("b", other) + route;
    for (one, other) in [(own, own), (open, open), ("", open)] {
        assert_eq!(warned(&text(one, other)), Vec::<String>::new());
    }
    assert_eq!(
        warned(&text(own, open)),
        [
            "t.toml:9:12: `origin[1].identity`: is that of `origin[0]`, and one of both is anonymous: whatever \
             the other may see is given out through it"
        ]
    );
}
