//! No shipped file without a test that reads it.

use std::path::Path;

use crate::{read, root};

/// What reads each file: the file or, if it ends in `/`, the folder; the test; and the words by which the test finds it.
const READERS: &[(&str, &str, &str)] = &[
    (
        "config/audiobookshelf-mount.toml",
        "gateway/tests/real_library/shelf.rs",
        "audiobookshelf-mount.toml",
    ),
    (
        "config/audiobookshelf.toml",
        "gateway/tests/recipes/served.rs",
        "config/audiobookshelf.toml",
    ),
    (
        "config/documents.toml",
        "gateway/tests/recipes/served.rs",
        "config/documents.toml",
    ),
    (
        "config/fleet.toml",
        "gateway/tests/real_fleet.rs",
        "config/fleet.toml",
    ),
    (
        "config/grafana/tidegate.json",
        "gateway/tests/real_monitoring.rs",
        "grafana/tidegate.json",
    ),
    (
        "config/hooks.toml",
        "gateway/tests/hooks.rs",
        "config/hooks.toml",
    ),
    (
        "config/jellyfin.toml",
        "gateway/tests/real_library/shelf.rs",
        "jellyfin.toml",
    ),
    (
        "config/navidrome.toml",
        "gateway/tests/real_library/shelf.rs",
        "navidrome.toml",
    ),
    (
        "config/nginx/events.conf",
        "gateway/tests/real_events/proxied.rs",
        "nginx/events.conf",
    ),
    (
        "config/nginx/slice-cache.conf",
        "gateway/tests/real_gateway.rs",
        "slice-cache.conf",
    ),
    (
        "config/nginx/tidegate.conf",
        "gateway/tests/real_gateway.rs",
        "tidegate.conf",
    ),
    (
        "config/nginx/wordpress-mount.conf",
        "gateway/tests/real_wordpress/guarded.rs",
        "wordpress-mount.conf",
    ),
    (
        "config/nginx/wordpress-offload.conf",
        "gateway/tests/real_wordpress/offloaded.rs",
        "wordpress-offload.conf",
    ),
    (
        "config/nginx/wordpress-purge.conf",
        "gateway/tests/real_gateway.rs",
        "wordpress-purge.conf",
    ),
    (
        "config/paperless.toml",
        "gateway/tests/real_library/shelf.rs",
        "paperless.toml",
    ),
    (
        "config/private-library.toml",
        "gateway/tests/tls/recipe.rs",
        "config/private-library.toml",
    ),
    (
        "config/prometheus/alerts.yaml",
        "gateway/tests/real_monitoring.rs",
        "alerts.yaml",
    ),
    (
        "config/prometheus/rules.yaml",
        "gateway/tests/real_monitoring.rs",
        "rules.yaml",
    ),
    (
        "config/prometheus/tests/",
        "gateway/tests/real_monitoring.rs",
        "rules.join(\"tests\")",
    ),
    (
        "config/schema.json",
        "gateway/crates/config/tests/suite/reference.rs",
        "config/schema.json",
    ),
    (
        "config/systemd/tidegate-mount.service",
        "gateway/tests/recipes/units.rs",
        "config/systemd/tidegate-mount.service",
    ),
    (
        "config/systemd/tidegate.service",
        "gateway/tests/recipes/units.rs",
        "config/systemd/tidegate.service",
    ),
    (
        "config/systemd/tidegate.socket",
        "gateway/tests/recipes/units.rs",
        "config/systemd/tidegate.socket",
    ),
    (
        "config/systemd/wordpress/php-fpm.service.d/uploads.conf",
        "gateway/tests/recipes/units.rs",
        "config/systemd/wordpress/php-fpm.service.d/uploads.conf",
    ),
    (
        "config/systemd/wordpress/tidegate-mount.service.d/wordpress.conf",
        "gateway/tests/real_wordpress/beneath.rs",
        "systemd/wordpress/tidegate-mount.service.d/wordpress.conf",
    ),
    (
        "config/systemd/wordpress/tidegate-mount.socket",
        "gateway/tests/recipes/units.rs",
        "config/systemd/wordpress/tidegate-mount.socket",
    ),
    (
        "config/systemd/wordpress/wordpress-month.service",
        "gateway/tests/real_wordpress/mounted.rs",
        "systemd/wordpress/wordpress-month.service",
    ),
    (
        "config/systemd/wordpress/wordpress-month.timer",
        "gateway/tests/recipes/units.rs",
        "config/systemd/wordpress/wordpress-month.timer",
    ),
    (
        "config/tidegate.toml",
        "gateway/crates/config/tests/suite/reference.rs",
        "config/tidegate.toml",
    ),
    (
        "config/wordpress-mount.toml",
        "gateway/tests/real_wordpress/world.rs",
        "wordpress-mount.toml",
    ),
    (
        "config/wordpress-offload.toml",
        "gateway/tests/real_wordpress/offloaded.rs",
        "wordpress-offload.toml",
    ),
    (
        "config/wordpress-servers.toml",
        "gateway/tests/real_wordpress/balanced.rs",
        "wordpress-servers.toml",
    ),
    (
        "config/wordpress/tidegate-purge.php",
        "gateway/tests/real_wordpress/purged.rs",
        "config/wordpress/tidegate-purge.php",
    ),
    (
        "config/wordpress/uploads.ini",
        "gateway/tests/real_wordpress/composed.rs",
        "wordpress/uploads.ini",
    ),
    (
        "docker/Dockerfile",
        "gateway/tests/recipes/image.rs",
        "docker/Dockerfile",
    ),
    (
        "docker/Dockerfile.dockerignore",
        "gateway/tests/recipes/image.rs",
        "docker/Dockerfile.dockerignore",
    ),
    // `compose-check`, with which the test takes the compose file apart.
    ("docker/check/", "loadtest/setup", "docker/check"),
    ("docker/compose.yaml", ".ci/run", "docker/compose.yaml"),
    (
        "docker/healthcheck",
        "gateway/tests/real_wordpress/composed.rs",
        "shipped(\"healthcheck\")",
    ),
    (
        "docker/nginx.conf",
        "gateway/tests/real_wordpress/composed.rs",
        "nginx(\"nginx.conf\"",
    ),
    ("docker/strip", ".ci/run", "docker/strip"),
    (
        "docker/tidegate.toml",
        "gateway/tests/real_wordpress/composed.rs",
        "configuration(\"tidegate.toml\"",
    ),
    (
        "docker/wordpress/compose.s3.yaml",
        ".ci/run",
        "docker/wordpress/compose.s3.yaml",
    ),
    (
        "docker/wordpress/compose.yaml",
        "gateway/tests/real_wordpress/prepared.rs",
        "docker/wordpress/compose.yaml",
    ),
    (
        "docker/wordpress/nginx.conf",
        "gateway/tests/real_wordpress/composed.rs",
        "nginx(\"wordpress/nginx.conf\"",
    ),
    (
        "docker/wordpress/tidegate.toml",
        "gateway/tests/real_wordpress/composed.rs",
        "configuration(\"wordpress/tidegate.toml\"",
    ),
];

/// Returns the files below a folder, by their paths from the root.
fn files(folder: &str) -> Vec<String> {
    let mut found = vec![];
    for entry in std::fs::read_dir(root().join(folder)).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("text");
        let path = format!("{folder}/{name}");
        match entry.file_type().expect("a type").is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

#[test]
fn every_shipped_file_is_read_by_a_test() {
    let all = [files("config"), files("docker")].concat();
    let is_of =
        |file: &str, entry: &str| file == entry || entry.ends_with('/') && file.starts_with(entry);
    let unread = all
        .iter()
        .filter(|file| !READERS.iter().any(|(entry, ..)| is_of(file, entry)));
    assert_eq!(unread.collect::<Vec<_>>(), [""; 0], "no test reads these");
    let gone = READERS
        .iter()
        .filter(|(entry, ..)| !all.iter().any(|file| is_of(file, entry)));
    let gone: Vec<_> = gone.map(|(entry, ..)| entry).collect();
    assert_eq!(gone, [&""; 0], "these are there no more");
}

#[test]
fn each_reader_names_its_file() {
    for (file, test, words) in READERS {
        assert!(
            Path::new(&root().join(test)).is_file(),
            "{test}: there is none"
        );
        // What a formatter breaks over lines is found all the same.
        let packed = |text: &str| text.split_whitespace().collect::<String>();
        assert!(
            packed(&read(test)).contains(&packed(words)),
            "{test} reads no {file}"
        );
    }
}
