//! The image: what `docker/Dockerfile` copies is there, and reaches the builder.

use std::path::Path;

use crate::{read, root};

/// Tells whether a path reaches the builder, by a list that ignores all but what it names.
fn reaches(list: &str, path: &str) -> bool {
    let mut named = list.lines().filter_map(|line| line.strip_prefix('!'));
    named.any(|named| Path::new(path).starts_with(named))
}

#[test]
fn what_the_image_is_built_from_reaches_the_builder() {
    let (file, list) = (
        read("docker/Dockerfile"),
        read("docker/Dockerfile.dockerignore"),
    );
    assert!(
        list.lines().any(|line| line == "*"),
        "it names what is needed"
    );
    let copied = file.lines().filter_map(|line| line.strip_prefix("COPY "));
    let copied = copied.filter(|line| !line.starts_with("--from") && *line != ". .");
    let copied = copied.map(|line| line.split(' ').next().unwrap_or_default().to_owned());
    // The build runs these.
    let run = file.lines().filter(|line| !line.starts_with('#'));
    let words = run.flat_map(str::split_whitespace);
    let scripts = words.filter(|word| word.starts_with("docker/"));
    let manifest = read("Cargo.toml");
    let (_, members) = manifest.split_once("members = [").expect("a workspace");
    let (members, _) = members.split_once(']').expect("its end");
    let members = members.split('"').skip(1).step_by(2);
    let folder = |member: &str| member.trim_end_matches("/*").to_owned();
    let needed: Vec<String> = copied
        .chain(scripts.map(str::to_owned))
        .chain(members.map(folder))
        .chain(["Cargo.toml".to_owned(), "Cargo.lock".to_owned()])
        .collect();
    assert!(needed.len() > 6, "{needed:?}");
    for path in &needed {
        assert!(root().join(path).exists(), "{path} is not there");
        assert!(reaches(&list, path), "{path} is ignored");
    }
    for named in list.lines().filter_map(|line| line.strip_prefix('!')) {
        assert!(root().join(named).exists(), "{named} is not there");
    }
}

#[test]
fn the_image_runs_what_the_compose_files_ask_of_it() {
    let file = read("docker/Dockerfile");
    assert!(file.contains("\nCOPY docker/healthcheck /usr/local/bin/healthcheck\n"));
    assert!(file.contains("CMD [\"healthcheck\"]\n"));
    assert!(file.contains("\nENV TIDEGATE_CONFIG=/etc/tidegate/tidegate.toml\n"));
    for compose in ["docker/compose.yaml", "docker/wordpress/compose.yaml"] {
        let text = read(compose);
        assert!(text.contains("./tidegate.toml:/etc/tidegate/tidegate.toml:ro"));
        for volume in ["/var/cache/tidegate", "/var/lib/tidegate"] {
            assert!(text.contains(volume) && file.contains(volume), "{volume}");
        }
    }
    // It is copied with its mode.
    use std::os::unix::fs::PermissionsExt as _;
    let check = std::fs::metadata(root().join("docker/healthcheck")).expect("there");
    assert_eq!(check.permissions().mode() & 0o111, 0o111);
}
