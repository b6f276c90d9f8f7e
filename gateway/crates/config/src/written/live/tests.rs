use super::*;

#[test]
fn keys_that_are_applied_while_it_runs() {
    for (key, live) in [
        ("route[0].path", true),
        ("profile.web.ttl", true),
        ("access.members.tokens.alice", true),
        ("limits.fair.requests", true),
        ("tls.certificates[0].key.file", true),
        ("cache.memory", true),
        ("cache.budget", true),
        ("cache.chunk", false),
        ("cache.disk[1].capacity", true),
        ("cache.disk[1].path", true),
        ("state.path", false),
        ("log.level", true),
        ("log.format", false),
        ("http.listen[0]", true),
        ("admin.listen", true),
        ("admin.listen.tls", true),
        ("admin.token.file", true),
        ("admin.hosts[0]", false),
        ("admin.listened", false),
        ("origin[0].bucket", true),
        ("hook[0].url", true),
        ("events[0].heartbeat.every", true),
        ("fleet.nats", false),
        ("routes", false),
    ] {
        assert_eq!(is_live(key), live, "{key}");
    }
}

#[test]
fn disks_change_unless_the_metadata_would_move() {
    let config = |state: Option<&str>, disks: &[&str]| {
        let mut config = Config::default();
        config.state.path = state.map(Into::into);
        let disk = |path: &&str| crate::Disk {
            path: path.into(),
            ..crate::Disk::default()
        };
        config.cache.disk = disks.iter().map(disk).collect();
        config
    };
    for (old, new, disks, state_stays) in [
        (
            config(None, &["/a"]),
            config(None, &["/a", "/b"]),
            true,
            true,
        ),
        (
            config(None, &["/a", "/b"]),
            config(None, &["/b"]),
            false,
            false,
        ),
        (config(None, &[]), config(None, &["/a"]), false, false),
        (
            config(None, &["/a"]),
            config(Some("/a/state"), &["/a"]),
            true,
            true,
        ),
        (
            config(Some("/a/state"), &["/a"]),
            config(Some("/a/state"), &["/b"]),
            true,
            true,
        ),
        (
            config(Some("/s"), &["/a"]),
            config(Some("/t"), &[]),
            true,
            false,
        ),
        (
            config(Some("/s"), &["/a"]),
            config(None, &["/b"]),
            false,
            false,
        ),
    ] {
        let live = LiveKeys::between(&old, &new);
        let expected = LiveKeys {
            disks,
            memory: true,
            state_stays,
        };
        assert_eq!(live, expected, "{old:?} {new:?}");
        assert_eq!(live.has("cache.disk[0].path"), disks);
        assert_eq!(live.has("state.path"), state_stays);
        assert!(live.has("cache.memory") && !live.has("state.size"));
    }
}
