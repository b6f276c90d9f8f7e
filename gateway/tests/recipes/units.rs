//! Recipes and the units of systemd that run them: what a recipe names, its unit provides.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use crate::{read, root, values};

const PUBLIC: &str = "config/systemd/tidegate.service";
const MOUNT: &str = "config/systemd/tidegate-mount.service";
const WORDPRESS: &str = "config/systemd/wordpress/tidegate-mount.service.d/wordpress.conf";

/// Returns the name and text of each recipe. `tidegate.toml` is the reference.
fn recipes() -> Vec<(String, String)> {
    let names = fs::read_dir(root().join("config")).expect("a folder");
    let names = names.map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.into_string().expect("text"));
    let is_recipe = |name: &String| name.ends_with(".toml") && name != "tidegate.toml";
    let found: Vec<_> = names
        .filter(is_recipe)
        .map(|name| (format!("config/{name}"), read(&format!("config/{name}"))))
        .collect();
    assert!(found.len() > 10, "{}", found.len());
    found
}

/// Returns the unit of a recipe, and the unit's name.
fn unit(recipe: &str) -> (String, &'static str) {
    match recipe.contains("\n[[mount]]") {
        true => (read(MOUNT), "tidegate-mount"),
        false => (read(PUBLIC), "tidegate"),
    }
}

/// Returns the names of the credentials that systemd hands over: those of the unit, and those that the recipe says to add.
fn credentials(recipe: &str, unit: &str) -> BTreeSet<String> {
    let added: String = recipe
        .lines()
        .filter_map(|line| line.strip_prefix("#   LoadCredential="))
        .map(|value| format!("LoadCredential={value}\n"))
        .collect();
    let all = format!("{unit}{added}");
    let name = |value: &str| {
        let (name, path) = value.split_once(':').expect("a name and a path");
        assert_eq!(path, format!("/etc/tidegate/{name}"));
        name.to_owned()
    };
    values(&all, "LoadCredential").map(name).collect()
}

/// Returns the names of the secrets that a recipe says to install, for the gateway's user.
fn installed(recipe: &str) -> BTreeSet<String> {
    let lines = recipe.lines();
    let lines = lines.filter_map(|line| line.strip_prefix("#   install -o tidegate -m 0400 "));
    let names = lines.filter_map(|line| line.strip_suffix(" /etc/tidegate"));
    let names = names.flat_map(|line| line.split(' '));
    names.map(str::to_owned).collect()
}

/// Writes secrets of these names into a folder.
fn write(folder: &Path, names: &BTreeSet<String>) {
    for name in names {
        let path = folder.join(name);
        fs::write(&path, "a-secret-that-is-long-enough-for-all").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).expect("ours");
    }
}

/// Runs `tidegate check` on a recipe as in a unit that was handed these credentials, beside what the recipe has installed.
fn check(recipe: &str, credentials: &BTreeSet<String>) -> Output {
    let [copies, etc] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    write(copies.path(), credentials);
    write(etc.path(), &installed(recipe));
    let own = format!("file = \"{}/", etc.path().display());
    let recipe = recipe.replace("file = \"/etc/tidegate/", &own);
    let file = etc.path().join("tidegate.toml");
    fs::write(&file, recipe).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg("check").arg("--config").arg(file).env_clear();
    command.env("CREDENTIALS_DIRECTORY", copies.path());
    command.output().expect("it runs")
}

#[test]
fn each_recipe_finds_its_secrets_under_its_unit() {
    for (name, recipe) in recipes() {
        let (unit, _) = unit(&recipe);
        let output = check(&recipe, &credentials(&recipe, &unit));
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{name}: {output:?}");
        // Certificates are certbot's.
        let wrong = |line: &&str| line.starts_with("warning: ") && !line.contains("`tls");
        let wrong: Vec<_> = said.lines().filter(wrong).collect();
        assert_eq!(wrong, [""; 0], "{name}");
    }
}

/// Members come and go by a reload. It finds no other secret in a file of systemd, which is a copy from the start.
#[test]
fn secrets_of_members_are_no_copies() {
    let mut seen = 0;
    for (name, recipe) in recipes() {
        let tables = recipe.split("\n[").filter(|one| one.starts_with("access."));
        for table in tables {
            assert!(!table.contains("CREDENTIALS_DIRECTORY"), "{name}: {table}");
            seen += 1;
        }
    }
    assert!(seen > 0, "no recipe has an access");
}

#[test]
fn each_recipe_keeps_to_the_folders_of_its_unit() {
    for (name, recipe) in recipes() {
        let (mut unit, own) = unit(&recipe);
        if name.contains("wordpress") && own == "tidegate-mount" {
            unit += &read(WORDPRESS);
        }
        for (folder, key) in [
            ("\"/var/cache/", "CacheDirectory"),
            ("\"/var/lib/", "StateDirectory"),
            ("unix:/run/", "RuntimeDirectory"),
        ] {
            let provided: Vec<_> = values(&unit, key).collect();
            for part in recipe.split(folder).skip(1) {
                let used = part.split(['/', '"']).next().unwrap_or_default();
                assert_eq!(provided, [used], "{name}: {folder}{used}");
            }
        }
    }
}

/// Returns the paths of Unix sockets in a text, each once.
fn sockets(text: &str) -> BTreeSet<String> {
    let uncommented = text.lines().filter(|line| !line.trim().starts_with('#'));
    let words = uncommented.flat_map(|line| line.split([' ', '"', ';', '=']));
    let paths = words.map(|word| word.trim_start_matches("unix:"));
    let ours = paths.filter(|word| word.starts_with("/run/tidegate"));
    ours.map(str::to_owned).collect()
}

/// Two units that share a folder of `/run` fight over its owner, and over the socket in it.
#[test]
fn the_sockets_of_both_units_are_apart_and_nginx_finds_them() {
    for (socket, files) in [
        (
            "/run/tidegate/http.sock",
            &[
                "config/systemd/tidegate.socket",
                "config/nginx/wordpress-offload.conf",
                "config/wordpress-offload.toml",
            ][..],
        ),
        (
            "/run/tidegate-mount/http.sock",
            &[
                "config/systemd/wordpress/tidegate-mount.socket",
                "config/nginx/wordpress-mount.conf",
                "config/wordpress-mount.toml",
                "config/wordpress-servers.toml",
            ],
        ),
    ] {
        for file in files {
            let found = sockets(&read(file));
            assert_eq!(found, BTreeSet::from([socket.to_owned()]), "{file}");
        }
    }
}

/// Each recipe of a library server says which of its folders belong on the mount, and which never.
#[test]
fn each_library_recipe_says_which_folders_belong_on_the_mount() {
    for (file, on, never) in [
        (
            "audiobookshelf-mount.toml",
            &["library folders"][..],
            &["/config", "/metadata"][..],
        ),
        (
            "jellyfin.toml",
            &["library folders"],
            &["/config", "/cache"],
        ),
        (
            "paperless.toml",
            &["PAPERLESS_MEDIA_ROOT"],
            &["PAPERLESS_DATA_DIR", "PAPERLESS_SCRATCH_DIR"],
        ),
        (
            "navidrome.toml",
            &["ND_MUSICFOLDER"],
            &["ND_DATAFOLDER", "ND_CACHEFOLDER"],
        ),
    ] {
        let text = read(&format!("config/{file}"));
        for (place, folders) in [("on the mount", on), ("never", never)] {
            let start = format!("#   {place}  ");
            let said = text.lines().find(|line| line.starts_with(&start));
            let said = said.unwrap_or_else(|| panic!("{file} says not what is {place}"));
            for folder in folders {
                assert!(said.contains(folder), "{file}: {folder} is not {place}");
            }
        }
    }
}

/// A unit that is started has mounted and listens, because the gateway says so itself.
#[test]
fn the_units_wait_for_the_gateways_own_word() {
    for file in [PUBLIC, MOUNT] {
        let text = read(file);
        assert_eq!(values(&text, "Type").collect::<Vec<_>>(), ["notify"]);
        assert_eq!(values(&text, "WatchdogSec").count(), 1, "{file}");
    }
    let added = read(WORDPRESS);
    for text in [read(MOUNT), added.clone()] {
        assert_eq!(values(&text, "ExecStartPost").count(), 0);
        assert_eq!(values(&text, "Type").count(), usize::from(text != added));
    }
    // SIGHUP ends `tidegate mount`, and has `tidegate serve` read its file again: not a copy of systemd's.
    assert_eq!(values(&read(MOUNT), "ExecReload").count(), 0);
    let reload: Vec<_> = values(&added, "ExecReload").collect();
    assert_eq!(reload, ["/bin/kill -HUP $MAINPID"]);
    let start = values(&added, "ExecStart").last().expect("a command");
    assert!(start.ends_with("serve --config /etc/tidegate/mount.toml"));
}

/// PHP waits for the mount, and the mount is ordered before PHP, by the name of one Debian.
#[test]
fn php_starts_after_the_mount_and_the_months_are_made_in_time() {
    let php = read("config/systemd/wordpress/php-fpm.service.d/uploads.conf");
    let folder = "/var/www/wordpress/wp-content/uploads";
    assert_eq!(
        values(&php, "RequiresMountsFor").collect::<Vec<_>>(),
        [folder]
    );
    for key in ["Wants", "After"] {
        assert_eq!(
            values(&php, key).collect::<Vec<_>>(),
            ["tidegate-mount.service"]
        );
    }
    let before = read(WORDPRESS);
    let before: Vec<_> = values(&before, "Before").collect();
    assert!(php.contains(&format!("/{}.d/", before[0])), "{before:?}");
    // At the latest three days before the next month, and at its first day.
    let timer = read("config/systemd/wordpress/wordpress-month.timer");
    let calendar: Vec<_> = values(&timer, "OnCalendar").collect();
    assert_eq!(calendar, ["*-*-01,15,28 03:00"]);
    assert_eq!(values(&timer, "Persistent").collect::<Vec<_>>(), ["yes"]);
}
