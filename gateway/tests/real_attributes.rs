//! Modes, owners, times and symbolic links, as programs leave them on a mount: the same as in a local folder, and the
//! requests that they cost. They need a real MinIO, root and /dev/fuse.
#![cfg(all(feature = "real-parts", feature = "fuse", target_os = "linux"))]

#[path = "support/bucket.rs"]
#[expect(dead_code, reason = "other suites keep versions as well")]
mod bucket;
#[path = "support/desk.rs"]
#[expect(dead_code, reason = "other suites compare objects as well")]
mod desk;
#[path = "support/door.rs"]
#[expect(dead_code, reason = "other suites let it hang")]
mod door;
#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
#[path = "support/minio.rs"]
mod minio;
#[path = "support/mount.rs"]
#[expect(dead_code, reason = "other suites purge as well")]
mod mount;
#[path = "real_attributes/others.rs"]
mod others;
#[path = "support/ports.rs"]
mod ports;

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use bucket::Bucket;
use desk::{Desk, LASTING, until};
use mount::run_in;

/// Files of the tree that is copied.
const FILES: usize = 50;

/// Each name below a folder: type, mode, owner, group, time, target and size, and the checksum of each file.
const DESCRIBE: &str = "find . ! -path '*/.git/*' -printf '%p %y %m %U %G %T@ %l ' \
    \\( -type f -printf '%s\\n' -o -printf '\\n' \\) | sort; \
    find . -type f ! -path '*/.git/*' -exec sha256sum {} + | sort -k 2";

impl Desk {
    /// Starts a mount that other users may use.
    async fn shared() -> Self {
        Self::with("allow_other = true\n", LASTING).await
    }

    async fn shell(&self, script: &str) -> String {
        self.mounted.says(&["sh", "-ec", script]).await
    }

    /// Waits until files, folders and attributes that were set are in the bucket.
    async fn all_sent(&self) {
        until("all is sent", async || {
            let metrics = self.mounted.gateway.look("/metrics").await;
            let waiting = [
                "tidegate_write_pending{",
                "tidegate_write_attributes_pending",
            ];
            waiting.iter().all(|name| metrics.metric(&[*name]) == 0)
        })
        .await;
    }

    /// Returns the number of requests to the bucket so far, of each kind.
    async fn costs(&self) -> Vec<(&'static str, u64)> {
        let mut costs = Vec::new();
        for kind in ["put", "copy", "delete", "list", "head", "get"] {
            let words = [
                "tidegate_origin_requests_total{",
                &format!("kind=\"{kind}\""),
            ];
            costs.push((kind, self.mounted.gateway.metric(&words).await));
        }
        costs.push(("", self.requests().await));
        costs
    }
}

/// Returns what was asked in between.
fn since(
    before: &[(&'static str, u64)],
    after: &[(&'static str, u64)],
) -> Vec<(&'static str, u64)> {
    let pairs = after.iter().zip(before);
    pairs
        .map(|((kind, after), (_, before))| (*kind, after - before))
        .collect()
}

/// Describes all names below a folder.
async fn describe(folder: &Path) -> String {
    let said = run_in(folder, &["sh", "-ec", DESCRIBE]).await;
    assert!(said.status.success(), "{said:?}");
    String::from_utf8(said.stdout).expect("text")
}

/// Checks that two folders have the same names, with the same attributes and content.
async fn same(one: &Path, other: &Path, what: &str) {
    let (one, other) = (describe(one).await, describe(other).await);
    for (left, right) in one.lines().zip(other.lines()) {
        assert_eq!(left, right, "{what}");
    }
    assert_eq!(one.lines().count(), other.lines().count(), "{what}");
}

/// Makes a tree of files, scripts, links and folders with times of their own.
async fn tree(local: &TempDir) -> PathBuf {
    let script = format!(
        "umask 022; mkdir -p tree/a/b tree/c
        for n in $(seq {FILES}); do
            d=$(echo a a/b c | cut -d' ' -f$((n % 3 + 1))); echo \"$n\" > tree/$d/$n.txt
            chmod $((n % 2 ? 644 : 755)) tree/$d/$n.txt
            touch -d \"2001-02-03 04:05:06.00000000$((n % 9 + 1))\" tree/$d/$n.txt
        done
        chown 1234:5678 tree/a/b/1.txt; chmod 4711 tree/c/2.txt
        ln -s ../c tree/a/folder; ln -s nowhere tree/c/broken; touch -h -d @1111111111 tree/c/broken tree/a/folder
        touch -d '1969-12-31 23:59:58.5 UTC' tree/c/50.txt
        chmod 750 tree/c; chmod 1777 tree/a/b
        touch -d '1999-01-01' tree/a/b tree/a tree/c tree"
    );
    let made = run_in(local.path(), &["bash", "-ec", &script]).await;
    assert!(made.status.success(), "{made:?}");
    local.path().join("tree")
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_are_like_their_source_and_cost_a_put_a_file() {
    let (desk, local) = (Desk::shared().await, TempDir::new().expect("a folder"));
    let tree = tree(&local).await;
    let packed = run_in(
        local.path(),
        &[
            "tar",
            "--format=posix",
            "-cf",
            "tree.tar",
            "-C",
            "tree",
            ".",
        ],
    )
    .await;
    assert!(packed.status.success(), "{packed:?}");
    let (from, tar) = (tree.display(), local.path().join("tree.tar"));
    let (links, folders) = (2, 4);
    for (name, script) in [
        ("cp", format!("cp -a {from} cp")),
        (
            "tar",
            format!("mkdir tar; tar -xpf {} -C tar", tar.display()),
        ),
        ("rsync", format!("rsync -a {from}/ rsync/")),
    ] {
        let before = desk.costs().await;
        desk.shell(&script).await;
        same(&tree, &desk.mounted.path(name), name).await;
        desk.all_sent().await;
        let cost = since(&before, &desk.costs().await);
        println!("{name}: {cost:?}");
        // If a slow machine stalls between the close of one file and its rename, rsync's temporary name is sent first: that
        // file costs a copy, a deletion and the looks before them.
        let stalled = u64::from(name == "rsync");
        let most = [
            // Each object once, a file of rsync's under its last name. A folder's marker once more for attributes that were
            // set and then quiet: rsync sets them before and after it fills the folder.
            ("put", FILES as u64 + links + 3 * folders),
            // The time of a link is set once it is in the bucket.
            ("copy", links + stalled),
            // tar makes an empty file in place of a link that leads out of its folder, and removes it.
            ("delete", links + stalled),
            // The new folder's name is looked up, with both requests. The folder is known to be empty once it is made.
            ("list", 1),
            ("head", 1 + 3 * stalled),
            // What was written is known.
            ("get", 0),
        ];
        for ((kind, found), (named, most)) in cost.iter().zip(most) {
            assert_eq!(*kind, named);
            assert!(*found <= most, "{name}: at most {most} {kind}: {cost:?}");
        }
        let (all, kinds) = cost.split_last().expect("not empty");
        let known: u64 = kinds.iter().map(|(_, found)| found).sum();
        assert_eq!(all.1, known, "{name}: other kinds: {cost:?}");
    }
    let desk = desk.restart(true).await;
    for name in ["cp", "tar", "rsync"] {
        same(
            &tree,
            &desk.mounted.path(name),
            &format!("{name}, restarted"),
        )
        .await;
    }
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rsync_finds_nothing_to_do_the_second_time() {
    let (desk, local) = (Desk::shared().await, TempDir::new().expect("a folder"));
    let from = format!("{}/", tree(&local).await.display());
    let rsync = |more: &'static str| format!("rsync -a {more} --itemize-changes {from} copy/");
    let first = desk.shell(&rsync("")).await;
    assert!(first.lines().count() > FILES, "{first}");
    for more in ["", "--delete"] {
        assert_eq!(desk.shell(&rsync(more)).await, "", "{more}");
    }
    // To the nanosecond rsync reports links and folders of a local copy as well.
    let exact = desk.shell(&rsync("--modify-window=-1")).await;
    assert!(
        !exact.lines().any(|line| line[1..].starts_with('f')),
        "{exact}"
    );
    let mut desk = desk;
    for more in ["", "--delete"] {
        desk = desk.restart(true).await;
        let before = desk.costs().await;
        assert_eq!(desk.shell(&rsync(more)).await, "", "restarted, {more}");
        let cost = since(&before, &desk.costs().await);
        println!("the second rsync after a restart: {cost:?}");
        let changes = cost[0].1 + cost[1].1 + cost[2].1;
        // The targets of the two links are read.
        assert_eq!(changes, 0, "{cost:?}");
        assert!(cost[5].1 <= 2, "{cost:?}");
    }
    desk.stop().await;
}

/// Changes the bytes of set-user-ID files as another user, and prints the modes that are left.
const CHANGE_BYTES: &str = r#"
import os
source = os.open("source", os.O_RDWR | os.O_CREAT)
os.write(source, b"y" * 9000)
for name, change in [
    ("write", lambda fd: os.pwrite(fd, b"z", 3)),
    ("cut", lambda fd: os.ftruncate(fd, 5)),
    ("grow", lambda fd: os.ftruncate(fd, 10000)),
    ("empty", lambda fd: os.ftruncate(fd, 0)),
    ("allocate", lambda fd: os.posix_fallocate(fd, 0, 20000)),
    ("copy", lambda fd: os.copy_file_range(source, fd, 4096, 0, 0)),
    ("read", lambda fd: os.pread(fd, 9, 0)),
]:
    for user in [0, 1]:
        fd = os.open(name + str(user), os.O_RDWR | os.O_CREAT)
        os.write(fd, b"x" * 9000)
        os.fchmod(fd, 0o6777)
        if os.fork() == 0:
            os.setgroups([]), os.setgid(user), os.setuid(user)
            change(fd)
            os._exit(0)
        os.wait()
        print(name, user, oct(os.fstat(fd).st_mode), os.fstat(fd).st_size)
"#;

/// Each script runs in a local folder and on the mount, with the same output and the same result.
const SCRIPTS: [(&str, &str); 7] = [
    (
        "links",
        "ln -s target link; ln -sfn other link; readlink link; mkdir d; ln -s d e; echo x > e/f; cat d/f; rm e; ls",
    ),
    (
        "touch",
        "echo 1 > f; touch -d '2011-12-13 14:15:16.123456789' f; stat -c '%.9Y' f; touch -r f g; stat -c '%.9Y' g; touch -d @-5 f; stat -c %Y f",
    ),
    (
        "modes",
        "umask 027; echo 1 > f; mkdir d; stat -c %a f d; chmod 600 f; chmod g+s d; mkdir d/e; stat -c %a f d d/e; printf '#!/bin/sh\\necho ran\\n' > s; chmod +x s; ./s",
    ),
    ("rights", "python3 -c 'CHANGE_BYTES'"),
    (
        "zip",
        "mkdir z; echo 1 > z/a; echo 2 > z/b; chmod 755 z/b; touch -d 2005-06-07 z/a z/b; zip -q -r z.zip z; rm -r z; unzip -q z.zip; stat -c '%n %a %Y' z/a z/b; echo 3 > z/a; touch -d 2006-06-07 z/a; zip -q -u z.zip z/a; unzip -p z.zip z/a",
    ),
    (
        "git",
        "git init -q s; cd s; git config user.email a@b; git config user.name c; printf '#!/bin/sh\\necho ran\\n' > run; chmod +x run; ln -s run alias; git add .; git commit -q -m 1; cd ..; git clone -q s t; ./t/run; readlink t/alias; stat -c %a t/run; git -C t status --short",
    ),
    (
        "venv",
        "python3 -m venv --without-pip v; test -L v/bin/python3; v/bin/python3 -c 'print(1 + 1)'; ls -l v/bin/activate | cut -c1-10",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn programs_find_what_they_find_on_a_local_disk() {
    let (desk, local) = (Desk::shared().await, TempDir::new().expect("a folder"));
    for (name, script) in SCRIPTS {
        let script =
            format!("mkdir {name}; cd {name}; {script}").replace("CHANGE_BYTES", CHANGE_BYTES);
        let line = ["bash", "-ec", &script];
        let expected = run_in(local.path(), &line).await;
        let before = desk.requests().await;
        let got = desk.mounted.run(&line).await;
        println!("{name}: {} requests", desk.requests().await - before);
        assert_eq!(
            (got.status.code(), String::from_utf8_lossy(&got.stdout)),
            (
                expected.status.code(),
                String::from_utf8_lossy(&expected.stdout)
            ),
            "{name}: {got:?} {expected:?}"
        );
    }
    desk.stop().await;
}

/// Attributes and types are with the objects: a gateway that has lost its spool finds links by looking names up, and
/// modes by opening files; so does another gateway.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_set_is_found_without_the_index() {
    let desk = Desk::shared().await;
    desk
        .shell("echo 1 > file; chmod 600 file; ln -s file link; mkdir d; chmod 700 d; touch -d @1000000000 d")
        .await;
    let desk = desk.restart(false).await;
    let said = desk
        .shell("readlink link; stat -c %a file; ls d; stat -c '%a %Y' d")
        .await;
    assert_eq!(said, "file\n600\n700 1000000000\n");
    let Bucket::S3 { client, name } = &desk.bucket else {
        panic!("a real one");
    };
    let head = client.head_object().bucket(name).key("link").send().await;
    let metadata = head.expect("there").metadata.unwrap_or_default();
    assert_eq!(metadata.get("mode").map(String::as_str), Some("0120777"));
    let got = desk.mounted.gateway.get("/link", &[]).await;
    assert_eq!(got.body, b"file".as_slice(), "over HTTP it is what it is");
    desk.stop().await;
}

/// Returns the disposition and the title that the store answers.
async fn texts(desk: &Desk, key: &str) -> (Option<String>, Option<String>) {
    let Bucket::S3 { client, name } = &desk.bucket else {
        panic!("a real one");
    };
    let head = client.head_object().bucket(name).key(key).send().await;
    let head = head.expect("there");
    let title = head.metadata().and_then(|all| all.get("title"));
    (
        head.content_disposition().map(str::to_owned),
        title.cloned(),
    )
}

/// MinIO answers the bytes of a header, and metadata as encoded words (RFC 2047).
#[tokio::test(flavor = "multi_thread")]
async fn headers_beyond_ascii_stay_with_what_is_changed_and_renamed() {
    let desk = Desk::shared().await;
    let Bucket::S3 { client, name } = &desk.bucket else {
        panic!("a real one");
    };
    let disposition = "attachment; filename=\"Müller.pdf\"";
    let put = client.put_object().bucket(name).key("file");
    let put = put.content_disposition(disposition);
    put.metadata("title", "Bücher – 本")
        .send()
        .await
        .expect("written");
    let before = texts(&desk, "file").await;
    assert_eq!(before.0.as_deref(), Some(disposition));
    assert!(before.1.is_some());
    for (change, key) in [
        ("chmod 640 file", "file"),
        ("echo 1 >> file", "file"),
        ("mv file other", "other"),
    ] {
        desk.shell(change).await;
        assert_eq!(texts(&desk, key).await, before, "{change}");
    }
    desk.stop().await;
}
