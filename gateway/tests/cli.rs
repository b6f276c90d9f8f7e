//! The command itself: what it prints where, and the code it ends with.

use std::process::{Command, Output};

/// Runs `tidegate` in an empty folder of its own, with nothing of ours in its environment.
fn tidegate(line: &[&str], config: Option<&str>) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    if let Some(text) = config {
        std::fs::write(folder.path().join("tidegate.toml"), text).expect("written");
    }
    let ours = std::env::vars_os().map(|(name, _)| name);
    let ours = ours.filter(|name| name.to_string_lossy().starts_with("TIDEGATE_"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    for name in ours {
        command.env_remove(name);
    }
    let output = command.args(line).current_dir(folder.path()).output();
    output.expect("it runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("it is text")
}

#[test]
fn check_ends_with_78_and_lines_an_editor_understands() {
    let bad = "[http]\nlisten = 5\n[[origin]]\nname = \"a\"\nbukcet = \"b\"\n";
    let output = tidegate(&["check"], Some(bad));
    assert_eq!(output.status.code(), Some(78));
    assert_eq!(text(&output.stdout), "");
    assert_eq!(
        text(&output.stderr),
        "tidegate.toml:2:10: `http.listen`: invalid type: integer `5`, \
         expected an address or a list of addresses\n\
         tidegate.toml:5:1: `origin[0].bukcet`: there is no such key; did you mean `bucket`?\n"
    );
    let nothing = tidegate(&["check"], None);
    assert_eq!(nothing.status.code(), Some(78));
    assert!(text(&nothing.stderr).starts_with("`origin`: there is no origin"));
}

#[test]
fn check_sums_up_what_is_right() {
    let good = "[admin]\ntoken = { env = \"NOT_SET_HERE\" }\n\
                [[origin]]\nname = \"a\"\nbucket = \"b\"\n\
                [[cache.disk]]\npath = \"/d\"\ncapacity = \"1GiB\"\n";
    let output = tidegate(&["check"], Some(good));
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        text(&output.stdout),
        "warning: `admin.token`: the environment variable NOT_SET_HERE is not set\n\
         ok: tidegate.toml: 1 origin, 1 route, 1 disk\n\
         http   127.0.0.1:8080, admin 127.0.0.1:8081\n\
         cache  512MiB of memory, 256MiB of budget\n\
         disk   /d up to 1GiB\n\
         state  /d/state\n\
         route  / -> a/, web\n"
    );
}

#[test]
fn prints_what_packagers_need() {
    for (line, part) in [
        (
            &["schema"][..],
            "\"$schema\": \"https://json-schema.org/draft/2020-12/schema\"",
        ),
        (&["config-reference"], "# Configuration\n"),
        (
            &["config-reference", "--toml"],
            "# Every key of tidegate.toml",
        ),
        (&["completions", "bash"], "_tidegate() {"),
        (&["man"], ".ie \\n(.g .ds Aq"),
        (&["--version"], "tidegate 0.1.0"),
    ] {
        let output = tidegate(line, None);
        assert_eq!(output.status.code(), Some(0), "{line:?}");
        assert!(
            text(&output.stdout).contains(part),
            "{line:?}: {}",
            text(&output.stdout)
        );
    }
    assert_eq!(tidegate(&["frobnicate"], None).status.code(), Some(2));
}
